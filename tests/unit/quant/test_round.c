/* Every rounder of the table, and what GPTQ must do with Hessians that are not nice. */
#include "quant_test.h"

static void nearest_is_the_pseudo_quantized_matrix(void **state)
{
    (void)state;
    static const char *const grids[] = {"int4:g32", "int3:g24:asym", "int8:channel",
                                        "int2:tensor:asym", "int5:g64:mse"};
    for (size_t i = 0; i < PITH_COUNT(grids); i++) {
        struct problem p = make_problem(i + 20, 37, 100, 150);
        struct pith_qmat q;
        struct pith_round_report report;
        struct pith_error err = {0};
        assert_ok(run_rounder("nearest", &p, grids[i], PITH_ORDER_NONE, 2, &q, &report, &err), err);
        const struct pith_grid g = grid_of(grids[i]);
        float *want = malloc(37 * 100 * sizeof *want), *got = decode_all(&q);
        memcpy(want, p.w, 37 * 100 * sizeof *want);
        assert_ok(pith_pseudo_quantize(NULL, &g, PITH_F32, 37, 100, want, &err), err);
        assert_memory_equal(want, got, 37 * 100 * sizeof *want);
        const double exact = exact_loss(&p, got);
        assert_true(fabs(report.loss - exact) < 1e-4 * exact);
        assert_true(report.nearest_loss == report.loss);
        pith_qmat_free(&q);
        p.stats.hessian = NULL; /* then the loss is plain squared error a row */
        assert_ok(run_rounder("nearest", &p, grids[i], PITH_ORDER_NONE, 1, &q, &report, &err), err);
        double sum = 0.0;
        for (size_t k = 0; k < 37 * 100; k++)
            sum += ((double)p.w[k] - (double)got[k]) * ((double)p.w[k] - (double)got[k]);
        assert_true(fabs(report.loss - sum / 37) < 1e-6 * sum);
        pith_qmat_free(&q);
        free(want), free(got);
        free_problem(&p);
    }
}

/* To the byte, not merely to the value. */
static void assert_same_bytes(const struct pith_qmat *a, const struct pith_qmat *b)
{
    const size_t scales = pith_qmat_scale_count(a);
    assert_memory_equal(a->codes, b->codes, a->rows * a->stride);
    assert_memory_equal(a->scales, b->scales, scales * sizeof *a->scales);
    assert_int_equal(a->zeros != NULL, b->zeros != NULL);
    if (a->zeros) assert_memory_equal(a->zeros, b->zeros, scales);
    assert_int_equal(a->g_idx != NULL, b->g_idx != NULL);
    if (a->g_idx) assert_memory_equal(a->g_idx, b->g_idx, a->cols * sizeof *a->g_idx);
}

