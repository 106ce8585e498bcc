/* eval/task/synthetic_tasks: what the made tasks ask, whether it fits, where it stands. */
#include "eval/task/synthetic_tasks.h"
#include "eval/task/task.h"
#include "unit/eval/fixture.h"

#include <stdlib.h>

#define PROBE "models/probe"

static struct pith_tokenizer *tokenizer;

static int open_tokenizer(void **state)
{
    (void)state;
    struct pith_error err = {0};
    assert_ok(pith_tokenizer_open(PROBE, &tokenizer, &err), err);
    return 0;
}

static int close_tokenizer(void **state)
{
    (void)state;
    pith_tokenizer_close(tokenizer);
    return 0;
}

static struct pith_task_source make(const char *name, size_t length, size_t seed, size_t limit)
{
    const struct pith_task_wish wish = {
        .path = name, .limit = limit, .length = length, .seed = seed, .tokenizer = tokenizer};
    struct pith_task_source source;
    struct pith_error err = {0};
    assert_ok(pith_task_source_open(&wish, &source, &err), err);
    assert_int_equal(source.subjects, PITH_MADE_DEPTHS);
    assert_int_equal(source.questions.count, PITH_MADE_DEPTHS * limit);
    assert_int_equal(source.length, length);
    return source;
}

static void tell(struct pith_str *out, const struct pith_questions *q, size_t i)
{
    const struct pith_question *x = &q->item[i];
    pith_str_append(out, q->text.data + x->text.at, x->text.size);
    pith_str_puts(out, "|");
    for (size_t c = 0; c < x->count; c++) {
        const struct pith_span s = q->choice[x->first + c];
        pith_str_printf(out, "%s%.*s%s", c ? "," : "", (int)s.size, q->text.data + s.at,
                        c == x->answer ? "*" : "");
    }
    pith_str_putc(out, '\n');
}

/* PITH_WRITE_GOLDEN=1 in the environment writes the file instead. */
static void texts_are_these(void **state)
{
    (void)state;
    static const char path[] = "tests/golden/made/items.txt";
    struct pith_str out = {0};
    struct pith_error err = {0};
    char *want;
    size_t size;
    for (size_t i = 0; pith_made_name(i); i++) {
        struct pith_task_source s = make(pith_made_name(i), 192, 7, 1);
        pith_str_printf(&out, "%s\n", pith_made_name(i));
        tell(&out, &s.questions, 0);
        tell(&out, &s.questions, 5);
        tell(&out, &s.questions, 10);
        pith_task_source_free(&s);
    }
    assert_false(out.failed);
    if (getenv("PITH_WRITE_GOLDEN")) assert_ok(pith_file_write(path, out.data, out.len, &err), err);
    assert_ok(pith_file_read(path, 1u << 20, &want, &size, &err), err);
    assert_int_equal(size, out.len);
    assert_memory_equal(want, out.data, size);
    pith_free(want);
    pith_str_free(&out);
}

/* Tokens of the longest sequence of each item, as it will be scored. */
static void items_fill_their_length(void **state)
{
    (void)state;
    static const size_t lengths[] = {192, 511, 1500};
    struct pith_error err = {0};
    for (size_t i = 0; pith_made_name(i); i++) {
        for (size_t l = 0; l < PITH_COUNT(lengths); l++) {
            const size_t length = lengths[l];
            struct pith_task_source s = make(pith_made_name(i), length, 3, 2);
            const struct pith_item_rules rules = {
                .path = pith_made_name(i), .tokenizer = tokenizer, .max_length = length};
            struct pith_items items;
            assert_ok(pith_items_make(&s, &rules, &items, &err), err);
            for (size_t k = 0; k < items.count; k++) {
                size_t most = 0;
                for (size_t c = 0; c < items.item[k].count; c++) {
                    const struct pith_item_choice *x = &items.choice[items.item[k].first + c];
                    assert_true(x->score_from < x->length);
                    if (x->length > most) most = x->length;
                }
                assert_in_range(most, length - 40, length);
            }
            pith_items_free(&items);
            pith_task_source_free(&s);
        }
    }
}

/* Where in the context the answer stands, for tasks that show it once: as deep as is said. */
static void answers_stand_at_their_depth(void **state)
{
    (void)state;
    static const char *const names[] = {"needle", "needles", "track"};
    for (size_t i = 0; i < PITH_COUNT(names); i++) {
        struct pith_task_source s = make(names[i], 2000, 11, 3);
        for (size_t k = 0; k < s.questions.count; k++) {
            const struct pith_question *q = &s.questions.item[k];
            const struct pith_span right = s.questions.choice[q->first + q->answer];
            char *text = strndup(s.questions.text.data + q->text.at, q->text.size);
            char *answer = strndup(s.questions.text.data + right.at, right.size);
            const char *at = strstr(text, answer);
            assert_non_null(at);
            const double depth = (double)(at - text) / (double)q->text.size;
            assert_true(fabs(depth - s.subject[k / 3].depth) < 0.1);
            free(text);
            free(answer);
        }
        pith_task_source_free(&s);
    }
}

