/* The page of pith compare: what was measured, how, and what quantization cost. */
#include "report/page.h"

#include "base/mem.h"
#include "base/names.h"

static const char *model_name(const json_t *m)
{
    return *page_text(m, "name") ? page_text(m, "name") : pith_name_of_path(page_text(m, "model"));
}

static double end_of(const json_t *j, const char *key, size_t which)
{
    const json_t *v = json_array_get(json_object_get(j, key), which);
    return json_is_number(v) ? json_number_value(v) : (double)NAN;
}

/* "0.5 (0.4 to 0.6)"; without an interval the number alone; nothing for none. */
static void add_number(struct pith_table *t, const json_t *j, const char *key, const char *ci,
                       const char *form, double factor)
{
    const double x = factor * page_number(j, key);
    double lo = factor * end_of(j, ci, 0), hi = factor * end_of(j, ci, 1);
    char a[40], b[40], c[40];
    if (strcmp(ci, "perplexity_se") == 0) {
        const double half = 1.959964 * page_number(j, ci);
        lo = x - half;
        hi = x + half;
    }
    if (isnan(x)) {
        pith_table_text(t, NULL);
        return;
    }
    snprintf(a, sizeof a, form, x);
    snprintf(b, sizeof b, form, lo);
    snprintf(c, sizeof c, form, hi);
    if (isfinite(lo) && isfinite(hi)) pith_table_printf(t, "%s (%s to %s)", a, b, c);
    else pith_table_text(t, a);
}

static void add_row(struct pith_table *t, const json_t *m, const json_t *x)
{
    pith_table_row(t);
    pith_table_text(t, model_name(m));
    pith_table_number(t, page_number(m, "bits_per_weight"), 3);
    pith_table_number(t, page_number(m, "bytes") / 1048576, 2);
    add_number(t, x, "perplexity", "perplexity_se", "%.3f", 1);
    add_number(t, x, "kld_mean", "kld_ci95", "%.5f", 1);
    add_number(t, x, "kld_p99", "kld_p99_ci95", "%.4f", 1);
    add_number(t, x, "top1_agreement", "top1_ci95", "%.2f", 100);
    add_number(t, x, "nll_delta", "nll_delta_ci95", "%+.5f", 1);
    pith_table_text(t, json_object_get(x, "harm") ? page_text(x, "harm") : "baseline");
    pith_table_number(t, page_number(x, "tokens"), 0);
}

static void text_table(struct pith_str *out, const json_t *models, size_t which)
{
    static const char *const titles[] = {"bits a weight", "MiB",        "perplexity",     "KL",
                                         "KL 99%",        "same top %", "loss difference"};
    struct pith_table t = {0};
    const json_t *m;
    size_t i;
    pith_table_column(&t, "model", NULL, PITH_CELL_TEXT);
    for (i = 0; i < PITH_COUNT(titles); i++)
        pith_table_column(&t, titles[i], NULL, PITH_CELL_NUMBER);
    pith_table_column(&t, "harm", NULL, PITH_CELL_TEXT);
    pith_table_column(&t, "tokens", NULL, PITH_CELL_NUMBER);
    json_array_foreach (models, i, m)
        add_row(&t, m, json_array_get(json_object_get(m, "texts"), which));
    pith_html_table(out, &t);
    pith_table_free(&t);
}

/* Why each model has its verdict. */
static void reasons(struct pith_str *out, const json_t *models, size_t which)
{
    const json_t *m;
    size_t i;
    json_array_foreach (models, i, m) {
        const json_t *x = json_array_get(json_object_get(m, "texts"), which);
        char text[400];
        if (!json_object_get(x, "harm")) continue;
        const char *harm = page_text(x, "harm"), *reason = page_text(x, "harm_reason");
        const bool says = strncmp(reason, "not resolved", 12) == 0;
        snprintf(text, sizeof text, "%.16s%s%.300s", says ? "" : harm, says ? "" : ": ", reason);
        pith_html_facts(out, &(struct pith_html_fact){model_name(m), text, false}, 1);
    }
}