/* Some rows at a time, by one thread: the same matrix, the same loss, the same error. */
static void rows_alone_are_the_whole(void **state)
{
    (void)state;
    static const char *const grids[] = {"int4:g32", "int3:g24:asym", "int8:channel",
                                        "int5:g64:mse"};
    enum { ROWS = 37, COLS = 100, STEP = 5 };
    for (size_t i = 0; i < PITH_COUNT(grids); i++) {
        struct problem p = make_problem(i + 20, ROWS, COLS, 150);
        struct machine m = make_machine(1);
        const struct pith_grid g = grid_of(grids[i]);
        struct pith_qmat whole, q;
        struct pith_round_report report;
        struct pith_error err = {0};
        float w[STEP * COLS], values[COLS];
        uint8_t codes[COLS];
        double squares = 0;
        p.stats.hessian = NULL;
        assert_ok(run_rounder("nearest", &p, grids[i], PITH_ORDER_NONE, 2, &whole, &report, &err),
                  err);
        assert_ok(pith_qmat_init(&q, ROWS, COLS, &g, PITH_F32, &err), err);
        struct pith_round_rows part = {
            .backend = m.backend, .grid = &g, .w = w, .codes = codes, .values = values};
        for (part.first = 0; part.first < ROWS; part.first += STEP) {
            part.rows = ROWS - part.first < STEP ? ROWS - part.first : STEP;
            memcpy(w, p.w + part.first * COLS, part.rows * COLS * sizeof *w);
            assert_ok(pith_rounder_find("nearest")->by->rows(&part, &q, &squares, &err), err);
            for (uint32_t r = 0; r < part.rows; r++) {
                pith_qmat_decode(&q, part.first + r, 1, values);
                for (uint32_t c = 0; c < COLS; c++)
                    assert_true(w[r * COLS + c] == p.w[(part.first + r) * COLS + c] - values[c]);
            }
        }
        assert_same_bytes(&whole, &q);
        assert_true(squares / ROWS == report.loss);
        part.first = 3;
        part.rows = 1;
        memcpy(w, p.w, COLS * sizeof *w);
        w[7] = 3e38f;
        q.scale_dtype = PITH_F16;
        assert_int_equal(pith_rounder_find("nearest")->by->rows(&part, &q, &squares, &err),
                         PITH_NUMERIC);
        assert_non_null(strstr(err.text, "row 3, group 0"));
        pith_qmat_free(&q);
        pith_qmat_free(&whole);
        free_machine(&m);
        free_problem(&p);
    }
}

static void same_bytes_for_any_thread_count(void **state)
{
    (void)state;
    struct problem p = make_problem(5, 150, 270, 300);
    size_t count;
    const struct pith_rounder *rounders = pith_rounders(&count);
    static const char *const grids[] = {"int4:g64:asym", "int3:channel", "int4:g100:mse"};
    for (size_t r = 0; r < count; r++)
        for (size_t g = 0; g < PITH_COUNT(grids); g++)
            for (int order = PITH_ORDER_NONE; order <= PITH_ORDER_GROUP; order++) {
                struct pith_qmat q[3] = {0};
                struct pith_round_report report[3];
                for (unsigned t = 0; t < 3; t += test_thorough() ? 1 : 2) {
                    struct pith_error err = {0};
                    assert_ok(run_rounder(rounders[r].name, &p, grids[g],
                                          (enum pith_act_order)order, t + 1, &q[t], &report[t],
                                          &err),
                              err);
                    assert_same_bytes(&q[0], &q[t]);
                    assert_true(report[0].loss == report[t].loss);
                    assert_true(report[0].nearest_loss == report[t].nearest_loss);
                }
                for (unsigned t = 0; t < 3; t++) pith_qmat_free(&q[t]);
            }
    struct machine m = make_machine(1);
    struct pith_round_job job = {
        .backend = m.backend, .grid = grid_of("int4:g16"), .rows = 150, .cols = 270};
    const struct pith_split *none = pith_split_find("none");
    for (size_t r = 0; r < count; r++) {
        const uint64_t fine = rounders[r].by->scratch(&rounders[r], &job, none);
        job.grid = grid_of("int4:channel");
        const uint64_t coarse = rounders[r].by->scratch(&rounders[r], &job, none);
        assert_true(coarse > 0 && fine >= coarse);
        job.grid = grid_of("int4:g16");
    }
    free_machine(&m);
    free_problem(&p);
}

static void gptq_beats_nearest(void **state)
{
    (void)state;
    double ratio = 0.0;
    unsigned count = 0;
    for (unsigned bits = 2; bits <= 8; bits++)
        for (int order = PITH_ORDER_NONE; order <= PITH_ORDER_GROUP; order++) {
            char grid[32];
            snprintf(grid, sizeof grid, "int%u:g64%s", bits, bits % 2 ? ":asym" : "");
            struct problem p = make_problem(bits, 30, 150, 200);
            struct pith_qmat q;
            struct pith_round_report report;
            struct pith_error err = {0};
            assert_ok(
                run_rounder("gptq", &p, grid, (enum pith_act_order)order, 2, &q, &report, &err),
                err);
            assert_true(report.loss < 0.8 * report.nearest_loss);
            assert_true(report.damp == 0.01);
            assert_int_equal(report.damp_retries, 0);
            ratio += report.loss / report.nearest_loss;
            count++;
            pith_qmat_free(&q);
            free_problem(&p);
        }
    print_message("GPTQ's loss is %.2f of nearest's on average\n", ratio / count);
}

