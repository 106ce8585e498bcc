/* export/tokens: what Hugging Face's library loads (tests/golden/export/make_tokenizers.py), and
 * what it refuses of what pith reads. */
#include "base/file.h"
#include "base/mem.h"
#include "base/json.h"
#include "export/tokens.h"
#include "test.h"
#include "tok/tokenizer.h"

/* The text of a row: the base with one member changed. */
static char *text_of(const json_t *base, const json_t *row)
{
    const char *text = json_string_value(json_object_get(row, "text"));
    const char *member = json_string_value(json_object_get(row, "member"));
    json_t *value = json_object_get(row, "value");
    if (text) return strdup(text);
    json_t *whole = json_deep_copy(base);
    json_object_del(whole, member);
    if (value) json_object_set(whole, member, value);
    char *out = json_dumps(whole, JSON_REAL_PRECISION(9));
    json_decref(whole);
    return out;
}

/* What it loads has no problem; what it refuses has one, or pith refuses it, too. */
static void check_row(const char *text, bool loads, size_t *both)
{
    struct pith_error err = {0}, why = {0};
    struct pith_tokenizer *t = NULL;
    json_t *problems = json_array();
    assert_ok(pith_hf_tokenizer("vllm: t", text, strlen(text), problems, &err), err);
    const bool found = json_array_size(problems) > 0;
    const bool opens = pith_tokenizer_from_json(text, strlen(text), &t, &why) == PITH_OK;
    if (loads && found) fail_msg("%s: %s", text, json_string_value(json_array_get(problems, 0)));
    if (!loads && !found && opens) fail_msg("%s: is refused there", text);
    *both += found && opens;
    pith_tokenizer_close(t);
    json_decref(problems);
}

static void problems_are_those_of_the_library(void **state)
{
    (void)state;
    struct pith_error err = {0};
    json_t *all = NULL, *row;
    size_t i, both = 0;
    assert_ok(pith_json_load("tests/golden/export/tokenizers.json", 1 << 20, &all, &err), err);
    json_array_foreach (json_object_get(all, "rows"), i, row) {
        char *text = text_of(json_object_get(all, "base"), row);
        assert_non_null(text);
        check_row(text, json_is_true(json_object_get(row, "loads")), &both);
        free(text);
    }
    assert_true(i > 250);
    assert_true(both > 30); /* which pith opens */
    json_decref(all);
}

/* 61 bytes of a name end within a character. */
#define START "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define LONG START "\xc3\xa9"
#define NOT_LONG "vllm: t: \"" START "\\xC3\" is no member that is known"

static void problems_are_named(void **state)
{
    (void)state;
    static const char text[] =
        "{\"version\": \"2\", \"x\": 1, \"" LONG "\": 1,"
        " \"added_tokens\": [{\"id\": 0, \"content\": \"a\"}],"
        " \"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"ByteLevel\","
        " \"trim_offsets\": 1}]}, \"model\": {\"type\": \"BPE\", \"vocab\": {}, \"merges\": []}}";
    static const char *const says[] = {
        "vllm: t: \"version\" is not \"1.0\"",
        "vllm: t: \"x\" is no member that is known",
        NOT_LONG,
        "vllm: t: pre_tokenizer: ByteLevel: has no \"add_prefix_space\"",
        "vllm: t: pre_tokenizer: ByteLevel: \"trim_offsets\" is not true or false",
        "vllm: t: added_tokens: entry 0: has no \"single_word\"",
    };
    struct pith_error err = {0};
    json_t *problems = json_array();
    assert_ok(pith_hf_tokenizer("vllm: t", text, sizeof text - 1, problems, &err), err);
    for (size_t i = 0; i < PITH_COUNT(says); i++)
        assert_string_equal(json_string_value(json_array_get(problems, i)), says[i]);
    json_decref(problems);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(problems_are_those_of_the_library),
                                       cmocka_unit_test(problems_are_named)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
