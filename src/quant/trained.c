#include "quant/trained.h"

#include "base/mem.h"
#include "quant/scale.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { LANES = 8, COLUMNS = 64 };
static const float least_factor = 0.125f; /* of a scale: it does not change its sign */
static const float within = 0.998f; /* of the way to where a neighbour begins: a weight's at most */

/* --- what can be learned ---------------------------------------------------------------------- */

static bool scales_learn(const struct pith_qmat *q)
{
    const bool own = q->scale_dtype == PITH_F32 || q->scale_dtype == PITH_F16 ||
                     q->scale_dtype == PITH_BF16 || q->scale_dtype == PITH_F8_E4M3;
    return own && !q->gguf && !q->offsets && !pith_qmat_per_tensor(q);
}

static enum pith_status check(const struct pith_qmat *q, bool weights, struct pith_error *err)
{
    const bool ordered = (pith_qmat_parts(q) & PITH_QMAT_ORDER) != 0;
    const bool blocks = q->format->codec->side != 0;
    const char *what = q->sparse               ? "weights off the grid"
                       : q->levels && !blocks  ? "separate levels"
                       : q->nested             ? "scales that are quantized again"
                       : q->input.hadamard > 1 ? "an input that is rotated online"
                       : weights && blocks     ? "codes of whole blocks (with `train=all`)"
                       : weights && ordered    ? "columns in another order"
                       : weights && q->offsets && !q->gguf ? "zero points that are any numbers"
                                                           : NULL;
    if (!what) return PITH_OK;
    return pith_fail(err, PITH_UNSUPPORTED, "a matrix with %s is not trained", what);
}

/* Factors of columns. */
static size_t factors_of(const struct pith_qmat *q)
{
    return q->format->codec->table == PITH_TABLE_COLUMNS ? pith_qmat_level_count(q) : 0;
}

static float point_of(const struct pith_format *f, uint32_t code)
{
    return f->kind == PITH_KIND_INT ? (float)code : f->decode(code);
}

/* The nearest points below and above, and half of what is between them. */
static void find_points(struct pith_trained *t)
{
    const struct pith_format *f = t->from->format;
    const uint32_t codes = 1u << f->bits;
    for (uint32_t i = 0; i < codes; i++) t->level[i] = point_of(f, i);
    for (uint32_t i = 0; i < codes; i++) {
        float below = -INFINITY, above = INFINITY;
        for (uint32_t j = 0; j < codes; j++) {
            if (t->level[j] < t->level[i]) below = fmaxf(below, t->level[j]);
            if (t->level[j] > t->level[i]) above = fminf(above, t->level[j]);
        }
        const float down = t->level[i] - below, up = above - t->level[i];
        const float both = isfinite(down) && isfinite(up) ? (down + up) / 2 : fminf(down, up);
        t->apart[i] = isfinite(both) ? both : 1.0f;
        t->down[i] = isfinite(down) ? down / 2 / t->apart[i] : 0.5f;
        t->up[i] = isfinite(up) ? up / 2 / t->apart[i] : 0.5f;
    }
}

enum pith_status pith_trained_open(struct pith_trained *t, struct pith_backend *b,
                                   const struct pith_trained_case *c, struct pith_error *err)
{
    const struct pith_qmat *q = c->q;
    *t = (struct pith_trained){.from = q,
                               .container = c->container,
                               .grid = pith_qmat_grid(q),
                               .now = *q};
    PITH_TRY(check(q, c->weights, err));
    const size_t count = pith_qmat_scale_count(q);
    const unsigned threads = pith_pool_threads(pith_backend_pool(b));
    t->factors = scales_learn(q) ? factors_of(q) : 0;
    t->scales = scales_learn(q) ? count + t->factors : 0;
    t->weights = c->weights ? (size_t)q->rows * q->cols : 0;
    t->now.scales = pith_alloc(count + t->factors, sizeof *t->now.scales);
    t->codes = pith_alloc(threads, q->cols);
    if (!t->now.scales || !t->codes) {
        pith_trained_free(t);
        return pith_fail_nomem(err, "a matrix that is trained");
    }
    memcpy(t->now.scales, q->scales, count * sizeof *q->scales);
    if (t->factors) t->now.levels = t->now.scales + count;
    if (t->factors) memcpy(t->now.levels, q->levels, t->factors * sizeof *q->levels);
    if (!(pith_qmat_parts(q) & PITH_QMAT_ORDER)) t->now.g_idx = NULL;
    if (t->weights) find_points(t);
    return PITH_OK;
}

