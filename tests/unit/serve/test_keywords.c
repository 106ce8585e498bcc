/* serve/grammar: keywords of schemas, over every value of a range, and refused by name where they
 * are not kept. */
#include "base/mem.h"
#include "requests.h"
#include "test.h"

#include <stdio.h>
#include <string.h>

#include "grammars.h"

/* Whether a schema takes a number that is written with `places` digits behind the point. */
static bool takes_number(struct pith_grammar *g, long units, int places)
{
    char text[40];
    const long by = places == 2 ? 100 : places == 1 ? 10 : 1, size = units < 0 ? -units : units;
    int n = snprintf(text, sizeof text, "%s%ld", units < 0 ? "-" : "", size / by);
    if (places) n += snprintf(text + n, sizeof text - (size_t)n, ".%0*ld", places, size % by);
    return takes(g, text, (size_t)n);
}

/* A schema takes each of some texts, and none of others; NULL ends a list. */
static void check_texts(const struct pith_vocab_bytes *v, const char *schema,
                        const char *const *good, const char *const *bad)
{
    struct pith_grammar *g = compile(v, PITH_SCHEMA, schema);
    for (; *good; good++)
        if (!takes(g, *good, strlen(*good))) fail_msg("%s refuses %s", schema, *good);
    for (; *bad; bad++)
        if (takes(g, *bad, strlen(*bad))) fail_msg("%s takes %s", schema, *bad);
    pith_grammar_close(g);
}

static void multiples_of_whole_steps(void **state)
{
    (void)state;
    static const long steps[] = {1, 2, 3, 5, 7, 10, 12, 25, 60, 97, 360, 1000};
    struct pith_vocab_bytes *v = bytes_alone();
    for (size_t i = 0; i < PITH_COUNT(steps); i++) {
        char schema[160];
        snprintf(schema, sizeof schema,
                 "{\"type\":\"integer\",\"multipleOf\":%ld,\"minimum\":-205,\"exclusiveMaximum\":"
                 "3000}",
                 steps[i]);
        struct pith_grammar *g = compile(v, PITH_SCHEMA, schema);
        for (long n = -1100; n < 3100; n++) {
            const bool holds = n >= -205 && n < 3000 && n % steps[i] == 0;
            if (takes_number(g, n, 0) != holds) fail_msg("%s: %ld", schema, n);
        }
        assert_false(takes(g, "-0", 2));
        assert_false(takes(g, "00", 2));
        pith_grammar_close(g);
    }
    static const char *const good[] = {"999999999999999999", "-123456789123456789", NULL},
                            *const bad[] = {"123456789123456788", "9999999999999999999", NULL};
    check_texts(v, "{\"type\":\"integer\",\"multipleOf\":9}", good, bad);
    pith_vocab_bytes_close(v);
}

static void multiples_of_decimal_steps(void **state)
{
    (void)state;
    static const long steps[] = {1, 5, 25, 30, 70, 150}; /* hundredths */
    struct pith_vocab_bytes *v = bytes_alone();
    for (size_t i = 0; i < PITH_COUNT(steps); i++) {
        char schema[160];
        snprintf(schema, sizeof schema,
                 "{\"type\":\"number\",\"multipleOf\":%ld.%02ld,\"exclusiveMinimum\":-1.1,"
                 "\"maximum\":12.345}",
                 steps[i] / 100, steps[i] % 100);
        struct pith_grammar *g = compile(v, PITH_SCHEMA, schema);
        /* A digit that no multiple needs is not written. */
        const int most = steps[i] % 10 ? 2 : steps[i] % 100 ? 1 : 0;
        for (int places = 0; places <= 2; places++)
            for (long n = -150; n < 1400; n++) {
                const long hundredths = places == 2 ? n : places == 1 ? n * 10 : n * 100;
                const bool holds = hundredths > -110 && hundredths <= 1234 &&
                                   hundredths % steps[i] == 0 && places <= most;
                if (places && n > -10 && n < 0) continue; /* -0.x is written below */
                if (takes_number(g, n, places) != holds)
                    fail_msg("%s: %ld, %d places", schema, n, places);
            }
        pith_grammar_close(g);
    }
    static const char *const good[] = {"-0.07", "1234567890123.45", NULL};
    static const char *const bad[] = {"12345678901234.56", /* a double may not tell it apart */
                                      "0.001", "1e2", "-0.00", NULL};
    check_texts(v, "{\"type\":\"number\",\"multipleOf\":0.01}", good, bad);
    pith_vocab_bytes_close(v);
}

