/* tok/files/tok_tekken: the ids that mistral-common gives (tests/golden/tok/make_tekken.py), by a
 * tekken.json, by the merges that its order of tokens means, and what is refused. */
#include "folders.h"

#include "tok/files/tiktoken.h"

static json_t *golden(void)
{
    struct pith_error err = {0};
    json_t *out = NULL;
    assert_ok(pith_json_load("tests/golden/tok/tekken.json", 1 << 20, &out, &err), err);
    return out;
}

/* The files of a row, with the vocabulary that all rows share. */
static char *row_folder(const json_t *all, const json_t *row)
{
    json_t *files = json_deep_copy(json_object_get(row, "files"));
    json_object_set(json_object_get(files, "tekken.json"), "vocab", json_object_get(all, "vocab"));
    char *dir = new_folder(files);
    json_decref(files);
    return dir;
}

static int64_t number(const json_t *row, const char *key)
{
    return json_integer_value(json_object_get(row, key));
}

static void ids_are_those_of_mistral_common(void **state)
{
    (void)state;
    struct pith_error err = {0};
    json_t *all = golden(), *row;
    size_t i;
    json_array_foreach (json_object_get(all, "rows"), i, row) {
        struct pith_tokenizer *t = NULL;
        char *dir = row_folder(all, row);
        assert_ok(pith_tokenizer_open(dir, &t, &err), err);
        assert_int_equal(pith_tokenizer_bos(t), number(row, "bos"));
        assert_int_equal(pith_tokenizer_eos(t), number(row, "eos"));
        assert_int_equal(pith_tokenizer_vocab(t), number(row, "vocab"));
        assert_true(pith_tokenizer_adds_bos(t));
        check_texts(t, row, json_object_get(all, "texts"));
        pith_tokenizer_close(t);
        folder_remove(dir);
    }
    assert_true(i >= 5);
    json_decref(all);
}

/* A tokenizer.json with merges, as for a GGUF file. */
static char *folder_with_merges(const char *dir)
{
    struct pith_error err = {0};
    json_t *json = NULL, *merges = NULL, *token;
    size_t i;
    assert_ok(pith_tokenizer_folder_json(dir, &json, &err), err);
    assert_ok(pith_tiktoken_merges(json, &merges, &err), err);
    json_t *model = json_object_get(json, "model"), *vocab = json_object_get(model, "vocab");
    json_array_foreach (json_object_get(json, "added_tokens"), i, token)
        json_object_set(vocab, json_string_value(json_object_get(token, "content")),
                        json_object_get(token, "id"));
    json_object_set_new(model, "type", json_string("BPE"));
    json_object_set_new(model, "merges", merges);
    json_t *files = json_pack("{s:o}", "tokenizer.json", json);
    char *out = new_folder(files);
    json_decref(files);
    return out;
}

static void merges_are_those_of_the_converter(void **state)
{
    (void)state;
    struct pith_error err = {0};
    json_t *all = golden(), *json = NULL, *merges = NULL, *want;
    size_t i;
    char *dir = row_folder(all, json_array_get(json_object_get(all, "rows"), 0));
    assert_ok(pith_tokenizer_folder_json(dir, &json, &err), err);
    assert_ok(pith_tiktoken_merges(json, &merges, &err), err);
    json_array_foreach (json_object_get(all, "merges"), i, want) {
        char is[64];
        const json_t *pair = json_array_get(merges, i);
        snprintf(is, sizeof is, "%s %s", json_string_value(json_array_get(pair, 0)),
                 json_string_value(json_array_get(pair, 1)));
        assert_string_equal(is, json_string_value(want));
    }
    assert_int_equal(json_array_size(merges), i);
    json_decref(json);
    json_decref(merges);
    json_decref(all);
    folder_remove(dir);
}

static void merges_mean_the_same(void **state)
{
    (void)state;
    struct pith_error err = {0};
    json_t *all = golden(), *row;
    size_t i;
    json_array_foreach (json_object_get(all, "rows"), i, row) {
        struct pith_tokenizer *t = NULL, *merged = NULL;
        struct pith_ids a = {0}, b = {0};
        char *dir = row_folder(all, row), *other = folder_with_merges(dir);
        const json_t *text;
        size_t k;
        assert_ok(pith_tokenizer_open(dir, &t, &err), err);
        assert_ok(pith_tokenizer_open(other, &merged, &err), err);
        json_array_foreach (json_object_get(all, "texts"), k, text) {
            a.count = b.count = 0;
            const char *s = json_string_value(text);
            assert_ok(pith_tokenizer_encode(t, s, strlen(s), false, &a, &err), err);
            assert_ok(pith_tokenizer_encode(merged, s, strlen(s), false, &b, &err), err);
            assert_int_equal(a.count, b.count);
            if (a.count) assert_memory_equal(a.id, b.id, a.count * sizeof *a.id);
        }
        pith_ids_free(&a);
        pith_ids_free(&b);
        pith_tokenizer_close(t);
        pith_tokenizer_close(merged);
        folder_remove(dir);
        folder_remove(other);
    }
    json_decref(all);
}

#define CONFIG(size, special)                                                                      \
    "\"config\":{\"pattern\":\".\",\"version\":\"v3\",\"default_vocab_size\":" size                \
    ",\"default_num_special_tokens\":" special "}"
