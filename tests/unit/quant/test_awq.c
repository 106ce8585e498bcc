/* quant/transform/awq.c: the transform leaves the function as it was, whatever it folds into. */
#include "quant_test.h"
#include "quant/transform.h"
#include "quant/transform/awq.h"

enum { DIM = 96, ROWS = 40, HIDDEN = 24, TOKENS = 200 };

/* One site: the linears read x [TOKENS][DIM]. */
struct site {
    struct problem p;
    float *w[2], gain[DIM], prev[DIM * HIDDEN], bias[DIM], absmean[DIM];
    struct pith_stats stats;
    struct pith_transform_job job;
    struct pith_transform_linear linear[2];
    struct machine machine;
};

static struct site *make_site(uint64_t seed, unsigned threads, const char *grid)
{
    struct site *s = calloc(1, sizeof *s);
    struct pith_rng rng;
    s->p = make_problem(seed, ROWS, DIM, TOKENS);
    s->machine = make_machine(threads);
    pith_rng_seed(&rng, seed + 1000);
    for (int i = 0; i < 2; i++) s->w[i] = random_floats(&rng, ROWS * DIM, 0.05);
    for (size_t i = 0; i < DIM * HIDDEN; i++) s->prev[i] = (float)pith_rng_normal(&rng);
    for (size_t c = 0; c < DIM; c++) {
        double sum = 0.0;
        for (size_t t = 0; t < TOKENS; t++) sum += fabs((double)s->p.x[t * DIM + c]);
        s->absmean[c] = (float)(sum / TOKENS);
        s->gain[c] = 1.0f + 0.1f * (float)pith_rng_normal(&rng);
        s->bias[c] = (float)pith_rng_normal(&rng);
    }
    s->stats = (struct pith_stats){.dim = DIM,
                                   .tokens = TOKENS,
                                   .absmean = s->absmean,
                                   .samples = s->p.x,
                                   .sample_count = TOKENS};
    s->job = (struct pith_transform_job){.backend = s->machine.backend,
                                         .scale_dtype = PITH_F16,
                                         .linear = s->linear,
                                         .count = 2,
                                         .stats = &s->stats,
                                         .gain = s->gain,
                                         .prev_cols = HIDDEN,
                                         .repeat = 1,
                                         .clip_search = true};
    for (int i = 0; i < 2; i++)
        s->job.linear[i] = (struct pith_transform_linear){
            .w = s->w[i], .rows = ROWS, .cols = DIM, .grid = grid_of(grid), .clip = i == 1};
    return s;
}

static void free_site(struct site *s)
{
    free_problem(&s->p);
    free_machine(&s->machine);
    for (int i = 0; i < 2; i++) free(s->w[i]);
    free(s);
}

static enum pith_status run(struct site *s, float *scales, struct pith_transform_report *report,
                            struct pith_error *err)
{
    return pith_transform_find("awq")->run(&s->job, scales, report, err);
}

static void a_gain_takes_the_inverse(void **state)
{
    (void)state;
    struct site *s = make_site(1, 1, "int4:g32:asym"), *before = make_site(1, 1, "int4:g32:asym");
    struct pith_transform_report report;
    struct pith_error err = {0};
    float scales[DIM];
    s->job.clip_search = false;
    assert_ok(run(s, scales, &report, &err), err);
    assert_true(report.ratio > 0.0);
    assert_true(report.loss_after < 0.9 * report.loss_before);
    assert_true(report.clipped == 0.0);
    double least = INFINITY, most = 0.0;
    for (size_t c = 0; c < DIM; c++) {
        least = fmin(least, (double)scales[c]);
        most = fmax(most, (double)scales[c]);
        assert_true(s->gain[c] == before->gain[c] / scales[c]);
        for (size_t r = 0; r < ROWS; r++)
            for (int i = 0; i < 2; i++)
                assert_true(s->w[i][r * DIM + c] == before->w[i][r * DIM + c] * scales[c]);
    }
    assert_true(fabs(least * most - 1.0) < 1e-5);
    free_site(s);
    free_site(before);
}

