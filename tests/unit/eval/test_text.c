/* eval/text: against transformers (tests/golden/eval/make_golden.py), and what must not matter. */
#include "eval/stats.h"
#include "unit/eval/fixture.h"

static int32_t ids[40000];

static struct pith_text_job job_of(const struct rig *r, const json_t *row, size_t count,
                                   int32_t bos)
{
    struct pith_text_job job = {.backend = r->backend,
                                .model = r->worse,
                                .baseline = r->model,
                                .ids = ids,
                                .count = count,
                                .bos = bos};
    assert_true(pith_convention_find(string(row, "convention"), &job.convention));
    job.context = (size_t)number(row, "context");
    job.stride = (size_t)number(row, "stride");
    return job;
}

/* Losses are float32 logits on both sides; KL is compared relative to its size. */
static void assert_result(const struct pith_text_result *got, const json_t *want)
{
    assert_int_equal(got->windows, number(want, "windows"));
    assert_int_equal(got->tokens, number(want, "tokens"));
    assert_true(got->has_baseline);
    assert_close("nll", got->nll, number(want, "nll"), 1e-5);
    assert_close("baseline nll", got->baseline_nll, number(want, "baseline_nll"), 1e-5);
    assert_close("perplexity", got->perplexity, exp(number(want, "nll")), 1e-5 * got->perplexity);
    assert_close("mean KL", got->kld_mean, number(want, "kld_mean"), 1e-5 * got->kld_mean);
    assert_close("median KL", got->kld_median, number(want, "kld_median"), 5e-5 * got->kld_median);
    assert_close("99% of KL", got->kld_p99, number(want, "kld_p99"), 5e-5 * got->kld_p99);
    assert_close("largest KL", got->kld_max, number(want, "kld_max"), 5e-5 * got->kld_max);
    assert_close("top-1", got->top1_agreement, number(want, "top1_agreement"),
                 2.5 / (double)got->tokens);
    assert_close("delta", got->nll_delta, number(want, "nll_delta"), 1e-5);
    if (json_object_get(want, "documented_loop"))
        assert_close("the documented loop", got->baseline_nll, number(want, "documented_loop"),
                     1e-5);
    if (got->windows > 1) {
        assert_close("lower end", got->nll_delta_ci95.lo, number(want, "lo"), 1e-5);
        assert_close("upper end", got->nll_delta_ci95.hi, number(want, "hi"), 1e-5);
        assert_close("error", got->nll_se, number(want, "nll_se"), 1e-5);
        assert_close("ppl error", got->perplexity_se, got->perplexity * got->nll_se, 1e-9);
    } else {
        assert_true(isinf(got->nll_delta_ci95.hi) && isinf(got->nll_se));
    }
    assert_int_equal(got->verdict, pith_verdict_of(got->nll_delta_ci95));
    size_t tokens = 0, end = 0;
    double kld = 0;
    for (size_t i = 0; i < PITH_DEPTHS; i++) {
        const struct pith_depth *d = &got->depth[i];
        assert_int_equal(d->from, end);
        end = d->to;
        tokens += d->tokens;
        kld += d->kld * (double)d->tokens;
        if (d->tokens && got->windows > 1)
            assert_true(d->kld_ci95.lo <= d->kld && d->kld <= d->kld_ci95.hi);
    }
    assert_in_range(end, 2, number(want, "context")); /* a short text is a shorter window */
    assert_int_equal(tokens, got->tokens);
    assert_close("KL over all positions", kld / (double)tokens, got->kld_mean, 1e-9);
}

static size_t load_ids(const json_t *golden)
{
    const json_t *list = json_object_get(json_object_get(golden, "tiny"), "ids");
    for (size_t i = 0; i < json_array_size(list); i++)
        ids[i] = (int32_t)json_integer_value(json_array_get(list, i));
    return json_array_size(list);
}

static void conventions_are_those_of_transformers(void **state)
{
    (void)state;
    json_t *golden = golden_load();
    const json_t *tiny = json_object_get(golden, "tiny"), *row;
    const size_t count = load_ids(golden);
    struct rig r;
    rig_open(&r, GOLDEN "tiny", 2);
    size_t i;
    json_array_foreach(json_object_get(tiny, "text"), i, row) {
        const struct pith_text_job job = job_of(&r, row, count, (int32_t)number(tiny, "bos"));
        struct pith_text_result got;
        struct pith_error err = {0};
        assert_ok(pith_eval_text(&job, &got, &err), err);
        assert_result(&got, row);
    }
    assert_true(i >= 8);
    rig_close(&r);
    json_decref(golden);
}

