/* eval/task: against transformers (tests/golden/eval/make_golden.py), and files that are wrong. */
#include "unit/eval/fixture.h"

static void assert_task(const struct pith_task_result *result, const json_t *want)
{
    const struct pith_accuracy *got = &result->all.plain;
    const double n = number(want, "n");
    assert_int_equal(result->all.n, n);
    assert_int_equal(result->undecided, number(want, "undecided"));
    assert_close("accuracy", got->accuracy, number(want, "accuracy"), 1e-12);
    assert_true(result->all.has_baseline);
    assert_close("baseline", got->baseline, number(want, "baseline_accuracy"), 1e-12);
    assert_close("delta", got->delta, got->accuracy - got->baseline, 1e-12);
    assert_close("lower end", got->delta_ci95.lo, number(want, "lo"), 1e-9);
    assert_close("upper end", got->delta_ci95.hi, number(want, "hi"), 1e-9);
    assert_close("p", got->mcnemar_p, number(want, "p"), 1e-9);
    assert_true(got->ci95.lo < got->accuracy && got->accuracy < got->ci95.hi);
}

static void task_is_that_of_transformers(void **state)
{
    (void)state;
    json_t *golden = golden_load();
    struct rig r;
    rig_open(&r, GOLDEN "tiny", 2);
    struct pith_task_job job = {.backend = r.backend,
                                .model = r.worse,
                                .baseline = r.model,
                                .tokenizer = r.tokenizer,
                                .path = GOLDEN "tiny.jsonl"};
    struct pith_task_result got, alone;
    struct pith_error err = {0};
    assert_ok(pith_eval_task(&job, &got, &err), err);
    assert_task(&got, json_object_get(json_object_get(golden, "tiny"), "task"));
    assert_string_equal(got.name, "tiny");
    job.baseline = NULL;
    assert_ok(pith_eval_task(&job, &alone, &err), err);
    assert_true(alone.all.plain.accuracy == got.all.plain.accuracy && !alone.all.has_baseline);
    job.limit = 7;
    assert_ok(pith_eval_task(&job, &alone, &err), err);
    assert_int_equal(alone.all.n, 7);
    rig_close(&r);
    json_decref(golden);
}

static void probe_has_its_skills(void **state)
{
    (void)state;
    char path[512];
    snprintf(path, sizeof path, "%s/models/probe", test_data_dir());
    if (!pith_path_is_dir(path)) skip();
    json_t *golden = golden_load();
    const json_t *row;
    size_t i;
    struct rig r;
    rig_open(&r, path, 2);
    json_array_foreach (json_object_get(json_object_get(golden, "data"), "tasks"), i, row) {
        snprintf(path, sizeof path, "%s/models/probe/tasks/%s", test_data_dir(),
                 string(row, "file"));
        const struct pith_task_job job = {.backend = r.backend,
                                          .model = r.worse,
                                          .baseline = r.model,
                                          .tokenizer = r.tokenizer,
                                          .path = path,
                                          .limit = 40};
        struct pith_task_result got;
        struct pith_error err = {0};
        assert_ok(pith_eval_task(&job, &got, &err), err);
        assert_task(&got, row);
    }
    rig_close(&r);
    json_decref(golden);
}

/* Runs a task file of that content and returns its status. */
static enum pith_status run(const struct rig *r, const char *content, size_t size,
                            struct pith_task_result *got, struct pith_error *err)
{
    char *dir = test_temp_dir(), *path = pith_path_join(dir, "t.jsonl");
    *err = (struct pith_error){0};
    assert_ok(pith_file_write(path, content, size, err), *err);
    const struct pith_task_job job = {
        .backend = r->backend, .model = r->model, .tokenizer = r->tokenizer, .path = path};
    const enum pith_status s = pith_eval_task(&job, got, err);
    assert_int_equal(pith_dir_remove(dir, NULL), PITH_OK);
    pith_free(path);
    free(dir);
    return s;
}

#define GOOD "{\"context\":\"the\",\"choices\":[\" lamp\",\" boy\"],\"answer\":1}\n"

