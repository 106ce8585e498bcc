/* eval/task/questions, items, task: against lm-evaluation-harness
 * (tests/golden/tasks/make_tasks.py), item by item and choice by choice. */
#include "eval/task/shots.h"
#include "eval/task/task.h"
#include "eval/task/task_sums.h"
#include "unit/eval/fixture.h"

#include <time.h>

#define TASKS "tests/golden/tasks/"

static json_t *load(void)
{
    struct pith_error err = {0};
    json_t *j;
    assert_ok(pith_json_load(TASKS "golden.json", 1 << 20, &j, &err), err);
    return j;
}

struct opened {
    struct pith_task_source source;
    struct pith_items items;
    struct pith_task_answers answers;
};

static void answer(const struct rig *r, const struct pith_task_job *job, struct opened *o)
{
    struct pith_error err = {0};
    assert_ok(pith_task_items(job, &o->source, &o->items, &err), err);
    assert_ok(pith_task_answer(job, r->model, &o->items, 0, o->items.count, &o->answers, &err),
              err);
}

static void close_task(struct opened *o)
{
    pith_task_answers_free(&o->answers);
    pith_items_free(&o->items);
    pith_task_source_free(&o->source);
}

/* The difference of two scores that two orders of summation may make. */
static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-4 + 1e-5 * fabs(b);
}

/* A choice that the harness finds best by less than that may be another one here. */
static bool is_close_call(const json_t *scores)
{
    double best = -INFINITY, second = -INFINITY;
    const json_t *s;
    size_t i;
    json_array_foreach (scores, i, s) {
        const double x = json_number_value(s);
        if (x > best) {
            second = best;
            best = x;
        } else if (x > second) second = x;
    }
    return best - second < 2e-4;
}

static void compare_item(const struct opened *o, size_t index, const json_t *row)
{
    const struct pith_item *item = &o->items.item[index];
    const json_t *scores = json_array_get(json_object_get(row, "scores"), index);
    const json_t *greedy = json_array_get(json_object_get(row, "greedy"), index);
    const json_t *right = json_array_get(json_object_get(row, "right"), index);
    const json_t *norm = json_array_get(json_object_get(row, "right_norm"), index);
    assert_int_equal(json_array_size(scores), item->count);
    for (size_t i = 0; i < item->count; i++) {
        const size_t c = item->first + i;
        const double want = json_number_value(json_array_get(scores, i));
        if (!near(o->answers.score[c], want))
            fail_msg("%s, %zu shots, line %zu, choice %zu: %.6f is not %.6f", string(row, "path"),
                     (size_t)number(row, "shots"), item->line, i, o->answers.score[c], want);
        assert_int_equal(o->answers.greedy[c], json_integer_value(json_array_get(greedy, i)));
    }
    const bool word = o->source.form->flags & PITH_TASK_WORD;
    if (word || is_close_call(scores)) return;
    assert_int_equal(pith_task_pick(&o->items, item, &o->answers, false) == item->answer,
                     json_integer_value(right));
    if (norm)
        assert_int_equal(pith_task_pick(&o->items, item, &o->answers, true) == item->answer,
                         json_integer_value(norm));
}

static void compare_figures(const struct pith_task_result *got, const json_t *row)
{
    const json_t *groups = json_object_get(row, "groups"), *g;
    size_t i;
    assert_close(string(row, "path"), got->all.plain.accuracy, number(row, "accuracy"), 1e-5);
    if (json_object_get(row, "perplexity"))
        assert_close("perplexity", got->all.perplexity / number(row, "perplexity"), 1, 1e-4);
    assert_true(got->groups >= json_array_size(groups));
    json_array_foreach (groups, i, g) {
        const struct pith_task_group *own = &got->group[got->groups - json_array_size(groups) + i];
        assert_string_equal(own->name, json_string_value(json_array_get(g, 0)));
        assert_int_equal(own->figures.n, json_integer_value(json_array_get(g, 1)));
        assert_close(own->name, own->figures.plain.accuracy,
                     json_number_value(json_array_get(g, 2)), 1e-5);
    }
}

static void compare_row(const struct rig *r, const char *folder, const json_t *row)
{
    char path[600], file[600];
    struct pith_chat *chat = NULL;
    struct opened o;
    struct pith_task_result got;
    struct pith_error err = {0};
    snprintf(path, sizeof path, "%s%s", folder, string(row, "path"));
    if (json_object_get(row, "chat")) {
        snprintf(file, sizeof file, "%s%s", folder, string(row, "chat"));
        assert_ok(pith_chat_open(GOLDEN "tiny", file, &chat, &err), err);
    }
    const struct pith_task_job job = {.backend = r->backend,
                                      .model = r->model,
                                      .tokenizer = r->tokenizer,
                                      .path = path,
                                      .limit = (size_t)number(row, "limit"),
                                      .chat = chat,
                                      .shots = (size_t)number(row, "shots")};
    answer(r, &job, &o);
    assert_int_equal(o.items.count, json_array_size(json_object_get(row, "scores")));
    for (size_t i = 0; i < o.items.count; i++) compare_item(&o, i, row);
    const struct pith_task_sums sums = {&o.source, &o.items, &o.answers, NULL};
    got = (struct pith_task_result){0};
    assert_ok(pith_task_sum(&sums, &got, &err), err);
    compare_figures(&got, row);
    pith_task_result_free(&got);
    close_task(&o);
    pith_chat_close(chat);
}

