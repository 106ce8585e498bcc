/* Stage 2 and what the rounders make of it: SparseGPT and Wanda against the authors' choices, zeros
 * that are exact, kept weights that are whole. */
#include "oracle.h"

struct setup {
    struct problem p;
    struct machine m;
    float *squares, *w;
    struct pith_off_grid kept;
    struct pith_round_job job;
    struct pith_round_report report;
    struct pith_qmat q;
};

static void start(struct setup *s, struct problem p, const char *grid, unsigned threads)
{
    *s = (struct setup){.p = p, .m = make_machine(threads)};
    const size_t n = (size_t)p.rows * p.cols;
    s->squares = malloc(p.cols * sizeof *s->squares);
    for (uint32_t c = 0; c < p.cols; c++) s->squares[c] = p.h[(size_t)c * p.cols + c] / 2;
    s->p.stats.squares = s->squares;
    s->w = malloc(n * sizeof *s->w);
    memcpy(s->w, p.w, n * sizeof *s->w);
    s->job = (struct pith_round_job){.backend = s->m.backend,
                                     .scale_dtype = PITH_F32,
                                     .options = {.damp = 0.01, .act_order = PITH_ORDER_STATIC},
                                     .rows = p.rows,
                                     .cols = p.cols,
                                     .w = s->w,
                                     .stats = &s->p.stats,
                                     .off_grid = &s->kept};
    if (grid) s->job.grid = grid_of(grid);
}

static void stop(struct setup *s)
{
    pith_qmat_free(&s->q);
    pith_off_grid_free(&s->kept);
    free(s->squares), free(s->w);
    free_problem(&s->p);
    free_machine(&s->m);
}

static enum pith_status split(struct setup *s, const char *name, double value, bool keeps,
                              struct pith_error *err)
{
    const struct pith_split_job job = {.backend = s->m.backend,
                                       .rows = s->p.rows,
                                       .cols = s->p.cols,
                                       .w = s->w,
                                       .stats = &s->p.stats,
                                       .value = value,
                                       .keeps = keeps};
    return pith_split_find(name)->run(&job, &s->kept, err);
}

static enum pith_status round_with(struct setup *s, const char *name, struct pith_error *err)
{
    const struct pith_rounder *r = pith_rounder_find(name);
    if (s->job.grid.format) return pith_round(r, &s->job, &s->q, &s->report, err);
    return pith_round_dense(r, &s->job, &s->report, err);
}

/* The weights as they are stored; the caller frees them. */
static float *result(const struct setup *s)
{
    if (s->job.grid.format) return decode_all(&s->q);
    const size_t bytes = (size_t)s->p.rows * s->p.cols * sizeof(float);
    return memcpy(malloc(bytes), s->w, bytes);
}

static void assert_two_four(const float *w, size_t n)
{
    for (size_t i = 0; i < n; i += 4)
        assert_true((w[i] == 0) + (w[i + 1] == 0) + (w[i + 2] == 0) + (w[i + 3] == 0) >= 2);
}

/* ---- the references ---- */

static struct problem oracle_problem(const json_t *c)
{
    uint64_t state = count_of(c, "seed");
    struct problem p = {.rows = count_of(c, "rows"), .cols = count_of(c, "cols")};
    p.tokens = 2 * p.cols;
    p.w = oracle_weights(&state, p.rows, p.cols);
    p.x = oracle_inputs(&state, p.tokens, p.cols);
    p.h = malloc((size_t)p.cols * p.cols * sizeof *p.h);
    fill_hessian(&p);
    p.stats = (struct pith_stats){.dim = p.cols, .tokens = p.tokens, .hessian = p.h};
    return p;
}

/* How many weights that the reference drops are not 0 here. */
static size_t missed(FILE *masks, const struct setup *s, const float *w)
{
    const size_t stride = pith_zeros_stride(s->p.cols);
    uint8_t *bits = malloc(stride);
    size_t count = 0;
    for (uint32_t r = 0; r < s->p.rows; r++) {
        assert_int_equal(fread(bits, 1, stride, masks), stride);
        for (uint32_t c = 0; c < s->p.cols; c++)
            count += (bits[c / 8] >> c % 8 & 1) && w[(size_t)r * s->p.cols + c] != 0;
    }
    free(bits);
    return count;
}