/* Every list of up to five of a, b, c, d: taken when its items differ and are 2 to 3. */
static void sets_of_few_values(void **state)
{
    (void)state;
    struct pith_vocab_bytes *v = bytes_alone();
    struct pith_grammar *g =
        compile(v, PITH_SCHEMA,
                "{\"type\":\"array\",\"uniqueItems\":true,\"minItems\":2,\"maxItems\":3,"
                "\"items\":{\"anyOf\":[{\"enum\":[\"a\",\"b\"]},{\"enum\":[\"b\",\"c\",\"d\"]}]}}");
    for (int count = 0; count <= 5; count++)
        for (int which = 0; which < 1 << (2 * count); which++) {
            char text[64] = "[";
            bool holds = count == 2 || count == 3;
            int seen = 0;
            for (int i = 0; i < count; i++) {
                const int item = which >> (2 * i) & 3;
                const char part[] = {'"', (char)('a' + item), '"', i + 1 < count ? ',' : 0, 0};
                holds = holds && !(seen >> item & 1);
                seen |= 1 << item;
                strcat(text, part);
            }
            strcat(text, "]");
            if (takes(g, text, strlen(text)) != holds) fail_msg("%s", text);
        }
    pith_grammar_close(g);
    pith_vocab_bytes_close(v);
}

/* What cannot be kept is refused, and the keyword named. */
static void refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *schema, *name;
    } refused[] = {
        {"{\"type\":\"integer\",\"multipleOf\":99991}", "\"multipleOf\""},
        {"{\"type\":\"number\",\"multipleOf\":1e-12}", "\"multipleOf\""},
        {"{\"type\":\"integer\",\"multipleOf\":1e30}", "\"multipleOf\""},
        {"{\"type\":\"integer\",\"allOf\":[{\"multipleOf\":999999937},"
         "{\"multipleOf\":9999999967}]}",
         "\"multipleOf\""},
        {"{\"type\":\"object\",\"minProperties\":2}", "\"minProperties\""},
        {"{\"type\":\"object\",\"additionalProperties\":{\"type\":\"null\"},\"required\":[\"a\"],"
         "\"minProperties\":3}",
         "\"minProperties\""},
        {"{\"not\":{\"required\":[\"a\"]}}", "\"required\""},
        {"{\"not\":{\"properties\":{\"a\":{}}}}", "\"properties\""},
        {"{\"not\":{\"minimum\":5}}", "\"minimum\""},
        {"{\"not\":{\"type\":\"string\",\"format\":\"date\"}}", "\"format\""},
        {"{\"not\":{\"const\":{\"a\":1}}}", "\"not\""},
        {"{\"type\":[\"number\",\"null\"],\"not\":{\"type\":\"integer\"}}", "\"not\""},
        {"{\"if\":{\"const\":1}}", "\"if\""},
        {"{\"contains\":{\"const\":1}}", "\"contains\""},
    };
    struct pith_vocab_bytes *v = bytes_alone();
    for (size_t i = 0; i < PITH_COUNT(refused); i++) {
        struct pith_error err = {0};
        struct pith_grammar *g = NULL;
        const enum pith_status s = pith_grammar_open(v, PITH_SCHEMA, refused[i].schema, &g, &err);
        if (s != PITH_UNSUPPORTED || !strstr(err.text, refused[i].name))
            fail_msg("%s: %d %s", refused[i].schema, (int)s, err.text);
    }
    static const char *const wrong[] = {"{\"multipleOf\":0}", "{\"multipleOf\":-2}",
                                        "{\"multipleOf\":\"2\"}", "{\"not\":5}",
                                        "{\"uniqueItems\":1}", "{\"minProperties\":-1}",
                                        "{\"not\":{}}"};
    for (size_t i = 0; i < PITH_COUNT(wrong); i++) {
        struct pith_grammar *g = NULL;
        if (pith_grammar_open(v, PITH_SCHEMA, wrong[i], &g, NULL) != PITH_FORMAT)
            fail_msg("%s", wrong[i]);
    }
    pith_vocab_bytes_close(v);
}

