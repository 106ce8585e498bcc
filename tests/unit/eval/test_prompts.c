/* eval/task/prompts: against transformers (tests/golden/eval/make_prompts.py); wrong files. */
#include "base/str.h"
#include "eval/task/prompts.h"
#include "unit/eval/fixture.h"

static enum pith_status run(const struct rig *r, struct pith_model *model, const char *content,
                            struct pith_prompts_result *got, struct pith_error *err)
{
    char *dir = test_temp_dir(), *path = pith_path_join(dir, "p.txt");
    *err = (struct pith_error){0};
    assert_ok(pith_file_write(path, content, strlen(content), err), *err);
    const struct pith_prompts_job job = {.backend = r->backend, .model = model,
                                         .baseline = r->model, .tokenizer = r->tokenizer,
                                         .path = path};
    const enum pith_status s = pith_eval_prompts(&job, got, err);
    assert_int_equal(pith_dir_remove(dir, NULL), PITH_OK);
    pith_free(path);
    free(dir);
    return s;
}

static void figures_are_those_of_transformers(void **state)
{
    (void)state;
    struct pith_error err = {0};
    struct pith_prompts_result got;
    struct pith_str text = {0};
    json_t *want;
    const json_t *prompt;
    size_t i;
    struct rig r;
    rig_open(&r, GOLDEN "tiny", 2);
    assert_ok(pith_json_load(GOLDEN "prompts.json", 1 << 16, &want, &err), err);
    json_array_foreach(json_object_get(want, "prompts"), i, prompt)
        pith_str_printf(&text, i % 2 ? "{\"prompt\": \"%s\"}\r\n" : "%s\n\n",
                        json_string_value(prompt));
    assert_ok(run(&r, r.worse, pith_str_text(&text), &got, &err), err);
    assert_int_equal(got.prompts, i);
    assert_int_equal(got.tokens, number(want, "tokens"));
    assert_int_equal(got.same, number(want, "same"));
    assert_close("agreement", got.top1_agreement, number(want, "top1_agreement"), 1e-12);
    assert_close("KL", got.kld_mean, number(want, "kld_mean"), 1e-5);
    assert_close("lower end", got.kld_ci95.lo, number(want, "lo"), 1e-5);
    assert_close("upper end", got.kld_ci95.hi, number(want, "hi"), 1e-5);
    assert_string_equal(got.verdict, "clear");
    assert_ok(run(&r, r.model, pith_str_text(&text), &got, &err), err);
    assert_int_equal(got.same, i);
    assert_true(got.top1_agreement == 1 && got.kld_ci95.hi < 1e-9);
    assert_string_equal(got.verdict, "none");
    assert_ok(run(&r, r.worse, "one alone", &got, &err), err);
    assert_string_equal(got.verdict, "unresolved");
    pith_str_free(&text);
    json_decref(want);
    rig_close(&r);
}

static void wrong_files_are_told(void **state)
{
    (void)state;
    static const struct {
        const char *content, *message;
    } cases[] = {
        {"", "no prompts"},
        {"\n\r\n", "no prompts"},
        {"good\n{\"text\": \"x\"}\n", "line 2: JSON without a \"prompt\""},
        {"good\n{\"prompt\": 3}\n", "line 2: JSON without a \"prompt\""},
        {"good\n{\"prompt\"\n", "not valid JSON"},
        {"good\n\xff\n", "not UTF-8"},
        {"one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen"
         " sixteen seventeen eighteen nineteen twenty twenty-one twenty-two twenty-three",
         "the model takes 1 to 64"},
    };
    struct rig r;
    rig_open(&r, GOLDEN "tiny", 1);
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        struct pith_prompts_result got;
        struct pith_error err;
        assert_int_equal(run(&r, r.worse, cases[i].content, &got, &err), PITH_FORMAT);
        if (!strstr(err.text, cases[i].message)) fail_msg("%zu: %s", i, err.text);
    }
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures_are_those_of_transformers),
        cmocka_unit_test(wrong_files_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