static void check_sparsegpt(const json_t *c, FILE *masks)
{
    struct setup s;
    struct pith_error err = {0};
    const char *grid = text_of(c, "grid");
    start(&s, oracle_problem(c), strcmp(grid, "f32") == 0 ? NULL : grid, 2);
    s.job.options.act_order = PITH_ORDER_NONE;
    assert_ok(split(&s, "2:4", 0, true, &err), err);
    assert_true(s.kept.choose && !s.kept.zeros);
    assert_ok(round_with(&s, "gptq", &err), err);
    float *w = result(&s);
    const size_t n = (size_t)s.p.rows * s.p.cols, out = missed(masks, &s, w);
    const double want = json_real_value(json_object_get(c, "loss")), is = exact_loss(&s.p, w);
    print_message("%-12s loss %.6g, SparseGPT %.6g (%+.3f%%), %zu of %zu zeros elsewhere\n", grid,
                  is, want, 100 * (is / want - 1), out, n / 2);
    assert_two_four(w, n);
    assert_true((double)out <= 0.001 * (double)(n / 2));
    assert_true(fabs(is - want) <= 0.02 * want);
    assert_true(fabs(s.report.loss - is) <= 1e-4 * is);
    assert_true(s.report.loss < s.report.nearest_loss);
    free(w);
    stop(&s);
}

static void check_wanda(const json_t *c, FILE *masks)
{
    struct setup s;
    struct pith_error err = {0};
    start(&s, oracle_problem(c), NULL, 2);
    assert_ok(split(&s, "2:4", 0, false, &err), err);
    assert_true(!s.kept.choose && s.kept.zeros);
    assert_ok(round_with(&s, "nearest", &err), err);
    const double want = json_real_value(json_object_get(c, "loss")), is = exact_loss(&s.p, s.w);
    assert_int_equal(missed(masks, &s, s.w), 0);
    for (size_t i = 0; i < (size_t)s.p.rows * s.p.cols; i++)
        assert_true(s.w[i] == 0 || s.w[i] == s.p.w[i]);
    assert_true(fabs(is - want) <= 1e-6 * want);
    assert_true(fabs(s.report.loss - is) <= 1e-4 * is);
    stop(&s);
}

static void the_references_drop_the_same(void **state)
{
    (void)state;
    json_t *golden = load_golden("splits.json"), *c;
    FILE *masks = fopen("tests/golden/quant/splits.masks", "rb");
    assert_non_null(masks);
    size_t i;
    json_array_foreach (json_object_get(golden, "sparsegpt"), i, c) check_sparsegpt(c, masks);
    assert_int_equal(i, 5);
    json_array_foreach (json_object_get(golden, "wanda"), i, c) check_wanda(c, masks);
    assert_int_equal(i, 2);
    assert_int_equal(fgetc(masks), EOF);
    fclose(masks);
    json_decref(golden);
}

/* ---- zeros ---- */

static const char *const splits[] = {"2:4", "2:4:wanda", "2:4:magnitude"};

