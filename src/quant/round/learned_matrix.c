#include "quant/round/learned_matrix.h"

#include "base/arena.h"
#include "base/mem.h"
#include "kern/grid.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { LANES = 8 };

/* --- one group -------------------------------------------------------------------------------- */

static inline float round_even(float x)
{
    return (x + PITH_GRID_MAGIC) - PITH_GRID_MAGIC;
}

static inline float clamp(float x, float lo, float hi)
{
    x = x > lo ? x : lo;
    return x < hi ? x : hi;
}

/* Some weights that share a scale. */
struct group {
    size_t n;
    const float *w, *grad;
    float *v, *values;
    uint8_t *codes; /* NULL: not wanted */
    float scale, zero, top;
    const struct pith_format *format; /* NULL: integers */
};

/* The unsigned code of an integer grid before it is cut off, of a weight of u times the scale. */
static inline float code_of(const struct group *g, size_t i, float u)
{
    return round_even(clamp(u + g->v[i], -0x1p20f, 0x1p20f)) + g->zero;
}

static inline float raw_code(const struct group *g, size_t i)
{
    return code_of(g, i, g->w[i] / g->scale);
}

static void integer_values(const struct group *g)
{
    for (size_t i = 0; i < g->n; i++)
        g->values[i] = (clamp(raw_code(g, i), 0.0f, g->top) - g->zero) * g->scale;
}

static void integer_codes(const struct group *g)
{
    for (size_t i = 0; i < g->n; i++) g->codes[i] = (uint8_t)clamp(raw_code(g, i), 0.0f, g->top);
}

static inline float sign(double x)
{
    return x > 0.0 ? 1.0f : x < 0.0 ? -1.0f : 0.0f;
}

/* v moves against the gradient of its value, whose sign is that of d and the scale. */
static inline void step_offset(const struct group *g, size_t i, float rate)
{
    const float by = g->scale < 0.0f ? -rate : rate, d = g->grad[i];
    g->v[i] = clamp(g->v[i] - (d > 0.0f ? by : d < 0.0f ? -by : 0.0f), -0.5f, 0.5f);
}

/* Steps v, and sums what the gradients of scale and zero are made of: value = s (round(w / s + v))
 * inside, whose derivative by s is (code - zero) - w / s; s (code - zero) where it is cut off. */
static void integer_step(const struct group *g, float rate, double *by_scale, double *by_zero)
{
    double scale[LANES] = {0}, zero[LANES] = {0};
    for (size_t i = 0; i < g->n; i++) {
        const float u = g->w[i] / g->scale, raw = code_of(g, i, u), d = g->grad[i];
        const float code = clamp(raw, 0.0f, g->top);
        const bool inside = raw == code;
        const float by_s = code - g->zero - (inside ? u : 0.0f);
        scale[i % LANES] += (double)(d * by_s);
        zero[i % LANES] -= inside ? 0.0 : (double)(d * g->scale);
        if (inside) step_offset(g, i, rate);
    }
    *by_scale = *by_zero = 0.0;
    for (size_t l = 0; l < LANES; l++) {
        *by_scale += scale[l];
        *by_zero += zero[l];
    }
}

/* The distance from |t| to the next value of a float format, |t| within its range. */
static float spacing(const struct pith_format *f, float t)
{
    int e;
    const int least = 2 - (1 << (f->exponent_bits - 1)); /* exponent of the smallest normal */
    frexpf(t, &e);
    e = t != 0.0f && e - 1 > least ? e - 1 : least;
    return ldexpf(1.0f, e - f->mantissa_bits);
}

static float float_shifted(const struct group *g, size_t i, float *unit)
{
    const float t = g->w[i] / g->scale;
    *unit = spacing(g->format, clamp(t, -g->format->max, g->format->max));
    return t + g->v[i] * *unit;
}

static void float_values(const struct group *g)
{
    float unit;
    for (size_t i = 0; i < g->n; i++)
        g->values[i] = g->format->decode(g->format->encode(float_shifted(g, i, &unit))) * g->scale;
}

static void float_codes(const struct group *g)
{
    float unit;
    for (size_t i = 0; i < g->n; i++)
        g->codes[i] = (uint8_t)g->format->encode(float_shifted(g, i, &unit));
}

static void float_step(const struct group *g, float rate)
{
    for (size_t i = 0; i < g->n; i++) {
        float unit;
        if (fabsf(float_shifted(g, i, &unit)) <= g->format->max) step_offset(g, i, rate);
    }
}

/* --- rows ------------------------------------------------------------------------------------- */

static float top_of(const struct pith_qmat *q)
{
    return (float)((1u << q->format->bits) - 1);
}

