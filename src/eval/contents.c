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

static void add_histogram(json_t **entry, const uint64_t *bin)
{
    json_t *list = json_array();
    for (size_t i = 0; i < HISTOGRAM; i++) pith_json_add(&list, json_integer((json_int_t)bin[i]));
    pith_json_set(entry, "histogram", list);
}

/* Two passes over the matrix: moments, then what lies beyond six standard deviations. */
static enum pith_status add_statistics(const struct pith_weight *w, json_t *entry,
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
    uint64_t bin[HISTOGRAM] = {0};
    for (uint32_t r = 0; r < w->rows; r++) {
        pith_weight_decode(w, r, 1, row);
        for (uint32_t c = 0; c < w->cols; c++) {
            beyond += fabs(row[c] - mean) > limit;
            bin[histogram_bin(row[c] - mean, limit / 6)]++;
        }
    }
    pith_free(row);
    const double kurtosis = variance > 0 ? central4(&m, mean) / (variance * variance) : 0.0;
    const bool finite = isfinite(m.lo) && isfinite(m.hi) && isfinite(mean) && isfinite(variance) &&
                        isfinite(kurtosis);
    /* JSON has no NaN and no infinity: such a tensor says so instead. */
    json_t *s = finite ? json_pack("{s:f, s:f, s:f, s:f, s:f, s:f}", "min", (double)m.lo, "max",
                                   (double)m.hi, "mean", mean, "std", sqrt(variance), "kurtosis",
                                   kurtosis, "outliers", beyond / m.n)
                       : json_pack("{s:b}", "not_finite", 1);
    if (finite) add_histogram(&s, bin);
    const int bad = json_object_update(entry, s);
    json_decref(s);
    return bad ? pith_fail_nomem(err, "statistics") : PITH_OK;
}

static bool is_real(enum pith_dtype t)
{
    return t == PITH_F32 || t == PITH_F16 || t == PITH_BF16;
}

static enum pith_status add_tensor(const struct pith_tensor *t, bool statistics, json_t *list,
                                   struct pith_error *err)
{
    json_t *shape = json_array();
    for (unsigned i = 0; i < t->dims; i++)
        pith_json_add(&shape, json_integer((json_int_t)t->shape[i]));
    json_t *j = json_pack("{s:s, s:s, s:o, s:I}", "name", t->name, "dtype",
                          pith_dtype_name(t->dtype), "shape", shape, "bytes", (json_int_t)t->bytes);
    if (!j || json_array_append_new(list, j) != 0) return pith_fail_nomem(err, t->name);
    const uint64_t n = pith_tensor_elements(t);
    const uint64_t cols = t->dims ? t->shape[t->dims - 1] : 1;
    if (!statistics || !is_real(t->dtype) || n == 0 || cols > UINT32_MAX || n / cols > UINT32_MAX)
        return PITH_OK;
    uint8_t *copy = NULL;
    if (t->row_step && !pith_tensor_straight(t, &copy)) return pith_fail_nomem(err, t->name);
    const struct pith_weight w = {.rows = (uint32_t)(n / cols),
                                  .cols = (uint32_t)cols,
                                  .dtype = t->dtype,
                                  .dense = copy ? copy : t->data};
    const enum pith_status s = add_statistics(&w, j, err);
    pith_free(copy);
    return s;
}

static enum pith_status add_linears(const struct pith_model *m, bool statistics, json_t *list,
                                    struct pith_error *err)
{
    for (uint32_t layer = 0; layer < m->shape.layers; layer++) {
        for (uint32_t i = 0; i < pith_plan(&m->plans, layer)->linears; i++) {
            const struct pith_weight *w = &m->blocks[layer].linear[i].w;
            char name[256];
            if (!w->quant) continue;
            pith_plan_linear_name(&m->plans, layer, i, name, sizeof name);
            const struct pith_qmat *q = w->quant;
            const struct pith_grid grid = pith_qmat_grid(q);
            char text[PITH_GRID_TEXT];
            pith_grid_format(&grid, text);
            json_t *j = json_pack(
                "{s:s, s:s, s:s, s:[I,I], s:I, s:b, s:b, s:s, s:f}", "name", name, "grid", text,
                "format", q->format->name, "shape", (json_int_t)q->rows, (json_int_t)q->cols,
                "group", (json_int_t)q->group, "zero_points", q->zeros || q->offsets, "act_order",
                q->g_idx != NULL, "scale_dtype", pith_dtype_name(q->scale_dtype), "bits_per_weight",
                pith_qmat_bits_per_weight(q));
            if (!j || json_array_append_new(list, j) != 0) return pith_fail_nomem(err, name);
            if (statistics) PITH_TRY(add_statistics(w, j, err));
        }
    }
    return PITH_OK;
}

static enum pith_status add_remarks(const struct pith_model *m, json_t **report,
                                    struct pith_error *err)
{
    json_t *list;
    PITH_TRY(pith_model_remarks(m->checkpoint, m, &list, err));
    pith_json_set_some(report, "remarks", list);
    return PITH_OK;
}

static json_t *shape_report(const struct pith_shape *s)
{
    return json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:b}", "layers", (int)s->layers,
                     "hidden", (int)s->hidden, "ffn", (int)s->ffn, "heads", (int)s->heads,
                     "kv_heads", (int)s->kv_heads, "head_dim", (int)s->head_dim, "vocab",
                     (int)s->vocab, "context", (int)s->max_position, "tied_embeddings", s->tied);
}

enum pith_status pith_contents_report(const struct pith_model *m, bool statistics,
                                      const struct pith_progress *progress, json_t **out,
                                      struct pith_error *err)
{
    *out = NULL;
    json_t *tensors = json_array(), *linears = json_array();
    enum pith_status s = tensors && linears ? PITH_OK : pith_fail_nomem(err, "the report");
    const size_t count = m->checkpoint->count;
    for (size_t i = 0; i < count && s == PITH_OK; i++) {
        s = pith_progress_step(progress, "tensors", (double)i, (double)count, err);
        if (s == PITH_OK) s = add_tensor(&m->checkpoint->tensors[i], statistics, tensors, err);
    }
    if (s == PITH_OK) s = add_linears(m, statistics, linears, err);
    if (s == PITH_OK)
        *out = json_pack("{s:s, s:o, s:s, s:I, s:I, s:f, s:O, s:O}", "architecture", m->arch->name,
                         "shape", shape_report(&m->shape), "container",
                         m->container ? m->container->name : "none", "parameters",
                         (json_int_t)pith_model_parameters(m), "bytes",
                         (json_int_t)m->checkpoint->bytes, "bits_per_weight",
                         pith_model_bits_per_weight(m), "linears", linears, "tensors", tensors);
    json_decref(tensors);
    json_decref(linears);
    if (s == PITH_OK) s = add_remarks(m, out, err);
    if (s == PITH_OK) return PITH_OK;
    json_decref(*out);
    *out = NULL;
    return s;
}