/* Every rounder that is there, every way to choose, grids of all kinds and none. */
static void zeros_are_exact(void **state)
{
    (void)state;
    static const char *const grids[] = {
        NULL,           "int4:g32",         "int4:g32:asym",     "int8:channel", "int8:tensor:asym",
        "int3:g16:mse", "fp8_e4m3:channel", "fp8_e4m3:block128", "mxfp4",        "mxfp8",
        "nvfp4:mse",    "nf4:g32",          "bnb_fp4:g32"};
    static const char *const rounders[] = {"nearest", "gptq"};
    for (size_t g = 0; g < PITH_COUNT(grids); g++)
        for (size_t r = 0; r < PITH_COUNT(rounders); r++)
            for (size_t i = 0; i < PITH_COUNT(splits); i++)
                for (int order = 0; order < 3; order++) {
                    struct setup s;
                    struct pith_error err = {0};
                    if (r == 0 && order) continue;
                    start(&s, make_problem(9, 70, 96, 200), grids[g], 2);
                    s.job.options.act_order = (enum pith_act_order)order;
                    assert_ok(split(&s, splits[i], 0, r == 1, &err), err);
                    assert_ok(round_with(&s, rounders[r], &err), err);
                    float *w = result(&s);
                    assert_two_four(w, 70 * 96);
                    const double is = exact_loss(&s.p, w);
                    assert_true(fabs(s.report.loss - is) <= 1e-3 * is);
                    if (r == 1) assert_true(s.report.loss < s.report.nearest_loss);
                    else assert_true(s.report.loss == s.report.nearest_loss);
                    for (size_t k = 0; grids[g] && k < 70 * 96; k++)
                        assert_true(s.w[k] == s.p.w[k] - w[k]);
                    free(w);
                    stop(&s);
                }
}

/* The published order, by the measure that all three are after. */
static void sparsegpt_then_wanda_then_magnitude(void **state)
{
    (void)state;
    double loss[3];
    for (int i = 0; i < 3; i++) {
        struct setup s;
        struct pith_error err = {0};
        start(&s, make_problem(4, 64, 128, 300), NULL, 1);
        assert_ok(split(&s, splits[i], 0, i == 0, &err), err);
        assert_ok(round_with(&s, i == 0 ? "gptq" : "nearest", &err), err);
        loss[i] = s.report.loss;
        stop(&s);
    }
    assert_true(loss[0] < loss[1] && loss[1] < loss[2]);
}

/* 16-bit values, the same ones for any number of threads. */
static void dense_results(void **state)
{
    (void)state;
    static const char *const rounders[] = {"nearest", "gptq"};
    for (int r = 0; r < 2; r++) {
        float *first = NULL;
        for (unsigned threads = 1; threads <= 3; threads++) {
            struct setup s;
            struct pith_error err = {0};
            start(&s, make_problem(2, 130, 64, 150), NULL, threads);
            s.job.scale_dtype = PITH_BF16;
            assert_ok(split(&s, "2:4", 0, r == 1, &err), err);
            assert_ok(round_with(&s, rounders[r], &err), err);
            for (size_t i = 0; i < 130 * 64; i++)
                assert_true(pith_round_to(PITH_BF16, s.w[i]) == s.w[i]);
            if (first) assert_memory_equal(first, s.w, 130 * 64 * sizeof *first);
            else first = result(&s);
            stop(&s);
        }
        free(first);
    }
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    struct setup s;
    struct pith_error err = {0};
    start(&s, make_problem(1, 8, 30, 60), NULL, 1);
    for (size_t i = 0; i < PITH_COUNT(splits); i++)
        assert_int_equal(split(&s, splits[i], 0, true, &err), PITH_UNSUPPORTED);
    stop(&s);
    start(&s, make_problem(1, 8, 32, 60), "int4:channel", 1);
    s.w[9] = NAN;
    assert_ok(split(&s, "2:4:magnitude", 0, false, &err), err);
    assert_int_equal(round_with(&s, "nearest", NULL), PITH_NUMERIC);
    assert_null(s.q.codes);
    s.w[9] = 0;
    pith_off_grid_free(&s.kept);
    s.kept.choose = true;
    assert_int_equal(round_with(&s, "nearest", NULL), PITH_ARG);
    s.kept.choose = false;
    s.p.stats.squares = NULL;
    assert_int_equal(split(&s, "2:4:wanda", 0, false, NULL), PITH_ARG);
    assert_int_equal(split(&s, "sparse", 1, false, NULL), PITH_ARG);
    stop(&s);
    const struct pith_split *sparse = pith_split_find("sparse");
    static const char *const wrong[] = {"0",   "-1", "51",   "nan",  "inf",
                                        "1e1", "x",  "0.4x", "1..2", "."};
    double value = 7;
    for (size_t i = 0; i < PITH_COUNT(wrong); i++)
        assert_int_equal(sparse->option(wrong[i], &value, NULL), PITH_ARG);
    assert_true(value == 7);
    assert_ok(sparse->option("", &value, &err), err);
    assert_true(value == 0.45);
    assert_ok(sparse->option("1.5", &value, &err), err);
    assert_true(value == 1.5);
}

