/* Tables and pages for people, from reports. */
#include <pith/inspect.h>

#include "api/context.h"
#include "base/mem.h"
#include "base/names.h"
#include "report/html.h"
#include "report/table.h"

#include <math.h>
#include <string.h>

static enum pith_status take_text(struct pith_str *s, char **text, struct pith_error *err)
{
    *text = pith_str_take(s);
    return *text ? PITH_OK : pith_fail_nomem(err, "a table");
}

static void fill_table(struct pith_table *t, const json_t *columns, const json_t *rows)
{
    const json_t *c, *row, *cell;
    size_t i, k;
    json_array_foreach (columns, i, c) {
        const char *name = json_string_value(json_object_get(c, "name"));
        const char *align = json_string_value(json_object_get(c, "align"));
        const bool right = align && strcmp(align, "right") == 0;
        pith_table_column(t, name ? name : "", name ? name : "",
                          right ? PITH_CELL_NUMBER : PITH_CELL_TEXT);
    }
    json_array_foreach (rows, i, row) {
        pith_table_row(t);
        json_array_foreach (row, k, cell) pith_table_text(t, json_string_value(cell));
    }
}

static const char *form_name(size_t i)
{
    return i < pith_writer_count ? pith_writers[i].name : NULL;
}

enum pith_status pith_table_render(const char *table, const char *format, char **text,
                                   struct pith_error *err)
{
    const struct pith_writer *w = pith_writer_find(format);
    json_t *j = NULL;
    if (!w)
        return pith_fail_name(err, "form", format, form_name);
    PITH_TRY(pith_json_parse(table, strlen(table), "table", &j, err));
    struct pith_table t = {0};
    struct pith_str out = {0};
    fill_table(&t, json_object_get(j, "columns"), json_object_get(j, "rows"));
    w->write(&t, &out);
    pith_table_free(&t);
    json_decref(j);
    return take_text(&out, text, err);
}

static double number(const json_t *j, const char *key)
{
    const json_t *v = json_object_get(j, key);
    return json_is_number(v) ? json_number_value(v) : (double)NAN;
}

static const char *word(const json_t *j, const char *key)
{
    const char *s = json_string_value(json_object_get(j, key));
    return s ? s : "";
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

static void text_table(struct pith_str *out, const json_t *models, size_t which)
{
    static const char *const titles[] = {"bits/weight", "MiB",         "perplexity",     "KL",
                                         "KL at 99%",   "same top, %", "loss difference"};
    struct pith_table t = {0};
    const json_t *m;
    size_t i;
    pith_table_column(&t, "model", "model", PITH_CELL_TEXT);
    for (i = 0; i < PITH_COUNT(titles); i++)
        pith_table_column(&t, titles[i], titles[i], PITH_CELL_NUMBER);
    pith_table_column(&t, "verdict", "verdict", PITH_CELL_TEXT);
    json_array_foreach (models, i, m) {
        const json_t *x = json_array_get(json_object_get(m, "texts"), which);
        pith_table_row(&t);
        pith_table_text(&t, base_name(word(m, "model")));
        pith_table_number(&t, number(m, "bits_per_weight"), 3);
        pith_table_number(&t, number(m, "bytes") / 1048576, 2);
        pith_table_number(&t, number(x, "perplexity"), 4);
        pith_table_number(&t, number(x, "kld_mean"), 6);
        pith_table_number(&t, number(x, "kld_p99"), 5);
        pith_table_number(&t, 100 * number(x, "top1_agreement"), 2);
        pith_table_number(&t, number(x, "nll_delta"), 5);
        pith_table_text(&t, json_object_get(x, "verdict") ? word(x, "verdict") : "baseline");
    }
    pith_html_table(out, &t);
    pith_table_free(&t);
}

/* Size against divergence, and the loss difference with its interval: one point a model. */
static enum pith_status text_charts(struct pith_str *out, const json_t *models, size_t which,
                                    struct pith_error *err)
{
    const size_t count = json_array_size(models);
    struct pith_chart_point *size = pith_zalloc(count, sizeof *size);
    struct pith_chart_point *loss = pith_zalloc(count, sizeof *loss);
    const json_t *m;
    size_t i;
    if (size && loss) {
        json_array_foreach (models, i, m) {
            const json_t *x = json_array_get(json_object_get(m, "texts"), which);
            const json_t *ci = json_object_get(x, "nll_delta_ci95");
            const char *name = base_name(word(m, "model"));
            size[i] = (struct pith_chart_point){
                .label = name, .x = number(m, "bytes") / 1048576, .y = number(x, "kld_mean")};
            loss[i] = (struct pith_chart_point){.label = name,
                                                .y = number(x, "nll_delta"),
                                                .lo = json_number_value(json_array_get(ci, 0)),
                                                .hi = json_number_value(json_array_get(ci, 1))};
        }
        pith_html_chart(out,
                        &(struct pith_chart){.kind = PITH_CHART_SCATTER,
                                             .title = "Size against divergence from the baseline",
                                             .x_title = "MiB",
                                             .y_title = "mean KL divergence, nats",
                                             .y_log = true,
                                             .points = size,
                                             .count = count});
        pith_html_chart(out,
                        &(struct pith_chart){
                            .kind = PITH_CHART_BARS,
                            .title = "Loss difference from the baseline, with its 95% interval",
                            .y_title = "nats a token",
                            .points = loss,
                            .count = count});
    }
    const bool ok = size && loss;
    pith_free(size);
    pith_free(loss);
    return ok ? PITH_OK : pith_fail_nomem(err, "a chart");
}

static void task_table(struct pith_str *out, const json_t *models)
{
    struct pith_table t = {0};
    const json_t *m, *task;
    size_t i, k;
    const json_t *first = json_object_get(json_array_get(models, 0), "tasks");
    if (json_array_size(first) == 0) return;
    pith_html_heading(out, "Tasks: accuracy, %");
    pith_table_column(&t, "model", "model", PITH_CELL_TEXT);
    json_array_foreach (first, k, task)
        pith_table_column(&t, word(task, "name"), word(task, "name"), PITH_CELL_NUMBER);
    json_array_foreach (models, i, m) {
        pith_table_row(&t);
        pith_table_text(&t, base_name(word(m, "model")));
        json_array_foreach (json_object_get(m, "tasks"), k, task)
            pith_table_number(&t, 100 * number(task, "accuracy"), 1);
    }
    pith_html_table(out, &t);
    pith_table_free(&t);
}

enum pith_status pith_compare_html(const char *report, char **html, struct pith_error *err)
{
    json_t *j = NULL;
    PITH_TRY(pith_json_parse(report, strlen(report), "report", &j, err));
    const json_t *models = json_object_get(j, "models");
    const json_t *texts = json_object_get(json_array_get(models, 0), "texts"), *x;
    struct pith_str out = {0};
    enum pith_status s = PITH_OK;
    size_t i;
    pith_html_begin(&out, "pith: what quantization cost");
    json_array_foreach (texts, i, x) {
        pith_html_heading(&out, base_name(word(x, "text")));
        text_table(&out, models, i);
        s = text_charts(&out, models, i, err);
        if (s != PITH_OK) break;
    }
    task_table(&out, models);
    pith_html_paragraph(
        &out, "A verdict compares window by window: indistinguishable when the 95% interval "
              "of the loss difference contains 0.");
    pith_html_end(&out);
    json_decref(j);
    if (s == PITH_OK) return take_text(&out, html, err);
    pith_str_free(&out);
    return s;
}
