/* The reader and the writer of JSON against Python's: tests/golden/base/make_json.py. */
#include "base/json.h"
#include "base/mem.h"
#include "tests/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static enum pith_status read_any(const char *text, size_t size, json_t **out,
                                 struct pith_error *err)
{
    return pith_json_read(text, size, PITH_JSON_ANY, "x", out, err);
}

static json_t *read_good(const char *text)
{
    struct pith_error err = {0};
    json_t *j = NULL;
    assert_ok(read_any(text, strlen(text), &j, &err), err);
    return j;
}

static char *dumped(const json_t *j, size_t flags)
{
    struct pith_str s = {0};
    pith_json_dump(j, flags, &s);
    return pith_str_take(&s);
}

static char *bytes_of(const char *hex, size_t *size)
{
    *size = strlen(hex) / 2;
    char *out = malloc(*size ? *size : 1); /* so long and no longer, for sanitizers */
    assert_non_null(out);
    for (size_t i = 0; i < *size; i++) {
        const char two[3] = {hex[2 * i], hex[2 * i + 1], '\0'};
        out[i] = (char)strtoul(two, NULL, 16);
    }
    return out;
}

static void it_reads_what_python_reads(void **state)
{
    (void)state;
    json_error_t why;
    json_t *cases = json_load_file("tests/golden/base/json_cases.json", 0, &why), *c;
    size_t i, size, good = 0;
    if (!cases) fail_msg("%s", why.text);
    json_array_foreach (cases, i, c) {
        const char *hex = json_string_value(json_object_get(c, "text")),
                   *dump = json_string_value(json_object_get(c, "dump"));
        char *text = bytes_of(hex, &size);
        struct pith_error err = {0};
        json_t *j = NULL;
        const enum pith_status s = read_any(text, size, &j, &err);
        if ((s == PITH_OK) != (dump != NULL))
            fail_msg("%.*s: status %d, %s", (int)size, text, s, err.text);
        char *ours = j ? dumped(j, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
        if (j) assert_string_equal(ours, dump);
        else if (s != PITH_FORMAT || !strstr(err.text, "x: not valid JSON: "))
            fail_msg("%s", err.text);
        good += j != NULL;
        pith_free(ours);
        json_decref(j);
        free(text);
    }
    assert_true(good > 100 && i - good > 300);
    json_decref(cases);
}

static void big_numbers_stay(void **state)
{
    (void)state;
    json_t *j = read_good("{\"a\": 1000000000000000019884624838656, \"b\": -9223372036854775809, "
                          "\"c\": NaN, \"d\": 1e999, \"e\": -Infinity, \"f\": 7, \"g\": 2.5, "
                          "\"h\": \"Infinity\", \"i\": {\"a\": \"7\"}}");
    json_t *copy = json_deep_copy(j);
    assert_true(json_equal(j, copy));
    char *text = dumped(copy, JSON_COMPACT);
    assert_string_equal(text, "{\"a\":1000000000000000019884624838656,\"b\":-9223372036854775809,"
                              "\"c\":NaN,\"d\":Infinity,\"e\":-Infinity,\"f\":7,\"g\":2.5,"
                              "\"h\":\"Infinity\",\"i\":{\"a\":\"7\"}}");
    const json_t *a = json_object_get(j, "a"), *b = json_object_get(j, "b"),
                 *c = json_object_get(j, "c"), *d = json_object_get(j, "d"),
                 *e = json_object_get(j, "e"), *f = json_object_get(j, "f"),
                 *g = json_object_get(j, "g"), *h = json_object_get(j, "h"),
                 *i = json_object_get(j, "i");
    assert_true(pith_json_is_integer(a) && pith_json_is_number(a) && !json_is_string(a));
    assert_true(pith_json_integer(a) == INT64_MAX && pith_json_integer(b) == INT64_MIN);
    assert_true(pith_json_number(a) == 1e30 && pith_json_number(b) == -9223372036854775808.0);
    assert_true(!pith_json_is_integer(c) && isnan(pith_json_number(c)));
    assert_true(!pith_json_is_integer(d) && pith_json_number(d) == HUGE_VAL);
    assert_true(pith_json_is_number(e) && pith_json_number(e) == -HUGE_VAL);
    assert_true(pith_json_integer(f) == 7 && pith_json_number(g) == 2.5);
    assert_true(!pith_json_is_number(h) && !pith_json_is_number(i) && !pith_json_is_integer(i));
    assert_string_equal(pith_json_marked_text(d), "Infinity");
    assert_null(pith_json_marked_text(i));
    assert_true(pith_json_integer(c) == 0 && pith_json_integer(h) == 0);
    pith_free(text);
    json_decref(copy);
    json_decref(j);
}

static void members_are_numbers_that_decide(void **state)
{
    (void)state;
    json_t *j = read_good("{\"size\": 1000000000000000019884624838656, \"nan\": NaN, "
                          "\"big\": 1e999, \"theta\": 1000000000000000000000}");
    int64_t n = 3;
    double x = 0.5;
    struct pith_error err = {0};
    assert_ok(pith_json_get_int(j, "size", 0, INT64_MAX, &n, "f", &err), err);
    assert_true(n == INT64_MAX);
    assert_ok(pith_json_get_real(j, "theta", &x, "f", &err), err);
    assert_true(x == 1e21);
    assert_int_equal(pith_json_get_real(j, "nan", &x, "f", &err), PITH_FORMAT);
    assert_string_equal(err.text, "f: \"nan\" is NaN, not a number that is finite");
    err = (struct pith_error){0};
    assert_int_equal(pith_json_get_real(j, "big", &x, "f", &err), PITH_FORMAT);
    err = (struct pith_error){0};
    assert_int_equal(pith_json_get_int(j, "nan", 0, 9, &n, "f", &err), PITH_FORMAT);
    err = (struct pith_error){0};
    assert_int_equal(pith_json_get_int(j, "size", 0, 9, &n, "f", &err), PITH_FORMAT);
    json_decref(j);
}

static void characters_are_well_formed(void **state)
{
    (void)state;
    static const char *const good[] = {"\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf",
                                       "\xee\x80\x80", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"};
    static const char *const bad[] = {"\x80", "\xc0\x80", "\xc1\xbf", "\xc3", "\xe0\x9f\xbf",
                                      "\xe2\x82", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf",
                                      "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff"};
    char text[16];
    for (size_t i = 0; i < PITH_COUNT(good); i++) {
        snprintf(text, sizeof text, "\"%s\"", good[i]);
        json_t *j = read_good(text);
        assert_string_equal(json_string_value(j), good[i]);
        json_decref(j);
    }
    for (size_t i = 0; i < PITH_COUNT(bad); i++) {
        struct pith_error err = {0};
        json_t *j = NULL;
        const int size = snprintf(text, sizeof text, "\"%s\"", bad[i]);
        assert_int_equal(read_any(text, (size_t)size, &j, &err), PITH_FORMAT);
        assert_non_null(strstr(err.text, "a string is not UTF-8"));
        err = (struct pith_error){0};
        assert_int_equal(read_any(text, (size_t)size - 1, &j, &err), PITH_FORMAT);
    }
}

static void a_byte_order_mark_is_no_text(void **state)
{
    (void)state;
    static const char *const wide[][2] = {{"\xff\xfe{\0}\0", "UTF-16"},
                                          {"\xfe\xff\0{\0}", "UTF-16"},
                                          {"{\0}\0\n\0", "UTF-16"},
                                          {"\0{\0}\0\n", "UTF-16"},
                                          {"\xff\xfe\0\0{\0", "UTF-32"}};
    json_t *j = read_good("\xef\xbb\xbf{\"a\": 1}");
    assert_true(json_object_size(j) == 1);
    json_decref(j);
    for (size_t i = 0; i < PITH_COUNT(wide); i++) {
        struct pith_error err = {0};
        assert_int_equal(read_any(wide[i][0], 6, &j, &err), PITH_FORMAT);
        if (!strstr(err.text, wide[i][1])) fail_msg("%zu: %s", i, err.text);
    }
}

static void places_are_told(void **state)
{
    (void)state;
    struct pith_error err = {0};
    json_t *j = NULL;
    assert_int_equal(read_any("{\n \"a\": 1,\n \"b\": ?}", 19, &j, &err), PITH_FORMAT);
    assert_string_equal(err.text,
                        "x: not valid JSON: a value should stand there (line 3, column 7)");
}

static void strict_is_the_standard(void **state)
{
    (void)state;
    static const char *const bad[] = {"[NaN]",
                                      "[Infinity]",
                                      "[-Infinity]",
                                      "[1e999]",
                                      "[9223372036854775808]",
                                      "{\"a\":1,\"a\":2}",
                                      "{\"a\":1,\"\\u0061\":2}",
                                      "[\"\\ud800\"]",
                                      "{\"a\\u0000\":1}",
                                      "\xef\xbb\xbf[1]"};
    json_t *j = NULL;
    for (size_t i = 0; i < PITH_COUNT(bad); i++)
        if (pith_json_read(bad[i], strlen(bad[i]), PITH_JSON_STRICT, "x", &j, NULL) != PITH_FORMAT)
            fail_msg("%s", bad[i]);
    assert_int_equal(pith_json_parse("7", 1, "x", &j, NULL), PITH_FORMAT);
    assert_int_equal(pith_json_read("[7]]", 4, PITH_JSON_FRONT, "x", &j, NULL), PITH_OK);
    json_decref(j);
}

static char *repeated(const char *head, const char *body, size_t n, const char *tail)
{
    struct pith_str s = {0};
    pith_str_puts(&s, head);
    for (size_t i = 0; i < n; i++) pith_str_puts(&s, body);
    pith_str_puts(&s, tail);
    return pith_str_take(&s);
}

static void expect_text(char *text, enum pith_status status)
{
    json_t *j = NULL;
    struct pith_error err = {0};
    assert_non_null(text);
    if (read_any(text, strlen(text), &j, &err) != status) fail_msg("%s", err.text);
    json_decref(j);
    pith_free(text);
}

static void hostile_texts_end(void **state)
{
    (void)state;
    expect_text(repeated("[", "7", 10000000, "]"), PITH_FORMAT);
    expect_text(repeated("[0.", "7", 10000000, "]"), PITH_OK);
    expect_text(repeated("[", "7", 10000000, ".5]"), PITH_OK); /* Infinity */
    expect_text(repeated("{", "\"a\":1,", 1000000, "\"a\":2}"), PITH_OK);
    expect_text(repeated("[", "\"\\ud800\",", 1000000, "1]"), PITH_OK);
    expect_text(repeated("[", "NaN,", 1000000, "1]"), PITH_OK);
    expect_text(repeated("", "[", 10000000, ""), PITH_FORMAT);
    expect_text(repeated("", "{\"\\n\":", 10000000, ""), PITH_FORMAT);
    char *open = repeated("", "[", 2048, ""), *whole = repeated(open, "]", 2048, "");
    char *more = repeated("[", whole, 1, "]");
    expect_text(whole, PITH_OK);
    expect_text(more, PITH_FORMAT);
    pith_free(open);
}

static void writing_is_as_jansson_writes(void **state)
{
    (void)state;
    static const size_t flags[] = {0,
                                   JSON_COMPACT,
                                   JSON_INDENT(2),
                                   JSON_INDENT(2) | JSON_SORT_KEYS,
                                   JSON_COMPACT | JSON_SORT_KEYS,
                                   JSON_INDENT(4) | JSON_REAL_PRECISION(9),
                                   JSON_REAL_PRECISION(17)};
    json_t *j = read_good("{\"b\": [1, -2.5, 1e300, 0.1, [], {}, "
                          "\"\\u0001\\u001f\\n\\\"\\\\/\x7f\xc3\xa9\"], \"a\": {\"z\": null, "
                          "\"\": true, \"ab\": false, \"a\": [[1, 2], {\"q\": []}]}}");
    for (size_t i = 0; i < PITH_COUNT(flags); i++) {
        char *ours = dumped(j, flags[i]), *theirs = json_dumps(j, flags[i]);
        assert_string_equal(ours, theirs);
        pith_free(ours);
        free(theirs);
    }
    assert_null(dumped(json_object_get(json_object_get(j, "a"), "z"), 0));
    json_decref(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_reads_what_python_reads),
        cmocka_unit_test(big_numbers_stay),
        cmocka_unit_test(members_are_numbers_that_decide),
        cmocka_unit_test(characters_are_well_formed),
        cmocka_unit_test(a_byte_order_mark_is_no_text),
        cmocka_unit_test(places_are_told),
        cmocka_unit_test(strict_is_the_standard),
        cmocka_unit_test(hostile_texts_end),
        cmocka_unit_test(writing_is_as_jansson_writes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
