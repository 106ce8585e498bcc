/* A matrix that is rounded in runs of rows, as several machines do: codes, scales and report of the
 * whole, for every rounder and each kind of grid that allows it; with a factor of H that is made
 * once for all runs. */
#include "quant_test.h"

enum { ROWS = 300, COLS = 256, CUTS = 4 };

static struct pith_round_job job_of(const struct problem *p, struct pith_backend *b,
                                    const char *grid, enum pith_act_order order, float *w)
{
    memcpy(w, p->w, (size_t)ROWS * COLS * sizeof *w);
    return (struct pith_round_job){.backend = b,
                                   .grid = grid_of(grid),
                                   .options = {.damp = 0.01, .act_order = order},
                                   .scale_dtype = PITH_F32,
                                   .rows = ROWS,
                                   .cols = COLS,
                                   .w = w,
                                   .stats = &p->stats};
}

/* Rows [first, end) of what was rounded apart, into the whole. */
static void take(struct pith_qmat *to, const struct pith_qmat *from, uint32_t first, uint32_t end)
{
    const size_t levels = pith_qmat_level_count(to) / to->rows;
    for (uint32_t r = first; r < end; r++) {
        memcpy(to->codes + r * to->stride, from->codes + r * from->stride, to->stride);
        const size_t at = pith_qmat_scale_index(to, r, 0), n = to->groups;
        memcpy(to->scales + at, from->scales + at, n * sizeof *to->scales);
        if (to->zeros) memcpy(to->zeros + at, from->zeros + at, n);
        if (to->offsets) memcpy(to->offsets + at, from->offsets + at, n * sizeof *to->offsets);
        if (to->levels)
            memcpy(to->levels + r * levels, from->levels + r * levels, levels * sizeof *to->levels);
        const size_t outer = to->cols / PITH_KBLOCK;
        if (to->outer)
            memcpy(to->outer + r * outer, from->outer + r * outer, outer * sizeof *to->outer);
    }
}

static void check_cut(const struct pith_rounder *rounder, const struct problem *p,
                      struct pith_backend *b, const char *grid, enum pith_act_order order)
{
    float *w = malloc((size_t)ROWS * COLS * sizeof *w);
    double loss[ROWS], nearest[ROWS];
    struct pith_round_lost lost = {loss, nearest, 0};
    struct pith_round_job job = job_of(p, b, grid, order, w);
    const uint32_t unit = pith_round_cut(rounder, &job, pith_split_find("none"));
    struct pith_qmat whole, all, part;
    struct pith_round_report report, some;
    struct pith_error err = {0};
    assert_true(unit > 0);
    assert_ok(pith_round(rounder, &job, &whole, &report, &err), err);
    job = job_of(p, b, grid, order, w);
    job.lost = &lost;
    const uint32_t cut[CUTS + 1] = {0, unit, unit, 2 * unit, ROWS}; /* one has none */
    const struct pith_round_span begin = {0, unit};
    assert_ok(pith_round_some(rounder, &job, begin, &all, &some, &err), err);
    assert_true(some.damp == report.damp && some.dead_columns == report.dead_columns);
    struct pith_factor *factor = NULL;
    assert_ok(pith_round_factor(rounder, &job, NULL, &factor, &err), err);
    assert_int_equal(factor != NULL, (rounder->needs & PITH_NEED_HESSIAN) != 0);
    for (int i = 1; i < CUTS; i++) {
        job = job_of(p, b, grid, order, w);
        job.lost = &lost;
        job.factor = factor;
        const struct pith_round_span span = {cut[i], cut[i + 1] - cut[i]};
        assert_ok(pith_round_some(rounder, &job, span, &part, &some, &err), err);
        assert_true(span.rows == 0 || some.damp == report.damp);
        take(&all, &part, cut[i], cut[i + 1]);
        pith_qmat_free(&part);
    }
    pith_round_factor_free(factor);
    assert_true(pith_qmat_equal(&whole, &all));
    assert_memory_equal(whole.codes, all.codes, ROWS * whole.stride);
    assert_true(pith_round_mean(loss, ROWS, lost.times) == report.loss);
    assert_true(pith_round_mean(nearest, ROWS, lost.times) == report.nearest_loss);
    pith_qmat_free(&whole);
    pith_qmat_free(&all);
    free(w);
}

