/* What the tests of quant/ share: seeded problems whose inputs are correlated and have outlier
 * channels, and sums in double precision. */
#ifndef PITH_QUANT_TEST_H
#define PITH_QUANT_TEST_H

#include "base/cpu.h"
#include "base/mem.h"
#include "base/rng.h"
#include "quant/round.h"
#include "test.h"

#include <math.h>

enum { OUTPUTS = 64 };

struct problem {
    uint32_t rows, cols, tokens;
    float *w, *x, *h; /* h = 2 x^T x / tokens */
    float *drift;     /* as of inputs that were a thirtieth more, and noise */
    float *outputs;   /* neighbours are felt together; in blocks of OUTPUTS */
    struct pith_stats stats;
};

static inline float *random_floats(struct pith_rng *rng, size_t n, double sigma)
{
    float *p = malloc(n * sizeof *p);
    for (size_t i = 0; i < n; i++) p[i] = (float)(sigma * pith_rng_normal(rng));
    return p;
}

/* The matrix of the golden files of grids, from the same generator. */
static inline float *golden_matrix(int rows, int cols)
{
    uint32_t x = 2463534242u;
    float *w = malloc(sizeof(float) * (size_t)(rows * cols));
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < cols; c++) {
            int total = -131070;
            for (int k = 0; k < 2; k++) {
                x ^= x << 13;
                x ^= x >> 17;
                x ^= x << 5;
                total += (int)(x & 0xffff) + (int)(x >> 16);
            }
            w[r * cols + c] = ldexpf((float)total, -20 - r % 5 + (c % 37 == 5 ? 4 : 0));
        }
    return w;
}

static inline void fill_hessian(struct problem *p)
{
    for (uint32_t i = 0; i < p->cols; i++)
        for (uint32_t j = 0; j < p->cols; j++) {
            double sum = 0.0;
            for (uint32_t t = 0; t < p->tokens; t++)
                sum += (double)p->x[t * p->cols + i] * (double)p->x[t * p->cols + j];
            p->h[i * p->cols + j] = (float)(2.0 * sum / p->tokens);
        }
}

/* Blocks of the mean over tokens of g g^T, for g[tokens][rows] in float32. */
static inline float *outputs_of(const float *g, uint32_t tokens, uint32_t rows, uint32_t block)
{
    float *h = malloc(pith_outputs_at(rows, block, rows) * sizeof *h);
    for (uint32_t first = 0; first < rows; first += block) {
        const uint32_t n = rows - first < block ? rows - first : block;
        float *b = h + pith_outputs_at(rows, block, first);
        for (uint32_t i = 0; i < n * n; i++) {
            double sum = 0;
            for (uint32_t t = 0; t < tokens; t++)
                sum += (double)g[t * rows + first + i / n] * (double)g[t * rows + first + i % n];
            b[i] = (float)(sum / tokens);
        }
    }
    return h;
}

/* Neighbouring inputs share a moving average; every 37th is ten times as large. */
static inline struct problem make_problem(uint64_t seed, uint32_t rows, uint32_t cols,
                                          uint32_t tokens)
{
    struct pith_rng rng;
    pith_rng_seed(&rng, seed);
    struct problem p = {.rows = rows, .cols = cols, .tokens = tokens};
    p.w = random_floats(&rng, (size_t)rows * cols, 0.05);
    p.x = random_floats(&rng, (size_t)tokens * cols, 1.0);
    p.h = malloc((size_t)cols * cols * sizeof *p.h);
    for (uint32_t t = 0; t < tokens; t++) {
        float *x = p.x + (size_t)t * cols;
        for (uint32_t c = 1; c < cols; c++) x[c] = 0.8f * x[c - 1] + 0.6f * x[c];
        for (uint32_t c = 5; c < cols; c += 37) x[c] *= 10.0f;
    }
    fill_hessian(&p);
    p.drift = random_floats(&rng, (size_t)cols * cols, 0.02);
    for (size_t i = 0; i < (size_t)cols * cols; i++) p.drift[i] += p.h[i] / 30;
    p.stats = (struct pith_stats){
        .dim = cols, .tokens = tokens, .hessian = p.h, .drift = p.drift, .views = 1};
    float *g = random_floats(&rng, 32 * rows, 1.0);
    for (uint32_t i = 1; i < 32 * rows; i++) g[i] = 0.8f * g[i - 1] + 0.6f * g[i];
    p.stats.outputs = p.outputs = outputs_of(g, 32, rows, OUTPUTS);
    p.stats.output_block = OUTPUTS;
    free(g);
    return p;
}

