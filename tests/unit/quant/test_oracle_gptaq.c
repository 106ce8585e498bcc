/* The rounders gptaq and qep against their published formulas, in double precision. */
#include "oracle.h"

/* 2 (X' - X) X^T / n. */
static float *drift_of(const struct problem *p, const float *dx)
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

static struct problem problem_of(const json_t *c)
{
    uint64_t state = count_of(c, "seed");
    struct problem p = {.rows = count_of(c, "rows"), .cols = count_of(c, "cols")};
    p.tokens = 2 * p.cols;
    p.w = oracle_weights(&state, p.rows, p.cols);
    p.x = oracle_inputs(&state, p.tokens, p.cols);
    float *dx = oracle_inputs(&state, p.tokens, p.cols);
    for (size_t i = 0; i < (size_t)p.tokens * p.cols; i++) dx[i] = dx[i] / 8 + p.x[i] / 32;
    p.h = malloc((size_t)p.cols * p.cols * sizeof *p.h);
    fill_hessian(&p);
    p.drift = drift_of(&p, dx);
    p.stats = (struct pith_stats){
        .dim = p.cols, .tokens = p.tokens, .hessian = p.h, .drift = p.drift, .views = 1};
    free(dx);
    return p;
}

static void check_case(const json_t *c, FILE *codes)
{
    struct problem p = problem_of(c);
    struct machine m = make_machine(2);
    const size_t n = (size_t)p.rows * p.cols;
    const struct pith_round_job job = {
        .backend = m.backend,
        .grid = grid_of(text_of(c, "grid")),
        .scale_dtype = PITH_F32,
        .options = {.damp = 0.01,
                    .act_order = strcmp(text_of(c, "order"), "none") == 0 ? PITH_ORDER_NONE
                                                                          : PITH_ORDER_STATIC,
                    .drift = json_real_value(json_object_get(c, "alpha"))},
        .rows = p.rows,
        .cols = p.cols,
        .w = p.w,
        .stats = &p.stats};
    uint8_t *want = malloc(n), *got = malloc(n);
    struct pith_qmat q;
    struct pith_round_report report;
    struct pith_error err = {0};
    assert_int_equal(fread(want, 1, n, codes), n);
    assert_ok(pith_rounder_find(text_of(c, "form"))->run(&job, &q, &report, &err), err);
    /* A row goes its own way from the first weight on that lies between two codes. */
    size_t other = 0;
    for (uint32_t r = 0; r < p.rows; r++) {
        const size_t at = (size_t)r * p.cols;
        pith_qmat_get_codes(&q, r, got + at);
        other += memcmp(got + at, want + at, p.cols) != 0;
    }
    const double loss = json_real_value(json_object_get(c, "loss"));
    print_message("%-6s %-14s %-6s loss %.6g, formula %.6g, nearest %.6g, %zu rows of %u differ\n",
                  text_of(c, "form"), text_of(c, "grid"), text_of(c, "order"), report.loss, loss,
                  report.nearest_loss, other, p.rows);
    assert_true(fabs(report.loss - loss) <= 0.01 * loss);
    assert_true(report.loss < report.nearest_loss);
    assert_true(other <= 1);
    free(want), free(got);
    pith_qmat_free(&q);
    free_machine(&m);
    free_problem(&p);
}

static void codes_are_those_of_the_formulas(void **state)
{
    (void)state;
    json_t *golden = load_golden("gptaq.json");
    FILE *codes = fopen("tests/golden/quant/gptaq.codes", "rb");
    assert_non_null(codes);
    size_t i;
    json_t *c;
    json_array_foreach (json_object_get(golden, "cases"), i, c) check_case(c, codes);
    assert_int_equal(i, 10);
    fclose(codes);
    json_decref(golden);
}

/* Without drift, or when none of it is to be made up for, both are GPTQ to the byte. */
static void without_drift_both_are_gptq(void **state)
{
    (void)state;
    static const char *const forms[] = {"gptaq", "qep"};
    struct problem p = make_problem(3, 40, 160, 320);
    struct pith_error err = {0};
    memset(p.drift, 0, sizeof(float) * p.cols * p.cols);
    for (size_t f = 0; f < PITH_COUNT(forms); f++) {
        struct pith_qmat a, b;
        struct pith_round_report one, other;
        assert_ok(run_rounder("gptq", &p, "int4:g32", PITH_ORDER_STATIC, 1, &a, &one, &err), err);
        assert_ok(run_rounder(forms[f], &p, "int4:g32", PITH_ORDER_STATIC, 1, &b, &other, &err),
                  err);
        assert_memory_equal(a.codes, b.codes, a.rows * a.stride);
        assert_true(one.loss <= other.loss); /* which counts the damping */
        pith_qmat_free(&a), pith_qmat_free(&b);
    }
    free_problem(&p);
}