static void a_stored_gain_is_exact(void **state)
{
    (void)state;
    struct site *s = make_site(1, 1, "int4:g32"), *before = make_site(1, 1, "int4:g32");
    struct pith_transform_report report;
    struct pith_error err = {0};
    float scales[DIM];
    unsigned moved = 0;
    s->gain[3] = before->gain[3] = 0.0f;
    s->gain[4] = before->gain[4] = -1.7f;
    s->job.gain_dtype = PITH_BF16;
    s->job.clip_search = false;
    assert_ok(run(s, scales, &report, &err), err);
    for (size_t c = 0; c < DIM; c++) {
        assert_true(s->gain[c] == pith_round_to(PITH_BF16, s->gain[c]));
        const double product = (double)s->gain[c] * (double)scales[c];
        assert_true(fabs(product - (double)before->gain[c]) <= 1e-7 * fabs(product));
        for (size_t r = 0; r < ROWS; r++)
            assert_true(s->w[0][r * DIM + c] == before->w[0][r * DIM + c] * scales[c]);
        moved += s->gain[c] != before->gain[c];
    }
    assert_true(moved > DIM / 2);
    free_site(s);
    free_site(before);
}

/* y = W (P z + b): the same function after folding into the linear before. */
static void output(const struct site *s, size_t c_of_row_repeat, const float *z, double *y)
{
    const size_t repeat = c_of_row_repeat, block = s->job.tie_block;
    for (size_t r = 0; r < ROWS; r++) {
        y[r] = 0.0;
        for (size_t c = 0; c < DIM; c++) {
            const size_t row = repeat > 1 ? c / block / repeat * block + c % block : c;
            double x = s->job.prev_bias ? (double)s->bias[row] : 0.0;
            for (size_t i = 0; i < HIDDEN; i++)
                x += (double)s->prev[row * HIDDEN + i] * (double)z[i];
            y[r] += (double)s->w[0][r * DIM + c] * x;
        }
    }
}

static void the_linear_before_takes_the_inverse(void **state)
{
    (void)state;
    static const struct {
        uint32_t repeat, block;
        bool bias;
    } cases[] = {{1, 0, true}, {1, 0, false}, {2, 8, true}, {3, 16, false}, {4, 8, true}};
    for (size_t k = 0; k < PITH_COUNT(cases); k++) {
        struct site *s = make_site(2, 2, "int3:g32");
        struct pith_transform_report report;
        struct pith_error err = {0};
        float scales[DIM], over[DIM], z[HIDDEN], before[DIM * HIDDEN];
        double want[ROWS], got[ROWS];
        const uint32_t rows = DIM / cases[k].repeat;
        memcpy(before, s->prev, rows * HIDDEN * sizeof *before);
        s->job.gain = NULL;
        s->job.prev_w = s->prev;
        s->job.prev_bias = cases[k].bias ? s->bias : NULL;
        s->job.repeat = cases[k].repeat;
        s->job.tie_block = cases[k].block;
        s->job.clip_search = false;
        for (int i = 0; i < HIDDEN; i++) z[i] = (float)(i % 5) - 2.0f;
        output(s, cases[k].repeat, z, want);
        assert_ok(run(s, scales, &report, &err), err);
        assert_true(report.ratio > 0.0);
        output(s, cases[k].repeat, z, got);
        for (size_t r = 0; r < ROWS; r++)
            assert_true(fabs(want[r] - got[r]) < 1e-5 * (1.0 + fabs(want[r])));
        for (size_t c = 0; cases[k].repeat > 1 && c < DIM; c++) {
            const size_t span = (size_t)cases[k].block * cases[k].repeat;
            assert_true(scales[c] == scales[c / span * span + c % cases[k].block]);
        }
        pith_transform_over(&s->job, scales, over);
        pith_transform_redo_rows(before, rows, HIDDEN, over);
        assert_memory_equal(before, s->prev, rows * HIDDEN * sizeof *before);
        free_site(s);
    }
}

static void same_bytes_for_any_thread_count(void **state)
{
    (void)state;
    static const char *const grids[] = {"int4:g32:asym", "int3:channel", "int4:g20:mse",
                                        "int8:tensor"};
    for (size_t g = 0; g < PITH_COUNT(grids); g++) {
        struct site *s[3];
        float scales[3][DIM];
        struct pith_transform_report report[3];
        for (unsigned t = 0; t < 3; t++) {
            struct pith_error err = {0};
            s[t] = make_site(3, t + 1, grids[g]);
            assert_ok(run(s[t], scales[t], &report[t], &err), err);
            assert_memory_equal(scales[0], scales[t], sizeof scales[0]);
            assert_memory_equal(s[0]->gain, s[t]->gain, sizeof s[0]->gain);
            for (int i = 0; i < 2; i++)
                assert_memory_equal(s[0]->w[i], s[t]->w[i], ROWS * DIM * sizeof(float));
            assert_true(report[0].clipped == report[t].clipped);
        }
        assert_int_equal(report[0].clipped > 0.0, g != 3); /* per tensor there is nothing to clip */
        for (unsigned t = 0; t < 3; t++) free_site(s[t]);
    }
}

