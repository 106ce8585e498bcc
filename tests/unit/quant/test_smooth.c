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

/* Every sixth input is large, and one row of many meets it with weights as large as its others. */
static void skew(struct site *s)
{
    for (size_t c = 0; c < DIM; c += 6) {
        for (size_t t = 0; t < s->tokens; t++) s->x[t * DIM + c] *= 32.0f;
        s->lo[c] *= 32.0f;
        s->hi[c] *= 32.0f;
        for (int i = 0; i < 2; i++)
            for (size_t r = i == 0; r < (i ? MORE : ROWS); r++) s->w[i][r * DIM + c] /= 32.0f;
    }
}

/* Of columns that differ in more than one strength could level, the search leaves less. */
static void the_search_by_column_leaves_less(void **state)
{
    (void)state;
    double loss[3];
    for (int i = 0; i < 3; i++) {
        struct site s = make_site(ROWS, MORE, DIM, TOKENS, 9, 1);
        struct pith_transform_report report;
        struct pith_error err = {0};
        float scales[DIM];
        skew(&s);
        s.job.value = (double[]){0.5, -1.0, -2.0}[i];
        assert_ok(run(&s, scales, &report, &err), err);
        loss[i] = report.loss_after;
        for (size_t c = 0; c < DIM; c++) assert_true(scales[c] > 0.0f && isfinite(scales[c]));
        assert_true(i < 2 || report.ratio == 0.0);
        free_site(&s);
    }
    assert_true(loss[2] < 0.8 * loss[0]);
    assert_true(loss[2] < 0.85 * loss[1]);
}

/* What is expected of scales, by the formula of balance.h as it stands there. */
static double expected(const struct site *s, const double *token, const float *scales)
{
    double inputs = 0.0, sum = 0.0, peaks = 0.0, energy = 0.0;
    for (size_t t = 0; t < s->tokens; t++) {
        double most = 0.0;
        for (size_t c = 0; c < DIM; c++) {
            const double x = (double)(s->x[t * DIM + c] / scales[c]) * token[t];
            most = fmax(most, x * x);
            energy += x * x;
        }
        inputs += most;
    }
    for (int i = 0; i < 2; i++)
        for (size_t r = 0; r < (i ? MORE : ROWS); r++) {
            double most = 0.0;
            for (size_t c = 0; c < DIM; c++) {
                const double w = (double)(s->w[i][r * DIM + c] * scales[c]);
                most = fmax(most, w * w);
                sum += w * w;
            }
            peaks += most;
        }
    return inputs * sum + peaks * energy;
}

/* None of many others near the scales, nor far off, is expected to lose less by more than what the
 * descent leaves. */
static void the_search_finds_the_least(void **state)
{
    (void)state;
    struct site s = make_site(ROWS, MORE, DIM, TOKENS, 9, 1),
                before = make_site(ROWS, MORE, DIM, TOKENS, 9, 1);
    struct pith_transform_report report;
    struct pith_error err = {0};
    float scales[DIM], other[DIM], noise[DIM];
    double token[TOKENS];
    uint64_t seed = 3;
    s.job.value = -2.0;
    assert_ok(run(&s, scales, &report, &err), err);
    /* All tokens here have about as much energy: none counts by more than the one in the middle. */
    double ordered[TOKENS];
    for (size_t t = 0; t < TOKENS; t++) {
        double sum = 0.0;
        for (size_t c = 0; c < DIM; c++) sum += (double)s.x[t * DIM + c] * (double)s.x[t * DIM + c];
        token[t] = ordered[t] = sum;
    }
    for (size_t i = 1; i < TOKENS; i++)
        for (size_t k = i; k > 0 && ordered[k] < ordered[k - 1]; k--) {
            const double swap = ordered[k];
            ordered[k] = ordered[k - 1];
            ordered[k - 1] = swap;
        }
    for (size_t t = 0; t < TOKENS; t++)
        token[t] = 1.0 / sqrt(fmax(token[t], ordered[TOKENS / 2]));
    const double best = expected(&before, token, scales);
    for (int i = 0; i < 200; i++) {
        const float far = i % 4 == 0 ? 0.3f : i % 4 == 1 ? 0.1f : 0.02f;
        lcg_normal(&seed, DIM, noise);
        for (size_t c = 0; c < DIM; c++) other[c] = scales[c] * expf(far * noise[c]);
        assert_true(expected(&before, token, other) >= 0.995 * best);
    }
    for (size_t c = 0; c < DIM; c++) other[c] = 1.0f;
    assert_true(expected(&before, token, other) > 1.5 * best);
    free_site(&s);
    free_site(&before);
}

