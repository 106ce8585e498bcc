/* eval/task/questions: files that are wrong, one after the other; packed ones; how a form is
 * chosen. */
#include "eval/task/task.h"
#include "unit/eval/fixture.h"

#define TASKS "tests/golden/tasks/"

static struct rig rig;

static int open_rig(void **state)
{
    (void)state;
    rig_open(&rig, GOLDEN "tiny", 1);
    return 0;
}

static int close_rig(void **state)
{
    (void)state;
    rig_close(&rig);
    return 0;
}

/* Reads the task; the count of items in *n. */
static enum pith_status read_task(const char *path, size_t shots, size_t limit, size_t *n,
                                  struct pith_error *err)
{
    const struct pith_task_job job = {.backend = rig.backend,
                                      .model = rig.model,
                                      .path = path,
                                      .tokenizer = rig.tokenizer,
                                      .shots = shots,
                                      .limit = limit};
    struct pith_task_source source;
    struct pith_items items;
    *err = (struct pith_error){0};
    const enum pith_status s = pith_task_items(&job, &source, &items, err);
    if (s != PITH_OK) return s;
    *n = items.count;
    pith_items_free(&items);
    pith_task_source_free(&source);
    return s;
}

/* Writes a file of that name and content and reads it. */
static enum pith_status read_content(const char *name, const char *content, size_t size,
                                     size_t shots, struct pith_error *err)
{
    char *dir = test_temp_dir(), *path = pith_path_join(dir, name);
    size_t n;
    assert_ok(pith_file_write(path, content, size, err), *err);
    const enum pith_status s = read_task(path, shots, 0, &n, err);
    assert_int_equal(pith_dir_remove(dir, NULL), PITH_OK);
    pith_free(path);
    free(dir);
    return s;
}

#define ARC(rest)                                                                                  \
    "{\"question\":\"Which?\",\"choices\":{\"text\":[\"a\",\"b\"],"                                \
    "\"label\":[\"A\",\"B\"]}," rest
#define NESTED(choices, key)                                                                       \
    "{\"question\":{\"stem\":\"Which?\",\"choices\":" choices "},\"answerKey\":" key "}"
#define SWAG(ctx, endings, label)                                                                  \
    "{\"activity_label\":\"A\",\"ctx_a\":\"b\",\"ctx_b\":" ctx ",\"endings\":" endings             \
    ",\"label\":" label "}"
#define TWO "[{\"text\":\"a\",\"label\":\"A\"},{\"text\":\"b\",\"label\":\"B\"}]"

static void wrong_lines_are_told(void **state)
{
    (void)state;
    static const struct {
        const char *good, *bad, *message;
    } cases[] = {
        {ARC("\"answerKey\":\"B\"}"), ARC("\"answerKey\":\"C\"}"), "the label of no choice"},
        {ARC("\"answerKey\":\"B\"}"), ARC("\"answerKey\":2}"), "\"answerKey\" is missing"},
        {ARC("\"answerKey\":\"B\"}"), "{\"question\":\"q\",\"answerKey\":\"A\",\"choices\":3}",
         "\"choices\" is not a list"},
        {ARC("\"answerKey\":\"B\"}"),
         "{\"question\":\"q\",\"answerKey\":\"A\","
         "\"choices\":{\"text\":[\"a\",\"b\"],\"label\":[\"A\"]}}",
         "not as many labels"},
        {NESTED(TWO, "\"A\""), NESTED(TWO, "\"D\""), "the label of no choice"},
        {NESTED(TWO, "\"A\""), NESTED("[{\"text\":\"a\"},{\"text\":\"b\"}]", "\"A\""),
         "a label is not a string"},
        {NESTED(TWO, "\"A\""), NESTED("[3,4]", "\"A\""), "a choice is not a string"},
        {NESTED(TWO, "\"A\""), "{\"question\":4,\"answerKey\":\"A\"}", "\"stem\" is missing"},
        {SWAG("\"c\"", "[\"d\",\"e\"]", "1"), SWAG("\"c\"", "[\"d\",\"e\"]", "2"),
         "\"label\" is 2, outside 0..1"},
        {SWAG("\"c\"", "[\"d\",\"e\"]", "1"), SWAG("\"c\"", "[\"d\",\"e\"]", "\"\""),
         "\"label\" is missing"},
        {SWAG("\"c\"", "[\"d\",\"e\"]", "1"), SWAG("7", "[\"d\",\"e\"]", "0"),
         "\"ctx_b\" is missing"},
        {SWAG("\"c\"", "[\"d\",\"e\"]", "1"), SWAG("\"c\"", "[\"d\",null]", "0"),
         "an ending is not a string"},
        {"{\"query\":\"Question: q\",\"choices\":[\"a\",\"b\"],\"gold\":0}",
         "{\"query\":\"Question: q\",\"choices\":[\"a\"],\"gold\":0}", "two or more"},
        {"{\"text\":\"some words here\"}", "{\"text\":\"word\"}", "no last word"},
        {"{\"text\":\"some words here\"}", "{\"text\":3}", "\"text\" is missing"},
        {"{\"goal\":\"g\",\"sol1\":\"a\",\"sol2\":\"b\",\"label\":1}",
         "{\"goal\":\"g\",\"sol1\":\"a\",\"sol2\":\"b\",\"label\":-1}", "-1, outside 0..1"},
        {"{\"goal\":\"g\",\"sol1\":\"a\",\"sol2\":\"b\",\"label\":1}",
         "{\"goal\":\"g\",\"sol1\":\"a\",\"sol2\":\"b\"}", "no file of answers next to"},
        {"a query\n2\na\nb\nc\nd", "a query\n4\na\nb\nc\nd", "not 0, 1, 2 or 3"},
        {"a query\n2\na\nb\nc\nd", "a query\n3\na\nb", "fewer than six lines"},
        {"a query\n2\na\nb\nc\nd", "a query\n3\na\nb\xff\nc\nd", "not UTF-8"},
    };
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        char content[600], line[32];
        struct pith_error err = {0};
        const bool six = !strchr(cases[i].good, '{');
        snprintf(content, sizeof content, "\xef\xbb\xbf\r\n%s\r\n\n%s\n", cases[i].good,
                 cases[i].bad);
        assert_int_equal(read_content("t", content, strlen(content), 0, &err), PITH_FORMAT);
        snprintf(line, sizeof line, "line %d:", six ? 9 : 4);
        const bool door = strcmp(cases[i].message, "not UTF-8") == 0; /* it counts bytes too */
        if (!strstr(err.text, cases[i].message) || (!door && !strstr(err.text, line)))
            fail_msg("%zu: %s", i, err.text);
    }
}