static struct group group_at(const struct pith_learned_matrix *m, uint32_t row, uint32_t group)
{
    const struct pith_qmat *q = &m->now;
    const size_t index = pith_qmat_scale_index(q, row, group);
    const size_t first = (size_t)group * q->group, at = (size_t)row * q->cols + first;
    return (struct group){.n = q->cols - first < q->group ? q->cols - first : q->group,
                          .w = m->m->w + at,
                          .grad = m->m->grad + at,
                          .v = m->v + at,
                          .values = m->m->values + at,
                          .scale = q->scales[index],
                          .zero = pith_qmat_zero(q, index),
                          .top = top_of(q),
                          .format = m->lo ? NULL : q->format};
}

struct rows {
    struct pith_learned_matrix *m;
    float rate;
};

static void values_task(void *ctx, size_t row, unsigned thread)
{
    const struct rows *r = ctx;
    const struct pith_qmat *q = &r->m->now;
    (void)thread;
    memset(r->m->m->grad + row * q->cols, 0, q->cols * sizeof *r->m->m->grad);
    for (uint32_t i = 0; i < q->groups; i++) {
        const struct group g = group_at(r->m, (uint32_t)row, i);
        if (g.format) float_values(&g);
        else integer_values(&g);
    }
}

static void step_task(void *ctx, size_t row, unsigned thread)
{
    const struct rows *r = ctx;
    const struct pith_qmat *q = &r->m->now;
    (void)thread;
    for (uint32_t i = 0; i < q->groups; i++) {
        const struct group g = group_at(r->m, (uint32_t)row, i);
        const size_t at = row * q->groups + i;
        if (g.format) float_step(&g, r->rate);
        else integer_step(&g, r->rate, &r->m->by_scale[at], &r->m->by_zero[at]);
    }
}

static void codes_task(void *ctx, size_t row, unsigned thread)
{
    const struct rows *r = ctx;
    struct pith_qmat *q = &r->m->now;
    uint8_t *codes = r->m->codes + (size_t)thread * q->cols;
    for (uint32_t i = 0; i < q->groups; i++) {
        struct group g = group_at(r->m, (uint32_t)row, i);
        g.codes = codes + (size_t)i * q->group;
        if (g.format) float_codes(&g);
        else integer_codes(&g);
    }
    pith_qmat_set_codes(q, (uint32_t)row, codes);
}

static struct pith_pool *pool_of(const struct pith_learned_matrix *m)
{
    return pith_backend_pool(m->backend);
}

/* --- ranges and scales ------------------------------------------------------------------------ */

static float nonzero(enum pith_dtype t, float scale)
{
    const float r = pith_round_to(t, scale), least = t == PITH_F16 ? 0x1p-14f : FLT_MIN;
    return r != 0.0f ? r : scale < 0.0f ? -least : least;
}

static void place(struct pith_learned_matrix *m)
{
    struct pith_qmat *q = &m->now;
    const size_t count = pith_qmat_scale_count(q);
    const float top = top_of(q), half = (float)pith_format_middle(q->format);
    for (size_t i = 0; m->lo && i < count; i++) {
        const float lo = m->alpha[i] * m->lo[i], hi = m->beta[i] * m->hi[i];
        if (m->lo[i] == 0.0f && m->hi[i] == 0.0f) {
            q->scales[i] = 1.0f;
        } else if (q->zeros) {
            q->scales[i] = nonzero(q->scale_dtype, (hi - lo) / top);
            q->zeros[i] = (uint8_t)clamp(round_even(clamp(-lo / q->scales[i], 0.0f, top)), 0, top);
        } else {
            q->scales[i] = nonzero(q->scale_dtype, (hi >= -lo ? -hi : -lo) / half);
        }
    }
}

/* The gradients of a range's ends, from those of scale and zero; only their signs matter. */
static void range_step(struct pith_learned_matrix *m, size_t i, double by_scale, double by_zero,
                       float rate)
{
    const struct pith_qmat *q = &m->now;
    const double lo = (double)(m->alpha[i] * m->lo[i]), hi = (double)(m->beta[i] * m->hi[i]);
    const double s = (double)q->scales[i];
    double by_lo, by_hi;
    if (q->zeros) {
        const double whole = by_scale + by_zero * lo / (s * s);
        by_lo = -whole - by_zero / s * (double)top_of(q);
        by_hi = whole;
    } else {
        by_hi = hi >= -lo ? -by_scale : 0.0;
        by_lo = hi >= -lo ? 0.0 : -by_scale;
    }
    const float down = sign(by_lo * (double)m->lo[i]), up = sign(by_hi * (double)m->hi[i]);
    m->alpha[i] = clamp(m->alpha[i] - rate * down, 0.0f, 1.0f);
    m->beta[i] = clamp(m->beta[i] - rate * up, 0.0f, 1.0f);
}