/* ---- kept weights ---- */

static void the_largest_are_kept(void **state)
{
    (void)state;
    struct setup s;
    struct pith_error err = {0};
    start(&s, make_problem(6, 50, 96, 200), NULL, 1);
    assert_ok(split(&s, "sparse", 2.0, false, &err), err);
    const struct pith_sparse *k = s.kept.sparse;
    const size_t count = pith_sparse_count(50, 96, 2.0);
    assert_int_equal(count, 96);
    assert_int_equal(k->start[50], count);
    assert_ok(pith_sparse_check(k, 50, 96, &err), err);
    float left = 0, least = INFINITY; /* the largest left on the grid; of the others, the tenth */
    size_t below = 0;
    for (size_t i = 0; i < 50 * 96; i++) left = fmaxf(left, fabsf(s.w[i]));
    for (uint32_t r = 0; r < 50; r++)
        for (uint32_t i = k->start[r]; i < k->start[r + 1]; i++) {
            const size_t at = (size_t)r * 96 + k->col[i];
            assert_true(k->value[i] == s.p.w[at] && s.w[at] == 0);
            below += fabsf(k->value[i]) < left;
            least = fminf(least, fabsf(k->value[i]));
        }
    assert_true(below <= count / 9 && least < left); /* some for their sensitivity */
    stop(&s);
}

static void kept_weights_are_whole(void **state)
{
    (void)state;
    static const char *const grids[] = {"codebook3:channel", "codebook4:channel", "int4:g32"};
    static const char *const rounders[] = {"nearest", "gptq"};
    for (size_t g = 0; g < PITH_COUNT(grids); g++)
        for (int r = 0; r < 2; r++) {
            struct setup s, plain;
            struct pith_error err = {0};
            start(&s, make_problem(8, 70, 128, 300), grids[g], 2);
            start(&plain, make_problem(8, 70, 128, 300), grids[g], 2);
            assert_ok(round_with(&plain, rounders[r], &err), err);
            assert_ok(split(&s, "sparse", 1.0, r == 1, &err), err);
            assert_ok(round_with(&s, rounders[r], &err), err);
            assert_non_null(s.q.sparse);
            assert_ok(pith_qmat_check(&s.q, &err), err);
            float *w = result(&s);
            const struct pith_sparse *k = s.q.sparse;
            for (uint32_t row = 0; row < 70; row++)
                for (uint32_t i = k->start[row]; i < k->start[row + 1]; i++) {
                    const size_t at = (size_t)row * 128 + k->col[i];
                    assert_true(pith_round_to(PITH_F16, k->value[i]) == k->value[i]);
                    if (r == 0) assert_true(fabsf(w[at] - s.p.w[at]) <= 1e-3f * fabsf(s.p.w[at]));
                }
            const double is = exact_loss(&s.p, w);
            print_message("%-18s %-8s loss %.5g, without kept weights %.5g\n", grids[g],
                          rounders[r], is, plain.report.loss);
            assert_true(fabs(s.report.loss - is) <= 1e-3 * is);
            assert_true(is < plain.report.loss);
            for (size_t i = 0; i < 70 * 128; i++)
                assert_true(fabsf(s.w[i] - (s.p.w[i] - w[i])) <= 1e-6f);
            free(w);
            stop(&s);
            stop(&plain);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_references_drop_the_same),
        cmocka_unit_test(zeros_are_exact),
        cmocka_unit_test(sparsegpt_then_wanda_then_magnitude),
        cmocka_unit_test(dense_results),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(the_largest_are_kept),
        cmocka_unit_test(kept_weights_are_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
