/* tok/: what is made of a GGUF file's SentencePiece vocabulary for a folder: the tokenizer.json is
 * that of Hugging Face's converter (tests/golden/tok/make_gguf.py), templates keep their names, and
 * the answer ends where it did. The ids are tested by test_golden. */
#include "folders.h"
#include "tok/files/gguf_folder.h"
#include "tok/files/gguf_lists.h"
#include "tok/files/spm_model.h"
#include "vectors.h"

#define GOLDEN "tests/golden/tok/gguf_spm"

struct file {
    struct pith_map map;
    struct bytes bytes;
    struct pith_gguf g;
};

static void open_file(struct file *f)
{
    struct pith_error err = {0};
    int kind;
    assert_ok(pith_map_open(GOLDEN ".tok", &f->map, &err), err);
    struct cursor c = {f->map.data, f->map.data + f->map.size};
    f->bytes = take_model(&c, &kind);
    assert_int_equal(kind, KIND_GGUF);
    assert_ok(pith_gguf_parse((const uint8_t *)f->bytes.data, f->bytes.size, "m.gguf", &f->g, &err),
              err);
}

static void close_file(struct file *f)
{
    pith_gguf_close(&f->g);
    pith_map_close(&f->map);
}

static void assert_same(const char *what, const json_t *is, const json_t *want)
{
    struct pith_str a = {0}, b = {0};
    if (json_equal(is, want)) return;
    pith_json_dump(is, JSON_ENCODE_ANY | JSON_SORT_KEYS, &a);
    pith_json_dump(want, JSON_ENCODE_ANY | JSON_SORT_KEYS, &b);
    fail_msg("%s is %.900s, not %.900s", what, pith_str_text(&a), pith_str_text(&b));
}

static void the_json_is_that_of_the_converter(void **state)
{
    (void)state;
    struct pith_error err = {0};
    struct file f;
    json_t *is = NULL, *want = NULL, *value;
    const char *key;
    open_file(&f);
    assert_ok(pith_tok_gguf_json(&f.g, &is, &err), err);
    assert_ok(pith_json_load(GOLDEN ".json", 1 << 20, &want, &err), err);
    json_object_foreach (json_object_get(want, "model"), key, value)
        assert_same(key, json_object_get(json_object_get(is, "model"), key), value);
    json_object_foreach (want, key, value) assert_same(key, json_object_get(is, key), value);
    assert_int_equal(json_object_size(is), json_object_size(want));
    json_decref(is);
    json_decref(want);
    close_file(&f);
}

static void the_folder_has_templates_and_ends(void **state)
{
    (void)state;
    struct pith_error err = {0};
    struct pith_gguf_folder out;
    struct file f;
    open_file(&f);
    assert_ok(pith_gguf_folder(&f.g, &out, &err), err);
    json_t *config = json_pack(
        "{s:s, s:b, s:b, s:b, s:s, s:s, s:s, s:[{s:s, s:s}, {s:s, s:s}]}", "tokenizer_class",
        "PreTrainedTokenizerFast", "add_bos_token", 1, "add_eos_token", 0,
        "clean_up_tokenization_spaces", 0, "bos_token", "<s>", "eos_token", "</s>", "unk_token",
        "<unk>", "chat_template", "name", "default", "template", "{{ messages }}", "name",
        "tool_use", "template", "{{ tools }}");
    json_t *generation = json_pack("{s:i, s:[i, i]}", "bos_token_id", 1, "eos_token_id", 2, 398);
    assert_same("tokenizer_config.json", out.tokenizer_config, config);
    assert_same("generation_config.json", out.generation_config, generation);
    json_decref(config);
    json_decref(generation);
    pith_gguf_folder_free(&out);
    close_file(&f);
}

/* ---- files that are at fault ---- */

/* A vocabulary of four texts, as the keys of a file without tensors. */
static enum pith_status make_json(const char *const texts[4], const int32_t *types, size_t count,
                                  json_t **out, struct pith_error *err)
{
    struct pith_gguf_keys k = {0};
    struct pith_gguf g;
    pith_gguf_put_text(&k, "tokenizer.ggml.model", "llama");
    pith_gguf_begin_array(&k, "tokenizer.ggml.tokens", PITH_GGUF_STRING, 4);
    for (int i = 0; i < 4; i++) pith_gguf_put_string(&k.bytes, texts[i], strlen(texts[i]));
    pith_gguf_begin_array(&k, "tokenizer.ggml.token_type", PITH_GGUF_I32, count);
    pith_str_append(&k.bytes, (const char *)types, count * sizeof *types);
    struct pith_str file = gguf_of(&k);
    assert_ok(pith_gguf_parse((const uint8_t *)file.data, file.len, "m.gguf", &g, err), *err);
    const enum pith_status s = pith_tok_gguf_json(&g, out, err);
    pith_gguf_close(&g);
    pith_gguf_keys_free(&k);
    pith_str_free(&file);
    return s;
}