/* What is large is counted, not unrolled: names of open objects, and what stands beside them. */
static void large_counts_stay_small(void **state)
{
    (void)state;
    static const char *const schemas[] = {
        "{\"type\":\"object\",\"maxProperties\":10000}",
        "{\"type\":\"object\",\"maxProperties\":2147483647}",
        "{\"type\":\"string\",\"minLength\":1,\"maxLength\":2147483647}",
        "{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"maxItems\":4294967294}",
        "{\"type\":\"object\",\"additionalProperties\":{\"type\":\"string\",\"maxLength\":9999},"
        "\"minProperties\":1,\"maxProperties\":1000}",
        "{\"type\":\"integer\",\"multipleOf\":1000000}",
        "{\"type\":\"integer\",\"multipleOf\":86400}",
        "{\"type\":\"number\",\"multipleOf\":0.000001}",
        "{\"type\":\"string\",\"not\":{\"const\":\"none\"},\"maxLength\":100000}",
        "{\"type\":\"array\",\"uniqueItems\":true,\"items\":{\"type\":\"integer\",\"minimum\":1,"
        "\"maximum\":12}}",
    };
    struct pith_vocab_bytes *v = bytes_alone();
    for (size_t i = 0; i < PITH_COUNT(schemas); i++) {
        struct pith_grammar *g = compile(v, PITH_SCHEMA, schemas[i]);
        if (pith_grammar_size(g) > (size_t)8 << 20)
            fail_msg("%s: %zu bytes", schemas[i], pith_grammar_size(g));
        pith_grammar_close(g);
    }
    pith_vocab_bytes_close(v);
}

static enum pith_status compile_all(void *vocab, struct pith_error *err)
{
    static const char schema[] =
        "{\"type\":\"object\",\"properties\":{\"n\":{\"type\":\"number\",\"multipleOf\":0.5,"
        "\"not\":{\"enum\":[1,2.5]}},\"s\":{\"type\":\"string\",\"not\":{\"anyOf\":[{\"const\":"
        "\"x\"},{\"type\":\"string\",\"pattern\":\"^y\"}]}},\"u\":{\"type\":\"array\",\"items\":"
        "{\"anyOf\":[{\"type\":\"boolean\"},{\"enum\":[1,\"a\"]},{\"type\":\"integer\","
        "\"minimum\":1,\"maximum\":3}]},\"uniqueItems\":true}},\"propertyNames\":{\"enum\":"
        "[\"n\",\"s\",\"u\",\"more\"]},\"additionalProperties\":{\"type\":\"null\"},"
        "\"minProperties\":2,\"maxProperties\":3}";
    struct pith_grammar *g = NULL;
    PITH_TRY(pith_grammar_open(vocab, PITH_SCHEMA, schema, &g, err));
    pith_grammar_close(g);
    return PITH_OK;
}

static void every_request_may_fail(void **state)
{
    (void)state;
    need_requests();
    struct pith_vocab_bytes *v = bytes_alone();
    assert_true(fail_each_request(compile_all, v, false) > 100);
    pith_vocab_bytes_close(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(multiples_of_whole_steps), cmocka_unit_test(multiples_of_decimal_steps),
        cmocka_unit_test(sets_of_few_values),       cmocka_unit_test(refused_by_name),
        cmocka_unit_test(large_counts_stay_small),  cmocka_unit_test(every_request_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