void pith_trained_free(struct pith_trained *t)
{
    pith_free(t->now.scales);
    pith_free(t->codes);
    *t = (struct pith_trained){0};
}

/* --- scales ----------------------------------------------------------------------------------- */

static float stored_scale(const struct pith_qmat *q, float scale)
{
    if (q->scale_dtype != PITH_F8_E4M3) {
        const float r = pith_round_to(q->scale_dtype, scale);
        const float least = q->scale_dtype == PITH_F16 ? 0x1p-14f : FLT_MIN;
        return fabsf(r) >= least && isfinite(r) ? r : copysignf(least, scale);
    }
    const struct pith_format *f = pith_format_find("fp8_e4m3");
    const float global = q->global > 0.0f ? q->global : 1.0f;
    const float r = f->decode(f->encode(fabsf(scale) / global));
    return copysignf(r > 0.0f ? r : 0x1p-9f, scale) * global;
}

/* Scales, then factors of columns. */
static float was_of(const struct pith_trained *t, size_t i)
{
    const size_t count = t->scales - t->factors;
    return i < count ? t->from->scales[i] : t->from->levels[i - count];
}

static void place_scales(struct pith_trained *t, float *p)
{
    for (size_t i = 0; i < t->scales; i++) {
        const float was = was_of(t, i);
        if (p[i] < least_factor - 1.0f) p[i] = least_factor - 1.0f;
        /* As it was stored, to the bit, where nothing was learned. */
        t->now.scales[i] = p[i] == 0.0f || was == 0.0f ? was
                                                       : stored_scale(t->from, was * (1.0f + p[i]));
    }
    if (t->scales)
        pith_container_state_scales(t->container, &t->grid, t->now.scales, t->scales - t->factors);
}

/* --- values ----------------------------------------------------------------------------------- */

struct rows {
    struct pith_trained *t;
    const struct pith_kern *kern;
    float *p, *values;
    struct pith_qmat *made; /* whose codes are wanted; NULL: none */
    float *dw, *d_scale;
    const struct pith_weight *original;
};

static float offset_of(const struct pith_qmat *q, size_t index)
{
    return q->offsets ? q->offsets[index] : 0.0f;
}

/* The finite range of the grid's points, without a zero point. */
static void range_of(const struct pith_trained *t, float *lo, float *hi)
{
    const uint32_t codes = 1u << t->from->format->bits;
    *lo = INFINITY;
    *hi = -INFINITY;
    for (uint32_t i = 0; i < codes; i++) {
        if (!isfinite(t->level[i])) continue;
        *lo = fminf(*lo, t->level[i]);
        *hi = fmaxf(*hi, t->level[i]);
    }
}

/* What a row's weights are, before rounding. */
static void place_weights(const struct pith_trained *t, uint32_t row, const uint8_t *codes,
                          float *p, float *w)
{
    const struct pith_qmat *q = t->from;
    float lo, hi;
    range_of(t, &lo, &hi);
    for (uint32_t first = 0; first < q->cols; first += q->group) {
        const size_t index = pith_qmat_scale_index(q, row, first / q->group);
        const uint32_t last = q->cols - first < q->group ? q->cols : first + q->group;
        const float zero = pith_qmat_zero(q, index), off = offset_of(q, index);
        const float scale = t->now.scales[index], least = lo - zero, most = hi - zero;
        for (uint32_t c = first; c < last; c++) {
            const float at = t->level[codes[c]] - zero, apart = t->apart[codes[c]];
            float u = at + p[c] * apart;
            if (u < least) p[c] = ((u = least) - at) / apart;
            if (u > most) p[c] = ((u = most) - at) / apart;
            w[c] = u * scale + off;
        }
    }
}

static void values_task(void *ctx, size_t row, unsigned thread)
{
    const struct rows *r = ctx;
    const struct pith_qmat *q = r->t->from;
    float *w = r->values + row * q->cols;
    uint8_t *codes = r->t->codes + (size_t)thread * q->cols;
    if (!r->t->weights) {
        pith_qmat_decode(&r->t->now, (uint32_t)row, 1, w);
        return;
    }
    pith_qmat_get_codes(q, (uint32_t)row, codes);
    place_weights(r->t, (uint32_t)row, codes, r->p + r->t->scales + row * q->cols, w);
    pith_quantize_row(r->kern, &r->t->now, (uint32_t)row, w, r->made ? codes : NULL, w);
    if (r->made) pith_qmat_set_codes(r->made, (uint32_t)row, codes);
}

