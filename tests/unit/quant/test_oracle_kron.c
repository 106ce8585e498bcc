/* The rounders gptq:kron and qep:kron against YAQA's formulas, in double precision. */
#include "oracle_round.h"
#include "quant/round/kron.h"

#include <math.h>

/* A weight that lies between two codes sends those after it another way: few weights may, and of
 * the loss little. */
static float *again(const float *x, size_t count, uint32_t times)
{
    float *all = malloc(times * count * sizeof *all);
    for (uint32_t i = 0; i < times; i++) memcpy(all + i * count, x, count * sizeof *all);
    return all;
}

/* Of each group of rows, from gradients g[tokens][rows]. */
static float *outputs_by_group(const float *g, const struct problem *p, uint32_t block)
{
    const uint32_t rows = p->rows, groups = p->stats.views;
    float *all = malloc(pith_outputs_of(rows, block, groups, groups) * sizeof *all);
    for (uint32_t k = 0; k < groups; k++) {
        const uint32_t from = pith_rows_from(groups, k, rows),
                       n = pith_rows_from(groups, k + 1, rows) - from;
        float *own = malloc(sizeof *own * 2 * rows * n);
        for (size_t t = 0; t < 2 * rows; t++)
            memcpy(own + t * n, g + t * rows + from, n * sizeof *own);
        float *h = outputs_of(own, 2 * rows, n, block);
        memcpy(all + pith_outputs_of(rows, block, groups, k), h,
               pith_outputs_at(n, block, n) * sizeof *h);
        free(own), free(h);
    }
    return all;
}

static void check_case(const json_t *c, FILE *codes)
{
    uint64_t state;
    struct problem p = problem_drifted(c, &state);
    float *g = oracle_inputs(&state, 2 * p.rows, p.rows), by[160];
    const uint32_t block = pith_output_block(count_of(c, "block"));
    const size_t square = (size_t)p.cols * p.cols;
    p.stats.views = count_of(c, "groups");
    p.outputs = outputs_by_group(g, &p, block);
    p.stats.outputs = p.outputs;
    p.stats.output_block = block;
    assert_true(p.rows <= PITH_COUNT(by));
    for (uint32_t r = 0; r < p.rows; r++) by[r] = 0.25f + (float)(r * 7 % 5);
    p.stats.outputs_by = json_is_true(json_object_get(c, "by")) ? by : NULL;
    float *h = p.stats.hessian = again(p.h, square, p.stats.views);
    float *drift = p.stats.drift = again(p.drift, square, p.stats.views);
    const struct rounded_case r = round_case(c, &p, codes);
    assert_true(fabs(r.report.loss - r.loss) <= 0.01 * r.loss);
    assert_true(r.report.loss < r.report.nearest_loss);
    assert_true(r.other * 100 <= r.codes);
    free(g), free(h), free(drift);
    free_problem(&p);
}

static void codes_are_those_of_the_formulas(void **state)
{
    (void)state;
    each_case("kron", 10, check_case);
}

/* Outputs that are felt each for itself and all the same, or not at all: GPTQ to the byte. */
static void without_pairs_it_is_gptq(void **state)
{
    (void)state;
    static const char *const grids[] = {"int4:g32", "q4_k", "nvfp4", "codebook3:channel",
                                        "int3:g64:asym"};
    static const char *const forms[][2] = {{"gptq", "gptq:kron"}, {"qep", "qep:kron"}};
    struct problem p = make_problem(3, 70, 256, 320);
    struct pith_error err = {0};
    for (int felt = 0; felt < 2; felt++) {
        memset(p.outputs, 0, sizeof(float) * p.rows * OUTPUTS);
        for (uint32_t first = 0; felt && first < p.rows; first += OUTPUTS) {
            const size_t n = p.rows - first < OUTPUTS ? p.rows - first : OUTPUTS;
            for (size_t i = 0; i < n; i++) p.outputs[first * OUTPUTS + i * (n + 1)] = 3;
        }
        for (size_t f = 0; f < PITH_COUNT(forms); f++)
            for (size_t g = 0; g < PITH_COUNT(grids); g++) {
                struct pith_qmat a, b;
                struct pith_round_report one, other;
                assert_ok(
                    run_rounder(forms[f][0], &p, grids[g], PITH_ORDER_STATIC, 1, &a, &one, &err),
                    err);
                assert_ok(
                    run_rounder(forms[f][1], &p, grids[g], PITH_ORDER_STATIC, 3, &b, &other, &err),
                    err);
                assert_memory_equal(a.codes, b.codes, a.rows * a.stride);
                assert_true(fabs(other.loss / one.loss - (felt ? 1.01 : 1)) < 1e-4);
                pith_qmat_free(&a), pith_qmat_free(&b);
            }
    }
    free_problem(&p);
}