static void step_ranges(struct pith_learned_matrix *m, float rate)
{
    const struct pith_qmat *q = &m->now;
    const size_t rows = pith_qmat_scale_rows(q);
    for (size_t r = 0; r < rows; r++)
        for (size_t g = 0; g < q->groups; g++) {
            const size_t first = r * q->row_group;
            double by_scale = 0.0, by_zero = 0.0;
            for (size_t i = first; i < q->rows && i - first < q->row_group; i++) {
                by_scale += m->by_scale[i * q->groups + g];
                by_zero += m->by_zero[i * q->groups + g];
            }
            range_step(m, r * q->groups + g, by_scale, by_zero, rate);
        }
}

static void find_ranges(struct pith_learned_matrix *m)
{
    const struct pith_qmat *q = &m->now;
    const struct pith_kern *k = pith_backend_kern(m->backend);
    const size_t count = pith_qmat_scale_count(q);
    memset(m->lo, 0, count * sizeof *m->lo);
    memset(m->hi, 0, count * sizeof *m->hi);
    for (uint32_t row = 0; row < q->rows; row++)
        for (uint32_t i = 0; i < q->groups; i++) {
            const struct group g = group_at(m, row, i);
            const size_t at = pith_qmat_scale_index(q, row, i);
            float lo, hi;
            k->range(g.n, g.w, &lo, &hi);
            if (lo < m->lo[at]) m->lo[at] = lo;
            if (hi > m->hi[at]) m->hi[at] = hi;
        }
}

/* Where the factors begin: at the whole range, or, for a grid with a search, at the scale that the
 * search has found. */
static float first_factor(const struct pith_learned_matrix *m, size_t i)
{
    const struct pith_qmat *q = &m->now;
    const float top = top_of(q), widest = m->hi[i] > -m->lo[i] ? m->hi[i] : -m->lo[i];
    const float whole = q->zeros ? (m->hi[i] - m->lo[i]) / top
                                 : widest / (float)pith_format_middle(q->format);
    return m->m->grid.mse && whole > 0.0f ? clamp(q->scales[i] / whole, 0.0f, 1.0f) : 1.0f;
}

/* --- the matrix ------------------------------------------------------------------------------- */

/* A float format that has neighbours to choose between: E8M0 has no mantissa or sign. */
static bool is_float(const struct pith_format *f)
{
    return f->kind == PITH_KIND_FLOAT && f->mantissa_bits > 0 && f->bits <= 8;
}

static enum pith_status check_grid(const struct pith_learned_matrix *m, struct pith_error *err)
{
    char text[PITH_GRID_TEXT];
    const struct pith_format *f = m->now.format;
    pith_grid_format(&m->m->grid, text);
    if (m->now.gguf || m->now.offsets)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "rounding on the grid %s cannot be learned: %s; use `round=gptq`", text,
                         m->now.gguf ? "its scales are in blocks"
                                     : "its zero points are no range's");
    if (f->kind == PITH_KIND_INT || is_float(f)) return PITH_OK;
    return pith_fail(err, PITH_UNSUPPORTED,
                     "rounding on the grid %s cannot be learned: an offset before rounding means"
                     " nothing between the levels of a codebook; use `round=nearest`",
                     text);
}

static void layout_matrix(struct pith_arena *a, const struct pith_round_member *member,
                          unsigned threads, struct pith_learned_matrix *m)
{
    const size_t group = pith_grid_group(&member->grid, member->cols);
    const size_t rows = member->rows, groups = (member->cols + group - 1) / group;
    const bool range = member->grid.format->kind == PITH_KIND_INT;
    const size_t scales = range ? pith_grid_scale_rows(&member->grid, member->rows) * groups : 0;
    m->v = pith_arena_take_rows(a, rows, member->cols, sizeof *m->v);
    m->codes = pith_arena_take(a, threads, member->cols);
    m->by_scale = pith_arena_take_rows(a, rows, groups, sizeof *m->by_scale);
    m->by_zero = pith_arena_take_rows(a, rows, groups, sizeof *m->by_zero);
    m->lo = pith_arena_take(a, scales, sizeof *m->lo);
    m->hi = pith_arena_take(a, scales, sizeof *m->hi);
    m->alpha = pith_arena_take(a, scales, sizeof *m->alpha);
    m->beta = pith_arena_take(a, scales, sizeof *m->beta);
}

static enum pith_status take_matrix_memory(struct pith_learned_matrix *m, struct pith_error *err)
{
    const unsigned threads = pith_pool_threads(pool_of(m));
    struct pith_arena a = {0};
    layout_matrix(&a, m->m, threads, m);
    if (!pith_arena_open(&a)) return pith_fail_nomem(err, "learned rounding");
    layout_matrix(&a, m->m, threads, m);
    m->memory = a.base;
    return PITH_OK;
}