/* The error of each row's group, summed over samples, by definition. */
static double group_error(const struct site *s, const float *scaled, const float *w,
                          const float *scales)
{
    const struct pith_grid *g = &s->job.linear[1].grid;
    const uint32_t group = g->group ? g->group : DIM;
    float *q = malloc(ROWS * DIM * sizeof *q);
    memcpy(q, w, ROWS * DIM * sizeof *q);
    struct pith_error err = {0};
    assert_ok(pith_pseudo_quantize(NULL, g, PITH_F16, ROWS, DIM, q, &err), err);
    double total = 0.0;
    for (size_t r = 0; r < ROWS; r++)
        for (size_t first = 0; first < DIM; first += group)
            for (size_t t = 0; t < TOKENS; t++) {
                double y = 0.0;
                for (size_t c = first; c < first + group && c < DIM; c++)
                    y += (double)(s->p.x[t * DIM + c] / scales[c]) *
                         (double)(q[r * DIM + c] - scaled[r * DIM + c]);
                total += y * y;
            }
    free(q);
    return total;
}

/* On inputs divided by the scales; and linears that must not be clipped are not. The group
 * widths take both ways of computing the error. */
static void clipping_lowers_the_error(void **state)
{
    (void)state;
    static const char *const grids[] = {"int3:g32", "int3:g40:asym", "int2:channel:asym",
                                        "mxfp4",    "nvfp4",         "fp4_e2m1:g32"};
    for (size_t k = 0; k < 2 * PITH_COUNT(grids); k++) {
        struct site *plain = make_site(4, 1, grids[k / 2]),
                    *clipped = make_site(4, 1, grids[k / 2]);
        struct pith_transform_report report;
        struct pith_error err = {0};
        float scales[DIM];
        if (k % 2) plain->stats.sample_count = clipped->stats.sample_count = 25;
        plain->job.clip_search = false;
        assert_ok(run(plain, scales, &report, &err), err);
        assert_ok(run(clipped, scales, &report, &err), err);
        assert_true(report.clipped > 0.0 && report.clipped < 1.0);
        assert_memory_equal(plain->w[0], clipped->w[0], ROWS * DIM * sizeof(float));
        const double before = group_error(plain, plain->w[1], plain->w[1], scales);
        const double after = group_error(plain, plain->w[1], clipped->w[1], scales);
        print_message("%-18s %2zu samples: clipping %.2f of the groups, error %.4g -> %.4g\n",
                      grids[k / 2], clipped->stats.sample_count, report.clipped, before, after);
        /* Scales that follow the largest weight by octaves leave clipping little to gain. */
        if (k % 2 == 0) assert_true(after < (grids[k / 2][0] == 'i' ? 0.95 : 1.0) * before);
        free_site(plain);
        free_site(clipped);
    }
}

struct spy {
    struct site *site;
    const float *original;
    int calls;
    double answer[20];
};

static enum pith_status spy_loss(void *ctx, const struct pith_trial *trial, double *loss,
                                 struct pith_error *err)
{
    struct spy *spy = ctx;
    (void)trial, (void)err;
    /* At ratio 0 the weights are the plain pseudo-quantized ones; a linear without a grid is
     * untouched. */
    if (spy->calls == 0) {
        float *q = malloc(ROWS * DIM * sizeof *q);
        struct pith_error why = {0};
        memcpy(q, spy->original, ROWS * DIM * sizeof *q);
        assert_ok(pith_pseudo_quantize(NULL, &spy->site->job.linear[0].grid, PITH_F16, ROWS, DIM, q,
                                       &why),
                  why);
        assert_memory_equal(q, spy->site->w[0], ROWS * DIM * sizeof *q);
        assert_memory_equal(spy->original + ROWS * DIM, spy->site->w[1], ROWS * DIM * sizeof *q);
        free(q);
    }
    *loss = spy->answer[spy->calls++];
    return PITH_OK;
}