/* Size against divergence, and the loss difference with its interval: one point a model. */
static void text_charts(struct pith_str *out, const json_t *models, size_t which)
{
    const size_t count = json_array_size(models);
    struct pith_chart_point *size = pith_zalloc(2 * count, sizeof *size);
    const json_t *m;
    size_t i;
    if (!size) {
        out->failed = true;
        return;
    }
    struct pith_chart_point *loss = size + count;
    json_array_foreach (models, i, m) {
        const json_t *x = json_array_get(json_object_get(m, "texts"), which);
        size[i] = (struct pith_chart_point){.label = model_name(m),
                                            .x = page_number(m, "bytes") / 1048576,
                                            .y = page_number(x, "kld_mean"),
                                            .lo = end_of(x, "kld_ci95", 0),
                                            .hi = end_of(x, "kld_ci95", 1)};
        loss[i] = (struct pith_chart_point){.label = model_name(m),
                                            .y = page_number(x, "nll_delta"),
                                            .lo = end_of(x, "nll_delta_ci95", 0),
                                            .hi = end_of(x, "nll_delta_ci95", 1)};
    }
    pith_html_figures(out, true, false);
    pith_html_chart(out, &(struct pith_chart){.kind = PITH_CHART_SCATTER,
                                              .title = "Size against divergence from the baseline; "
                                                       "the line joins the best of each size",
                                              .x_title = "MiB",
                                              .y_title = "mean KL divergence, nats a token",
                                              .y_log = true,
                                              .front = true,
                                              .points = size,
                                              .count = count});
    pith_html_chart(
        out, &(struct pith_chart){.kind = PITH_CHART_BARS,
                                  .title = "Loss difference from the baseline, 95% intervals",
                                  .y_title = "nats a token",
                                  .points = loss,
                                  .count = count});
    pith_html_figures(out, false, false);
    pith_free(size);
}

/* How the divergence of one model is spread over the tokens of a text. */
static void text_histogram(struct pith_str *out, const json_t *m, const json_t *x)
{
    struct pith_chart_point point[64] = {{0}};
    const json_t *h = json_object_get(x, "kld_histogram"), *from = json_object_get(h, "from");
    const json_t *counts = json_object_get(h, "counts");
    const size_t bins = json_array_size(counts) < 64 ? json_array_size(counts) : 64;
    size_t n = 0, first = 0;
    while (first < bins && json_integer_value(json_array_get(counts, first)) == 0) first++;
    for (size_t i = first; i + 1 < bins; i++)
        point[n++] =
            (struct pith_chart_point){.label = "",
                                      .x = json_number_value(json_array_get(from, i)),
                                      .hi = json_number_value(json_array_get(from, i + 1)),
                                      .y = (double)json_integer_value(json_array_get(counts, i))};
    while (n > 1 && point[n - 1].y <= 0) n--;
    if (n == 0) return;
    pith_html_chart(out, &(struct pith_chart){.kind = PITH_CHART_HISTOGRAM,
                                              .title = model_name(m),
                                              .x_title = "KL at a token, nats",
                                              .x_log = true,
                                              .points = point,
                                              .count = n});
}

static void text_histograms(struct pith_str *out, const json_t *models, size_t which)
{
    const json_t *m;
    size_t i;
    bool any = false;
    json_array_foreach (models, i, m) {
        const json_t *x = json_array_get(json_object_get(m, "texts"), which);
        if (!json_object_get(x, "kld_histogram")) continue;
        if (!any) {
            pith_html_subheading(out, "How many tokens have which divergence");
            pith_html_figures(out, true, true);
        }
        any = true;
        text_histogram(out, m, x);
    }
    if (any) pith_html_figures(out, false, true);
}