static void wrong_files_are_told_by_line(void **state)
{
    (void)state;
    static const struct {
        const char *line, *message;
    } bad[] = {
        {"", NULL},
        {"nonsense", "not valid JSON"},
        {"[1,2]", "not a JSON object"},
        {"7", "not valid JSON"},
        {"{\"context\":\"a\",\"choices\":[\"b\",\"c\"]", "not valid JSON"},
        {"{\"choices\":[\"b\",\"c\"],\"answer\":0}", "\"context\" is missing"},
        {"{\"context\":3,\"choices\":[\"b\",\"c\"],\"answer\":0}", "\"context\" is missing"},
        {"{\"context\":\"a\",\"answer\":0}", "\"choices\" is not a list"},
        {"{\"context\":\"a\",\"choices\":\"bc\",\"answer\":0}", "\"choices\" is not a list"},
        {"{\"context\":\"a\",\"choices\":[\"b\"],\"answer\":0}", "two or more"},
        {"{\"context\":\"a\",\"choices\":[\"b\",4],\"answer\":0}", "a choice is not a string"},
        {"{\"context\":\"a\",\"choices\":[\"b\",null],\"answer\":0}", "a choice is not a string"},
        {"{\"context\":\"a\",\"choices\":[\"b\",\"\"],\"answer\":0}", "a choice is empty"},
        {"{\"context\":\"a\",\"choices\":[\"b\",\"c\"]}", "\"answer\" is missing"},
        {"{\"context\":\"a\",\"choices\":[\"b\",\"c\"],\"answer\":\"0\"}", "\"answer\" is missing"},
        {"{\"context\":\"a\",\"choices\":[\"b\",\"c\"],\"answer\":0.0}", "\"answer\" is missing"},
        {"{\"context\":\"a\",\"choices\":[\"b\",\"c\"],\"answer\":2}", "2, outside 0..1"},
        {"{\"context\":\"a\",\"choices\":[\"b\",\"c\"],\"answer\":-1}", "-1, outside 0..1"},
        {"{\"context\":\"\\ud800\",\"choices\":[\"b\",\"c\"],\"answer\":NaN}",
         "\"answer\" is missing"},
        {"{\"context\":\"a\",\"choices\":[\"b\",\"c\"],\"answer\":99999999999999999999}",
         "is missing"},
        {"{\"context\":\"a\xff\",\"choices\":[\"b\",\"c\"],\"answer\":0}", "not UTF-8"},
    };
    struct rig r;
    rig_open(&r, GOLDEN "tiny", 1);
    for (size_t i = 0; i < PITH_COUNT(bad); i++) {
        char content[400];
        struct pith_task_result got;
        struct pith_error err;
        snprintf(content, sizeof content, "%s\n  \r\n%s\n", bad[i].message ? GOOD : "",
                 bad[i].line);
        assert_int_equal(run(&r, content, strlen(content), &got, &err), PITH_FORMAT);
        if (!strstr(err.text, bad[i].message ? bad[i].message : "no items"))
            fail_msg("%zu: %s", i, err.text);
        if (bad[i].message && !strstr(err.text, "line 4")) fail_msg("%zu: %s", i, err.text);
    }
    struct pith_task_result got;
    struct pith_error err;
    assert_int_equal(run(&r, "", 0, &got, &err), PITH_FORMAT);
    assert_int_equal(run(&r, "\0\0\0", 3, &got, &err), PITH_FORMAT);
    assert_int_equal(run(&r, GOOD, sizeof GOOD - 2, &got, &err), PITH_OK); /* no final newline */
    assert_int_equal(got.all.n, 1);
    rig_close(&r);
}

/* "an" and "and" are a token each: the choice "d" has none of its own. */
static void a_choice_that_merges_is_counted(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r, GOLDEN "tiny", 1);
    const char line[] = "{\"context\":\"an\",\"choices\":[\" x\",\"d\"],\"answer\":1}\n";
    struct pith_task_result got;
    struct pith_error err;
    assert_ok(run(&r, line, sizeof line - 1, &got, &err), err);
    assert_int_equal(got.undecided, 1);
    assert_true(got.all.plain.accuracy == 1);
    rig_close(&r);
}

static void too_long_for_the_model(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r, GOLDEN "tiny", 1);
    char content[1200];
    memset(content, 'x', sizeof content);
    const char head[] = "{\"answer\":0,\"choices\":[\" a\",\" b\"],\"context\":\"";
    memcpy(content, head, sizeof head - 1);
    memcpy(content + sizeof content - 2, "\"}", 2);
    struct pith_task_result got;
    struct pith_error err;
    assert_int_equal(run(&r, content, sizeof content, &got, &err), PITH_FORMAT);
    assert_non_null(strstr(err.text, "the model takes 128"));
    rig_close(&r);
}

static void a_missing_file_is_told(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r, GOLDEN "tiny", 1);
    const struct pith_task_job job = {
        .backend = r.backend, .model = r.model, .tokenizer = r.tokenizer, .path = "no/such.jsonl"};
    struct pith_task_result got;
    struct pith_error err = {0};
    assert_int_equal(pith_eval_task(&job, &got, &err), PITH_IO);
    assert_non_null(strstr(err.text, "no/such.jsonl"));
    rig_close(&r);
}

static int stop_at_65(void *ctx, const char *what, double done, double total)
{
    double *last = ctx;
    if (strcmp(what, "reading questions") == 0) {
        assert_true(done <= total && total == 60);
        return 0;
    }
    assert_true(done <= total && total == 120);
    *last = done;
    return done == 65;
}

static void progress_covers_both_models(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r, GOLDEN "tiny", 1);
    double last = 0;
    const struct pith_progress p = {stop_at_65, &last};
    const struct pith_task_job job = {.backend = r.backend,
                                      .model = r.model,
                                      .baseline = r.worse,
                                      .tokenizer = r.tokenizer,
                                      .path = GOLDEN "tiny.jsonl",
                                      .progress = &p};
    struct pith_task_result got;
    struct pith_error err = {0};
    assert_int_equal(pith_eval_task(&job, &got, &err), PITH_INTERRUPTED);
    assert_true(last == 65);
    rig_close(&r);
}

static int stop_reading(void *ctx, const char *what, double done, double total)
{
    (void)total;
    assert_string_equal(what, "reading questions");
    *(double *)ctx = done;
    return done == 7;
}

/* Thousands of questions take seconds to encode before the first is answered. */
static void reading_can_be_stopped(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r, GOLDEN "tiny", 1);
    double last = 0;
    const struct pith_progress p = {stop_reading, &last};
    const struct pith_task_job job = {.backend = r.backend,
                                      .model = r.model,
                                      .tokenizer = r.tokenizer,
                                      .path = GOLDEN "tiny.jsonl",
                                      .progress = &p};
    struct pith_task_result got;
    struct pith_error err = {0};
    assert_int_equal(pith_eval_task(&job, &got, &err), PITH_INTERRUPTED);
    assert_true(last == 7);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(task_is_that_of_transformers),
        cmocka_unit_test(probe_has_its_skills),
        cmocka_unit_test(wrong_files_are_told_by_line),
        cmocka_unit_test(a_choice_that_merges_is_counted),
        cmocka_unit_test(too_long_for_the_model),
        cmocka_unit_test(a_missing_file_is_told),
        cmocka_unit_test(progress_covers_both_models),
        cmocka_unit_test(reading_can_be_stopped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
