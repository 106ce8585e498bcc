#include "eval/contents.h"

#include "base/mem.h"
#include "model/remarks.h"
#include "model/totals.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Power sums of a tensor's values, taken about zero in double. */
struct moments {
    double n, sum[5];
    float lo, hi;
};

static void add_values(struct moments *m, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const double v = x[i], v2 = v * v;
        m->sum[1] += v;
        m->sum[2] += v2;
        m->sum[3] += v2 * v;
        m->sum[4] += v2 * v2;
        if (x[i] < m->lo) m->lo = x[i];
        if (x[i] > m->hi) m->hi = x[i];
    }
    m->n += (double)n;
}

static double central4(const struct moments *m, double mean)
{
    const double a = m->sum[4] / m->n, b = m->sum[3] / m->n, c = m->sum[2] / m->n;
    return a - 4 * mean * b + 6 * mean * mean * c - 3 * mean * mean * mean * mean;
}

/* Half a standard deviation each, the middle one about the mean; the outermost hold all beyond. */
enum { HISTOGRAM = 33 };

static size_t histogram_bin(double distance, double std)
{
    const double at = std > 0 ? floor(distance / std * 2 + 0.5) + HISTOGRAM / 2 : HISTOGRAM / 2;
    return !(at > 0) ? 0 : at >= HISTOGRAM - 1 ? HISTOGRAM - 1 : (size_t)at;
}

/* How the values of a matrix are spread. */
struct statistics {
    bool known;  /* they were taken */
    bool finite; /* else nothing else is known: JSON has no NaN and no infinity */
    double min, max, mean, std, kurtosis, outliers;
    uint64_t bin[HISTOGRAM];
};

/* Two passes over the matrix: moments, then what lies beyond six standard deviations. */
static enum pith_status take_statistics(const struct pith_weight *w, struct statistics *s,
                                        struct pith_error *err)
{
    float *row = pith_alloc(w->cols, sizeof *row);
    if (!row) return pith_fail_nomem(err, "a row");
    struct moments m = {.lo = INFINITY, .hi = -INFINITY};
    for (uint32_t r = 0; r < w->rows; r++) {
        pith_weight_decode(w, r, 1, row);
        add_values(&m, row, w->cols);
    }
    const double mean = m.sum[1] / m.n, variance = fmax(m.sum[2] / m.n - mean * mean, 0);
    const double limit = 6 * sqrt(variance);
    double beyond = 0;
    for (uint32_t r = 0; r < w->rows; r++) {
        pith_weight_decode(w, r, 1, row);
        for (uint32_t c = 0; c < w->cols; c++) {
            beyond += fabs(row[c] - mean) > limit;
            s->bin[histogram_bin(row[c] - mean, limit / 6)]++;
        }
    }
    pith_free(row);
    s->known = true;
    s->min = (double)m.lo;
    s->max = (double)m.hi;
    s->mean = mean;
    s->std = sqrt(variance);
    s->kurtosis = variance > 0 ? central4(&m, mean) / (variance * variance) : 0.0;
    s->outliers = beyond / m.n;
    s->finite = isfinite(m.lo) && isfinite(m.hi) && isfinite(mean) && isfinite(variance) &&
                isfinite(s->kurtosis);
    return PITH_OK;
}

/* --- the report ------------------------------------------------------------------------------- */

/* What is filled: JSON, and a table of the same; with statistics another that has them. */
struct contents {
    struct pith_report *report;
    struct pith_table *table, *wide; /* wide: NULL without statistics */
};

static void set_statistics(struct pith_report *r, const struct statistics *s)
{
    if (!s->known) return;
    if (!s->finite) {
        pith_report_set(r, "not_finite", pith_yes(true));
        return;
    }
    pith_report_set(r, "min", pith_real(s->min, 4));
    pith_report_set(r, "max", pith_real(s->max, 4));
    pith_report_set(r, "mean", pith_real(s->mean, 4));
    pith_report_set(r, "std", pith_real(s->std, 4));
    pith_report_set(r, "kurtosis", pith_real(s->kurtosis, 1));
    pith_report_set(r, "outliers", pith_real(s->outliers, 4));
    pith_report_list(r, "histogram");
    for (size_t i = 0; i < HISTOGRAM; i++) pith_report_set(r, "", pith_count(s->bin[i]));
    pith_report_close(r);
}

static void put_names(struct pith_table *t, const char *name, const char *form, const char *shape)
{
    pith_table_row(t);
    pith_table_text(t, name);
    pith_table_text(t, form);
    pith_table_text(t, shape);
}

static void put_row(const struct contents *c, const char *name, const char *form, const char *shape,
                    const struct statistics *s)
{
    struct pith_table *t = c->wide;
    put_names(c->table, name, form, shape);
    if (!t) return;
    put_names(t, name, form, shape);
    if (!s->known || !s->finite) return;
    pith_table_printf(t, "%.4g", s->min);
    pith_table_printf(t, "%.4g", s->max);
    pith_table_printf(t, "%.4g", s->std);
    pith_table_printf(t, "%.1f", s->kurtosis);
    pith_table_printf(t, "%.1e", s->outliers);
}