static void text_worst(struct pith_str *out, const json_t *m, const json_t *x)
{
    const json_t *worst = json_object_get(x, "worst"), *w;
    char title[300];
    size_t i;
    if (json_array_size(worst) == 0) return;
    snprintf(title, sizeof title, "The tokens where %.200s differs most", model_name(m));
    pith_html_subheading(out, title);
    pith_html_passages(out, true);
    json_array_foreach (worst, i, w)
        pith_html_passage(out, &(struct pith_html_passage){.kld = page_number(w, "kld"),
                                                           .delta = page_number(w, "nll_delta"),
                                                           .before = page_text(w, "before"),
                                                           .token = page_text(w, "token"),
                                                           .after = page_text(w, "after"),
                                                           .base_top = page_text(w, "base_top"),
                                                           .top = page_text(w, "top")});
    pith_html_passages(out, false);
}

/* KL by position in the window, a figure a model. */
static void text_depths(struct pith_str *out, const json_t *models, size_t which)
{
    const json_t *m, *d;
    size_t i, n;
    bool any = false;
    json_array_foreach (models, i, m) {
        struct pith_chart_point point[64] = {{0}};
        const json_t *x = json_array_get(json_object_get(m, "texts"), which);
        const json_t *depth = json_object_get(x, "depth");
        if (!json_object_get(x, "kld_mean") || json_array_size(depth) == 0) continue;
        if (!any) {
            pith_html_subheading(out, "KL by position in the window");
            pith_html_figures(out, true, true);
        }
        any = true;
        json_array_foreach (depth, n, d)
            if (n < 64)
                point[n] = (struct pith_chart_point){.label = "",
                                                     .x = page_number(d, "from"),
                                                     .hi = page_number(d, "to"),
                                                     .y = page_number(d, "kld")};
        pith_html_chart(out, &(struct pith_chart){.kind = PITH_CHART_HISTOGRAM,
                                                  .title = model_name(m),
                                                  .x_title = "position in the window",
                                                  .points = point,
                                                  .count = n < 64 ? n : 64});
    }
    if (any) pith_html_figures(out, false, true);
}

static void text_section(struct pith_str *out, const json_t *models, size_t which)
{
    const json_t *x = json_array_get(json_object_get(json_array_get(models, 0), "texts"), which);
    const json_t *m;
    char about[400];
    size_t i;
    pith_html_heading(out, *page_text(x, "text_name") ? page_text(x, "text_name")
                                                      : pith_name_of_path(page_text(x, "text")));
    snprintf(about, sizeof about,
             "%.0f tokens scored in %.0f windows of %.0f, %.20s convention; SHA-256 %.64s",
             page_number(x, "tokens"), page_number(x, "windows"), page_number(x, "context"),
             page_text(x, "convention"), page_text(x, "sha256"));
    pith_html_paragraph(out, about);
    text_table(out, models, which);
    pith_html_paragraph(out, "A click on a column's name sorts by it. Small: 95% intervals.");
    reasons(out, models, which);
    text_charts(out, models, which);
    text_histograms(out, models, which);
    text_depths(out, models, which);
    json_array_foreach (models, i, m)
        text_worst(out, m, json_array_get(json_object_get(m, "texts"), which));
}

static double loss_of(const json_t *linear)
{
    return page_number(linear, "value");
}

static void heat_map(struct pith_str *out, const char *title, const json_t *losses)
{
    json_t *by_name = json_object(), *l;
    size_t i;
    json_array_foreach (losses, i, l) pith_json_set(&by_name, page_text(l, "name"), json_incref(l));
    out->failed |= !by_name;
    pith_page_heat(out, title, by_name, loss_of);
    json_decref(by_name);
}

static void heat_maps(struct pith_str *out, const json_t *models)
{
    const json_t *m;
    size_t i;
    bool any = false;
    json_array_foreach (models, i, m) {
        const json_t *made = json_object_get(m, "made");
        const json_t *losses = json_object_get(made, "losses");
        char title[300];
        if (json_array_size(losses) == 0) continue;
        if (!any) {
            pith_html_heading(out, "Where it was lost: linears by layer");
            pith_html_figures(out, true, false);
        }
        any = true;
        snprintf(title, sizeof title, "%.200s: %s", model_name(m),
                 strcmp(page_text(made, "loss_of"), "outputs") == 0
                     ? "squared error of the outputs, a row"
                     : "relative error of the weights");
        heat_map(out, title, losses);
    }
    if (any) pith_html_figures(out, false, false);
}