#define VOCAB                                                                                      \
    "\"vocab\":[{\"rank\":0,\"token_bytes\":\"IQ==\"},"                                            \
    "{\"rank\":1,\"token_bytes\":\"Ig==\"}]"
#define SPECIAL(second) "\"special_tokens\":[{\"rank\":0,\"token_str\":\"<s>\"}," second "]"
#define EOS "{\"rank\":1,\"token_str\":\"</s>\"}"

static void files_at_fault_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says; /* NULL: it opens */
    } rows[] = {
        {"{" CONFIG("4", "2") "," VOCAB "," SPECIAL(EOS) "}", NULL},
        {"{" CONFIG("22", "20") "," VOCAB "}", NULL},
        {"{\"config\":{\"pattern\":\".\"}," VOCAB "," SPECIAL(EOS) "}", NULL},
        {"{" CONFIG("3", "2") "," VOCAB "," SPECIAL("{\"token_str\":\"</s>\"}") "}", NULL},
        {"{" CONFIG("5", "2") "," VOCAB "," SPECIAL(EOS) "}", "lists 2 tokens, of which 3"},
        {"{" CONFIG("1", "2") "," VOCAB "," SPECIAL(EOS) "}", "default_vocab_size"},
        {"{" CONFIG("4", "1") "," VOCAB "," SPECIAL(EOS) "}", "default_num_special_tokens"},
        {"{" CONFIG("12", "10") "," VOCAB "}", "default_num_special_tokens"},
        {"{" CONFIG("16000000", "16000000") "," VOCAB "," SPECIAL(EOS) "}",
         "default_num_special_tokens"},
        {"{" CONFIG("4", "2") "," VOCAB "," SPECIAL("{\"rank\":0,\"token_str\":\"</s>\"}") "}",
         "special token 1"},
        {"{" CONFIG("4", "2") "," VOCAB "," SPECIAL("{\"rank\":1}") "}", "special token 1"},
        {"{" CONFIG("4", "2") "," VOCAB "," SPECIAL("{\"rank\":2,\"token_str\":\"</s>\"}") "}",
         "rank"},
        {"{" CONFIG("4", "2") "," VOCAB ",\"special_tokens\":{}}", "special_tokens"},
        {"{\"config\":{\"pattern\":\".\",\"version\":\"v11\"}," VOCAB "}", "no \"special_tokens\""},
        {"{" VOCAB "}", "pattern"},
        {"{\"config\":{\"pattern\":\"(\"}," VOCAB "}", "pattern"},
        {"{" CONFIG("22", "20") "}", "vocab"},
        {"{" CONFIG("21", "20") ",\"vocab\":[{\"rank\":1,\"token_bytes\":\"IQ==\"}]}",
         "entry 0 is not the token of that rank"},
        {"{" CONFIG("21", "20") ",\"vocab\":[{\"rank\":0,\"token_bytes\":\"I*==\"}]}",
         "token 20 is not base64"},
        {"{" CONFIG("22", "20")
         ",\"vocab\":[{\"rank\":0,\"token_bytes\":\"IQ==\"},"
         "{\"rank\":1,\"token_bytes\":\"IQ==\"}]}",
         "token 21 stands there twice"},
        {"[]", "pattern"},
        {"{", "tekken.json"},
    };
    for (size_t i = 0; i < PITH_COUNT(rows); i++) {
        struct pith_error err = {0};
        struct pith_tokenizer *t = NULL;
        char *dir = test_temp_dir();
        folder_text(dir, "tekken.json", rows[i].text);
        const enum pith_status s = pith_tokenizer_open(dir, &t, &err);
        if ((s != PITH_OK) != (rows[i].says != NULL) ||
            (rows[i].says && !strstr(err.text, rows[i].says)))
            fail_msg("case %zu: status %d \"%s\"", i, (int)s, err.text);
        pith_tokenizer_close(t);
        folder_remove(dir);
    }
}

/* tokenizer.json comes first, tokenizer.model after; what a config says of ends holds. */
static void it_stands_among_other_files(void **state)
{
    (void)state;
    static const char file[] = "{" CONFIG("4", "2") "," VOCAB "," SPECIAL(EOS) "}";
    static const char bare[] = "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}}";
    static const char config[] = "{\"bos_token\":\"</s>\",\"add_bos_token\":false}";
    struct pith_error err = {0};
    struct pith_tokenizer *t = NULL;
    char *dir = test_temp_dir();
    folder_text(dir, "tekken.json", file);
    folder_put(dir, "tokenizer.model", "x", 1);
    folder_text(dir, "tokenizer_config.json", config);
    assert_ok(pith_tokenizer_open(dir, &t, &err), err);
    assert_int_equal(pith_tokenizer_bos(t), 1);
    assert_int_equal(pith_tokenizer_eos(t), 1);
    assert_false(pith_tokenizer_adds_bos(t));
    pith_tokenizer_close(t);
    folder_text(dir, "tokenizer.json", bare);
    assert_ok(pith_tokenizer_open(dir, &t, &err), err);
    assert_int_equal(pith_tokenizer_vocab(t), 1);
    pith_tokenizer_close(t);
    folder_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(ids_are_those_of_mistral_common),
                                       cmocka_unit_test(merges_are_those_of_the_converter),
                                       cmocka_unit_test(merges_mean_the_same),
                                       cmocka_unit_test(files_at_fault_are_refused),
                                       cmocka_unit_test(it_stands_among_other_files)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