static void thread_count_changes_no_bit(void **state)
{
    (void)state;
    json_t *golden = golden_load();
    const size_t count = load_ids(golden);
    struct pith_text_result got[3];
    for (unsigned threads = 1; threads <= 3; threads++) {
        struct rig r;
        rig_open(&r, GOLDEN "tiny", threads);
        const struct pith_text_job job = {.backend = r.backend,
                                          .model = r.worse,
                                          .baseline = r.model,
                                          .ids = ids,
                                          .count = count,
                                          .bos = -1,
                                          .convention = PITH_CONVENTION_HF,
                                          .context = 50,
                                          .stride = 30};
        struct pith_error err = {0};
        assert_ok(pith_eval_text(&job, &got[threads - 1], &err), err);
        got[threads - 1].seconds = got[threads - 1].model_seconds = 0;
        rig_close(&r);
    }
    assert_memory_equal(&got[0].nll, &got[1].nll, sizeof got[0].nll);
    assert_true(got[0].kld_mean == got[1].kld_mean && got[1].kld_mean == got[2].kld_mean);
    assert_true(got[0].kld_max == got[1].kld_max && got[1].kld_p99 == got[2].kld_p99);
    assert_true(got[0].nll == got[2].nll && got[0].nll_delta == got[2].nll_delta);
    json_decref(golden);
}

static void a_model_equals_itself(void **state)
{
    (void)state;
    json_t *golden = golden_load();
    const size_t count = load_ids(golden);
    struct rig r;
    rig_open(&r, GOLDEN "tiny", 1);
    struct pith_text_job job = {.backend = r.backend,
                                .model = r.model,
                                .baseline = r.model,
                                .ids = ids,
                                .count = count,
                                .bos = -1,
                                .context = 64};
    struct pith_text_result both, alone, few;
    struct pith_error err = {0};
    assert_ok(pith_eval_text(&job, &both, &err), err);
    assert_true(both.kld_max < 1e-12 && both.kld_mean >= 0);
    assert_true(both.top1_agreement == 1 && both.nll_delta == 0);
    assert_true(both.nll == both.baseline_nll);
    assert_int_equal(both.verdict, PITH_INDISTINGUISHABLE);
    assert_true(both.seconds >= both.model_seconds && both.model_seconds > 0);
    job.baseline = NULL;
    assert_ok(pith_eval_text(&job, &alone, &err), err);
    assert_false(alone.has_baseline);
    assert_true(alone.nll == both.nll && alone.nll_se == both.nll_se);
    job.max_tokens = 64;
    assert_ok(pith_eval_text(&job, &few, &err), err);
    assert_int_equal(few.windows, 2);
    assert_int_equal(few.tokens, 126);
    rig_close(&r);
    json_decref(golden);
}

/* Positions in their order; `at` counts them when they come a second time. */
struct seen {
    struct pith_position position[2000];
    size_t count, at;
};

static void remember(void *ctx, const struct pith_position *p)
{
    struct seen *s = ctx;
    assert_in_range(s->count, 0, 1999);
    s->position[s->count++] = *p;
}

static void find_again(void *ctx, const struct pith_position *p)
{
    struct seen *s = ctx;
    const struct pith_position *before = &s->position[s->at++];
    assert_true(p->nll == before->nll && p->base_nll == before->base_nll);
    assert_true(p->kld == before->kld);
    assert_int_equal(p->top, before->top);
}

/* Windows that are read together give what each gives alone, by every cache. */
static void windows_have_the_same_bits_in_company(void **state)
{
    (void)state;
    static const char *const caches[] = {"f32", "int8:token", "int4:token:asym,recent=8"};
    static struct seen seen;
    enum { CONTEXT = 28 };
    json_t *golden = golden_load();
    const size_t count = load_ids(golden);
    struct rig r;
    rig_open(&r, GOLDEN "tiny", 2);
    for (size_t i = 0; i < PITH_COUNT(caches); i++) {
        struct pith_error err = {0};
        struct pith_text_result got;
        struct pith_text_job job = {.backend = r.backend,
                                    .model = r.worse,
                                    .baseline = r.model,
                                    .ids = ids,
                                    .count = count,
                                    .bos = -1,
                                    .context = CONTEXT};
        assert_ok(pith_kv_parse(caches[i], PITH_F32, r.worse, &job.kv, &err), err);
        assert_int_equal(pith_eval_text_rows(&job), 9 * CONTEXT);
        seen.count = seen.at = 0;
        job.watch = (struct pith_position_watch){remember, &seen};
        assert_ok(pith_eval_text(&job, &got, &err), err);
        assert_int_equal(got.windows, count / CONTEXT);
        job.watch.seen = find_again;
        job.count = CONTEXT;
        for (size_t k = 0; k < got.windows; k++, job.ids += CONTEXT) {
            struct pith_text_result alone;
            assert_ok(pith_eval_text(&job, &alone, &err), err);
            assert_int_equal(alone.windows, 1);
        }
        assert_int_equal(seen.at, seen.count);
    }
    rig_close(&r);
    json_decref(golden);
}

struct watch {
    double last, total;
    double stop_at;
    size_t within; /* calls between the parts of a window */
};

static int look(void *ctx, const char *what, double done, double total)
{
    struct watch *w = ctx;
    assert_true(done == w->last || done == w->last + 1);
    assert_true(strncmp(what, "scoring", strlen("scoring")) == 0);
    assert_true((done > 0) == (strstr(what, "perplexity") != NULL));
    w->within += done == w->last;
    w->last = done;
    w->total = total;
    return done >= w->stop_at;
}

