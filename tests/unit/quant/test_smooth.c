/* quant/transform/smooth.c: the formula against llm-compressor's scales (make_smooth.py), the
 * folding, the search; and quant/split/columns.c's option. */
#include "oracle.h"
#include "quant/recipe.h"
#include "quant/split.h"
#include "quant/transform.h"

enum { DIM = 128, ROWS = 24, MORE = 40, TOKENS = 64 };

struct site {
    uint32_t dim, tokens;
    float *w[2], *x, *lo, *hi, *gain;
    struct pith_stats stats;
    struct pith_transform_job job;
    struct pith_transform_linear linear[2]; /* the job's, from run() on */
    struct machine machine;
};

static struct site make_site(uint32_t rows, uint32_t more, uint32_t dim, uint32_t tokens,
                             uint64_t seed, unsigned threads)
{
    struct site s = {.dim = dim, .tokens = tokens, .machine = make_machine(threads)};
    s.w[0] = oracle_weights(&seed, rows, dim);
    s.w[1] = oracle_weights(&seed, more, dim);
    s.x = oracle_inputs(&seed, tokens, dim);
    s.lo = calloc(dim, sizeof *s.lo);
    s.hi = calloc(dim, sizeof *s.hi);
    s.gain = malloc(dim * sizeof *s.gain);
    for (size_t c = 0; c < dim; c++) s.gain[c] = 1.0f + (float)(c % 7) / 8.0f;
    for (size_t i = 0; i < (size_t)tokens * dim; i++) {
        s.lo[i % dim] = fminf(s.lo[i % dim], s.x[i]);
        s.hi[i % dim] = fmaxf(s.hi[i % dim], s.x[i]);
    }
    s.job = (struct pith_transform_job){.backend = s.machine.backend,
                                        .scale_dtype = PITH_F32,
                                        .count = 2,
                                        .gain = s.gain,
                                        .gain_dtype = PITH_F32,
                                        .value = 0.5,
                                        .repeat = 1};
    s.linear[0] = (struct pith_transform_linear){
        .w = s.w[0], .rows = rows, .cols = dim, .grid = grid_of("int8:channel")};
    s.linear[1] = s.linear[0];
    s.linear[1].w = s.w[1];
    s.linear[1].rows = more;
    s.job.input.grid = grid_of("int8:token");
    return s;
}

static enum pith_status run(struct site *s, float *scales, struct pith_transform_report *report,
                            struct pith_error *err)
{
    s->stats = (struct pith_stats){.dim = s->dim,
                                   .tokens = s->tokens,
                                   .lo = s->lo,
                                   .hi = s->hi,
                                   .samples = s->x,
                                   .sample_count = s->tokens};
    s->job.stats = &s->stats;
    s->job.linear = s->linear;
    return pith_transform_find("smooth")->run(&s->job, scales, report, err);
}

static void free_site(struct site *s)
{
    free(s->w[0]), free(s->w[1]), free(s->x), free(s->lo), free(s->hi), free(s->gain);
    free_machine(&s->machine);
}

static void scales_are_those_of_llm_compressor(void **state)
{
    (void)state;
    json_t *golden = load_golden("smooth.json"), *row;
    size_t i;
    assert_int_equal(json_array_size(golden), 3);
    json_array_foreach (golden, i, row) {
        struct site s = make_site(count_of(row, "rows"), count_of(row, "more"),
                                  count_of(row, "cols"), count_of(row, "tokens"), i + 1, 1);
        struct pith_transform_report report;
        struct pith_error err = {0};
        float scales[DIM];
        s.job.value = json_number_value(json_object_get(row, "strength"));
        const double twice = pow(2.0, 2.0 * s.job.value - 1.0);
        assert_ok(run(&s, scales, &report, &err), err);
        for (size_t c = 0; c < s.dim; c++) {
            const double want =
                json_number_value(json_array_get(json_object_get(row, "scales"), c)) / twice;
            assert_true(fabs((double)scales[c] - want) <= 1e-5 * want);
        }
        free_site(&s);
    }
    json_decref(golden);
}

static void the_function_stays_and_the_error_falls(void **state)
{
    (void)state;
    struct site s = make_site(ROWS, MORE, DIM, TOKENS, 9, 1),
                before = make_site(ROWS, MORE, DIM, TOKENS, 9, 1);
    struct pith_transform_report report;
    struct pith_error err = {0};
    float scales[DIM];
    assert_ok(run(&s, scales, &report, &err), err);
    assert_true(report.ratio == 0.5);
    assert_true(report.loss_after < 0.5 * report.loss_before);
    for (size_t c = 0; c < DIM; c++) {
        assert_true(s.gain[c] == before.gain[c] / scales[c]);
        for (size_t r = 0; r < ROWS; r++)
            assert_true(s.w[0][r * DIM + c] == before.w[0][r * DIM + c] * scales[c]);
        for (size_t r = 0; r < MORE; r++)
            assert_true(s.w[1][r * DIM + c] == before.w[1][r * DIM + c] * scales[c]);
    }
    free_site(&s);
    free_site(&before);
}

/* "auto" is no worse than any fixed strength, nor than none. */
static void the_search_finds_the_best(void **state)
{
    (void)state;
    double best = INFINITY;
    for (int i = -1; i < 20; i++) {
        struct site s = make_site(ROWS, MORE, DIM, TOKENS, 9, 1);
        struct pith_transform_report report;
        struct pith_error err = {0};
        float scales[DIM];
        s.job.value = i < 0 ? -1.0 : (double)i / 20;
        assert_ok(run(&s, scales, &report, &err), err);
        if (i < 0) best = report.loss_after;
        else if (i > 0) assert_true(report.loss_after >= best);
        assert_true(report.loss_before >= best);
        free_site(&s);
    }
    /* Without outliers, and with nothing rounded but few bits of the weights, it may do nothing. */
    assert_true(isfinite(best));
}