static void same_bytes_for_any_thread_count(void **state)
{
    (void)state;
    float want[DIM], scales[DIM];
    for (unsigned i = 0; i < 6; i++) {
        struct site s = make_site(ROWS, MORE, DIM, TOKENS, 9, i % 3 + 1);
        struct pith_transform_report report;
        struct pith_error err = {0};
        s.job.value = i < 3 ? -1.0 : -2.0;
        assert_ok(run(&s, i % 3 == 0 ? want : scales, &report, &err), err);
        if (i % 3) assert_memory_equal(scales, want, sizeof want);
        free_site(&s);
    }
}

/* Heads that share a value head share their scales; rows of the linear before are divided. */
static void divide_before(double strength)
{
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
    s.job.value = strength;
    assert_ok(run(&s, scales, &report, &err), err);
    for (size_t c = 0; c < DIM; c++) {
        const size_t row = c / BLOCK / REPEAT * BLOCK + c % BLOCK;
        assert_true(scales[c] == scales[c / BLOCK / REPEAT * REPEAT * BLOCK + c % BLOCK]);
        assert_true(prev[row * HIDDEN] == 3.0f / scales[c]);
        assert_true(bias[row] == 2.0f / scales[c]);
    }
    free_site(&s);
}

static void the_linear_before_takes_the_inverse(void **state)
{
    (void)state;
    divide_before(0.5);
    divide_before(-2.0);
}

/* Groups, one scale a tensor, inputs that stay, weights that stay: whatever is rounded counts, and
 * where nothing is, nothing changes. */
static void all_kinds_of_steps_are_balanced(void **state)
{
    (void)state;
    const struct {
        const char *weights, *inputs;
        bool moves;
    } cases[] = {
        {"int8:channel", "int8:g32", true},   {"int8:g32", "int8:token", true},
        {"int8:tensor", "int8:tensor", true}, {"int4:g32:asym", NULL, true},
        {"fp8_e4m3:channel", "int8:token", true}, {"fp8_e4m3:channel", "fp8_e4m3:token", false},
        {"fp8_e4m3:channel", NULL, false},
    };
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        struct site s = make_site(ROWS, MORE, DIM, TOKENS, 9, 1);
        struct pith_transform_report report;
        struct pith_error err = {0};
        float scales[DIM];
        bool moved = false;
        s.linear[0].grid = s.linear[1].grid = grid_of(cases[i].weights);
        s.job.input.grid = cases[i].inputs ? grid_of(cases[i].inputs) : (struct pith_grid){0};
        s.job.value = -2.0;
        assert_ok(run(&s, scales, &report, &err), err);
        for (size_t c = 0; c < DIM; c++) moved = moved || scales[c] != 1.0f;
        assert_int_equal(moved, cases[i].moves);
        assert_true(!moved || report.loss_after < report.loss_before);
        free_site(&s);
    }
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
        {"transform", "smooth:search", -2.0, PITH_OK},
        {"transform", "smooth:searched", 0, PITH_ARG},
        {"transform", "smoothrot", -2.0, PITH_OK},
        {"transform", "smoothrot:0.5", 0.5, PITH_OK},
        {"transform", "smoothrot:online", -3.0, PITH_OK},
        {"transform", "smoothrot:folded", 0, PITH_ARG},
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
        cmocka_unit_test(the_search_by_column_leaves_less),
        cmocka_unit_test(the_search_finds_the_least),
        cmocka_unit_test(all_kinds_of_steps_are_balanced),
        cmocka_unit_test(same_bytes_for_any_thread_count),
        cmocka_unit_test(the_linear_before_takes_the_inverse),
        cmocka_unit_test(odd_jobs),
        cmocka_unit_test(options_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