static void bad_vocabularies_are_refused(void **state)
{
    (void)state;
    static const int32_t types[] = {PITH_SPM_UNKNOWN, 3, 3, 1};
    static const struct {
        const char *text[4];
        size_t types;
        const char *says;
    } rows[] = {
        {{"<unk>", "<s>", "</s>", "a"}, 4, NULL},
        {{"<unk>", "<s>", "</s>", "a"}, 3, "fewer types"},
        {{"<unk>", "<s>", "</s>", "<s>"}, 4, "two tokens are the same"},
        {{"<unk>", "<s>", "</s>", "\xff"}, 4, "token 3 is not a text"},
    };
    for (size_t i = 0; i < PITH_COUNT(rows); i++) {
        struct pith_error err = {0};
        json_t *json = NULL;
        const enum pith_status s = make_json(rows[i].text, types, rows[i].types, &json, &err);
        assert_int_equal(s, rows[i].says ? PITH_FORMAT : PITH_OK);
        if (rows[i].says) assert_non_null(strstr(err.text, rows[i].says));
        else assert_string_equal(json_string_value(json_object_get(json_object_get(json, "model"),
                                                                   "unk_token")),
                                 "<unk>");
        json_decref(json);
    }
}

/* ---- merges over marks for spaces ---- */

#define MARK "\xe2\x96\x81"
#define FIRST_BYTE 3
#define LATER (FIRST_BYTE + 256) /* the id of later[0] */

/* The keys of a file whose tokens are three special ones, all bytes, and some words. */
static void put_marked(struct pith_gguf_keys *k, const char *model, const char *pre)
{
    static const char *const first[] = {"<unk>", "<bos>", "<eos>"},
                             *const later[] = {"a", "b", "ab", MARK, MARK "ab", "\n", "\n\n",
                                               "<|tool>"},
                             *const merges[] = {"a b", MARK " ab", "\n \n"};
    const uint64_t count = LATER + PITH_COUNT(later);
    pith_gguf_put_text(k, "tokenizer.ggml.model", model);
    if (pre) pith_gguf_put_text(k, "tokenizer.ggml.pre", pre);
    pith_gguf_begin_array(k, "tokenizer.ggml.tokens", PITH_GGUF_STRING, count);
    for (uint64_t i = 0; i < count; i++) {
        char byte[8];
        snprintf(byte, sizeof byte, "<0x%02X>", (unsigned)(i - FIRST_BYTE) & 255);
        const char *text = i < FIRST_BYTE ? first[i] : i < LATER ? byte : later[i - LATER];
        pith_gguf_put_string(&k->bytes, text, strlen(text));
    }
    pith_gguf_begin_array(k, "tokenizer.ggml.token_type", PITH_GGUF_I32, count);
    for (uint64_t i = 0; i < count; i++) {
        const int32_t type = i == 0           ? PITH_SPM_UNKNOWN
                             : i < FIRST_BYTE ? PITH_SPM_CONTROL
                             : i < LATER      ? PITH_SPM_BYTE
                             : i == count - 1 ? PITH_SPM_USER
                                              : PITH_SPM_NORMAL;
        pith_str_append(&k->bytes, (const char *)&type, sizeof type);
    }
    pith_gguf_begin_array(k, "tokenizer.ggml.merges", PITH_GGUF_STRING, PITH_COUNT(merges));
    for (size_t i = 0; i < PITH_COUNT(merges); i++)
        pith_gguf_put_string(&k->bytes, merges[i], strlen(merges[i]));
    pith_gguf_put_uint(k, "tokenizer.ggml.bos_token_id", 1);
    pith_gguf_put_uint(k, "tokenizer.ggml.eos_token_id", 2);
}

/* llama.cpp's src/llama-vocab.cpp: LLAMA_VOCAB_PRE_TYPE_GEMMA4, _SARVAM_MOE. */
static void check_marked(const char *model, const char *pre, bool bos)
{
    static const char text[] = "ab ab\n\n\nc\xc3\xa9<|tool> <eos>";
    static const int32_t want[] = {
        1,         LATER + 2, LATER + 4, LATER + 6, LATER + 5, FIRST_BYTE + 0x63, FIRST_BYTE + 0xc3,
        FIRST_BYTE + 0xa9, LATER + 7, LATER + 3, 2};
    const size_t from = bos ? 0 : 1, count = PITH_COUNT(want) - from;
    struct pith_gguf_keys k = {0};
    struct pith_str back = {0};
    struct pith_error err = {0};
    struct pith_ids ids = {0};
    struct pith_tokenizer *t;
    struct pith_gguf g;
    put_marked(&k, model, pre);
    struct pith_str file = gguf_of(&k);
    assert_ok(pith_gguf_parse((const uint8_t *)file.data, file.len, "m.gguf", &g, &err), err);
    assert_ok(pith_tokenizer_from_gguf(&g, &t, &err), err);
    assert_ok(pith_tokenizer_encode(t, text, strlen(text), true, &ids, &err), err);
    assert_int_equal(ids.count, count);
    assert_memory_equal(ids.id, want + from, count * sizeof *want);
    assert_ok(pith_tokenizer_decode(t, ids.id + 1 - from, PITH_COUNT(want) - 1, false, &back, &err),
              err);
    assert_string_equal(pith_str_text(&back), text);
    pith_str_free(&back);
    pith_ids_free(&ids);
    pith_tokenizer_close(t);
    pith_gguf_close(&g);
    pith_gguf_keys_free(&k);
    pith_str_free(&file);
}

static void marked_spaces_are_merged(void **state)
{
    (void)state;
    check_marked("gemma4", NULL, true);
    check_marked("gemma4", "default", true);
    check_marked("gpt2", "gemma4", true);
    check_marked("gpt2", "sarvam-moe", false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_json_is_that_of_the_converter),
        cmocka_unit_test(the_folder_has_templates_and_ends),
        cmocka_unit_test(bad_vocabularies_are_refused),
        cmocka_unit_test(marked_spaces_are_merged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