static void task_table(struct pith_str *out, const json_t *models)
{
    struct pith_table t = {0};
    const json_t *m, *task;
    size_t i, k;
    const json_t *first = json_object_get(json_array_get(models, 0), "tasks");
    if (json_array_size(first) == 0) return;
    pith_html_heading(out, "Tasks: right answers, %");
    pith_table_column(&t, "model", NULL, PITH_CELL_TEXT);
    json_array_foreach (first, k, task) {
        char title[200];
        snprintf(title, sizeof title, "%.128s, of %.0f", page_text(task, "name"),
                 page_number(task, "n"));
        pith_table_column(&t, page_text(task, "name"), title, PITH_CELL_NUMBER);
    }
    json_array_foreach (models, i, m) {
        pith_table_row(&t);
        pith_table_text(&t, model_name(m));
        json_array_foreach (json_object_get(m, "tasks"), k, task)
            add_number(&t, task, "accuracy", "accuracy_ci95", "%.1f", 100);
    }
    pith_html_table(out, &t);
    pith_table_free(&t);
}

static void provenance(struct pith_str *out, const json_t *report)
{
    const json_t *p = json_object_get(report, "provenance"), *models, *m;
    struct pith_table t = {0};
    size_t i;
    models = json_object_get(report, "models");
    const struct pith_html_fact facts[] = {
        {"baseline", page_text(report, "baseline"), true},
        {"measured by", page_text(p, "version"), false},
        {"on", page_text(p, "date"), false},
        {"command", page_text(p, "command"), true},
    };
    pith_html_facts(out, facts, PITH_COUNT(facts));
    static const char *const keys[] = {"recipe", "weights", "acts", "round", "container"};
    pith_table_column(&t, "model", NULL, PITH_CELL_TEXT);
    for (i = 0; i < PITH_COUNT(keys); i++) pith_table_column(&t, keys[i], NULL, PITH_CELL_TEXT);
    pith_table_column(&t, "kv", "cache", PITH_CELL_TEXT);
    pith_table_column(&t, "calibration", NULL, PITH_CELL_TEXT);
    pith_table_column(&t, "sha256", "SHA-256 of the tensors", PITH_CELL_TEXT);
    json_array_foreach (models, i, m) {
        const json_t *made = json_object_get(m, "made");
        pith_table_row(&t);
        pith_table_text(&t, page_text(m, "model"));
        for (size_t k = 0; k < PITH_COUNT(keys); k++) pith_table_text(&t, page_text(made, keys[k]));
        pith_table_text(&t, page_text(m, "kv"));
        const double tokens = page_number(made, "calibration_tokens");
        if (isfinite(tokens))
            pith_table_printf(&t, "%.0f tokens, %.12s", tokens,
                              page_text(made, "calibration_sha256"));
        else pith_table_text(&t, "");
        pith_table_printf(&t, "%.16s", page_text(made, "sha256"));
    }
    pith_html_table(out, &t);
    pith_table_free(&t);
}

enum pith_status pith_page_compare(const json_t *report, struct pith_str *out,
                                   struct pith_error *err)
{
    const json_t *models = json_object_get(report, "models");
    const json_t *texts = json_object_get(json_array_get(models, 0), "texts"), *x;
    size_t i;
    pith_html_begin(out, "pith: what quantization cost");
    provenance(out, report);
    json_array_foreach (texts, i, x) text_section(out, models, i);
    task_table(out, models);
    heat_maps(out, models);
    pith_html_paragraph(
        out, "Harm is what KL and loss both support: slight from 0.005 nats a token on, clear "
             "from 0.02, severe from 0.1, with intervals wholly above these and a loss that rises "
             "by a fifth of them; none when both lie below 0.005; else unresolved.");
    pith_html_end(out);
    (void)err; /* any tree makes a page */
    return PITH_OK;
}