static void the_callers_loss_decides(void **state)
{
    (void)state;
    struct site *s = make_site(5, 1, "int4:g32");
    struct spy spy = {.site = s};
    float *original = malloc(2 * ROWS * DIM * sizeof *original), scales[DIM];
    for (size_t i = 0; i < 2; i++)
        memcpy(original + i * ROWS * DIM, s->w[i], ROWS * DIM * sizeof(float));
    spy.original = original;
    for (int i = 0; i < 20; i++) spy.answer[i] = i == 7 || i == 9 ? 0.5 : i == 8 ? NAN : 1.0;
    s->job.linear[1].grid = (struct pith_grid){0};
    s->job.loss = spy_loss;
    s->job.loss_ctx = &spy;
    s->job.clip_search = false;
    s->stats.samples = NULL;
    struct pith_transform_report report;
    struct pith_error err = {0};
    assert_ok(run(s, scales, &report, &err), err);
    assert_int_equal(spy.calls, 20);
    assert_true(report.ratio == 7.0 / 20.0); /* the first of equals */
    assert_true(report.loss_before == 1.0 && report.loss_after == 0.5);
    for (size_t i = 0; i < 2 * ROWS * DIM; i++)
        assert_true(s->w[i / (ROWS * DIM)][i % (ROWS * DIM)] == original[i] * scales[i % DIM]);
    /* No finite loss: an error, and everything as it was. */
    memcpy(s->w[0], original, ROWS * DIM * sizeof(float));
    memcpy(s->w[1], original + ROWS * DIM, ROWS * DIM * sizeof(float));
    float gain[DIM];
    memcpy(gain, s->gain, sizeof gain);
    for (int i = 0; i < 20; i++) spy.answer[i] = i % 2 ? NAN : INFINITY;
    spy.calls = 0;
    assert_int_equal(run(s, scales, &report, &err), PITH_NUMERIC);
    assert_memory_equal(original, s->w[0], ROWS * DIM * sizeof(float));
    assert_memory_equal(original + ROWS * DIM, s->w[1], ROWS * DIM * sizeof(float));
    assert_memory_equal(gain, s->gain, sizeof gain);
    free(original);
    free_site(s);
}

static void step_of_the_ratio(void **state)
{
    (void)state;
    struct site *s = make_site(6, 1, "int4:g32");
    struct spy spy = {.site = s, .calls = 1};
    struct pith_transform_report report;
    struct pith_error err = {0};
    float scales[DIM];
    for (int i = 0; i < 20; i++) spy.answer[i] = 20 - i;
    s->job.loss = spy_loss;
    s->job.loss_ctx = &spy;
    s->job.ratio_step = 0.1;
    assert_ok(run(s, scales, &report, &err), err);
    assert_int_equal(spy.calls, 11);
    assert_true(fabs(report.ratio - 0.9) < 1e-12);
    free_site(s);
}

static void nothing_to_fold_into(void **state)
{
    (void)state;
    struct site *s = make_site(7, 1, "int3:g32");
    struct pith_transform_report report;
    struct pith_error err = {0};
    float scales[DIM];
    s->job.gain = NULL;
    assert_ok(run(s, scales, &report, &err), err);
    for (size_t c = 0; c < DIM; c++) assert_true(scales[c] == 1.0f);
    assert_true(report.clipped > 0.0);
    s->job.linear[0].grid = s->job.linear[1].grid =
        (struct pith_grid){0}; /* nothing to do at all */
    assert_ok(run(s, scales, &report, &err), err);
    assert_true(report.clipped == 0.0);
    free_site(s);
}

static void a_silent_channel_is_no_problem(void **state)
{
    (void)state;
    struct site *s = make_site(8, 1, "int4:g32:asym");
    struct pith_transform_report report;
    struct pith_error err = {0};
    float scales[DIM];
    for (size_t t = 0; t < TOKENS; t++) s->p.x[t * DIM + 11] = 0.0f;
    s->absmean[11] = 0.0f;
    assert_ok(run(s, scales, &report, &err), err);
    for (size_t c = 0; c < DIM; c++) assert_true(isfinite(scales[c]) && scales[c] > 0.0f);
    memset(s->absmean, 0, sizeof s->absmean); /* all silent: every ratio is as good, s stays 1 */
    memset(s->p.x, 0, TOKENS * DIM * sizeof(float));
    assert_ok(run(s, scales, &report, &err), err);
    for (size_t c = 0; c < DIM; c++) assert_true(scales[c] == 1.0f);
    free_site(s);
}