/* The same Hessian for each group of rows is one Hessian for all. */
static void groups_of_rows_are_matrices_of_their_own(void **state)
{
    (void)state;
    static const char *const grids[] = {"int3:g32:asym", "q4_k", "nvfp4", "codebook3:channel",
                                        "int4:channel"};
    static const char *const forms[] = {"gptq:guided", "gptaq:guided", "qep:guided",
                                        "weighted:guided"};
    enum { VIEWS = 3 };
    struct problem p = make_problem(8, 70, 256, 300);
    const size_t square = (size_t)p.cols * p.cols;
    float *h = malloc(VIEWS * square * sizeof *h), *d = malloc(VIEWS * square * sizeof *d);
    float squares[VIEWS * 256];
    for (size_t i = 0; i < VIEWS * p.cols; i++) squares[i] = p.h[i % p.cols * (p.cols + 1)] / 2;
    p.stats.squares = squares;
    for (size_t v = 0; v < VIEWS; v++) {
        memcpy(h + v * square, p.h, square * sizeof *h);
        memcpy(d + v * square, p.drift, square * sizeof *d);
    }
    for (size_t f = 0; f < PITH_COUNT(forms); f++)
        for (size_t g = 0; g < PITH_COUNT(grids); g++) {
            struct pith_qmat a, b;
            struct pith_round_report one, other;
            struct pith_error err = {0};
            struct problem cut = p;
            cut.stats.hessian = h;
            cut.stats.drift = d;
            cut.stats.views = VIEWS;
            assert_ok(run_rounder(forms[f], &p, grids[g], PITH_ORDER_STATIC, 2, &a, &one, &err),
                      err);
            assert_ok(run_rounder(forms[f], &cut, grids[g], PITH_ORDER_STATIC, 1, &b, &other, &err),
                      err);
            float *x = decode_all(&a), *y = decode_all(&b);
            assert_memory_equal(x, y, sizeof *x * p.rows * p.cols);
            assert_true(fabs(one.loss - other.loss) < 1e-5 * one.loss);
            free(x), free(y);
            pith_qmat_free(&a), pith_qmat_free(&b);
        }
    /* One group's Hessian has no say in another's rows. */
    struct pith_qmat a, b;
    struct pith_round_report report;
    struct pith_error err = {0};
    struct problem cut = p;
    for (size_t i = 0; i < p.cols; i++) h[2 * square + i * (p.cols + 1)] *= (float)(1 + i % 5);
    cut.stats.hessian = h;
    cut.stats.views = VIEWS;
    assert_ok(run_rounder("gptq:guided", &p, "int3:g32", PITH_ORDER_STATIC, 1, &a, &report, &err),
              err);
    assert_ok(run_rounder("gptq:guided", &cut, "int3:g32", PITH_ORDER_STATIC, 1, &b, &report, &err),
              err);
    const uint32_t last = pith_rows_from(VIEWS, 2, p.rows);
    assert_memory_equal(a.codes, b.codes, last * a.stride);
    assert_memory_not_equal(a.codes + last * a.stride, b.codes + last * a.stride,
                            (p.rows - last) * a.stride);
    pith_qmat_free(&a), pith_qmat_free(&b);
    assert_int_equal(
        run_rounder("gptq:guided", &cut, "int4:tensor", PITH_ORDER_STATIC, 1, &a, &report, &err),
        PITH_UNSUPPORTED);
    assert_int_equal(
        run_rounder("gptq:guided", &cut, "int4:g32", PITH_ORDER_GROUP, 1, &a, &report, &err),
        PITH_UNSUPPORTED);
    free(h), free(d);
    free_problem(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_are_those_of_the_formulas),
        cmocka_unit_test(without_drift_both_are_gptq),
        cmocka_unit_test(groups_of_rows_are_matrices_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
