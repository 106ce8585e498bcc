/* Golden cases of rounders: NAME.json says of each how its weights, inputs and drifted inputs are
 * drawn, which grid and order it has and which loss the reference left; NAME.codes holds the codes
 * that it took, one case behind the other. */
#ifndef PITH_TEST_ORACLE_ROUND_H
#define PITH_TEST_ORACLE_ROUND_H

#include "oracle.h"

static inline double real_of(const json_t *obj, const char *key)
{
    return json_real_value(json_object_get(obj, key));
}

static inline enum pith_act_order order_of(const json_t *c)
{
    const char *text = text_of(c, "order");
    if (strcmp(text, "none") == 0) return PITH_ORDER_NONE;
    return strcmp(text, "static") == 0 ? PITH_ORDER_STATIC : PITH_ORDER_GROUP;
}

/* 2 (X' - X) X^T / n. */
static inline float *drift_of(const struct problem *p, const float *dx)
{
    const size_t n = p->cols;
    float *d = malloc(n * n * sizeof *d);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++) {
            double sum = 0;
            for (size_t t = 0; t < p->tokens; t++)
                sum += (double)dx[t * n + i] * (double)p->x[t * n + j];
            d[i * n + j] = (float)(2 * sum / p->tokens);
        }
    return d;
}

/* A case's weights, inputs and Hessian; *state goes on from there. */
static inline struct problem problem_drawn(const json_t *c, uint64_t *state)
{
    struct problem p = {.rows = count_of(c, "rows"), .cols = count_of(c, "cols")};
    *state = count_of(c, "seed");
    p.tokens = 2 * p.cols;
    p.w = oracle_weights(state, p.rows, p.cols);
    p.x = oracle_inputs(state, p.tokens, p.cols);
    p.h = malloc((size_t)p.cols * p.cols * sizeof *p.h);
    fill_hessian(&p);
    p.stats = (struct pith_stats){.dim = p.cols, .tokens = p.tokens, .hessian = p.h, .views = 1};
    return p;
}

/* The same with inputs that have drifted. */
static inline struct problem problem_drifted(const json_t *c, uint64_t *state)
{
    struct problem p = problem_drawn(c, state);
    float *dx = oracle_inputs(state, p.tokens, p.cols);
    for (size_t i = 0; i < (size_t)p.tokens * p.cols; i++) dx[i] = dx[i] / 8 + p.x[i] / 32;
    p.drift = drift_of(&p, dx);
    p.stats.drift = p.drift;
    free(dx);
    return p;
}

/* What a rounder did beside what the reference did. */
struct rounded_case {
    struct pith_round_report report;
    size_t codes, other; /* of all; that are not the reference's */
    size_t other_rows;   /* with a code that is not */
    double loss;         /* the reference's */
};

/* Rounds p by the case's form (gptq where it names none), grid and order; `codes` goes on behind
 * the case's. */
static inline struct rounded_case round_case(const json_t *c, const struct problem *p, FILE *codes)
{
    struct machine m = make_machine(2);
    const json_t *form = json_object_get(c, "form");
    const size_t n = (size_t)p->rows * p->cols;
    const struct pith_round_job job = {
        .backend = m.backend,
        .grid = grid_of(text_of(c, "grid")),
        .scale_dtype = PITH_F32,
        .options = {.damp = 0.01,
                    .act_order = order_of(c),
                    .drift = real_of(c, "alpha"),
                    .output_damp = real_of(c, "damp"),
                    .output_block = (uint32_t)json_integer_value(json_object_get(c, "block"))},
        .rows = p->rows,
        .cols = p->cols,
        .w = p->w,
        .stats = &p->stats};
    struct rounded_case r = {.codes = n, .loss = real_of(c, "loss")};
    const char *name = form ? json_string_value(form) : "gptq";
    uint8_t *want = malloc(n), *got = malloc(p->cols);
    struct pith_qmat q;
    struct pith_error err = {0};
    assert_int_equal(fread(want, 1, n, codes), n);
    assert_ok(pith_rounder_run(pith_rounder_find(name), &job, &q, &r.report, &err), err);
    for (uint32_t row = 0; row < p->rows; row++) {
        const size_t before = r.other;
        pith_qmat_get_codes(&q, row, got);
        for (size_t i = 0; i < p->cols; i++) r.other += got[i] != want[row * p->cols + i];
        r.other_rows += r.other != before;
    }
    print_message("%-9s %-14s %-6s loss %.6g, reference %.6g, nearest %.6g,"
                  " %zu codes of %zu differ\n",
                  name, text_of(c, "grid"), text_of(c, "order"), r.report.loss, r.loss,
                  r.report.nearest_loss, r.other, n);
    free(want), free(got);
    pith_qmat_free(&q);
    free_machine(&m);
    return r;
}

/* Each case of NAME.json with its codes; there are `count`. */
static inline void each_case(const char *name, size_t count, void (*check)(const json_t *, FILE *))
{
    char file[32], path[64];
    snprintf(file, sizeof file, "%s.json", name);
    snprintf(path, sizeof path, "tests/golden/quant/%s.codes", name);
    json_t *golden = load_golden(file);
    FILE *codes = fopen(path, "rb");
    assert_non_null(codes);
    size_t i;
    json_t *c;
    json_array_foreach (json_object_get(golden, "cases"), i, c) check(c, codes);
    assert_int_equal(i, count);
    fclose(codes);
    json_decref(golden);
}

#endif
