/* tok/: folders with a tiktoken.model: the same ids as the tokenizer.json that says the same, and
 * what is refused. */
#include "base/str.h"
#include "folders.h"
#include "tok/base64.h"
#include "tok/unicode/bytemap.h"
#include "vectors.h"

static void put_base64(struct pith_str *s, const char *data, size_t size)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < size; i += 3) {
        uint32_t bits = 0;
        const size_t n = size - i < 3 ? size - i : 3;
        for (size_t k = 0; k < 3; k++) bits = bits << 8 | (k < n ? (uint8_t)data[i + k] : 0);
        for (size_t k = 0; k < 4; k++)
            pith_str_putc(s, k <= n ? digits[bits >> (18 - 6 * k) & 63] : '=');
    }
}

static void base64_is_read(void **state)
{
    (void)state;
    uint8_t out[64];
    size_t size;
    for (size_t n = 0; n < 40; n++) {
        char data[40];
        struct pith_str s = {0};
        for (size_t i = 0; i < n; i++) data[i] = (char)(i * 37 + n);
        put_base64(&s, data, n);
        assert_true(pith_base64_read(pith_str_text(&s), s.len, out, &size));
        assert_int_equal(size, n);
        assert_memory_equal(out, data, n);
        pith_str_free(&s);
    }
    assert_false(pith_base64_read("A", 1, out, &size));
    assert_false(pith_base64_read("AA A", 4, out, &size));
    assert_false(pith_base64_read("A=AA", 4, out, &size));
}

/* The vocabulary of a byte-level tokenizer.json as lines of a tiktoken.model. */
static void put_ranks(const json_t *vocab, struct pith_str *out)
{
    const size_t count = json_object_size(vocab);
    const char **by_id = pith_zalloc(count, sizeof *by_id), *key;
    json_t *id;
    assert_non_null(by_id);
    json_object_foreach ((json_t *)(uintptr_t)vocab, key, id) by_id[json_integer_value(id)] = key;
    for (size_t i = 0; i < count; i++) {
        struct pith_str bytes = {0};
        pith_bytemap_read(by_id[i], strlen(by_id[i]), &bytes);
        put_base64(out, bytes.data, bytes.len);
        pith_str_printf(out, " %zu\n", i);
        pith_str_free(&bytes);
    }
    pith_free(by_id);
}

static const char config[] =
    "{\"tokenizer_class\":\"TikTokenTokenizer\",\"bos_token\":\"[BOS]\",\"eos_token\":\"[EOS]\","
    "\"added_tokens_decoder\":{\"400\":{\"content\":\"[BOS]\",\"special\":true},"
    "\"401\":{\"content\":\"[EOS]\",\"special\":true},"
    "\"403\":{\"content\":\"<tool>\",\"special\":false}}}";

static void open_golden(struct pith_map *map, struct cursor *c, struct pith_str *ranks)
{
    struct pith_error err = {0};
    json_t *json = NULL;
    assert_ok(pith_map_open("tests/golden/tok/kimi.tok", map, &err), err);
    *c = (struct cursor){map->data + 9, map->data + map->size};
    const struct bytes model = take_bytes(c);
    assert_ok(pith_json_parse(model.data, model.size, "kimi", &json, &err), err);
    put_ranks(json_object_get(json_object_get(json, "model"), "vocab"), ranks);
    json_decref(json);
}

static void ids_are_those_of_tokenizer_json(void **state)
{
    (void)state;
    static const char bare[] = "{\"tokenizer_class\":\"TikTokenTokenizer\"}";
    struct pith_error err = {0};
    struct pith_map map;
    struct cursor c;
    struct pith_str ranks = {0};
    struct pith_tokenizer *t = NULL;
    struct vector v = {0};
    char *dir = test_temp_dir();
    open_golden(&map, &c, &ranks);
    folder_put(dir, "tiktoken.model", ranks.data, ranks.len);
    folder_text(dir, "tokenizer_config.json", bare);
    assert_ok(pith_tokenizer_open(dir, &t, &err), err);
    assert_int_equal(pith_tokenizer_vocab(t), 400 + 256);
    for (uint32_t n = take_u32(&c); n > 0; n--) {
        struct pith_ids ids = {0};
        take_vector(&c, &v);
        assert_ok(pith_tokenizer_encode(t, v.text.data, v.text.size, true, &ids, &err), err);
        assert_int_equal(ids.count, v.ids.count);
        if (ids.count) assert_memory_equal(ids.id, v.ids.id, ids.count * sizeof *ids.id);
        pith_ids_free(&ids);
    }
    pith_ids_free(&v.ids);
    pith_ids_free(&v.special);
    pith_tokenizer_close(t);
    folder_remove(dir);
    pith_str_free(&ranks);
    pith_map_close(&map);
}

