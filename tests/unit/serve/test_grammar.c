/* serve/grammar: constraints against what others say of the same texts (tests/golden/serve), and
 * random walks over masks, whose texts must be what the constraint takes. */
#include "serve/grammar/grammar.h"

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "grammars.h"

static void json_objects(void **state)
{
    (void)state;
    static const char *const good[] = {"{}",
                                       "{\"a\":1}",
                                       "{\"a\": [1, 2.5e-3, {\"b\": null}]}",
                                       "{\"\\u00e9\\n\":\"\xc3\xa9\"}",
                                       "{\"a\":\"\\ud83d\\ude00\"}",
                                       "{\"a\":-0.5,\"b\":true}"};
    static const char *const bad[] = {"",
                                      "1",
                                      "[]",
                                      "{",
                                      "{\"a\":01}",
                                      "{\"a\":1,}",
                                      "{\"a\":1}x",
                                      "{\"a\":\"\n\"}",
                                      "{\"a\":\"\xc3\"}",
                                      "{\"a\":\"\\ud83d\"}",
                                      "{\"a\":\"\\u0000\"}",
                                      "{\"a\":  1}",
                                      "{\"a\":tru}"};
    struct pith_vocab_bytes *v = bytes_alone();
    struct pith_grammar *g = compile(v, PITH_JSON, NULL);
    for (size_t i = 0; i < PITH_COUNT(good); i++)
        if (!takes(g, good[i], strlen(good[i]))) fail_msg("refused: %s", good[i]);
    for (size_t i = 0; i < PITH_COUNT(bad); i++)
        if (takes(g, bad[i], strlen(bad[i]))) fail_msg("taken: %s", bad[i]);
    pith_grammar_close(g);
    pith_vocab_bytes_close(v);
}

/* What a golden file holds. */
static json_t *golden(const char *name)
{
    struct pith_error err = {0};
    char path[256];
    json_t *json = NULL;
    snprintf(path, sizeof path, "tests/golden/serve/%s", name);
    if (pith_json_load(path, (size_t)16 << 20, &json, &err) != PITH_OK) fail_msg("%s", err.text);
    return json;
}

/* Texts with what others say of each; the numbers of those that were refused wrongly. */
static size_t check_texts(struct pith_grammar *g, const json_t *texts, const char *where)
{
    size_t wrong = 0;
    for (size_t i = 0; i < json_array_size(texts); i++) {
        const json_t *pair = json_array_get(texts, i);
        const char *text = json_string_value(json_array_get(pair, 0));
        const bool valid = json_is_true(json_array_get(pair, 1));
        if (takes(g, text, strlen(text)) == valid) continue;
        print_error("%s: %s is %s\n", where, text, valid ? "refused" : "taken");
        wrong++;
    }
    return wrong;
}

static bool any_valid(const json_t *texts)
{
    for (size_t i = 0; i < json_array_size(texts); i++)
        if (json_is_true(json_array_get(json_array_get(texts, i), 1))) return true;
    return false;
}

/* The message names one of the keywords. */
static bool names_one(const json_t *names, const char *message)
{
    for (size_t i = 0; i < json_array_size(names); i++)
        if (strstr(message, json_string_value(json_array_get(names, i)))) return true;
    return false;
}

/* Opens each object whose schema does not say what other members are, as JSON Schema has it. */
static void open_objects(json_t *schema)
{
    const char *key;
    json_t *part;
    size_t i;
    void *next;
    json_array_foreach (schema, i, part) open_objects(part);
    json_object_foreach_safe(schema, next, key, part)
    {
        if (strcmp(key, "const") != 0 && strcmp(key, "enum") != 0) open_objects(part);
    }
    const bool names = json_is_object(json_object_get(schema, "properties")) ||
                       json_is_object(json_object_get(schema, "patternProperties"));
    if (names && !json_object_get(schema, "additionalProperties"))
        json_object_set_new(schema, "additionalProperties", json_true());
}

/* One schema; false: something was judged differently. */
static bool check_schema(const struct pith_vocab_bytes *v, const json_t *entry)
{
    const json_t *texts = json_object_get(entry, "texts"),
                 *refused = json_object_get(entry, "refused");
    const char *where = json_string_value(json_object_get(entry, "where"));
    struct pith_error err = {0};
    struct pith_grammar *g = NULL;
    open_objects(json_object_get(entry, "schema"));
    char *schema = json_dumps(json_object_get(entry, "schema"), JSON_ENCODE_ANY);
    const enum pith_status s = pith_grammar_open(v, PITH_SCHEMA, schema, &g, &err);
    bool ok = s == PITH_OK;
    free(schema);
    if (json_object_get(entry, "read over")) ok = s == PITH_OK;
    else if (refused) ok = s == PITH_UNSUPPORTED && names_one(refused, err.text);
    else if (s == PITH_OK) ok = check_texts(g, texts, where) == 0;
    else if (s == PITH_FORMAT) ok = !any_valid(texts);
    else ok = s == PITH_UNSUPPORTED && strstr(err.text, "oneOf") && json_object_get(entry, "oneOf");
    if (!ok) print_error("%s: %s\n", where, err.text);
    pith_grammar_close(g);
    return ok;
}