static void progress_counts_windows_and_stops(void **state)
{
    (void)state;
    json_t *golden = golden_load();
    const size_t count = load_ids(golden);
    struct rig r;
    rig_open(&r, GOLDEN "tiny", 1);
    struct watch w = {.stop_at = 1e9};
    const struct pith_progress p = {look, &w};
    const struct pith_text_job job = {.backend = r.backend,
                                      .model = r.model,
                                      .ids = ids,
                                      .count = count,
                                      .bos = -1,
                                      .context = 64,
                                      .progress = &p};
    struct pith_text_result got;
    struct pith_error err = {0};
    assert_ok(pith_eval_text(&job, &got, &err), err);
    assert_true(w.last == 12 && w.total == 12);
    assert_true(w.within >= 12);
    w = (struct watch){.stop_at = 3};
    assert_int_equal(pith_eval_text(&job, &got, &err), PITH_INTERRUPTED);
    assert_true(w.last == 3);
    rig_close(&r);
    json_decref(golden);
}

static void impossible_jobs_are_refused(void **state)
{
    (void)state;
    json_t *golden = golden_load();
    const size_t count = load_ids(golden);
    struct rig r;
    rig_open(&r, GOLDEN "tiny", 1);
    const struct pith_text_job good = {.backend = r.backend,
                                       .model = r.model,
                                       .ids = ids,
                                       .count = count,
                                       .bos = -1,
                                       .context = 64};
    struct pith_text_result got;
    for (int i = 0; i < 4; i++) {
        struct pith_text_job job = good;
        struct pith_error err = {0};
        int32_t odd[64] = {0};
        odd[40] = i == 2 ? -3 : 320;
        if (i == 0) job.context = count + 1;
        if (i == 1) job.bos = 320;
        if (i >= 2) {
            job.ids = odd;
            job.count = 64;
        }
        assert_int_equal(pith_eval_text(&job, &got, &err), PITH_ARG);
        assert_true(strlen(err.text) > 10);
    }
    rig_close(&r);
    json_decref(golden);
}

/* A weight that is not a number must not become a verdict. */
static void logits_that_are_not_numbers_are_told(void **state)
{
    (void)state;
    json_t *golden = golden_load();
    const size_t count = load_ids(golden);
    struct rig r;
    rig_open(&r, GOLDEN "tiny", 1);
    const float before = r.worse->final_norm[3];
    r.worse->final_norm[3] = NAN;
    const struct pith_text_job job = {.backend = r.backend,
                                      .model = r.worse,
                                      .baseline = r.model,
                                      .ids = ids,
                                      .count = count,
                                      .bos = -1,
                                      .context = 64};
    struct pith_text_result got;
    struct pith_error err = {0};
    assert_int_equal(pith_eval_text(&job, &got, &err), PITH_NUMERIC);
    assert_string_equal(err.text, "the model's logits at position 0 are not finite numbers");
    r.worse->final_norm[3] = before;
    rig_close(&r);
    json_decref(golden);
}

static void real_models_give_the_known_figures(void **state)
{
    (void)state;
    if (!pith_path_is_dir(test_data_dir())) skip();
    json_t *golden = golden_load();
    const json_t *row;
    size_t i;
    json_array_foreach(json_object_get(json_object_get(golden, "data"), "text"), i, row) {
        char path[512];
        struct pith_error err = {0};
        if (!test_thorough() && (i < 1 || i > 3)) continue; /* each convention and model once */
        snprintf(path, sizeof path, "%s/models/%s", test_data_dir(), string(row, "model"));
        struct rig r;
        rig_open(&r, path, 2);
        char *text;
        size_t size;
        snprintf(path, sizeof path, "%s/text/%s", test_data_dir(), string(row, "file"));
        assert_ok(pith_file_read(path, 1 << 22, &text, &size, &err), err);
        struct pith_ids list = {0};
        const size_t bytes = (size_t)number(row, "bytes");
        assert_ok(pith_tokenizer_encode(r.tokenizer, text, bytes, true, &list, &err), err);
        assert_int_equal(list.count, number(row, "ids"));
        struct pith_text_job job = job_of(&r, row, list.count, pith_tokenizer_bos(r.tokenizer));
        job.ids = list.id;
        struct pith_text_result got;
        assert_ok(pith_eval_text(&job, &got, &err), err);
        assert_result(&got, row);
        print_message("%-12s %-10s loss %.6f KL %.6f in %.2f s, %.2f in the model\n",
                      string(row, "model"), string(row, "convention"), got.baseline_nll,
                      got.kld_mean, got.seconds, got.model_seconds);
        pith_ids_free(&list);
        pith_free(text);
        rig_close(&r);
    }
    json_decref(golden);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conventions_are_those_of_transformers),
        cmocka_unit_test(thread_count_changes_no_bit),
        cmocka_unit_test(a_model_equals_itself),
        cmocka_unit_test(windows_have_the_same_bits_in_company),
        cmocka_unit_test(progress_counts_windows_and_stops),
        cmocka_unit_test(impossible_jobs_are_refused),
        cmocka_unit_test(logits_that_are_not_numbers_are_told),
        cmocka_unit_test(real_models_give_the_known_figures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