/* Rows of blocks are read together. */
static void blocks_task(void *ctx, size_t block, unsigned thread)
{
    const struct rows *r = ctx;
    const struct pith_qmat *q = &r->t->now;
    const uint32_t side = q->format->codec->side, row = (uint32_t)block * side;
    (void)thread;
    pith_qmat_decode(q, row, side, r->values + (size_t)row * q->cols);
}

static void all_values(struct rows *r, struct pith_backend *b)
{
    const struct pith_qmat *q = r->t->from;
    const uint32_t side = q->format->codec->side;
    if (side) pith_pool_run(pith_backend_pool(b), q->rows / side, blocks_task, r);
    else pith_pool_run(pith_backend_pool(b), q->rows, values_task, r);
}

void pith_trained_values(struct pith_trained *t, struct pith_backend *b, float *p, float *values)
{
    struct rows r = {.t = t, .kern = pith_backend_kern(b), .p = p, .values = values};
    place_scales(t, p);
    all_values(&r, b);
}

/* --- where weights begin ---------------------------------------------------------------------- */

/* A row's weights become their parameters. */
static void begin_task(void *ctx, size_t row, unsigned thread)
{
    const struct rows *r = ctx;
    const struct pith_qmat *q = r->t->from;
    float *p = r->p + row * q->cols;
    uint8_t *codes = r->t->codes + (size_t)thread * q->cols;
    pith_qmat_get_codes(q, (uint32_t)row, codes);
    pith_weight_decode(r->original, (uint32_t)row, 1, p);
    for (uint32_t c = 0; c < q->cols; c++) {
        const size_t index = pith_qmat_scale_index(q, (uint32_t)row, c / q->group);
        const float scale = q->scales[index], point = r->t->level[codes[c]];
        const float u = (p[c] - offset_of(q, index)) / scale + pith_qmat_zero(q, index);
        const float off = (u - point) / r->t->apart[codes[c]];
        const float edge = off < 0 ? r->t->down[codes[c]] : r->t->up[codes[c]];
        const float size = fabsf(off), near = size <= edge ? size : fmaxf(2 * edge - size, 0.0f);
        p[c] = scale == 0.0f || !isfinite(off) ? 0.0f : copysignf(within * near, off);
    }
}

void pith_trained_begin(struct pith_trained *t, struct pith_backend *b,
                        const struct pith_weight *original, float *p)
{
    struct rows r = {.t = t, .p = p, .original = original};
    pith_pool_run(pith_backend_pool(b), t->from->rows, begin_task, &r);
}

/* --- gradients -------------------------------------------------------------------------------- */

/* Of one scale: the sum over the columns of its group, in lanes. */
static double along_group(const struct pith_qmat *q, uint32_t group, const float *dw,
                          const float *values)
{
    const uint32_t first = group * q->group;
    const uint32_t n = q->cols - first < q->group ? q->cols - first : q->group;
    double lane[LANES] = {0}, sum = 0;
    for (uint32_t i = 0; i < n; i++)
        lane[i % LANES] += (double)dw[first + i] * (double)values[first + i];
    for (int i = 0; i < LANES; i++) sum += lane[i];
    return sum;
}

/* The same where columns say their group themselves. */
static double along_order(const struct pith_qmat *q, uint32_t group, const float *dw,
                          const float *values)
{
    double sum = 0;
    for (uint32_t c = 0; c < q->cols; c++)
        if (q->g_idx[c] == group) sum += (double)dw[c] * (double)values[c];
    return sum;
}

/* The scales of one row of them: values are points times the scale. */
static void scales_task(void *ctx, size_t row, unsigned thread)
{
    const struct rows *r = ctx;
    const struct pith_qmat *q = &r->t->now;
    const size_t first = row * q->row_group, at = row * q->groups;
    (void)thread;
    for (uint32_t g = 0; g < q->groups; g++) {
        double by = 0;
        for (size_t i = first; i < q->rows && i - first < q->row_group; i++)
            by += (q->g_idx ? along_order : along_group)(q, g, r->dw + i * q->cols,
                                                         r->values + i * q->cols);
        const float now = q->scales[at + g], was = r->t->from->scales[at + g];
        r->d_scale[at + g] = now != 0.0f ? (float)(by * (double)was / (double)now) : 0.0f;
    }
}