static void runs_of_rows_make_the_whole(void **state)
{
    (void)state;
    static const char *const grids[] = {"int4:g64:asym",
                                        "int3:channel:mse",
                                        "int4:g32:asym:hqq",
                                        "fp8_e4m3:channel",
                                        "fp8_e4m3:block64",
                                        "nvfp4",
                                        "mxfp4",
                                        "nf4:g64",
                                        "q4_k"};
    static const char *const rounders[] = {"nearest", "weighted", "gptq"};
    struct problem p = make_problem(11, ROWS, COLS, 400);
    float squares[COLS];
    for (uint32_t c = 0; c < COLS; c++) squares[c] = p.h[(size_t)c * COLS + c] / 2;
    p.stats.squares = squares;
    struct machine m = make_machine(2);
    for (size_t r = 0; r < PITH_COUNT(rounders); r++)
        for (size_t g = 0; g < PITH_COUNT(grids); g++)
            check_cut(pith_rounder_find(rounders[r]), &p, m.backend, grids[g], PITH_ORDER_STATIC);
    for (int order = PITH_ORDER_NONE; order <= PITH_ORDER_GROUP; order++)
        check_cut(pith_rounder_find("gptq"), &p, m.backend, "int4:g64", (enum pith_act_order)order);
    free_machine(&m);
    free_problem(&p);
}

/* A factor of other columns' order, damping or Hessian is left alone. */
static void another_factor_is_not_taken(void **state)
{
    (void)state;
    const struct pith_rounder *gptq = pith_rounder_find("gptq");
    struct problem p = make_problem(12, ROWS, COLS, 400), other = make_problem(13, ROWS, COLS, 400);
    struct machine m = make_machine(1);
    float *w = malloc((size_t)ROWS * COLS * sizeof *w);
    struct pith_error err = {0};
    struct pith_round_report report, again;
    struct pith_qmat q, r;
    struct pith_round_job job = job_of(&p, m.backend, "int4:g64", PITH_ORDER_STATIC, w);
    assert_ok(pith_round(gptq, &job, &q, &report, &err), err);
    for (int i = 0; i < 3; i++) {
        struct pith_factor *factor = NULL;
        struct pith_round_job odd = job_of(i == 2 ? &other : &p, m.backend, "int4:g64",
                                           i == 0 ? PITH_ORDER_NONE : PITH_ORDER_STATIC, w);
        if (i == 1) odd.options.damp = 0.1;
        assert_ok(pith_round_factor(gptq, &odd, NULL, &factor, &err), err);
        assert_non_null(factor);
        job = job_of(&p, m.backend, "int4:g64", PITH_ORDER_STATIC, w);
        job.factor = factor;
        assert_ok(pith_round(gptq, &job, &r, &again, &err), err);
        assert_true(pith_qmat_equal(&q, &r) && again.damp == report.damp);
        pith_qmat_free(&r);
        pith_round_factor_free(factor);
    }
    pith_qmat_free(&q);
    free(w);
    free_machine(&m);
    free_problem(&p);
    free_problem(&other);
}

static void what_couples_rows_is_not_cut(void **state)
{
    (void)state;
    static const struct {
        const char *rounder, *grid, *split;
        uint32_t unit;
    } row[] = {
        {"gptq", "int4:g64", "none", 64},
        {"gptq", "int4:g64", "2:4", 64}, /* the solver keeps zeros */
        {"nearest", "fp8_e4m3:block128", "none", 128},
        {"nearest", "fp8_e4m3:block48", "none", 0}, /* solvers' tiles would end inside a block */
        {"nearest", "int4:g64", "2:4", 0},
        {"gptq", "int8:tensor", "none", 0},
        {"gptq", "nf4:g64:dq", "none", 0},
        {"gptq", "int4:g64", "sparse", 0},
        {"qep", "int4:g64", "none", 0},
        {"gptaq", "int4:g64", "none", 0},
        {"learned", "int4:g64", "none", 0},
    };
    for (size_t i = 0; i < PITH_COUNT(row); i++) {
        const struct pith_round_job job = {
            .grid = grid_of(row[i].grid), .rows = ROWS, .cols = COLS};
        const struct pith_split *split = pith_split_find(row[i].split);
        assert_non_null(split);
        assert_int_equal(pith_round_cut(pith_rounder_find(row[i].rounder), &job, split),
                         row[i].unit);
    }
    struct pith_stats guided = {.dim = COLS, .views = 3};
    const struct pith_round_job job = {
        .grid = grid_of("int4:g64"), .rows = ROWS, .cols = COLS, .stats = &guided};
    assert_int_equal(pith_round_cut(pith_rounder_find("gptq"), &job, pith_split_find("none")), 0);
}

/* What a rounder is to one linear asks for nothing of the rest of the model. */
static void alone_they_look_at_one_linear(void **state)
{
    (void)state;
    const unsigned whole = PITH_NEED_DRIFT | PITH_NEED_GUIDED | PITH_NEED_OUTPUTS;
    size_t count;
    const struct pith_rounder *all = pith_rounders(&count);
    for (size_t i = 0; i < count; i++) {
        const struct pith_rounder *r = all[i].alone ? pith_rounder_find(all[i].alone) : &all[i];
        assert_non_null(r);
        assert_null(r->alone);
        assert_false(r->needs & whole);
        assert_true((all[i].needs & whole) == 0 || r != &all[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alone_they_look_at_one_linear),
        cmocka_unit_test(runs_of_rows_make_the_whole),
        cmocka_unit_test(another_factor_is_not_taken),
        cmocka_unit_test(what_couples_rows_is_not_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