static void wrong_sheets_are_told(void **state)
{
    (void)state;
    static const struct {
        const char *sheet, *message;
    } cases[] = {
        {"q,a,b,c,d,A\nq,a,b,c,d,E\n", "line 2: the last field is not an answer"},
        {"q,a,b,c,d,A\nq,a,b,c,d\n", "line 2: has 5 fields"},
        {"q,a,b,c,d,A\n\"q\nr\",a,b,c,d,B,x\n", "line 2: has more than 6 fields"},
        {"q,a,b,c,d,A\n\"q\nr\",a,b,c,d,B\nq,a,b,c,d,\"\n", "line 4: a quote that is not closed"},
        {"q,a,b,c,d,A\nq\xc0\x80,a,b,c,d,A\n", "not UTF-8"},
        {"question,a,b,c,d,answer\n", "no items"},
    };
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        struct pith_error err = {0};
        const char *s = cases[i].sheet;
        assert_int_equal(read_content("x_test.csv", s, strlen(s), 0, &err), PITH_FORMAT);
        if (!strstr(err.text, cases[i].message)) fail_msg("%zu: %s", i, err.text);
    }
    struct pith_error err = {0};
    const char good[] = "q,a,b,c,d,A\r\n\"q, \"\"r\"\"\",a,b,c,d,2";
    assert_ok(read_content("x_test.csv", good, sizeof good - 1, 0, &err), err);
    assert_int_equal(read_content("x.csv", good, sizeof good - 1, 0, &err), PITH_FORMAT);
    assert_non_null(strstr(err.text, "NAME_test.csv"));
    assert_int_equal(read_content("x_test.csv", good, sizeof good - 1, 1, &err), PITH_IO);
    assert_non_null(strstr(err.text, "x_dev.csv"));
}

static void a_form_is_found_or_named(void **state)
{
    (void)state;
    struct pith_error err;
    size_t n;
    assert_ok(read_task("arc:" TASKS "arc_test.jsonl", 0, 0, &n, &err), err);
    assert_int_equal(n, 30);
    assert_ok(read_task("mmlu:" TASKS "mmlu", 1, 3, &n, &err), err);
    assert_int_equal(n, 9);
    assert_ok(read_task(TASKS "mmlu/", 0, 0, &n, &err), err);
    assert_int_equal(n, 26);
    assert_ok(read_task(TASKS "mmlu/test/anatomy_test.csv", 5, 0, &n, &err), err);
    assert_int_equal(n, 9);
    assert_int_equal(read_task("piqa:" TASKS "arc_test.jsonl", 0, 0, &n, &err), PITH_FORMAT);
    assert_non_null(strstr(err.text, "not in a form of piqa"));
    assert_int_equal(read_task("piqa:" TASKS "mmlu", 0, 0, &n, &err), PITH_FORMAT);
    assert_int_equal(read_task(TASKS, 0, 0, &n, &err), PITH_FORMAT);
    assert_non_null(strstr(err.text, "without test/"));
    assert_int_equal(read_task("tests/golden/eval/tiny/config.json", 0, 0, &n, &err), PITH_FORMAT);
    assert_int_equal(read_content("t", "{\"a\":1}\n", 8, 0, &err), PITH_FORMAT);
    assert_non_null(strstr(err.text, "lambada"));
}

