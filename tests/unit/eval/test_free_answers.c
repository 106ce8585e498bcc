/* eval/task/free_answers: what a model says, and how it is judged, against lm-evaluation-harness
 * (tests/golden/tasks/make_answers.py), item by item. */
#include "eval/task/free_answers.h"
#include "eval/task/schema.h"
#include "eval/task/task.h"
#include "unit/eval/fixture.h"

#define TASKS "tests/golden/tasks/"

static json_t *load(void)
{
    struct pith_error err = {0};
    json_t *j;
    assert_ok(pith_json_load(TASKS "said.json", 1 << 20, &j, &err), err);
    return j;
}

static const struct pith_saying *find(const char *name)
{
    for (const struct pith_task_form *f = pith_task_forms; f->name; f++)
        if (strcmp(f->name, name) == 0) return pith_saying_of(f);
    return NULL;
}

/* Judges what was said; all texts as they stand. */
static struct pith_judged judged(const struct pith_saying *how, const json_t *said,
                                 const char *target, size_t size)
{
    struct pith_error err = {0};
    struct pith_judged got;
    const struct pith_answer a = {.prompt = {"", 0},
                                  .target = {target, size},
                                  .reply = {json_string_value(said), json_string_length(said)}};
    assert_ok(how->judge(&a, &got, &err), err);
    return got;
}

static void numbers_as_the_harness_finds_them(void **state)
{
    (void)state;
    json_t *golden = load();
    const json_t *rows = json_object_get(golden, "judged"), *row;
    const struct pith_saying *how = find("gsm8k");
    size_t i, right = 0, flexible = 0;
    json_array_foreach (rows, i, row) {
        const json_t *said = json_array_get(row, 0), *target = json_array_get(row, 1);
        const struct pith_judged got =
            judged(how, said, json_string_value(target), json_string_length(target));
        if (got.right != (json_integer_value(json_array_get(row, 2)) != 0) ||
            got.flexible != (json_integer_value(json_array_get(row, 3)) != 0))
            fail_msg("\"%s\" for \"%s\": %d %d", json_string_value(said), json_string_value(target),
                     got.right, got.flexible);
        right += got.right;
        flexible += got.flexible;
    }
    assert_true(i > 1000 && right > 40 && flexible > 90);
    json_decref(golden);
}

static void compare(const struct rig *r, const json_t *row)
{
    struct pith_error err = {0};
    struct pith_task_source source;
    struct pith_items items;
    struct pith_speaker s;
    struct pith_task_answers cached;
    const json_t *rows = json_object_get(row, "items");
    const struct pith_task_job job = {
        .backend = r->backend,
        .model = r->model,
        .tokenizer = r->tokenizer,
        .path = TASKS "gsm8k_own.jsonl",
        .limit = test_thorough() ? json_array_size(rows) : 6,
        .shots = (size_t)json_integer_value(json_object_get(row, "shots"))};
    assert_ok(pith_task_items(&job, &source, &items, &err), err);
    assert_int_equal(items.count, job.limit);
    assert_ok(pith_speaker_open(&s, &job, r->model, &items, &err), err);
    for (size_t i = 0; i < items.count; i++) {
        assert_ok(pith_speaker_say(&s, &items.item[i], &err), err);
        assert_string_equal(pith_str_text(&s.text),
                            json_string_value(json_array_get(json_array_get(rows, i), 0)));
    }
    pith_speaker_close(&s);
    assert_ok(pith_task_answer(&job, r->model, &items, 0, items.count, &cached, &err), err);
    for (size_t i = 0; i < items.count; i++) {
        const json_t *want = json_array_get(rows, i);
        assert_int_equal(cached.greedy[i], json_integer_value(json_array_get(want, 1)));
        assert_int_equal(cached.score[i] > 0, json_integer_value(json_array_get(want, 2)));
    }
    pith_task_answers_free(&cached);
    pith_items_free(&items);
    pith_task_source_free(&source);
}

static void the_probe_says_what_it_says_there(void **state)
{
    (void)state;
    json_t *golden = load();
    const json_t *row;
    size_t i;
    struct rig r;
    rig_open(&r, "models/probe", 2);
    json_array_foreach (json_object_get(golden, "spoken"), i, row) compare(&r, row);
    assert_int_equal(i, 2);
    rig_close(&r);
    json_decref(golden);
}

static void texts_are_alike_but_for_white_space_around(void **state)
{
    (void)state;
    static const struct {
        const char *said, *target;
        bool right;
    } cases[] = {{" 13.", "13.", true}, {"13.", " 13. ", true}, {"13", "13.", false},
                 {"", "", true},        {" ", "", true},        {"13. ", "", false},
                 {"1 3", "13", false},  {"", "13", false}};
    const struct pith_saying *how = find("exact");
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        json_t *said = json_string(cases[i].said);
        assert_int_equal(judged(how, said, cases[i].target, strlen(cases[i].target)).right,
                         cases[i].right);
        json_decref(said);
    }
}

static void values_as_other_validators_take_them(void **state)
{
    (void)state;
    struct pith_error err = {0};
    const struct pith_saying *how = find("json");
    json_t *golden;
    const json_t *row;
    size_t i, right = 0;
    assert_ok(pith_json_load(TASKS "schemas.json", 1 << 20, &golden, &err), err);
    json_array_foreach (golden, i, row) {
        const json_t *text = json_array_get(row, 1);
        struct pith_str schema = {0};
        assert_null(pith_schema_lacks(json_array_get(row, 0)));
        pith_json_dump(json_array_get(row, 0), JSON_COMPACT, &schema);
        const struct pith_judged got = judged(how, text, schema.data, schema.len);
        if (got.right != (json_integer_value(json_array_get(row, 2)) != 0))
            fail_msg("\"%s\" for %s: %d", json_string_value(text), schema.data, got.right);
        right += got.right;
        pith_str_free(&schema);
    }
    assert_true(i > 500 && right > 300 && i - right > 150);
    json_decref(golden);
}

static void what_a_schema_asks_is_understood_or_named(void **state)
{
    (void)state;
    static const struct {
        const char *schema, *lacks;
    } cases[] = {{"{}", NULL},
                 {"[]", "schema"},
                 {"{\"pattern\": \"a\"}", "pattern"},
                 {"{\"type\": \"float\"}", "type"},
                 {"{\"type\": []}", "type"},
                 {"{\"items\": {\"format\": \"date\"}}", "items"},
                 {"{\"properties\": {\"a\": {\"anyOf\": []}}}", "properties"},
                 {"{\"additionalProperties\": {}}", "additionalProperties"},
                 {"{\"required\": [1]}", "required"},
                 {"{\"minLength\": -1}", "minLength"},
                 {"{\"enum\": []}", "enum"}};
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        struct pith_error err = {0};
        json_t *j;
        assert_ok(pith_json_parse(cases[i].schema, strlen(cases[i].schema), "a case", &j, &err),
                  err);
        const char *lacks = pith_schema_lacks(j);
        assert_int_equal(lacks == NULL, cases[i].lacks == NULL);
        if (lacks) assert_string_equal(lacks, cases[i].lacks);
        json_decref(j);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_as_the_harness_finds_them),
        cmocka_unit_test(texts_are_alike_but_for_white_space_around),
        cmocka_unit_test(values_as_other_validators_take_them),
        cmocka_unit_test(what_a_schema_asks_is_understood_or_named),
        cmocka_unit_test(the_probe_says_what_it_says_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