static void groups_of_permuted_columns_are_stored(void **state)
{
    (void)state;
    struct problem p = make_problem(6, 20, 100, 150);
    struct pith_qmat q;
    struct pith_round_report report;
    struct pith_error err = {0};
    assert_ok(run_rounder("gptq", &p, "int4:g32", PITH_ORDER_GROUP, 1, &q, &report, &err), err);
    assert_int_equal(q.groups, 4);
    unsigned members[4] = {0};
    float least[4] = {INFINITY, INFINITY, INFINITY, INFINITY}, most[4] = {0};
    for (uint32_t c = 0; c < 100; c++) {
        const uint32_t g = q.g_idx[c];
        assert_true(g < 4);
        members[g]++;
        least[g] = fminf(least[g], p.h[c * 101]);
        most[g] = fmaxf(most[g], p.h[c * 101]);
    }
    for (int g = 0; g < 4; g++) assert_int_equal(members[g], g == 3 ? 4 : 32);
    for (int g = 0; g < 3; g++) assert_true(least[g] >= most[g + 1]);
    assert_ok(pith_qmat_check(&q, &err), err);
    pith_qmat_free(&q);
    free_problem(&p);
}

static void silence_column(struct problem *p, uint32_t c)
{
    for (uint32_t i = 0; i < p->cols; i++) p->h[i * p->cols + c] = p->h[c * p->cols + i] = 0.0f;
}

static void dead_inputs_become_zero(void **state)
{
    (void)state;
    for (int order = PITH_ORDER_NONE; order <= PITH_ORDER_GROUP; order++) {
        struct problem p = make_problem(7, 25, 96, 120), live = make_problem(7, 25, 96, 120);
        static const uint32_t dead[] = {0, 17, 64, 95};
        for (size_t i = 0; i < 4; i++) {
            silence_column(&p, dead[i]);
            silence_column(&live, dead[i]);
            for (uint32_t r = 0; r < 25; r++) {
                p.w[r * 96 + dead[i]] = 1e6f; /* must not set the scale */
                live.w[r * 96 + dead[i]] = 0.0f;
            }
        }
        struct pith_qmat q, q2;
        struct pith_round_report report, report2;
        struct pith_error err = {0};
        const enum pith_act_order o = (enum pith_act_order)order;
        assert_ok(run_rounder("gptq", &p, "int4:g32", o, 2, &q, &report, &err), err);
        assert_ok(run_rounder("gptq", &live, "int4:g32", o, 1, &q2, &report2, &err), err);
        assert_int_equal(report.dead_columns, 4);
        assert_same_bytes(&q, &q2);
        float *values = decode_all(&q);
        for (uint32_t r = 0; r < 25; r++)
            for (size_t i = 0; i < 4; i++) assert_true(values[r * 96 + dead[i]] == 0.0f);
        assert_true(report.loss < report.nearest_loss);
        free(values);
        pith_qmat_free(&q);
        pith_qmat_free(&q2);
        free_problem(&p);
        free_problem(&live);
    }
}

