/* The page of pith inspect: how the values of a checkpoint's matrices are spread, by layer. */
#include "report/page.h"

#include "base/mem.h"

#include <math.h>

/* Layers whose histograms are drawn, the first ones. */
enum { HISTOGRAMS_MOST = 96 };

static bool is_matrix(const json_t *t)
{
    return json_array_size(json_object_get(t, "shape")) >= 2 && json_object_get(t, "std");
}

/* The largest magnitude in standard deviations. */
static double peak_of(const json_t *t)
{
    const double mean = page_number(t, "mean"), std = page_number(t, "std");
    const double most = fmax(page_number(t, "max") - mean, mean - page_number(t, "min"));
    return std > 0 ? most / std : (double)NAN;
}

static double kurtosis_of(const json_t *t)
{
    return page_number(t, "kurtosis");
}

static double outliers_of(const json_t *t)
{
    return page_number(t, "outliers");
}

/* A quantized linear, or a tensor that is a matrix, with numbers. */
static bool is_drawn(const json_t *t)
{
    return is_matrix(t) && isfinite(kurtosis_of(t)) && isfinite(outliers_of(t));
}

/* Adds each by its name without ".weight"; false: memory failed. */
static bool add_entries(json_t *entries, const json_t *list)
{
    json_t *t;
    size_t i;
    bool ok = true;
    json_array_foreach (list, i, t) {
        const char *name = page_text(t, "name");
        size_t n = strlen(name);
        if (n > 7 && strcmp(name + n - 7, ".weight") == 0) n -= 7;
        ok = ok && (!is_drawn(t) || json_object_setn(entries, name, n, t) == 0);
    }
    return ok;
}

/* The tensors that are not parts of a quantized linear: its scales say nothing of weights. NULL
 * when memory fails. */
static json_t *tensors_apart(const json_t *linears, const json_t *tensors)
{
    json_t *names = json_object(), *apart = json_array();
    const json_t *t;
    size_t i;
    bool ok = names && apart;
    json_array_foreach (linears, i, t)
        ok = ok && json_object_set_new(names, page_text(t, "name"), json_true()) == 0;
    json_array_foreach (tensors, i, t) {
        const char *name = page_text(t, "name"), *end = strrchr(name, '.');
        const bool part = end && json_object_getn(names, name, (size_t)(end - name));
        ok = ok && (part || json_array_append(apart, (json_t *)(uintptr_t)t) == 0);
    }
    json_decref(names);
    if (ok) return apart;
    json_decref(apart);
    return NULL;
}

static void histogram(struct pith_str *out, json_t *entries, size_t which)
{
    struct pith_chart_point point[64] = {{0}};
    json_t *e;
    const char *name, *rest;
    char title[40];
    size_t layer, bins = 0;
    json_object_foreach (entries, name, e) {
        const json_t *h = json_object_get(e, "histogram");
        if (!pith_page_layer(name, &layer, &rest) || layer != which) continue;
        bins = json_array_size(h) < 64 ? json_array_size(h) : 64;
        for (size_t b = 0; b < bins; b++)
            point[b].y += (double)json_integer_value(json_array_get(h, b));
    }
    for (size_t b = 0; b < bins; b++) {
        const double x = ((double)b - (double)bins / 2) / 2;
        point[b] = (struct pith_chart_point){
            .label = "", .x = x, .hi = x + 0.5, .y = log10(1 + point[b].y)};
    }
    snprintf(title, sizeof title, "layer %zu", which);
    if (bins)
        pith_html_chart(out, &(struct pith_chart){.kind = PITH_CHART_HISTOGRAM,
                                                  .title = title,
                                                  .x_title = "standard deviations",
                                                  .points = point,
                                                  .count = bins});
}

static void histograms(struct pith_str *out, json_t *entries)
{
    json_t *e;
    const char *name, *rest;
    size_t layer, layers = 0;
    json_object_foreach (entries, name, e)
        if (pith_page_layer(name, &layer, &rest) && layer + 1 > layers) layers = layer + 1;
    if (layers == 0) return;
    pith_html_heading(out, "Distributions by layer");
    pith_html_paragraph(out, "The weights of all matrices of a layer, each in standard deviations "
                             "of its matrix. The height is the logarithm of their number, so that "
                             "the tails can be seen; the outermost columns hold all beyond.");
    pith_html_figures(out, true, true);
    for (size_t i = 0; i < layers && i < HISTOGRAMS_MOST; i++) histogram(out, entries, i);
    pith_html_figures(out, false, true);
}