static void bad_jobs_are_refused(void **state)
{
    (void)state;
    for (int k = 0; k < 12; k++) {
        struct site *s = make_site(9, 1, "int4:g32");
        enum pith_status want = PITH_ARG;
        s->job.repeat = 1;
        switch (k) {
        case 0: s->job.count = 0; break;
        case 1: s->job.linear[0].rows = 0; break;
        case 2: s->job.linear[1].cols = DIM - 1; break;
        case 3: s->job.stats = NULL; break;
        case 4: s->stats.absmean = NULL; break;
        case 5: s->stats.samples = NULL; break;
        case 6: s->stats.dim = 5; break;
        case 7: s->absmean[3] = NAN, want = PITH_NUMERIC; break;
        case 8: s->w[1][77] = INFINITY, want = PITH_NUMERIC; break;
        case 9: s->job.ratio_step = -1.0; break;
        case 10:
            s->job.gain = NULL, s->job.prev_w = s->prev, s->job.repeat = 5, s->job.tie_block = 8;
            break;
        default: s->w[0][5] = 3e38f, want = PITH_NUMERIC; break; /* no f16 scale for it */
        }
        struct pith_transform_report report;
        struct pith_error err = {0};
        float scales[DIM], gain[DIM];
        memcpy(gain, s->gain, sizeof gain);
        assert_int_equal(run(s, scales, &report, &err), want);
        assert_true(err.text[0] != '\0');
        assert_memory_equal(gain, s->gain, sizeof gain);
        free_site(s);
    }
}

static void none_does_nothing(void **state)
{
    (void)state;
    struct site *s = make_site(10, 1, "int4:g32"), *t = make_site(10, 1, "int4:g32");
    struct pith_transform_report report;
    struct pith_error err = {0};
    float scales[DIM];
    assert_ok(pith_transform_find("none")->run(&s->job, scales, &report, &err), err);
    for (size_t c = 0; c < DIM; c++) assert_true(scales[c] == 1.0f);
    assert_memory_equal(s->w[0], t->w[0], ROWS * DIM * sizeof(float));
    assert_memory_equal(s->gain, t->gain, sizeof s->gain);
    size_t count;
    const struct pith_transform *const *all = pith_transforms(&count);
    for (size_t i = 0; i < count; i++) {
        assert_ptr_equal(pith_transform_find(all[i]->name), all[i]);
        /* one of the whole model has nothing left to do at a site */
        assert_true(all[i]->scratch(&s->job) > 0 || i == 0 || all[i]->basis);
    }
    assert_null(pith_transform_find("smoother"));
    free_site(s);
    free_site(t);
}

/* The foretold loss is near the one that GPTQ then has, and puts trials in the same order. */
static void the_loss_of_error_feedback_is_foretold(void **state)
{
    (void)state;
    enum { N = 128, R = 96 };
    static const char *const grids[] = {"int4:g32", "int4:channel:asym", "int3:g64:asym",
                                        "int8:g32"};
    struct machine m = make_machine(2);
    for (size_t k = 0; k < PITH_COUNT(grids); k++) {
        struct problem p = make_problem(70 + k, R, N, 600);
        struct pith_round_report report;
        struct pith_error err = {0};
        struct pith_qmat q;
        double pivots[N], foretold = 0.0;
        float ones[N];
        for (int c = 0; c < N; c++) ones[c] = 1.0f;
        const struct pith_transform_linear l = {
            .w = p.w, .rows = R, .cols = N, .grid = grid_of(grids[k])};
        assert_ok(pith_awq_pivots(m.backend, &p.stats, pivots, &err), err);
        assert_ok(pith_awq_predict(m.backend, &l, PITH_F32, pivots, ones, &foretold, &err), err);
        assert_ok(run_rounder("gptq", &p, grids[k], PITH_ORDER_STATIC, 2, &q, &report, &err), err);
        foretold /= R;
        if (!(foretold > 0.8 * report.loss && foretold < 1.25 * report.loss))
            fail_msg("%s: %g foretold, %g found", grids[k], foretold, report.loss);
        pith_qmat_free(&q);
        free_problem(&p);
    }
    free_machine(&m);
}