/* H times a power of two changes nothing, dead inputs or not: no absolute number enters. */
static void hessian_has_no_unit(void **state)
{
    (void)state;
    struct problem p = make_problem(8, 20, 80, 100);
    silence_column(&p, 9);
    struct pith_qmat a, b;
    struct pith_round_report report;
    struct pith_error err = {0};
    assert_ok(run_rounder("gptq", &p, "int4:g16", PITH_ORDER_GROUP, 1, &a, &report, &err), err);
    for (size_t i = 0; i < 80 * 80; i++) p.h[i] *= 0x1p-40f;
    assert_ok(run_rounder("gptq", &p, "int4:g16", PITH_ORDER_GROUP, 1, &b, &report, &err), err);
    assert_same_bytes(&a, &b);
    pith_qmat_free(&a);
    pith_qmat_free(&b);
    free_problem(&p);
}

static void fewer_tokens_than_inputs_works_by_damping(void **state)
{
    (void)state;
    struct problem p = make_problem(9, 20, 200, 30);
    struct pith_qmat q;
    struct pith_round_report report;
    struct pith_error err = {0};
    assert_ok(run_rounder("gptq", &p, "int4:g64", PITH_ORDER_STATIC, 1, &q, &report, &err), err);
    assert_true(report.loss < 0.5 * report.nearest_loss);
    pith_qmat_free(&q);
    free_problem(&p);
}

static enum pith_status run_shrunk(struct problem *p, double damp, double shrink,
                                   struct pith_round_report *report, struct pith_error *err)
{
    struct machine m = make_machine(1);
    float *w = malloc((size_t)p->rows * p->cols * sizeof *w);
    memcpy(w, p->w, (size_t)p->rows * p->cols * sizeof *w);
    const struct pith_round_job job = {.backend = m.backend,
                                       .grid = grid_of("int4:g16"),
                                       .scale_dtype = PITH_F16,
                                       .options = {.damp = damp, .shrink = shrink},
                                       .rows = p->rows,
                                       .cols = p->cols,
                                       .w = w,
                                       .stats = &p->stats};
    struct pith_qmat q;
    const enum pith_status s = pith_rounder_run(pith_rounder_find("gptq"), &job, &q, report, err);
    if (s != PITH_OK) assert_null(q.codes);
    pith_qmat_free(&q);
    free(w);
    free_machine(&m);
    return s;
}

static enum pith_status run_damped(struct problem *p, double damp, struct pith_round_report *report,
                                   struct pith_error *err)
{
    return run_shrunk(p, damp, 0, report, err);
}

static void few_tokens_damp_more(void **state)
{
    (void)state;
    static const struct {
        uint64_t tokens;
        double shrink, damp;
    } cases[] = {{4800, 1, 0.01}, {480, 1, 0.1},    {96, 1, 0.5}, {96, 0.5, 0.25},
                 {96, 0, 0.01},   {48000, 1, 0.01}, {12, 1, 1},   {0, 1, 0.01}};
    struct problem p = make_problem(11, 8, 48, 96);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pith_round_report report;
        struct pith_error err = {0};
        p.stats.tokens = cases[i].tokens;
        assert_ok(run_shrunk(&p, 0.01, cases[i].shrink, &report, &err), err);
        assert_true(fabs(report.damp - cases[i].damp) < 1e-12);
    }
    free_problem(&p);
}

static void damping_is_raised_until_it_works(void **state)
{
    (void)state;
    struct problem p = make_problem(10, 8, 48, 48);
    struct pith_round_report report;
    for (int i = 0; i < 48 * 48; i++)
        p.h[i] = 1.0f + (i % 49 == 0 ? -0.04f : 0.0f); /* indefinite */
    struct pith_error err = {0};
    assert_ok(run_damped(&p, 0.001, &report, &err), err);
    assert_int_equal(report.damp_retries, 2);
    assert_true(fabs(report.damp - 0.1) < 1e-12);
    assert_ok(run_damped(&p, 0.0, &report, &err), err);
    assert_int_equal(report.damp_retries, 6);
    assert_true(fabs(report.damp - 0.1) < 1e-12);
    for (int i = 0; i < 48 * 48; i++) p.h[i] = i % 49 == 0 ? 1.0f : 3.0f; /* hopeless */
    assert_int_equal(run_damped(&p, 0.01, &report, &err), PITH_NUMERIC);
    assert_non_null(strstr(err.text, "stays singular"));
    assert_int_equal(report.damp_retries, 2);
    free_problem(&p);
}