static void table_rows(struct pith_table *t, const json_t *list)
{
    static const char *const numbers[] = {"min", "max", "std"};
    const json_t *e;
    size_t i;
    json_array_foreach (list, i, e) {
        const json_t *shape = json_object_get(e, "shape");
        if (!is_matrix(e)) continue;
        pith_table_row(t);
        pith_table_text(t, page_text(e, "name"));
        pith_table_text(t, *page_text(e, "grid") ? page_text(e, "grid") : page_text(e, "dtype"));
        pith_table_printf(t, "%lld x %lld", (long long)json_integer_value(json_array_get(shape, 0)),
                          (long long)json_integer_value(json_array_get(shape, 1)));
        for (size_t k = 0; k < PITH_COUNT(numbers); k++)
            pith_table_significant(t, page_number(e, numbers[k]), 4);
        pith_table_number(t, page_number(e, "kurtosis"), 1);
        pith_table_number(t, peak_of(e), 1);
        pith_table_number(t, 1e6 * page_number(e, "outliers"), 0);
    }
}

static void table(struct pith_str *out, const json_t *linears, const json_t *tensors)
{
    static const char *const titles[] = {"min",      "max",     "deviation",
                                         "kurtosis", "largest", "outliers, ppm"};
    struct pith_table t = {0};
    pith_table_column(&t, "matrix", NULL, PITH_CELL_TEXT);
    pith_table_column(&t, "format", NULL, PITH_CELL_TEXT);
    pith_table_column(&t, "shape", NULL, PITH_CELL_TEXT);
    for (size_t i = 0; i < PITH_COUNT(titles); i++)
        pith_table_column(&t, titles[i], NULL, PITH_CELL_NUMBER);
    table_rows(&t, linears);
    table_rows(&t, tensors);
    pith_html_heading(out, "Every matrix");
    pith_html_paragraph(out, "A click on a column's name sorts by it. Largest: the greatest "
                             "distance from the mean in standard deviations. Outliers: values "
                             "beyond six of them, in a million.");
    pith_html_table(out, &t);
    pith_table_free(&t);
}

static void facts(struct pith_str *out, const json_t *report)
{
    const json_t *p = json_object_get(report, "provenance");
    const json_t *s = json_object_get(report, "shape");
    char size[120], shape[200];
    snprintf(size, sizeof size,
             "%.2f million parameters, %.2f MiB, %.3f bits a weight in the linears",
             page_number(report, "parameters") / 1e6, page_number(report, "bytes") / 1048576,
             page_number(report, "bits_per_weight"));
    snprintf(shape, sizeof shape,
             "%.0f layers, hidden %.0f, feed-forward %.0f, %.0f heads (%.0f for keys) of %.0f",
             page_number(s, "layers"), page_number(s, "hidden"), page_number(s, "ffn"),
             page_number(s, "heads"), page_number(s, "kv_heads"), page_number(s, "head_dim"));
    const struct pith_html_fact all[] = {
        {"model", page_text(p, "model"), true},
        {"architecture", page_text(report, "architecture"), false},
        {"container", page_text(report, "container"), false},
        {"size", size, false},
        {"shape", shape, false},
        {"looked at by", page_text(p, "version"), false},
        {"on", page_text(p, "date"), false},
        {"command", page_text(p, "command"), true},
    };
    pith_html_facts(out, all, PITH_COUNT(all));
}

enum pith_status pith_page_inspect(const json_t *report, struct pith_str *out,
                                   struct pith_error *err)
{
    const json_t *linears = json_object_get(report, "linears");
    json_t *entries = json_object();
    json_t *tensors = tensors_apart(linears, json_object_get(report, "tensors"));
    const bool whole = entries && tensors && add_entries(entries, linears) &&
                       add_entries(entries, tensors);
    if (whole) {
        pith_html_begin(out, "pith: what is in a checkpoint");
        facts(out, report);
        pith_html_heading(out, "Outliers by layer");
        pith_html_figures(out, true, false);
        pith_page_heat(out, "largest magnitude, in standard deviations", entries, peak_of);
        pith_page_heat(out, "kurtosis (3: a normal distribution)", entries, kurtosis_of);
        pith_page_heat(out, "share of values beyond six deviations", entries, outliers_of);
        pith_html_figures(out, false, false);
        histograms(out, entries);
        table(out, linears, tensors);
        pith_html_end(out);
    }
    json_decref(tensors);
    json_decref(entries);
    return whole ? PITH_OK : pith_fail_nomem(err, "a page");
}