static void same_bytes_for_any_thread_count(void **state)
{
    (void)state;
    float want[DIM], scales[DIM];
    for (unsigned threads = 1; threads <= 3; threads++) {
        struct site s = make_site(ROWS, MORE, DIM, TOKENS, 9, threads);
        struct pith_transform_report report;
        struct pith_error err = {0};
        s.job.value = -1.0;
        assert_ok(run(&s, threads == 1 ? want : scales, &report, &err), err);
        if (threads > 1) assert_memory_equal(scales, want, sizeof want);
        free_site(&s);
    }
}

/* Heads that share a value head share their scales; rows of the linear before are divided. */
static void the_linear_before_takes_the_inverse(void **state)
{
    (void)state;
    enum { HIDDEN = 16, BLOCK = 32, REPEAT = 2 };
    static float prev[DIM / REPEAT * HIDDEN], bias[DIM / REPEAT];
    struct site s = make_site(ROWS, MORE, DIM, TOKENS, 4, 1);
    struct pith_transform_report report;
    struct pith_error err = {0};
    float scales[DIM];
    for (size_t i = 0; i < sizeof prev / sizeof *prev; i++) prev[i] = 3.0f;
    for (size_t i = 0; i < sizeof bias / sizeof *bias; i++) bias[i] = 2.0f;
    s.job.gain = NULL;
    s.job.prev_w = prev;
    s.job.prev_bias = bias;
    s.job.prev_cols = HIDDEN;
    s.job.repeat = REPEAT;
    s.job.tie_block = BLOCK;
    assert_ok(run(&s, scales, &report, &err), err);
    for (size_t c = 0; c < DIM; c++) {
        const size_t row = c / BLOCK / REPEAT * BLOCK + c % BLOCK;
        assert_true(scales[c] == scales[c / BLOCK / REPEAT * REPEAT * BLOCK + c % BLOCK]);
        assert_true(prev[row * HIDDEN] == 3.0f / scales[c]);
        assert_true(bias[row] == 2.0f / scales[c]);
    }
    free_site(&s);
}

static void odd_jobs(void **state)
{
    (void)state;
    struct site s = make_site(ROWS, MORE, DIM, TOKENS, 4, 1);
    struct pith_transform_report report;
    struct pith_error err = {0};
    float scales[DIM];
    /* A silent input is left alone; a gain that float16 cannot hold is not made. */
    s.lo[3] = s.hi[3] = 0.0f;
    s.gain[4] = 60000.0f;
    s.lo[4] = s.hi[4] = 0.0f;
    s.hi[4] = 1e-4f;
    s.job.gain_dtype = PITH_F16;
    assert_ok(run(&s, scales, &report, &err), err);
    assert_true(scales[3] == 1.0f);
    for (size_t c = 0; c < DIM; c++) assert_true(isfinite(s.gain[c]));
    s.hi[7] = INFINITY;
    assert_int_equal(run(&s, scales, &report, NULL), PITH_NUMERIC);
    s.hi[7] = 1.0f;
    s.dim = DIM / 2;
    assert_int_equal(run(&s, scales, &report, NULL), PITH_ARG);
    s.dim = DIM;
    free(s.lo);
    s.lo = NULL;
    assert_int_equal(run(&s, scales, &report, NULL), PITH_ARG);
    /* Nothing to fold into, or nothing that is rounded: s stays 1. */
    s.lo = calloc(DIM, sizeof *s.lo);
    s.job.gain = NULL;
    assert_ok(run(&s, scales, &report, &err), err);
    for (size_t c = 0; c < DIM; c++) assert_true(scales[c] == 1.0f);
    free_site(&s);
}

static void options_are_read(void **state)
{
    (void)state;
    const struct {
        const char *stage, *text;
        double value;
        enum pith_status status;
    } cases[] = {
        {"transform", "smooth", 0.5, PITH_OK},       {"transform", "smooth:0.85", 0.85, PITH_OK},
        {"transform", "smooth:auto", -1.0, PITH_OK}, {"transform", "smooth:1.5", 0, PITH_ARG},
        {"transform", "smooth:-0.5", 0, PITH_ARG},   {"transform", "smooth:0.5x", 0, PITH_ARG},
        {"split", "columns", 6.0, PITH_OK},          {"split", "columns:4.5", 4.5, PITH_OK},
        {"split", "columns:0", 0, PITH_ARG},         {"split", "columns:nan", 0, PITH_ARG},
    };
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        struct pith_recipe r;
        struct pith_error err = {0};
        assert_ok(pith_recipe_load("rtn", &r, &err), err);
        assert_int_equal(pith_recipe_set(&r, cases[i].stage, cases[i].text, NULL), cases[i].status);
        if (cases[i].status != PITH_OK) continue;
        const bool split = strcmp(cases[i].stage, "split") == 0;
        assert_true((split ? r.split_value : r.transform_value) == cases[i].value);
    }
    assert_true(pith_split_find("columns")->of_inputs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scales_are_those_of_llm_compressor),
        cmocka_unit_test(the_function_stays_and_the_error_falls),
        cmocka_unit_test(the_search_finds_the_best),
        cmocka_unit_test(same_bytes_for_any_thread_count),
        cmocka_unit_test(the_linear_before_takes_the_inverse),
        cmocka_unit_test(odd_jobs),
        cmocka_unit_test(options_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