static void schemas_as_others_judge_them(void **state)
{
    (void)state;
    struct pith_vocab_bytes *v = bytes_alone();
    json_t *all = golden("schemas.json");
    size_t wrong = 0;
    assert_true(json_array_size(all) > 100);
    for (size_t i = 0; i < json_array_size(all); i++)
        wrong += !check_schema(v, json_array_get(all, i));
    assert_int_equal(wrong, 0);
    json_decref(all);
    pith_vocab_bytes_close(v);
}

/* Each is taken, and objects are closed where it does not open them. */
static void schemas_as_pydantic_writes_them(void **state)
{
    (void)state;
    struct pith_vocab_bytes *v = bytes_alone();
    json_t *all = golden("pydantic.json");
    size_t wrong = 0;
    assert_true(json_array_size(all) > 30);
    for (size_t i = 0; i < json_array_size(all); i++) {
        const json_t *entry = json_array_get(all, i);
        const char *where = json_string_value(json_object_get(entry, "where"));
        struct pith_error err = {0};
        struct pith_grammar *g = NULL;
        char *schema = json_dumps(json_object_get(entry, "schema"), JSON_ENCODE_ANY);
        if (pith_grammar_open(v, PITH_SCHEMA, schema, &g, &err) == PITH_OK) {
            wrong += check_texts(g, json_object_get(entry, "texts"), where);
        } else {
            print_error("%s: %s\n", where, err.text);
            wrong++;
        }
        free(schema);
        pith_grammar_close(g);
    }
    assert_int_equal(wrong, 0);
    json_decref(all);
    pith_vocab_bytes_close(v);
}

/* Lengths far beyond what is unrolled are kept, to the character. */
static void long_lengths_are_counted(void **state)
{
    (void)state;
    static const size_t lengths[] = {0, 69, 70, 127, 128, 191, 192, 5000, 7999, 8000, 8001};
    static const char *const pass[] = {
        "{\"type\": \"string\", \"format\": \"uri\", \"minLength\": 1, \"maxLength\": 2083}",
        "{\"type\": \"string\", \"format\": \"email\", \"maxLength\": 254}",
        "{\"type\": \"string\", \"format\": \"hostname\", \"maxLength\": 253}",
        "{\"type\": \"string\", \"maxLength\": 100000}"};
    static char text[9000];
    struct pith_vocab_bytes *v = bytes_alone();
    struct pith_grammar *g = NULL;
    for (size_t i = 0; i < PITH_COUNT(pass); i++) {
        assert_int_equal(pith_grammar_open(v, PITH_SCHEMA, pass[i], &g, NULL), PITH_OK);
        assert_true(pith_grammar_size(g) < (size_t)16 << 20);
        pith_grammar_close(g);
    }
    assert_int_equal(
        pith_grammar_open(v, PITH_SCHEMA,
                          "{\"type\": \"string\", \"minLength\": 70, \"maxLength\": 8000}", &g,
                          NULL),
        PITH_OK);
    for (size_t i = 0; i < PITH_COUNT(lengths); i++) {
        const size_t n = lengths[i];
        memset(text, 'x', n + 2);
        text[0] = text[n + 1] = '"';
        assert_int_equal(takes(g, text, n + 2), n >= 70 && n <= 8000);
    }
    pith_grammar_close(g);
    pith_vocab_bytes_close(v);
}

static void expressions_as_python_matches_them(void **state)
{
    (void)state;
    struct pith_vocab_bytes *v = bytes_alone();
    json_t *all = golden("expressions.json");
    size_t wrong = 0;
    assert_true(json_array_size(all) > 300);
    for (size_t i = 0; i < json_array_size(all); i++) {
        const json_t *entry = json_array_get(all, i);
        const char *text = json_string_value(json_object_get(entry, "expression")),
                   *refused = json_string_value(json_object_get(entry, "refused"));
        struct pith_error err = {0};
        struct pith_grammar *g = NULL;
        const enum pith_status s = pith_grammar_open(v, PITH_EXPRESSION, text, &g, &err);
        bool ok = s == PITH_OK;
        if (refused) ok = s == PITH_UNSUPPORTED && strstr(err.text, refused);
        else if (json_object_get(entry, "wrong")) ok = s == PITH_FORMAT;
        else if (ok) ok = check_texts(g, json_object_get(entry, "texts"), text) == 0;
        if (!ok) print_error("%s: %s\n", text, err.text);
        wrong += !ok;
        pith_grammar_close(g);
    }
    assert_int_equal(wrong, 0);
    json_decref(all);
    pith_vocab_bytes_close(v);
}

/* --- what asks for too much ------------------------------------------------------------------- */