static void special_tokens_follow_the_list(void **state)
{
    (void)state;
    static const char text[] = "[BOS]<tool><|reserved_token_655|><|reserved_token_400|>";
    struct pith_error err = {0};
    struct pith_map map;
    struct cursor c;
    struct pith_str ranks = {0}, back = {0};
    struct pith_tokenizer *t = NULL;
    struct pith_ids ids = {0};
    char *dir = test_temp_dir();
    open_golden(&map, &c, &ranks);
    folder_put(dir, "tiktoken.model", ranks.data, ranks.len);
    folder_text(dir, "tokenizer_config.json", config);
    assert_ok(pith_tokenizer_open(dir, &t, &err), err);
    assert_int_equal(pith_tokenizer_bos(t), 400);
    assert_int_equal(pith_tokenizer_eos(t), 401);
    assert_false(pith_tokenizer_adds_bos(t));
    assert_ok(pith_tokenizer_encode(t, text, sizeof text - 1, true, &ids, &err), err);
    assert_true(ids.count > 4); /* 400 has a name of its own, the reserved one is text */
    assert_int_equal(ids.id[0], 400);
    assert_int_equal(ids.id[1], 403);
    assert_int_equal(ids.id[2], 655);
    assert_ok(pith_tokenizer_decode(t, ids.id, ids.count, true, &back, &err), err);
    assert_string_equal(back.data, "<tool><|reserved_token_400|>");
    pith_str_free(&back);
    pith_ids_free(&ids);
    pith_tokenizer_close(t);
    folder_remove(dir);
    pith_str_free(&ranks);
    pith_map_close(&map);
}

static void broken_lists_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *ranks, *config;
        enum pith_status status;
        const char *message;
    } bad[] = {
        {"IQ== 0\n", "{}", PITH_UNSUPPORTED, "of a \"tokenizer of unknown class\""},
        {"IQ== 0\n", "{\"tokenizer_class\":\"Oracle\"}", PITH_UNSUPPORTED, "of a \"Oracle\""},
        {"IQ== 1\n", config, PITH_FORMAT, "line 1 is not a token and its rank 0"},
        {"IQ== 0\nIg== 2\n", config, PITH_FORMAT, "line 2 is not"},
        {"IQ== 0\nIQ== 1\n", config, PITH_FORMAT, "token 1 stands there twice"},
        {"I*== 0\n", config, PITH_FORMAT, "token 0 is not base64"},
        {" 0\n", config, PITH_FORMAT, "token 0 is not base64"},
        {"IQ==\n", config, PITH_FORMAT, "line 1 is not"},
        {"IQ== 0x\n", config, PITH_FORMAT, "line 1 is not"},
    };
    for (size_t i = 0; i < PITH_COUNT(bad); i++) {
        struct pith_error err = {0};
        struct pith_tokenizer *t = NULL;
        char *dir = test_temp_dir();
        folder_text(dir, "tiktoken.model", bad[i].ranks);
        folder_text(dir, "tokenizer_config.json", bad[i].config);
        const enum pith_status s = pith_tokenizer_open(dir, &t, &err);
        if (s != bad[i].status || !strstr(err.text, bad[i].message))
            fail_msg("case %zu: status %d \"%s\"", i, (int)s, err.text);
        folder_remove(dir);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(base64_is_read),
                                       cmocka_unit_test(ids_are_those_of_tokenizer_json),
                                       cmocka_unit_test(special_tokens_follow_the_list),
                                       cmocka_unit_test(broken_lists_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
