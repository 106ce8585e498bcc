/* eval/baseline_text: a baseline that is kept is not asked again, and nothing else changes. */
#include "eval/baseline_text.h"
#include "llama.h"
#include "unit/eval/fixture.h"

#include <unistd.h>

enum { IDS = 500 };
static int32_t ids[IDS];

static struct pith_text_job job_of(const struct rig *r, enum pith_convention c)
{
    for (int i = 0; i < IDS; i++) ids[i] = (7 * i + i * i / 3) % 320;
    return (struct pith_text_job){.backend = r->backend,
                                  .model = r->worse,
                                  .baseline = r->model,
                                  .ids = ids,
                                  .count = IDS,
                                  .bos = 1,
                                  .convention = c,
                                  .context = 64,
                                  .stride = 24};
}

/* Fills `kept` as a comparison does: the baseline is measured first, alone. */
static void keep(struct pith_text_job job, struct pith_cached_text *cached)
{
    struct pith_text_result alone;
    struct pith_error err = {0};
    job.model = job.baseline;
    job.baseline = NULL;
    job.cached = cached;
    assert_ok(pith_eval_text(&job, &alone, &err), err);
}

static void assert_same(struct pith_text_result a, struct pith_text_result b)
{
    assert_true(a.nll == b.nll && a.nll_se == b.nll_se && a.tokens == b.tokens);
    assert_true(a.baseline_nll == b.baseline_nll && a.top1_agreement == b.top1_agreement);
    assert_true(a.kld_mean == b.kld_mean && a.kld_median == b.kld_median);
    assert_true(a.kld_p99 == b.kld_p99 && a.kld_max == b.kld_max);
    assert_true(a.nll_delta == b.nll_delta && a.nll_delta_ci95.lo == b.nll_delta_ci95.lo);
    assert_true(a.harm.harm == b.harm.harm && a.harm.cause == b.harm.cause);
    assert_memory_equal(&a.harm.kld_ci95, &b.harm.kld_ci95, sizeof a.harm.kld_ci95);
}

/* The very bits, whether all windows are kept, some, or none; and once all are kept the baseline
 * may be broken. */
static void text_is_measured_the_same(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r, GOLDEN "tiny", 1);
    const size_t row = r.model->shape.hidden * sizeof(float);
    for (int c = PITH_CONVENTION_GPTQ; c < PITH_CONVENTIONS; c++) {
        struct pith_text_job job = job_of(&r, (enum pith_convention)c);
        struct pith_text_result plain, got;
        struct pith_error err = {0};
        assert_ok(pith_eval_text(&job, &plain, &err), err);
        const size_t room[] = {plain.tokens * row, 150 * row, 0};
        for (size_t i = 0; i < PITH_COUNT(room); i++) {
            struct pith_cached_text cached = {.most = room[i]};
            keep(job, &cached);
            assert_true(i == 0   ? cached.count == plain.windows
                        : i == 1 ? cached.count > 0 && cached.count < plain.windows
                                 : cached.count == 0);
            job.cached = &cached;
            assert_ok(pith_eval_text(&job, &got, &err), err);
            assert_same(got, plain);
            const float before = r.model->blocks[0].vector[LLAMA_INPUT][3];
            r.model->blocks[0].vector[LLAMA_INPUT][3] = NAN;
            const enum pith_status s = pith_eval_text(&job, &got, &(struct pith_error){0});
            r.model->blocks[0].vector[LLAMA_INPUT][3] = before;
            assert_int_equal(s, i == 0 ? PITH_OK : PITH_NUMERIC);
            if (i == 0) assert_same(got, plain);
            pith_cached_text_free(&cached);
            assert_null(cached.rows);
        }
    }
    rig_close(&r);
}

/* With a folder the first model that is compared leaves the baseline's logits there, so its last
 * norm may be broken too; a folder that is none changes nothing. */