/* A text of a head, `count` parts with their number in them (twice) between commas, and a tail. */
static char *many(const char *head, const char *part, int count, const char *tail)
{
    struct pith_str text = {0};
    pith_str_puts(&text, head);
    for (int i = 0; i < count; i++) {
        if (i) pith_str_putc(&text, ',');
        for (const char *p = part; *p; p++) {
            if (*p == '#') pith_str_printf(&text, "%d", i);
            else if (*p == '+') pith_str_printf(&text, "%d", i + 1);
            else pith_str_putc(&text, *p);
        }
    }
    pith_str_puts(&text, tail);
    assert_false(text.failed);
    return pith_str_take(&text);
}

/* Work and memory are bounded: each of these would take hours, or all memory there is. */
static void what_asks_for_too_much_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *head, *part;
        int count;
        const char *tail;
        enum pith_status status;
    } schemas[] = {
        {"{\"$ref\":\"%/d/0\",\"d\":{",
         "\"#\":{\"allOf\":[{\"$ref\":\"%/d/+\"},{\"$ref\":\"%/d/+\"}]}", 60, ",\"60\":{}}}",
         PITH_UNSUPPORTED},
        {"{\"$ref\":\"%/$defs/0\",\"$defs\":{",
         "\"#\":{\"allOf\":[{\"$ref\":\"%/$defs/+\"},{\"$ref\":\"%/$defs/+\"}]}", 60,
         ",\"60\":{}}}", PITH_LIMIT},
        {"{\"allOf\":[", "{\"anyOf\":[{\"minimum\":#},{\"maximum\":#}]}", 40, "]}", PITH_LIMIT},
        {"{\"allOf\":[", "{\"oneOf\":[{\"type\":\"integer\",\"minimum\":#},{\"type\":\"null\"}]}",
         40, "]}", PITH_LIMIT},
        {"{\"oneOf\":[", "{\"const\":#}", 5000, "]}", PITH_LIMIT},
        {"{\"enum\":[", "\"w#\"", 60000, "]}", PITH_LIMIT},
        {"{\"type\":\"object\",\"required\":[", "\"k#\"", 60000, "]}", PITH_LIMIT},
        {"{\"anyOf\":[", "{\"pattern\":\"(a|b)*a(a|b){12}#\"}", 100, "]}", PITH_LIMIT},
        {"{\"type\":\"object\",\"minProperties\":2,\"maxProperties\":", "10000000", 1,
         ",\"additionalProperties\":true}", PITH_LIMIT},
        {"{\"type\":\"number\",\"not\":{\"enum\":[", "#", 20000, "]}}", PITH_LIMIT},
        {"{\"type\":\"string\",\"not\":{\"enum\":[", "\"w#\"", 60000, "]}}", PITH_LIMIT},
        {"{\"properties\":{",
         "\"p#\":{\"uniqueItems\":true,\"items\":{\"type\":\"integer\",\"minimum\":#,"
         "\"exclusiveMaximum\":1#}}",
         0, "},\"multipleOf\":999983}", PITH_UNSUPPORTED},
        {"{\"not\":", "{\"$ref\":\"%\"}", 1, "}", PITH_FORMAT},
        {"{\"minItems\":", "4000000000", 1, ",\"type\":\"array\"}", PITH_LIMIT},
        {"{\"minLength\":", "4000000000", 1, ",\"type\":\"string\"}", PITH_LIMIT},
    };
    static const char *const expressions[] = {"(a|b)*a(a|b){25}", "((a{1,1000}){1,1000}){1,1000}",
                                              "(((a?){100}){100}){100}", "[^a]{100000}"};
    struct pith_vocab_bytes *v = bytes_alone();
    for (size_t i = 0; i < PITH_COUNT(schemas); i++) {
        struct pith_error err = {0};
        struct pith_grammar *g = NULL;
        char *text = many(schemas[i].head, schemas[i].part, schemas[i].count, schemas[i].tail);
        for (char *p = text; *p; p++)
            if (*p == '%') *p = '#';
        const enum pith_status s = pith_grammar_open(v, PITH_SCHEMA, text, &g, &err);
        if (s != schemas[i].status) fail_msg("%.60s: %d, %s", text, (int)s, err.text);
        pith_free(text);
    }
    for (size_t i = 0; i < PITH_COUNT(expressions); i++) {
        struct pith_grammar *g = NULL;
        assert_int_equal(pith_grammar_open(v, PITH_EXPRESSION, expressions[i], &g, NULL),
                         PITH_LIMIT);
    }
    pith_vocab_bytes_close(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_objects),
        cmocka_unit_test(schemas_as_others_judge_them),
        cmocka_unit_test(expressions_as_python_matches_them),
        cmocka_unit_test(schemas_as_pydantic_writes_them),
        cmocka_unit_test(long_lengths_are_counted),
        cmocka_unit_test(what_asks_for_too_much_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