enum pith_status pith_learned_begin(struct pith_learned_matrix *m, struct pith_backend *b,
                                    const struct pith_round_member *member, struct pith_error *err)
{
    *m = (struct pith_learned_matrix){.backend = b, .m = member};
    memcpy(member->values, member->w, (size_t)member->rows * member->cols * sizeof *member->w);
    const struct pith_round_job job = {.backend = b,
                                       .grid = member->grid,
                                       .scale_dtype = member->scale_dtype,
                                       .global = member->global,
                                       .rows = member->rows,
                                       .cols = member->cols,
                                       .w = member->values};
    enum pith_status s = pith_round_begin(&job, &m->now, err);
    if (s == PITH_OK) s = check_grid(m, err);
    if (s == PITH_OK) s = pith_round_begin(&job, &m->best, err);
    if (s == PITH_OK) s = take_matrix_memory(m, err);
    if (s != PITH_OK) pith_learned_free(m);
    return s;
}

void pith_learned_free(struct pith_learned_matrix *m)
{
    pith_qmat_free(&m->now);
    pith_qmat_free(&m->best);
    pith_free(m->memory);
    *m = (struct pith_learned_matrix){0};
}

uint64_t pith_learned_bytes(const struct pith_round_member *member, unsigned threads)
{
    struct pith_learned_matrix m;
    struct pith_arena a = {0};
    layout_matrix(&a, member, threads, &m);
    const uint64_t q = pith_qmat_bytes(member->rows, member->cols, &member->grid);
    return pith_sum_bytes(pith_arena_bytes(&a), 2 * q);
}

static void nearest_task(void *ctx, size_t row, unsigned thread)
{
    const struct rows *r = ctx;
    struct pith_qmat *q = &r->m->now;
    uint8_t *codes = r->m->codes + (size_t)thread * q->cols;
    pith_quantize_row(pith_backend_kern(r->m->backend), q, (uint32_t)row,
                      r->m->m->w + row * q->cols, codes, NULL);
    pith_qmat_set_codes(q, (uint32_t)row, codes);
}

enum pith_status pith_learned_nearest(struct pith_learned_matrix *m, struct pith_error *err)
{
    struct rows r = {.m = m};
    PITH_TRY(pith_fit_scales(m->backend, &m->m->grid, m->m->w, &m->now, err));
    pith_pool_run(pool_of(m), m->now.rows, nearest_task, &r);
    return PITH_OK;
}

void pith_learned_reset(struct pith_learned_matrix *m)
{
    memset(m->v, 0, (size_t)m->now.rows * m->now.cols * sizeof *m->v);
    if (!m->lo) return;
    find_ranges(m);
    for (size_t i = 0; i < pith_qmat_scale_count(&m->now); i++)
        m->alpha[i] = m->beta[i] = first_factor(m, i);
}

void pith_learned_values(struct pith_learned_matrix *m)
{
    struct rows r = {.m = m};
    place(m);
    pith_pool_run(pool_of(m), m->now.rows, values_task, &r);
}

void pith_learned_step(struct pith_learned_matrix *m, float rate)
{
    struct rows r = {.m = m, .rate = rate};
    pith_pool_run(pool_of(m), m->now.rows, step_task, &r);
    if (m->lo) step_ranges(m, rate);
}

void pith_learned_keep_codes(struct pith_learned_matrix *m)
{
    const size_t scales = pith_qmat_scale_count(&m->now);
    memcpy(m->best.codes, m->now.codes, m->now.rows * m->now.stride);
    memcpy(m->best.scales, m->now.scales, scales * sizeof *m->now.scales);
    if (m->now.zeros) memcpy(m->best.zeros, m->now.zeros, scales);
    m->best.global = m->now.global;
}

void pith_learned_keep(struct pith_learned_matrix *m)
{
    struct rows r = {.m = m};
    pith_pool_run(pool_of(m), m->now.rows, codes_task, &r);
    pith_learned_keep_codes(m);
}

struct decode {
    const struct pith_qmat *q;
    float *values;
};

static void decode_task(void *ctx, size_t row, unsigned thread)
{
    const struct decode *d = ctx;
    (void)thread;
    pith_qmat_decode(d->q, (uint32_t)row, 1, d->values + row * d->q->cols);
}

void pith_learned_decode(const struct pith_learned_matrix *m, const struct pith_qmat *q)
{
    struct decode d = {.q = q, .values = m->m->values};
    pith_pool_run(pool_of(m), q->rows, decode_task, &d);
}