static void examples_must_be_there(void **state)
{
    (void)state;
    struct pith_error err;
    size_t n;
    assert_int_equal(read_task(TASKS "mmlu", 6, 0, &n, &err), PITH_ARG);
    assert_non_null(strstr(err.text, "anatomy, there are 5"));
    assert_int_equal(read_task(TASKS "hellaswag.txt", 12, 0, &n, &err), PITH_ARG);
    assert_non_null(strstr(err.text, "there are 11"));
    assert_int_equal(read_task(TASKS "hellaswag.txt", SIZE_MAX, 0, &n, &err), PITH_ARG);
    const char same[] = "{\"text\":\"a b\"}\n{\"text\":\"a b\"}\n{\"text\":\"a b\"}\n";
    assert_int_equal(read_content("t", same, sizeof same - 1, 1, &err), PITH_ARG);
    assert_non_null(strstr(err.text, "alike"));
}

static void answers_beside_must_fit(void **state)
{
    (void)state;
    static const struct {
        const char *labels, *message;
    } cases[] = {{"0\n", "line 2: the file of answers next to it ends before"},
                 {"0\n1\n1\n", "2 questions, but 3 answers"},
                 {"0\n2\n", "line 2: not 0 or 1"},
                 {"0\n\n1\n", "line 2: not 0 or 1"},
                 {"0\r\n1", NULL}};
    const char lines[] = "{\"goal\":\"g\",\"sol1\":\"a\",\"sol2\":\"b\"}\n"
                         "{\"goal\":\"h\",\"sol1\":\"a\",\"sol2\":\"b\"}\n";
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        char *dir = test_temp_dir();
        char *path = pith_path_join(dir, "v.jsonl"), *beside = pith_path_join(dir, "v-labels.lst");
        struct pith_error err = {0};
        size_t n;
        assert_ok(pith_file_write(path, lines, sizeof lines - 1, &err), err);
        assert_ok(pith_file_write(beside, cases[i].labels, strlen(cases[i].labels), &err), err);
        const enum pith_status s = read_task(path, 0, 0, &n, &err);
        assert_int_equal(s, cases[i].message ? PITH_FORMAT : PITH_OK);
        if (cases[i].message && !strstr(err.text, cases[i].message)) fail_msg("%s", err.text);
        assert_int_equal(pith_dir_remove(dir, NULL), PITH_OK);
        pith_free(path);
        pith_free(beside);
        free(dir);
    }
}

/* Cut short, changed and followed by something else at each byte: refused, or the same items. */
static void check_packed(const char *path, const char *name, const char *says, size_t count)
{
    struct pith_error err;
    char *bytes;
    size_t size, n;
    assert_ok(read_task(path, 0, 0, &n, &err), err);
    assert_int_equal(n, count);
    assert_ok(pith_file_read(path, 1 << 20, &bytes, &size, &err), err);
    assert_int_equal(read_content(name, "", 0, 0, &err), PITH_FORMAT);
    assert_non_null(strstr(err.text, says));
    for (size_t i = 0; i < size; i += 7)
        assert_int_equal(read_content(name, bytes, i, 0, &err), PITH_FORMAT);
    for (size_t i = 0; i < size; i += 11) {
        bytes[i] = (char)(bytes[i] ^ 0x10);
        const enum pith_status s = read_content(name, bytes, size, 0, &err);
        assert_true(s == PITH_FORMAT || s == PITH_OK);
        bytes[i] = (char)(bytes[i] ^ 0x10);
    }
    char *twice = malloc(2 * size);
    memcpy(twice, bytes, size);
    memcpy(twice + size, bytes, size);
    assert_ok(read_content(name, twice, 2 * size, 0, &err), err);
    assert_int_equal(read_content(name, twice, size + 5, 0, &err), PITH_FORMAT);
    free(twice);
    pith_free(bytes);
}

static void packed_files_are_unpacked(void **state)
{
    (void)state;
    check_packed(TASKS "hellaswag.txt.bz2", "t.bz2", "not bzip2", 12);
    check_packed(TASKS "hellaswag.txt.gz", "t.gz", "not gzip", 12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_lines_are_told),     cmocka_unit_test(wrong_sheets_are_told),
        cmocka_unit_test(a_form_is_found_or_named), cmocka_unit_test(examples_must_be_there),
        cmocka_unit_test(answers_beside_must_fit),  cmocka_unit_test(packed_files_are_unpacked),
    };
    return cmocka_run_group_tests(tests, open_rig, close_rig);
}
