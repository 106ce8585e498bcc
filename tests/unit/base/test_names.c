/* Names and numbers that people type: <pith/names.h>. */
#include "base/mem.h"
#include "base/names.h"
#include "tests/test.h"

#include <string.h>

static const char *const names[] = {"gptq", "awq", "nearest", "llm.int8", "smoothquant", NULL};

static const char *name_at(size_t i)
{
    return names[i];
}

static void the_nearest_name_is_found(void **state)
{
    (void)state;
    static const struct {
        const char *typed, *meant;
    } cases[] = {{"gptqq", "gptq"}, {"gtpq", "gptq"},   {"AWQ", "awq"},
                 {"aqw", "awq"},    {"nearset", "nearest"}, {"smooth-quant", "smoothquant"},
                 {"llmint8", "llm.int8"}, {"near", "nearest"}, {"smo", "smoothquant"}};
    for (size_t i = 0; i < PITH_COUNT(cases); i++)
        assert_string_equal(pith_name_nearest(cases[i].typed, names, 5), cases[i].meant);
    static const char *const far[] = {"", "z", "quarot", "completely-other", "int4", "bwtq"};
    char longest[256];
    for (size_t i = 0; i < PITH_COUNT(far); i++) assert_null(pith_name_nearest(far[i], names, 5));
    memset(longest, 'a', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    assert_null(pith_name_nearest(longest, names, 5));
}

static void an_exchange_is_one_edit(void **state)
{
    (void)state;
    /* Two edits of four letters would be one too many, and "gpzz" is that far. */
    static const char *const one[] = {"abcd"};
    assert_non_null(pith_name_nearest("bacd", one, 1));
    assert_non_null(pith_name_nearest("badc", one, 1));
    assert_null(pith_name_nearest("dxyz", one, 1));
}

static void case_does_not_matter(void **state)
{
    (void)state;
    assert_true(pith_name_equal("AwQ", "awq"));
    assert_false(pith_name_equal("awq", "awq+"));
    assert_false(pith_name_equal("awq+", "awq"));
    assert_string_equal(pith_name_option("Smooth:0.5", "smooth"), "0.5");
    assert_string_equal(pith_name_option("smooth", "smooth"), "");
    assert_null(pith_name_option("smoothly", "smooth"));
    assert_null(pith_name_option("smooth:", "smooth"));
}

static void an_unknown_name_is_told(void **state)
{
    (void)state;
    struct pith_error err = {0};
    assert_int_equal(pith_fail_name(&err, "recipe", "gtpq", name_at), PITH_ARG);
    assert_string_equal(err.text, "unknown recipe \"gtpq\"; did you mean \"gptq\"?");
    err = (struct pith_error){0};
    (void)pith_fail_name(&err, "recipe", "zip", name_at);
    assert_string_equal(err.text, "unknown recipe \"zip\"; there are gptq, awq, nearest, llm.int8, "
                                  "smoothquant");
}

static void counts_and_sizes_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t n;
    } good[] = {{"0", 0},
                {"123", 123},
                {"4k", 4096},
                {"128K", 131072},
                {"6GiB", 6ull << 30},
                {"1.5G", 3ull << 29},
                {"2MB", 2ull << 20},
                {"0.5k", 512},
                {"5000000000", 5000000000ull},
                {"9223372036854775807", INT64_MAX}};
    static const char *const bad[] = {"",    "G",    "-1",  "+1",   "1X",  "1GiBB", "1e3",
                                      "nan", "1 G",  " 1",  "1.5",  "1.k", ".5k",   "0x10",
                                      "8388608T", "9223372036854775808", "99999999999999999999"};
    for (size_t i = 0; i < PITH_COUNT(good); i++) {
        uint64_t n = 7;
        assert_true(pith_number_parse(good[i].text, &n));
        assert_int_equal(n, good[i].n);
    }
    for (size_t i = 0; i < PITH_COUNT(bad); i++) {
        uint64_t n = 7;
        assert_false(pith_number_parse(bad[i], &n));
        assert_int_equal(n, 7);
    }
}

static void parts_are_counted_in_names(void **state)
{
    static const struct {
        const char *name;
        unsigned number, count; /* 0: it counts none */
    } cases[] = {
        {"model-00002-of-00005.gguf", 2, 5},
        {"-00001-of-00002.safetensors", 1, 2},
        {"a-00001-of-00002-of-00003.gguf", 2, 3},
        {"m-99999-of-99999.gguf", 99999, 99999},
        {"m-00001-of-00001.gguf", 0, 0},
        {"m-00000-of-00002.gguf", 0, 0},
        {"m-00003-of-00002.gguf", 0, 0},
        {"m-0001-of-0002.gguf", 0, 0},
        {"m-0000a-of-00002.gguf", 0, 0},
        {"m-00001_of-00002.gguf", 0, 0},
        {"m-00001-of-00002", 0, 0},
        {"00001-of-00002.gguf", 0, 0},
        {"", 0, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        unsigned number = 0, count = 0;
        const char *at = pith_name_part(cases[i].name, &number, &count);
        assert_int_equal(at != NULL, cases[i].count > 0);
        if (!at) continue;
        assert_int_equal(number, cases[i].number);
        assert_int_equal(atoi(at), number);
        assert_int_equal(count, cases[i].count);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_nearest_name_is_found), cmocka_unit_test(an_exchange_is_one_edit),
        cmocka_unit_test(case_does_not_matter),      cmocka_unit_test(an_unknown_name_is_told),
        cmocka_unit_test(counts_and_sizes_are_read),
        cmocka_unit_test(parts_are_counted_in_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