static bool is_real(enum pith_dtype t)
{
    return t == PITH_F32 || t == PITH_F16 || t == PITH_BF16;
}

/* Of a tensor whose values are numbers as they stand. */
static enum pith_status look_at_tensor(const struct pith_tensor *t, struct statistics *s,
                                       struct pith_error *err)
{
    const uint64_t n = pith_tensor_elements(t);
    const uint64_t cols = t->dims ? t->shape[t->dims - 1] : 1;
    if (!is_real(t->dtype) || n == 0 || cols > UINT32_MAX || n / cols > UINT32_MAX) return PITH_OK;
    uint8_t *copy = NULL;
    if (t->row_step && !pith_tensor_straight(t, &copy)) return pith_fail_nomem(err, t->name);
    const struct pith_weight w = {.rows = (uint32_t)(n / cols),
                                  .cols = (uint32_t)cols,
                                  .dtype = t->dtype,
                                  .dense = copy ? copy : t->data};
    const enum pith_status done = take_statistics(&w, s, err);
    pith_free(copy);
    return done;
}

static enum pith_status add_tensor(const struct contents *c, const struct pith_tensor *t,
                                   struct pith_error *err)
{
    struct pith_report *r = c->report;
    struct statistics s = {0};
    char shape[64] = "";
    if (c->wide) PITH_TRY(look_at_tensor(t, &s, err));
    pith_report_open(r, "");
    pith_report_set(r, "name", pith_words(t->name));
    pith_report_set(r, "dtype", pith_words(pith_dtype_name(t->dtype)));
    pith_report_list(r, "shape");
    for (unsigned i = 0; i < t->dims; i++) {
        const size_t used = strlen(shape);
        pith_report_set(r, "", pith_count(t->shape[i]));
        snprintf(shape + used, sizeof shape - used, "%s%llu", i ? " x " : "",
                 (unsigned long long)t->shape[i]);
    }
    pith_report_close(r);
    pith_report_set(r, "bytes", pith_count(t->bytes));
    set_statistics(r, &s);
    pith_report_close(r);
    put_row(c, t->name, pith_dtype_name(t->dtype), shape, &s);
    return PITH_OK;
}

static void set_linear(struct pith_report *r, const char *name, const char *grid,
                       const struct pith_qmat *q)
{
    pith_report_set(r, "name", pith_words(name));
    pith_report_set(r, "grid", pith_words(grid));
    pith_report_set(r, "format", pith_words(q->format->name));
    pith_report_list(r, "shape");
    pith_report_set(r, "", pith_whole(q->rows));
    pith_report_set(r, "", pith_whole(q->cols));
    pith_report_close(r);
    pith_report_set(r, "group", pith_whole(q->group));
    pith_report_set(r, "zero_points", pith_yes(q->zeros || q->offsets));
    pith_report_set(r, "act_order", pith_yes(q->g_idx != NULL));
    pith_report_set(r, "scale_dtype", pith_words(pith_dtype_name(q->scale_dtype)));
    pith_report_set(r, "bits_per_weight", pith_real(pith_qmat_bits_per_weight(q), 3));
}

static enum pith_status add_linear(const struct contents *c, const char *name,
                                   const struct pith_weight *w, struct pith_error *err)
{
    const struct pith_qmat *q = w->quant;
    const struct pith_grid grid = pith_qmat_grid(q);
    struct statistics s = {0};
    char text[PITH_GRID_TEXT], form[PITH_GRID_TEXT + 16], shape[64];
    if (c->wide) PITH_TRY(take_statistics(w, &s, err));
    pith_grid_format(&grid, text);
    pith_report_open(c->report, "");
    set_linear(c->report, name, text, q);
    set_statistics(c->report, &s);
    pith_report_close(c->report);
    snprintf(form, sizeof form, "%s%s", text, q->g_idx ? " act-order" : "");
    snprintf(shape, sizeof shape, "%u x %u", q->rows, q->cols);
    put_row(c, name, form, shape, &s);
    return PITH_OK;
}

static enum pith_status add_linears(const struct contents *c, const struct pith_model *m,
                                    struct pith_error *err)
{
    for (uint32_t layer = 0; layer < m->shape.layers; layer++)
        for (uint32_t i = 0; i < pith_plan(&m->plans, layer)->linears; i++) {
            const struct pith_weight *w = &m->blocks[layer].linear[i].w;
            char name[256];
            if (!w->quant) continue;
            pith_plan_linear_name(&m->plans, layer, i, name, sizeof name);
            PITH_TRY(add_linear(c, name, w, err));
        }
    return PITH_OK;
}