static inline void free_problem(struct problem *p)
{
    free(p->w);
    free(p->x);
    free(p->h);
    free(p->drift);
    free(p->outputs);
}

static inline struct pith_grid grid_of(const char *text)
{
    struct pith_grid g;
    struct pith_error err = {0};
    assert_ok(pith_grid_parse(text, &g, &err), err);
    return g;
}

struct machine {
    struct pith_pool *pool;
    struct pith_backend *backend;
};

static inline struct machine make_machine(unsigned threads)
{
    struct machine m = {0};
    struct pith_error err = {0};
    assert_ok(pith_pool_new(threads, &m.pool, &err), err);
    assert_ok(pith_backend_new(m.pool, PITH_CPU_ALL, &m.backend, &err), err);
    return m;
}

static inline void free_machine(struct machine *m)
{
    pith_backend_free(m->backend);
    pith_pool_free(m->pool);
}

/* tr((W - Q) H (W - Q)^T) / rows in double. */
static inline double exact_loss(const struct problem *p, const float *q)
{
    double total = 0.0;
    for (uint32_t r = 0; r < p->rows; r++)
        for (uint32_t i = 0; i < p->cols; i++) {
            const size_t at = (size_t)r * p->cols;
            double sum = 0.0;
            for (uint32_t j = 0; j < p->cols; j++)
                sum += (double)p->h[(size_t)i * p->cols + j] *
                       ((double)p->w[at + j] - (double)q[at + j]);
            total += sum * ((double)p->w[at + i] - (double)q[at + i]);
        }
    return total / p->rows;
}

static inline float *decode_all(const struct pith_qmat *q)
{
    float *out = malloc((size_t)q->rows * q->cols * sizeof *out);
    pith_qmat_decode(q, 0, q->rows, out);
    return out;
}

/* A job on w, a copy of the problem's weights. */
static inline struct pith_round_job problem_job(const struct problem *p, const struct machine *m,
                                                const char *grid, enum pith_act_order order,
                                                float *w)
{
    memcpy(w, p->w, (size_t)p->rows * p->cols * sizeof(float));
    return (struct pith_round_job){.backend = m->backend,
                                   .grid = grid_of(grid),
                                   .scale_dtype = PITH_F32,
                                   .options = {.damp = 0.01,
                                               .act_order = order,
                                               .drift = 1,
                                               .output_damp = 0.01,
                                               .output_block = OUTPUTS},
                                   .rows = p->rows,
                                   .cols = p->cols,
                                   .w = w,
                                   .stats = &p->stats};
}

/* Runs a rounder on a copy of the problem's weights. */
static inline enum pith_status run_rounder(const char *name, const struct problem *p,
                                           const char *grid, enum pith_act_order order,
                                           unsigned threads, struct pith_qmat *q,
                                           struct pith_round_report *report, struct pith_error *err)
{
    struct machine m = make_machine(threads);
    const size_t bytes = (size_t)p->rows * p->cols * sizeof(float);
    float *w = malloc(bytes);
    const struct pith_round_job job = problem_job(p, &m, grid, order, w);
    const enum pith_status s = pith_rounder_run(pith_rounder_find(name), &job, q, report, err);
    if (s == PITH_OK && report->dead_columns == 0) { /* the error is left in w */
        float *values = decode_all(q);
        for (size_t i = 0; i < bytes / sizeof *w; i++) assert_true(w[i] == p->w[i] - values[i]);
        free(values);
    }
    free(w);
    free_machine(&m);
    return s;
}

#endif