static void an_item_is_its_seeds(void **state)
{
    (void)state;
    for (size_t i = 0; pith_made_name(i); i++) {
        struct pith_task_source one = make(pith_made_name(i), 300, 5, 1);
        struct pith_task_source more = make(pith_made_name(i), 300, 5, 3);
        struct pith_task_source other = make(pith_made_name(i), 300, 6, 1);
        for (size_t d = 0; d < PITH_MADE_DEPTHS; d++) {
            assert_true(pith_question_same(&one.questions, d, &more.questions, 3 * d));
            assert_false(pith_question_same(&one.questions, d, &other.questions, d));
            assert_false(pith_question_same(&more.questions, 3 * d, &more.questions, 3 * d + 1));
        }
        pith_task_source_free(&one);
        pith_task_source_free(&more);
        pith_task_source_free(&other);
    }
}

/* More keys than two words tell apart. */
static void long_lists_have_keys_of_three_words(void **state)
{
    (void)state;
    struct pith_task_source s = make("kv", 40000, 1, 1);
    const struct pith_question *q = &s.questions.item[0];
    const char *text = s.questions.text.data + q->text.at;
    size_t lines = 0, words = 0;
    for (const char *at = text; at < text + q->text.size; at++) lines += *at == '\n';
    for (const char *at = text; *at != ':'; at++) words += *at == ' ';
    assert_in_range(lines, 4097, 40000);
    assert_int_equal(words, 3);
    pith_task_source_free(&s);
}

static enum pith_status refused(const struct pith_task_wish *wish, struct pith_error *err)
{
    struct pith_task_source source;
    *err = (struct pith_error){0};
    return pith_task_source_open(wish, &source, err);
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    struct pith_error err;
    struct pith_task_wish w = {.path = "needles", .length = 60, .tokenizer = tokenizer};
    assert_int_equal(refused(&w, &err), PITH_ARG);
    assert_non_null(strstr(err.text, "60 tokens are too few"));
    w = (struct pith_task_wish){.path = "kv:600", .most = 512, .tokenizer = tokenizer};
    assert_int_equal(refused(&w, &err), PITH_ARG);
    assert_non_null(strstr(err.text, "600 tokens, the model takes 512"));
    w = (struct pith_task_wish){.path = "kv", .shots = 1, .tokenizer = tokenizer};
    assert_int_equal(refused(&w, &err), PITH_ARG);
    w = (struct pith_task_wish){.path = "copy:many", .tokenizer = tokenizer};
    assert_int_equal(refused(&w, &err), PITH_ARG);
    w = (struct pith_task_wish){.path = "kw:100", .tokenizer = tokenizer};
    assert_int_equal(refused(&w, &err), PITH_ARG);
    assert_non_null(strstr(err.text, "\"kv\""));
    w = (struct pith_task_wish){.path = "kv:100"}; /* only whether there is such a task */
    assert_int_equal(refused(&w, &err), PITH_OK);
}

/* A model that recalls nothing answers at chance, and the same for any number of threads. */
static void the_probe_guesses(void **state)
{
    (void)state;
    struct pith_task_result result[2];
    for (size_t i = 0; i < 2; i++) {
        struct rig rig;
        struct pith_error err = {0};
        rig_open(&rig, PROBE, (unsigned)i + 1);
        const struct pith_task_job job = {.backend = rig.backend,
                                          .model = rig.model,
                                          .tokenizer = rig.tokenizer,
                                          .path = "kv:100",
                                          .limit = 3};
        assert_ok(pith_eval_task(&job, &result[i], &err), err);
        rig_close(&rig);
    }
    const struct pith_task_figures *a = &result[0].all, *b = &result[1].all;
    assert_int_equal(a->n, 3 * PITH_MADE_DEPTHS);
    assert_string_equal(result[0].name, "kv");
    assert_int_equal(result[0].length, 100);
    assert_int_equal(result[0].groups, PITH_MADE_DEPTHS);
    assert_true(result[0].group[3].depth == 0.3);
    assert_true(a->plain.ci95.lo < 0.25 && a->plain.ci95.hi > 0.25);
    assert_true(a->made && a->exact.accuracy <= a->plain.accuracy);
    assert_true(a->plain.accuracy == b->plain.accuracy && a->exact.accuracy == b->exact.accuracy);
    for (size_t i = 0; i < 2; i++) pith_task_result_free(&result[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_these),
        cmocka_unit_test(items_fill_their_length),
        cmocka_unit_test(answers_stand_at_their_depth),
        cmocka_unit_test(an_item_is_its_seeds),
        cmocka_unit_test(long_lists_have_keys_of_three_words),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(the_probe_guesses),
    };
    return cmocka_run_group_tests(tests, open_tokenizer, close_tokenizer);
}