static void with_error_feedback_nothing_is_clipped(void **state)
{
    (void)state;
    struct site *s = make_site(1, 2, "int4:g32:asym");
    struct pith_transform_report report;
    struct pith_error err = {0};
    float scales[DIM];
    s->job.feeds_back = true;
    assert_int_equal(run(s, scales, &report, &err), PITH_ARG);
    s->stats.hessian = s->p.h;
    assert_ok(run(s, scales, &report, &err), err);
    assert_true(report.clipped == 0.0 && report.loss_after <= report.loss_before);
    free_site(s);
}

struct shelf {
    struct site *site;
    float *kept[2];
    unsigned out; /* how many are held */
};

static enum pith_status hold(void *ctx, unsigned i, struct pith_error *err)
{
    struct shelf *shelf = ctx;
    (void)err;
    assert_int_equal(shelf->out++, 0);
    memcpy(shelf->site->w[i], shelf->kept[i], ROWS * DIM * sizeof(float));
    shelf->site->linear[i].w = shelf->site->w[i];
    return PITH_OK;
}

static void drop(void *ctx, unsigned i)
{
    struct shelf *shelf = ctx;
    shelf->out--;
    memset(shelf->site->w[i], 0x7f, ROWS * DIM * sizeof(float));
    shelf->site->linear[i].w = NULL;
}

/* Linears that are there one at a time: the same scales, and the same weights when it is done
 * again. */
static void lent_linears_end_the_same(void **state)
{
    (void)state;
    static const char *const grids[] = {"int4:g32:asym", "int3:channel", "nvfp4"};
    for (size_t k = 0; k < PITH_COUNT(grids); k++) {
        struct site *there = make_site(9, 2, grids[k]), *lent = make_site(9, 2, grids[k]);
        struct shelf shelf = {.site = lent};
        struct pith_transform_report want, got;
        struct pith_error err = {0};
        float s[DIM], scales[DIM];
        assert_ok(run(there, s, &want, &err), err);
        for (unsigned i = 0; i < 2; i++) {
            shelf.kept[i] = malloc(ROWS * DIM * sizeof(float));
            memcpy(shelf.kept[i], lent->w[i], ROWS * DIM * sizeof(float));
            const size_t picks = pith_transform_picks(&lent->linear[i]);
            lent->linear[i].pick = picks ? calloc(1, picks) : NULL;
            lent->linear[i].lent = true;
            lent->linear[i].w = NULL;
        }
        lent->job.hold = hold;
        lent->job.drop = drop;
        lent->job.lender = &shelf;
        assert_ok(run(lent, scales, &got, &err), err);
        assert_int_equal(shelf.out, 0);
        assert_memory_equal(s, scales, sizeof s);
        assert_memory_equal(there->gain, lent->gain, sizeof there->gain);
        assert_true(want.ratio == got.ratio && want.clipped == got.clipped);
        assert_true(want.loss_before == got.loss_before && want.loss_after == got.loss_after);
        for (unsigned i = 0; i < 2; i++) {
            assert_ok(hold(&shelf, i, &err), err);
            pith_transform_redo(lent->machine.backend, &lent->linear[i], scales);
            assert_memory_equal(there->w[i], lent->w[i], ROWS * DIM * sizeof(float));
            free(lent->linear[i].pick);
            free(shelf.kept[i]);
            shelf.out = 0;
        }
        free_site(there);
        free_site(lent);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_gain_takes_the_inverse),
        cmocka_unit_test(a_stored_gain_is_exact),
        cmocka_unit_test(the_linear_before_takes_the_inverse),
        cmocka_unit_test(same_bytes_for_any_thread_count),
        cmocka_unit_test(clipping_lowers_the_error),
        cmocka_unit_test(the_callers_loss_decides),
        cmocka_unit_test(lent_linears_end_the_same),
        cmocka_unit_test(step_of_the_ratio),
        cmocka_unit_test(nothing_to_fold_into),
        cmocka_unit_test(a_silent_channel_is_no_problem),
        cmocka_unit_test(bad_jobs_are_refused),
        cmocka_unit_test(none_does_nothing),
        cmocka_unit_test(the_loss_of_error_feedback_is_foretold),
        cmocka_unit_test(with_error_feedback_nothing_is_clipped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