/* What it is for: less of what is felt, on every grid. */
static void less_is_felt_than_of_gptq(void **state)
{
    (void)state;
    static const char *const grids[] = {"int4:g32", "q4_k", "nvfp4", "codebook3:channel",
                                        "int3:g64:asym"};
    struct problem p = make_problem(4, 150, 256, 320);
    struct machine m = make_machine(1);
    struct pith_outputs o = {p.rows, OUTPUTS, malloc(sizeof(float) * p.rows * OUTPUTS),
                             malloc(sizeof(float) * p.rows)};
    struct pith_error err = {0};
    const struct pith_outputs_felt felt = {p.outputs, NULL};
    assert_ok(pith_outputs_make(&o, m.backend, &felt, 0.01, &err), err);
    for (size_t g = 0; g < PITH_COUNT(grids); g++) {
        struct pith_qmat a, b;
        struct pith_round_report plain, report;
        double loss;
        assert_ok(run_rounder("gptq", &p, grids[g], PITH_ORDER_STATIC, 1, &a, &plain, &err), err);
        assert_ok(run_rounder("gptq:kron", &p, grids[g], PITH_ORDER_STATIC, 1, &b, &report, &err),
                  err);
        float *d = decode_all(&a);
        for (size_t i = 0; i < (size_t)p.rows * p.cols; i++) d[i] = p.w[i] - d[i];
        double squares = 0;
        float *column = malloc(p.rows * sizeof *column);
        for (uint32_t r = 0; r < p.rows; r++) column[r] = d[r * p.cols + 9];
        squares = pith_outputs_square(&o, column);
        pith_outputs_weigh(&o, m.backend, d, p.cols);
        for (uint32_t r = 0; r < p.rows; r++)
            squares -= (double)d[r * p.cols + 9] * (double)d[r * p.cols + 9];
        assert_true(fabs(squares) < 1e-5);
        assert_ok(pith_round_loss(m.backend, d, p.rows, p.cols, p.h, &loss, &err), err);
        print_message("%s: %.4g felt of gptq, %.4g of gptq:kron\n", grids[g], loss, report.loss);
        assert_true(report.loss < 0.9 * loss);
        free(d), free(column);
        pith_qmat_free(&a), pith_qmat_free(&b);
    }
    free(o.s), free(o.diagonal);
    free_machine(&m);
    free_problem(&p);
}

static void what_it_cannot_go_by_is_refused(void **state)
{
    (void)state;
    struct problem p = make_problem(8, 70, 256, 300);
    struct pith_qmat q;
    struct pith_round_report report;
    const struct pith_stats good = p.stats;
    struct refused {
        enum pith_status status;
        const char *grid, *text;
    };
    static const struct refused cases[] = {{PITH_ARG, "int4:g32", "needs the Hessian of outputs"},
                                           {PITH_ARG, "int4:g32", "needs the Hessian of outputs"},
                                           {PITH_NUMERIC, "int4:g32", "at output 64"}};
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        struct pith_error err = {0};
        p.stats = good;
        if (i == 0) p.stats.outputs = NULL;
        if (i == 1) p.stats.output_block = OUTPUTS / 2;
        if (i == 2) p.outputs[OUTPUTS * OUTPUTS + 1] = (float)NAN;
        assert_int_equal(
            run_rounder("gptq:kron", &p, cases[i].grid, PITH_ORDER_STATIC, 1, &q, &report, &err),
            cases[i].status);
        assert_non_null(strstr(err.text, cases[i].text));
        if (i == 2) p.outputs[OUTPUTS * OUTPUTS + 1] = 0;
    }
    free_problem(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_are_those_of_the_formulas),
        cmocka_unit_test(without_pairs_it_is_gptq),
        cmocka_unit_test(less_is_felt_than_of_gptq),
        cmocka_unit_test(what_it_cannot_go_by_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