static void bad_input_is_refused_by_name(void **state)
{
    (void)state;
    struct pith_round_report report;
    static const struct {
        float value;
        uint32_t i, j;
        const char *text;
    } bad[] = {{NAN, 3, 30, "nan at input 3, 30"},
               {INFINITY, 47, 47, "inf at input 47, 47"},
               {-INFINITY, 0, 1, "inf at input 0, 1"},
               {-1.0f, 5, 5, "-1 on its diagonal at input 5"}};
    for (size_t k = 0; k < PITH_COUNT(bad); k++) {
        struct problem p = make_problem(11, 8, 48, 60);
        struct pith_error err = {0};
        p.h[bad[k].i * 48 + bad[k].j] = bad[k].value;
        assert_int_equal(run_damped(&p, 0.01, &report, &err), PITH_NUMERIC);
        assert_non_null(strstr(err.text, bad[k].text));
        free_problem(&p);
    }
    static const float weights[] = {NAN, INFINITY, -INFINITY};
    for (size_t k = 0; k < PITH_COUNT(weights); k++) {
        struct problem p = make_problem(12, 8, 48, 60);
        struct pith_error err = {0};
        p.w[2 * 48 + 7] = weights[k];
        assert_int_equal(run_damped(&p, 0.01, &report, &err), PITH_NUMERIC);
        assert_non_null(strstr(err.text, "row 2, column 7"));
        free_problem(&p);
    }
    struct problem p = make_problem(13, 8, 48, 60);
    struct pith_error err = {0};
    assert_int_equal(run_damped(&p, -0.1, &report, &err), PITH_ARG);
    assert_int_equal(run_damped(&p, NAN, &report, NULL), PITH_ARG);
    p.stats.dim = 47;
    err = (struct pith_error){0};
    assert_int_equal(run_damped(&p, 0.01, &report, &err), PITH_ARG);
    p.stats.dim = 48;
    p.stats.hessian = NULL;
    err = (struct pith_error){0};
    assert_int_equal(run_damped(&p, 0.01, &report, &err), PITH_ARG);
    assert_non_null(strstr(err.text, "Hessian"));
    p.stats.hessian = p.h;
    memset(p.h, 0, 48 * 48 * sizeof *p.h);
    err = (struct pith_error){0};
    assert_int_equal(run_damped(&p, 0.01, &report, &err), PITH_NUMERIC);
    assert_non_null(strstr(err.text, "no input was ever non-zero"));
    free_problem(&p);
}

static void scales_that_overflow_are_refused(void **state)
{
    (void)state;
    struct pith_round_report report;
    struct problem p = make_problem(14, 8, 48, 60);
    struct pith_error err = {0};
    p.w[5 * 48 + 33] = 4e6f;
    assert_int_equal(run_damped(&p, 0.01, &report, &err), PITH_NUMERIC);
    assert_non_null(strstr(err.text, "row 5, group 2"));
    free_problem(&p);
}