static void set_shape(struct pith_report *r, const struct pith_shape *s)
{
    pith_report_open(r, "shape");
    pith_report_set(r, "layers", pith_whole(s->layers));
    pith_report_set(r, "hidden", pith_whole(s->hidden));
    pith_report_set(r, "ffn", pith_whole(s->ffn));
    pith_report_set(r, "heads", pith_whole(s->heads));
    pith_report_set(r, "kv_heads", pith_whole(s->kv_heads));
    pith_report_set(r, "head_dim", pith_whole(s->head_dim));
    pith_report_set(r, "vocab", pith_whole(s->vocab));
    pith_report_set(r, "context", pith_whole(s->max_position));
    pith_report_set(r, "tied_embeddings", pith_yes(s->ends.tied));
    pith_report_close(r);
}

static void set_model(struct pith_report *r, const struct pith_model *m)
{
    pith_report_set(r, "architecture", pith_words(m->arch->name));
    set_shape(r, &m->shape);
    pith_report_set(r, "container", pith_words(m->container ? m->container->name : "none"));
    pith_report_set(r, "parameters", pith_count(pith_model_parameters(m)));
    pith_report_set(r, "bytes", pith_count(m->checkpoint->bytes));
    pith_report_set(r, "bits_per_weight", pith_real(pith_model_bits_per_weight(m), 3));
}

/* What stands above the table. */
static void say_model(struct pith_report *r, const struct pith_model *m, const json_t *remarks)
{
    const struct pith_line below = {.lead = "  ", .wrap = PITH_WRAP_PROSE, .indent = 2};
    const struct pith_shape *s = &m->shape;
    const json_t *line;
    size_t i;
    char size[32];
    pith_bytes_text((double)m->checkpoint->bytes, size, sizeof size);
    pith_report_line(r, &(struct pith_line){.strong = m->arch->name}, ", %s%s",
                     m->container ? "container " : "",
                     m->container ? m->container->name : "not quantized");
    pith_report_line(r, &below,
                     "%.2f million parameters, %s, %.3f bits per weight in the blocks' linears",
                     (double)pith_model_parameters(m) / 1e6, size, pith_model_bits_per_weight(m));
    pith_report_line(r, &below,
                     "%u layers, hidden %u, feed-forward %u, %u heads (%u for keys) of %u, "
                     "vocabulary %u, context %u",
                     s->layers, s->hidden, s->ffn, s->heads, s->kv_heads, s->head_dim, s->vocab,
                     s->max_position);
    json_array_foreach (remarks, i, line)
        pith_report_line(r, &below, "%s", json_string_value(line));
    pith_report_gap(r);
}

static struct pith_table *make_table(struct pith_report *r, enum pith_detail detail, size_t count)
{
    static const char *const names[] = {"tensor", "format", "shape",    "min",
                                        "max",    "std",    "kurtosis", "outliers"};
    struct pith_table *t = pith_report_add_table(r, detail);
    for (size_t i = 0; i < count && i < PITH_COUNT(names); i++)
        pith_table_column(t, names[i], NULL, i < 2 ? PITH_CELL_TEXT : PITH_CELL_NUMBER);
    return t;
}

static enum pith_status fill(const struct contents *c, const struct pith_model *m,
                             const struct pith_progress *progress, struct pith_error *err)
{
    const size_t count = m->checkpoint->count;
    pith_report_list(c->report, "linears");
    PITH_TRY(add_linears(c, m, err));
    pith_report_close(c->report);
    pith_report_list(c->report, "tensors");
    for (size_t i = 0; i < count; i++) {
        PITH_TRY(pith_progress_step(progress, "tensors", (double)i, (double)count, err));
        PITH_TRY(add_tensor(c, &m->checkpoint->tensors[i], err));
    }
    pith_report_close(c->report);
    return PITH_OK;
}

enum pith_status pith_contents_report(const struct pith_model *m, bool statistics,
                                      const struct pith_progress *progress,
                                      struct pith_report **out, struct pith_error *err)
{
    json_t *remarks = NULL;
    struct pith_report *r = *out = pith_report_new();
    if (!r) return pith_fail_nomem(err, "the report");
    enum pith_status s = pith_model_remarks(m->checkpoint, m, &remarks, err);
    if (s == PITH_OK) {
        pith_report_paged(r, pith_page_inspect);
        set_model(r, m);
        say_model(r, m, remarks);
        const struct contents c = {
            .report = r,
            .table = make_table(r, statistics ? PITH_DETAIL_PART : PITH_DETAIL_ANY, 3),
            .wide = statistics ? make_table(r, PITH_DETAIL_WHOLE, 8) : NULL};
        s = fill(&c, m, progress, err);
    }
    if (json_array_size(remarks)) pith_report_set(r, "remarks", pith_tree(json_incref(remarks)));
    json_decref(remarks);
    if (s != PITH_OK) pith_report_free(out);
    return s;
}