static void logits_are_computed_once(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r, GOLDEN "tiny", 1);
    char *folder = test_temp_dir();
    const char *const where[] = {NULL, folder, "/dev/null/none"};
    for (size_t i = 0; i < PITH_COUNT(where); i++) {
        struct pith_text_job job = job_of(&r, PITH_CONVENTION_HF);
        struct pith_cached_text cached = {.most = 1 << 20, .folder = where[i]};
        struct pith_text_result plain, got;
        struct pith_error err = {0};
        assert_ok(pith_eval_text(&job, &plain, &err), err);
        keep(job, &cached);
        job.cached = &cached;
        assert_ok(pith_eval_text(&job, &got, &err), err);
        assert_same(got, plain);
        const float before = r.model->final_norm[3];
        r.model->final_norm[3] = NAN;
        const enum pith_status s = pith_eval_text(&job, &got, &(struct pith_error){0});
        r.model->final_norm[3] = before;
        assert_int_equal(s, i == 1 ? PITH_OK : PITH_NUMERIC);
        if (i == 1) assert_same(got, plain);
        pith_cached_text_free(&cached);
        assert_null(cached.lse);
    }
    assert_int_equal(rmdir(folder), 0); /* the file is gone already */
    free(folder);
    rig_close(&r);
}

/* Other windows than those kept are read again: here a shorter context, then another width. */
static void other_windows_are_not_taken_for_them(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r, GOLDEN "tiny", 1);
    struct pith_cached_text cached = {.most = 1 << 20};
    struct pith_text_job job = job_of(&r, PITH_CONVENTION_GPTQ);
    struct pith_text_result plain, got;
    struct pith_error err = {0};
    keep(job, &cached);
    job.context = 32;
    assert_ok(pith_eval_text(&job, &plain, &err), err);
    job.cached = &cached;
    assert_ok(pith_eval_text(&job, &got, &err), err);
    assert_same(got, plain);
    const struct pith_window first = {.length = 64, .score_from = 1, .weight = 63};
    const size_t hidden = r.model->shape.hidden;
    assert_ptr_equal(pith_cached_find(&cached, 0, &first, hidden), cached.rows);
    assert_null(pith_cached_find(&cached, 0, &first, hidden - 1));
    assert_null(pith_cached_find(&cached, 1, &first, hidden));
    assert_null(pith_cached_find(&cached, 100, &first, hidden));
    pith_cached_text_free(&cached);
    rig_close(&r);
}

static int count_steps(void *ctx, const char *what, double done, double total)
{
    assert_true(done <= total);
    *(double *)ctx += strcmp(what, "reading questions") != 0;
    return 0;
}

static void task_is_answered_once(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r, GOLDEN "tiny", 1);
    struct pith_task_answers cached = {0};
    double steps = 0;
    const struct pith_progress p = {count_steps, &steps};
    struct pith_task_job job = {.backend = r.backend,
                                .model = r.worse,
                                .baseline = r.model,
                                .tokenizer = r.tokenizer,
                                .path = GOLDEN "tiny.jsonl",
                                .progress = &p};
    struct pith_task_result plain, got;
    struct pith_error err = {0};
    assert_ok(pith_eval_task(&job, &plain, &err), err);
    assert_true(steps == 120);
    struct pith_task_job alone = job;
    alone.model = r.model;
    alone.baseline = NULL;
    alone.cached = job.cached = &cached;
    assert_ok(pith_eval_task(&alone, &got, &err), err);
    assert_int_equal(cached.count, 210); /* choices */
    steps = 0;
    assert_ok(pith_eval_task(&job, &got, &err), err);
    assert_true(steps == 60);
    const struct pith_accuracy *a = &got.all.plain, *b = &plain.all.plain;
    assert_true(a->baseline == b->baseline && a->delta == b->delta);
    assert_true(a->delta_ci95.lo == b->delta_ci95.lo && a->mcnemar_p == b->mcnemar_p);
    job.limit = 7; /* not the items that were kept */
    steps = 0;
    assert_ok(pith_eval_task(&job, &got, &err), err);
    assert_true(steps == 14);
    pith_task_answers_free(&cached);
    assert_null(cached.score);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_measured_the_same),
        cmocka_unit_test(logits_are_computed_once),
        cmocka_unit_test(other_windows_are_not_taken_for_them),
        cmocka_unit_test(task_is_answered_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