/* Shapes at the edges of tiles, blocks and groups. */
static void odd_shapes(void **state)
{
    (void)state;
    static const struct {
        uint32_t rows, cols;
        const char *grid;
    } cases[] = {{1, 1, "int4:channel"}, {1, 3, "int2:g2:asym"},   {64, 128, "int4:g128"},
                 {65, 129, "int4:g128"}, {3, 257, "int3:g256"},    {63, 127, "int8:g16:asym"},
                 {2, 300, "int4:g1000"}, {17, 131, "int4:tensor"}, {5, 400, "int4:g150:asym"}};
    for (size_t i = 0; i < PITH_COUNT(cases); i++)
        for (int order = PITH_ORDER_NONE; order <= PITH_ORDER_GROUP; order++) {
            struct problem p = make_problem(i + 40, cases[i].rows, cases[i].cols, 64);
            struct pith_qmat q;
            struct pith_round_report report;
            struct pith_error err = {0};
            assert_ok(run_rounder("gptq", &p, cases[i].grid, (enum pith_act_order)order, 3, &q,
                                  &report, &err),
                      err);
            assert_ok(pith_qmat_check(&q, &err), err);
            float *values = decode_all(&q);
            const double exact = exact_loss(&p, values);
            assert_true(fabs(report.loss - exact) <= 1e-4 * exact + 1e-12);
            free(values);
            pith_qmat_free(&q);
            free_problem(&p);
        }
}

/* A row of zeros, a constant row and rows of subnormal weights lie beside ordinary ones. */
static void degenerate_rows(void **state)
{
    (void)state;
    static const char *const grids[] = {"int4:g16", "int3:g16:asym", "int4:channel:mse"};
    for (size_t g = 0; g < PITH_COUNT(grids); g++) {
        struct problem p = make_problem(15, 8, 48, 100);
        for (uint32_t c = 0; c < 48; c++) {
            p.w[0 * 48 + c] = 0.0f;
            p.w[1 * 48 + c] = 0.25f;
            p.w[2 * 48 + c] *= 1e-40f;
            p.w[3 * 48 + c] *= 1e30f;
        }
        struct pith_qmat q;
        struct pith_round_report report;
        struct pith_error err = {0};
        assert_ok(run_rounder("gptq", &p, grids[g], PITH_ORDER_STATIC, 2, &q, &report, &err), err);
        assert_ok(pith_qmat_check(&q, &err), err);
        float *values = decode_all(&q);
        for (uint32_t c = 0; c < 48; c++) {
            assert_true(values[c] == 0.0f);
            assert_true(fabsf(values[2 * 48 + c]) < 1e-37f);
        }
        free(values);
        pith_qmat_free(&q);
        free_problem(&p);
    }
}

static void grids_without_a_gridder_are_refused(void **state)
{
    (void)state;
    static const char *const grids[] = {"int4:g64:dq", "fp8_e4m3:g64:dq", "bf16", "int8:token"};
    size_t count;
    const struct pith_rounder *rounders = pith_rounders(&count);
    struct problem p = make_problem(16, 8, 64, 80);
    for (size_t r = 0; r < count; r++)
        for (size_t i = 0; i < PITH_COUNT(grids); i++) {
            struct pith_qmat q;
            struct pith_round_report report;
            struct pith_error err = {0};
            assert_int_equal(
                run_rounder(rounders[r].name, &p, grids[i], PITH_ORDER_NONE, 1, &q, &report, &err),
                PITH_UNSUPPORTED);
            assert_null(q.codes);
        }
    free_problem(&p);
    assert_null(pith_rounder_find("none"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nearest_is_the_pseudo_quantized_matrix),
        cmocka_unit_test(rows_alone_are_the_whole),
        cmocka_unit_test(same_bytes_for_any_thread_count),
        cmocka_unit_test(gptq_beats_nearest),
        cmocka_unit_test(groups_of_permuted_columns_are_stored),
        cmocka_unit_test(dead_inputs_become_zero),
        cmocka_unit_test(hessian_has_no_unit),
        cmocka_unit_test(fewer_tokens_than_inputs_works_by_damping),
        cmocka_unit_test(few_tokens_damp_more),
        cmocka_unit_test(damping_is_raised_until_it_works),
        cmocka_unit_test(bad_input_is_refused_by_name),
        cmocka_unit_test(scales_that_overflow_are_refused),
        cmocka_unit_test(odd_shapes),
        cmocka_unit_test(degenerate_rows),
        cmocka_unit_test(grids_without_a_gridder_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