/* The factors of some columns. */
static void factors_task(void *ctx, size_t task, unsigned thread)
{
    const struct rows *r = ctx;
    const struct pith_qmat *q = &r->t->now;
    const size_t first = task * COLUMNS, at = r->t->scales - r->t->factors;
    const size_t n = q->cols - first < COLUMNS ? q->cols - first : COLUMNS;
    double by[COLUMNS] = {0};
    (void)thread;
    for (size_t i = first; i < (size_t)q->rows * q->cols; i += q->cols)
        for (size_t c = 0; c < n; c++) by[c] += (double)r->dw[i + c] * (double)r->values[i + c];
    for (size_t c = 0; c < n; c++) {
        const float now = q->levels[first + c], was = r->t->from->levels[first + c];
        r->d_scale[at + first + c] = now != 0.0f ? (float)(by[c] * (double)was / (double)now)
                                                 : 0.0f;
    }
}

static void weights_task(void *ctx, size_t row, unsigned thread)
{
    const struct rows *r = ctx;
    const struct pith_qmat *q = r->t->from;
    uint8_t *codes = r->t->codes + (size_t)thread * q->cols;
    float *dw = r->dw + row * q->cols;
    pith_qmat_get_codes(q, (uint32_t)row, codes);
    for (uint32_t c = 0; c < q->cols; c++) {
        const size_t index = pith_qmat_scale_index(q, (uint32_t)row, c / q->group);
        dw[c] *= r->t->now.scales[index] * r->t->apart[codes[c]];
    }
}

void pith_trained_gradient(const struct pith_trained *t, struct pith_backend *b,
                           const float *values, float *dw, float *d_scale)
{
    struct rows r = {.t = (struct pith_trained *)(uintptr_t)t,
                     .values = (float *)(uintptr_t)values,
                     .dw = dw,
                     .d_scale = d_scale};
    if (t->scales)
        pith_pool_run(pith_backend_pool(b), pith_qmat_scale_rows(&t->now), scales_task, &r);
    if (t->factors)
        pith_pool_run(pith_backend_pool(b), (t->factors + COLUMNS - 1) / COLUMNS, factors_task, &r);
    if (t->weights) pith_pool_run(pith_backend_pool(b), t->from->rows, weights_task, &r);
}

/* --- what comes of it ------------------------------------------------------------------------- */

/* A copy of what q holds, codes and scales apart. */
static enum pith_status copy_parts(const struct pith_qmat *q, struct pith_qmat *out,
                                   struct pith_error *err)
{
    const size_t scales = pith_qmat_scale_count(q), codes = (size_t)q->rows * q->stride;
    const size_t levels = q->levels ? pith_qmat_level_count(q) : 0;
    const size_t outer = q->outer ? (size_t)q->rows * (q->cols / PITH_KBLOCK) : 0;
    *out = *q;
    out->borrowed = false;
    out->nested = NULL;
    out->codes = pith_alloc(codes, 1);
    out->scales = pith_alloc(scales, sizeof *out->scales);
    out->levels = q->levels ? pith_alloc(levels, sizeof *out->levels) : NULL;
    out->zeros = q->zeros ? pith_alloc(scales, 1) : NULL;
    out->offsets = q->offsets ? pith_alloc(scales, sizeof *out->offsets) : NULL;
    out->outer = q->outer ? pith_alloc(outer, sizeof *out->outer) : NULL;
    out->g_idx = q->g_idx ? pith_alloc(q->cols, sizeof *out->g_idx) : NULL;
    if (!out->codes || !out->scales || (q->zeros && !out->zeros) ||
        (q->offsets && !out->offsets) || (q->outer && !out->outer) || (q->g_idx && !out->g_idx) ||
        (q->levels && !out->levels)) {
        pith_qmat_free(out);
        return pith_fail_nomem(err, "a matrix that was trained");
    }
    memcpy(out->codes, q->codes, codes);
    memcpy(out->scales, q->scales, scales * sizeof *q->scales);
    if (q->levels) memcpy(out->levels, q->levels, levels * sizeof *q->levels);
    if (q->zeros) memcpy(out->zeros, q->zeros, scales);
    if (q->offsets) memcpy(out->offsets, q->offsets, scales * sizeof *q->offsets);
    if (q->outer) memcpy(out->outer, q->outer, outer * sizeof *q->outer);
    if (q->g_idx) memcpy(out->g_idx, q->g_idx, q->cols * sizeof *q->g_idx);
    return PITH_OK;
}

enum pith_status pith_trained_matrix(struct pith_trained *t, struct pith_backend *b, float *p,
                                     float *values, struct pith_qmat *out, struct pith_error *err)
{
    struct rows r = {.t = t, .kern = pith_backend_kern(b), .p = p, .values = values, .made = out};
    place_scales(t, p);
    PITH_TRY(copy_parts(&t->now, out, err));
    all_values(&r, b);
    return PITH_OK;
}