static void own_files_as_the_harness_reads_them(void **state)
{
    (void)state;
    json_t *golden = load();
    const json_t *row;
    size_t i;
    struct rig r;
    rig_open(&r, GOLDEN "tiny", 2);
    assert_true(json_array_size(json_object_get(golden, "own")) >= 15);
    json_array_foreach (json_object_get(golden, "own"), i, row) compare_row(&r, TASKS, row);
    rig_close(&r);
    json_decref(golden);
}

/* By a template that writes BOS itself, and one that refuses what a system says. */
static void questions_as_the_harness_puts_them_into_a_conversation(void **state)
{
    (void)state;
    json_t *golden = load();
    const json_t *row;
    size_t i;
    struct rig r;
    rig_open(&r, GOLDEN "tiny", 2);
    assert_int_equal(json_array_size(json_object_get(golden, "chat")), 14);
    json_array_foreach (json_object_get(golden, "chat"), i, row) compare_row(&r, TASKS, row);
    rig_close(&r);
    json_decref(golden);
}

/* Shots are read in the same way from all forms: what they do is seen on one, and on all if
 * thorough. */
static bool is_wanted(const json_t *row)
{
    return test_thorough() || number(row, "shots") == 0 || strstr(string(row, "path"), "arc_easy");
}

static void compare_model(const json_t *rows, const char *name)
{
    char path[512], folder[512];
    const json_t *row;
    size_t i;
    struct rig r;
    snprintf(path, sizeof path, "%s/models/%s", test_data_dir(), name);
    snprintf(folder, sizeof folder, "%s/tasks/", test_data_dir());
    rig_open(&r, path, 2);
    json_array_foreach (rows, i, row)
        if (strcmp(string(row, "model"), name) == 0 && is_wanted(row)) compare_row(&r, folder, row);
    rig_close(&r);
}

static void published_files_as_the_harness_reads_them(void **state)
{
    (void)state;
    char path[512];
    snprintf(path, sizeof path, "%s/tasks/mmlu", test_data_dir());
    if (!pith_path_is_dir(path)) skip();
    json_t *golden = load();
    const json_t *rows = json_object_get(golden, "real");
    assert_true(json_array_size(rows) >= 20);
    compare_model(rows, "probe");
    if (test_thorough()) compare_model(rows, "stories260K");
    json_decref(golden);
}

/* Python: r = random.Random(1234); r.sample(range(n), k) for the pairs below, in one go. */
static void samples_are_pythons(void **state)
{
    (void)state;
    static const struct {
        size_t n, k, want[8];
    } cases[] = {
#include "golden/tasks/samples.inc"
    };
    struct pith_twister t;
    struct pith_error err = {0};
    pith_twister_seed(&t, 1234);
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        size_t got[8];
        assert_ok(pith_twister_sample(&t, cases[i].n, cases[i].k, got, &err), err);
        assert_memory_equal(got, cases[i].want, cases[i].k * sizeof got[0]);
    }
}

/* Brackets that stay open are looked through once, not each from its own place. */
static void open_brackets_take_no_time(void **state)
{
    (void)state;
    enum { OPEN = 1 << 20 };
    struct pith_error err = {0};
    struct pith_str text = {0};
    pith_str_puts(&text, "{\"activity_label\": \"A\", \"ctx_a\": \"");
    for (int i = 0; i < OPEN; i++) pith_str_putc(&text, '[');
    pith_str_puts(&text, "x [y] [z\\n]\", \"ctx_b\": \"b\", \"ind\": 1, \"label\": 0, "
                         "\"endings\": [\"one [cut] end\", \"two\", \"three\", \"four\"]}\n");
    assert_false(text.failed);
    const struct pith_records records = {.path = "a task", .text = text.data, .size = text.len};
    const struct pith_task_wish wish = {.path = "a task"};
    struct pith_task_source source;
    const clock_t begin = clock();
    assert_ok(pith_task_source_parse(&records, NULL, &wish, &source, &err), err);
    assert_true(clock() - begin < 5 * CLOCKS_PER_SEC);
    const struct pith_span *s = source.questions.choice;
    assert_memory_equal(source.questions.text.data + s[0].at, "one end", s[0].size);
    /* All that is open up to the first that closes goes with it. */
    assert_memory_equal(source.questions.text.data + source.questions.item[0].text.at, "A: [z\n] B",
                        source.questions.item[0].text.size);
    pith_task_source_free(&source);
    pith_str_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_are_pythons),
        cmocka_unit_test(open_brackets_take_no_time),
        cmocka_unit_test(own_files_as_the_harness_reads_them),
        cmocka_unit_test(questions_as_the_harness_puts_them_into_a_conversation),
        cmocka_unit_test(published_files_as_the_harness_reads_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
