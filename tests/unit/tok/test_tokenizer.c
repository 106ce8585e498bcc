/* tok/: folders, special tokens, streaming, long words, threads. */
#include "base/json.h"
#include "base/pool.h"
#include "base/str.h"
#include "folders.h"
#include "vectors.h"

static const char probe[] = "models/probe";

static struct pith_tokenizer *open_dir(const char *dir)
{
    struct pith_error err = {0};
    struct pith_tokenizer *t = NULL;
    assert_ok(pith_tokenizer_open(dir, &t, &err), err);
    return t;
}

/* The tokenizer inside a committed .tok file, or the file that it was read from. */
static struct bytes model_of(const char *name, struct pith_map *map)
{
    struct pith_error err = {0};
    char path[256];
    snprintf(path, sizeof path, "tests/golden/tok/%s.tok", name);
    assert_ok(pith_map_open(path, map, &err), err);
    struct cursor c = {map->data + 9, map->data + map->size};
    return take_bytes(&c);
}

static struct pith_tokenizer *open_golden(const char *name)
{
    struct pith_error err = {0};
    struct pith_map map;
    struct pith_tokenizer *t = NULL;
    const struct bytes model = model_of(name, &map);
    const enum pith_status s =
        strncmp(name, "spm", 3) == 0
            ? pith_tokenizer_from_spm((const uint8_t *)model.data, model.size, &t, &err)
            : pith_tokenizer_from_json(model.data, model.size, &t, &err);
    pith_map_close(&map);
    assert_ok(s, err);
    return t;
}

static struct pith_ids encode(const struct pith_tokenizer *t, const char *text, size_t size,
                              bool special)
{
    struct pith_error err = {0};
    struct pith_ids ids = {0};
    assert_ok(pith_tokenizer_encode(t, text, size, special, &ids, &err), err);
    return ids;
}

static struct pith_str decode(const struct pith_tokenizer *t, const struct pith_ids *ids)
{
    struct pith_error err = {0};
    struct pith_str s = {0};
    assert_ok(pith_tokenizer_decode(t, ids->id, ids->count, true, &s, &err), err);
    return s;
}

static void the_probe_opens(void **state)
{
    (void)state;
    struct pith_tokenizer *t = open_dir(probe);
    assert_int_equal(pith_tokenizer_vocab(t), 4096);
    assert_int_equal(pith_tokenizer_bos(t), 4094);
    assert_int_equal(pith_tokenizer_eos(t), 4095);
    assert_true(pith_tokenizer_adds_bos(t));
    assert_int_equal(pith_tokenizer_find(t, "<|end_of_text|>"), 4095);
    assert_int_equal(pith_tokenizer_find(t, "no such token"), -1);
    static const char text[] = "The king's 42 ships\n\n  sailed; \xc3\xa9t\xc3\xa9<|end_of_text|>.";
    struct pith_ids ids = encode(t, text, sizeof text - 1, true);
    assert_int_equal(ids.id[0], 4094);
    assert_int_equal(ids.id[ids.count - 2], 4095);
    ids.id[ids.count++] = 1 << 30; /* outside the vocabulary: skipped */
    ids.id[0] = -7;
    struct pith_str s = decode(t, &ids);
    assert_string_equal(s.data, "The king's 42 ships\n\n  sailed; \xc3\xa9t\xc3\xa9.");
    pith_str_free(&s);
    pith_ids_free(&ids);
    ids = encode(t, "", 0, true);
    assert_int_equal(ids.count, 1);
    pith_ids_free(&ids);
    ids = encode(t, NULL, 0, false);
    assert_int_equal(ids.count, 0);
    pith_tokenizer_close(t);
    pith_tokenizer_close(NULL);
}

/* A folder with a SentencePiece model and these side files (NULL: none). */
static struct pith_tokenizer *open_llama(const char *config, const char *tokenizer_config)
{
    struct pith_error err = {0};
    struct pith_map map;
    const struct bytes model = model_of("spm_llama", &map);
    char *dir = test_temp_dir(), *path = pith_path_join(dir, "tokenizer.model");
    assert_ok(pith_file_write(path, model.data, model.size, &err), err);
    pith_free(path);
    path = pith_path_join(dir, "config.json");
    if (config) assert_ok(pith_file_write(path, config, strlen(config), &err), err);
    pith_free(path);
    path = pith_path_join(dir, "tokenizer_config.json");
    if (tokenizer_config)
        assert_ok(pith_file_write(path, tokenizer_config, strlen(tokenizer_config), &err), err);
    pith_free(path);
    struct pith_tokenizer *t = open_dir(dir);
    assert_ok(pith_dir_remove(dir, &err), err);
    free(dir);
    pith_map_close(&map);
    return t;
}

static void side_files_name_special_tokens(void **state)
{
    (void)state;
    struct pith_tokenizer *t = open_llama(NULL, NULL);
    assert_true(pith_tokenizer_adds_bos(t));
    assert_int_equal(pith_tokenizer_bos(t), 1);
    assert_int_equal(pith_tokenizer_eos(t), 2);
    pith_tokenizer_close(t);
    t = open_llama("{\"eos_token_id\":[7,8]}",
                   "{\"add_bos_token\":false,\"add_eos_token\":true,"
                   "\"eos_token\":{\"content\":\"<0x41>\",\"lstrip\":false},\"bos_token\":null}");
    assert_false(pith_tokenizer_adds_bos(t));
    assert_int_equal(pith_tokenizer_bos(t), 1);
    assert_int_equal(pith_tokenizer_eos(t), pith_tokenizer_find(t, "<0x41>"));
    struct pith_ids ids = encode(t, "a", 1, true);
    assert_int_equal(ids.id[ids.count - 1], pith_tokenizer_eos(t));
    pith_ids_free(&ids);
    pith_tokenizer_close(t);
}

static void config_ids_fill_the_gaps(void **state)
{
    (void)state;
    struct pith_error err = {0};
    static const char json[] = "{\"model\":{\"vocab\":{\"a\":0,\"b\":1,\"c\":2},\"merges\":[]}}";
    static const char config[] = "{\"bos_token_id\":99,\"eos_token_id\":[2,1]}";
    char *dir = test_temp_dir(), *path = pith_path_join(dir, "tokenizer.json");
    assert_ok(pith_file_write(path, json, sizeof json - 1, &err), err);
    pith_free(path);
    path = pith_path_join(dir, "generation_config.json");
    assert_ok(pith_file_write(path, config, sizeof config - 1, &err), err);
    struct pith_tokenizer *t = open_dir(dir);
    assert_int_equal(pith_tokenizer_bos(t), -1);
    assert_int_equal(pith_tokenizer_eos(t), 2);
    assert_int_equal(pith_tokenizer_vocab(t), 3);
    pith_tokenizer_close(t);
    assert_ok(pith_file_write(path, "{", 1, &err), err);
    assert_int_equal(pith_tokenizer_open(dir, &t, &err), PITH_FORMAT);
    assert_non_null(strstr(err.text, "generation_config.json"));
    pith_free(path);
    err = (struct pith_error){0};
    assert_ok(pith_dir_remove(dir, &err), err);
    assert_int_equal(pith_tokenizer_open(dir, &t, &err), PITH_IO);
    assert_non_null(strstr(err.text, "has no tokenizer"));
    free(dir);
}

/* Splits a golden tokenizer.json into vocab.json and merges.txt. */
static void write_old_files(const char *dir, const char *name)
{
    struct pith_error err = {0};
    struct pith_map map;
    const struct bytes model = model_of(name, &map);
    json_t *json = NULL;
    assert_ok(pith_json_parse(model.data, model.size, name, &json, &err), err);
    const json_t *bpe = json_object_get(json, "model");
    char *vocab = json_dumps(json_object_get(bpe, "vocab"), 0);
    folder_text(dir, "vocab.json", vocab);
    free(vocab);
    struct pith_str merges = {0};
    pith_str_puts(&merges, "#version: 0.2\r\n"); /* as git on Windows has it */
    const json_t *list = json_object_get(bpe, "merges");
    for (size_t i = 0; i < json_array_size(list); i++)
        pith_str_printf(&merges, "%s %s\r\n",
                        json_string_value(json_array_get(json_array_get(list, i), 0)),
                        json_string_value(json_array_get(json_array_get(list, i), 1)));
    folder_put(dir, "merges.txt", merges.data, merges.len);
    pith_str_free(&merges);
    json_decref(json);
    pith_map_close(&map);
}

static void vocabulary_and_merges_are_enough(void **state)
{
    (void)state;
    static const char text[] = "It's caf\xc3\xa9 cafe\xcc\x81 1234\r\n\n  x<|im_end|>";
    static const struct {
        const char *golden, *config;
    } cases[] = {
        {"gpt2",
         "{\"tokenizer_class\":\"GPT2Tokenizer\",\"eos_token\":\"<|im_end|>\","
         "\"added_tokens_decoder\":{\"400\":{\"content\":\"<|im_end|>\",\"special\":true}}}"},
        {"qwen", "{\"tokenizer_class\":\"Qwen2TokenizerFast\",\"eos_token\":\"<|im_end|>\","
                 "\"added_tokens_decoder\":{\"401\":{\"content\":\"<b>\"},\"400\":"
                 "{\"content\":\"<|im_end|>\",\"special\":true}}}"},
    };
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        struct pith_error err = {0};
        char *dir = test_temp_dir();
        write_old_files(dir, cases[i].golden);
        folder_text(dir, "tokenizer_config.json", cases[i].config);
        struct pith_tokenizer *t = open_dir(dir), *want = open_golden(cases[i].golden);
        const int32_t end = pith_tokenizer_find(t, "<|im_end|>");
        assert_int_equal(end, 400);
        assert_int_equal(pith_tokenizer_eos(t), end);
        struct pith_ids a = encode(t, text, sizeof text - 1, true);
        struct pith_ids b = encode(want, text, sizeof text - 11, true);
        assert_int_equal(a.count, b.count + 1);
        assert_memory_equal(a.id, b.id, b.count * sizeof *b.id);
        assert_int_equal(a.id[a.count - 1], end);
        pith_ids_free(&a);
        pith_ids_free(&b);
        pith_tokenizer_close(t);
        pith_tokenizer_close(want);
        folder_text(dir, "tokenizer_config.json", "{\"tokenizer_class\":\"XTokenizer\"}");
        assert_int_equal(pith_tokenizer_open(dir, &t, &err), PITH_UNSUPPORTED);
        assert_non_null(strstr(err.text, "XTokenizer"));
        err = (struct pith_error){0};
        assert_ok(pith_dir_remove(dir, &err), err);
        free(dir);
    }
}

/* OPT: the class is GPT-2's, the tokens around a text and what is special stand in the config. */
static void configs_tell_what_is_special(void **state)
{
    (void)state;
    static const char config[] =
        "{\"tokenizer_class\":\"GPT2Tokenizer\",\"bos_token\":{\"content\":\"</s>\"},"
        "\"eos_token\":\"</s>\",\"pad_token\":{\"content\":\"<pad>\",\"lstrip\":true},"
        "\"add_bos_token\":true,\"add_prefix_space\":true}";
    struct pith_error err = {0};
    char *dir = test_temp_dir();
    write_old_files(dir, "gpt2");
    folder_text(dir, "tokenizer_config.json", config);
    struct pith_tokenizer *t = open_dir(dir), *plain = open_golden("gpt2");
    struct pith_ids ids = encode(t, "he </s> <pad>", 13, true);
    struct pith_ids he = encode(plain, " he ", 4, false);
    assert_int_equal(ids.count, he.count + 3);
    assert_int_equal(ids.id[0], 400);
    assert_memory_equal(ids.id + 1, he.id, he.count * sizeof *he.id);
    assert_int_equal(ids.id[ids.count - 2], 400);
    assert_int_equal(ids.id[ids.count - 1], 401);
    struct pith_str text = decode(t, &ids);
    assert_string_equal(text.data, " he ");
    assert_int_equal(pith_tokenizer_eos(t), 400);
    pith_str_free(&text);
    pith_ids_free(&ids);
    pith_ids_free(&he);
    pith_tokenizer_close(t);
    pith_tokenizer_close(plain);
    assert_ok(pith_dir_remove(dir, &err), err);
    free(dir);
}

/* Files that name special tokens; ids and text are those of transformers 5.24. */
static void files_beside_tell_what_is_special(void **state)
{
    (void)state;
    static const char text[] = "<|im_start|>a<|im_end|><tool><extra_0>";
    static const struct {
        const char *config, *added, *map;
        int32_t ids[4]; /* the first, and those behind the "a" */
        const char *shown;
    } cases[] = {
        {"{\"tokenizer_class\":\"GPT2Tokenizer\"}",
         "{\"<tool>\":401,\"<|im_end|>\":400}",
         "{\"bos_token\":\"<|im_end|>\",\"eos_token\":\"<|im_end|>\","
         "\"additional_special_tokens\":[\"<|im_start|>\"]}",
         {402, 400, 401, 27},
         "a<tool><extra_0>"},
        {"{\"tokenizer_class\":\"GPT2Tokenizer\",\"eos_token\":\"<|im_end|>\","
         "\"additional_special_tokens\":[\"<|im_start|>\"],"
         "\"extra_special_tokens\":{\"image_token\":\"<extra_0>\"}}",
         "{}",
         "{}",
         {402, 400, 27, 83},
         "a<tool>"},
    };
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        char *dir = test_temp_dir();
        write_old_files(dir, "gpt2");
        folder_text(dir, "tokenizer_config.json", cases[i].config);
        folder_text(dir, "added_tokens.json", cases[i].added);
        folder_text(dir, "special_tokens_map.json", cases[i].map);
        struct pith_tokenizer *t = open_dir(dir);
        struct pith_ids ids = encode(t, text, sizeof text - 1, true);
        assert_true(ids.count > 5);
        assert_int_equal(ids.id[0], cases[i].ids[0]);
        assert_memory_equal(ids.id + 2, cases[i].ids + 1, 3 * sizeof *ids.id);
        struct pith_str shown = decode(t, &ids);
        assert_string_equal(shown.data, cases[i].shown);
        assert_int_equal(pith_tokenizer_eos(t), 400);
        pith_str_free(&shown);
        pith_ids_free(&ids);
        pith_tokenizer_close(t);
        folder_remove(dir);
    }
}

/* What each id adds while streaming. */
static void stream_texts(const struct pith_tokenizer *t, bool started, const struct pith_ids *ids,
                         struct pith_str *parts)
{
    struct pith_error err = {0};
    struct pith_stream stream = {.started = started};
    for (size_t i = 0; i < ids->count; i++) {
        assert_ok(pith_stream_push(t, &stream, ids->id[i], parts, &err), err);
        pith_str_putc(parts, '|');
    }
    assert_ok(pith_stream_end(&stream, parts, &err), err);
    assert_ok(pith_stream_end(&stream, parts, &err), err);
}

static void streams_show_whole_characters(void **state)
{
    (void)state;
    static const struct {
        const char *name, *text, *parts;
        bool started;
    } cases[] = {
        {"gpt2", "\xf0\x9f\x98\x80!", "|||\xf0\x9f\x98\x80|!|", false},
        {"gpt2", "\xf0\x9f\x98", "||\xef\xbf\xbd|", false},
        {"spm_llama", "\xf0\x9f\x98\x80 A", "||||\xf0\x9f\x98\x80| A|", false},
        {"spm_llama", "\xf0\x9f\x98\x80 A", " ||||\xf0\x9f\x98\x80| A|", true},
        {"mistral", "\xf0\x9f\x98\x80.", "|||||\xf0\x9f\x98\x80.|", false},
        {"mistral", "\xf0\x9f\x98\x80.", " |||||\xf0\x9f\x98\x80.|", true},
    };
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        struct pith_tokenizer *t = open_golden(cases[i].name);
        struct pith_ids ids = encode(t, cases[i].text, strlen(cases[i].text), false);
        struct pith_str parts = {0};
        stream_texts(t, cases[i].started, &ids, &parts);
        assert_string_equal(pith_str_text(&parts), cases[i].parts);
        pith_str_free(&parts);
        pith_ids_free(&ids);
        pith_tokenizer_close(t);
    }
}

/* A hundred thousand letters without a space must not take quadratic time: the test would not end.
 */
static void a_long_word_is_no_trouble(void **state)
{
    (void)state;
    static const char *const names[] = {"gpt2",       "llama2", "spm_llama",
                                        "spm_unused", "qwen",   "clip"};
    const size_t size = 1 << 17;
    char *text = malloc(size);
    for (size_t k = 0; k < PITH_COUNT(names); k++) {
        struct pith_tokenizer *t = open_golden(names[k]);
        for (size_t i = 0; i < size; i++) text[i] = k % 2 ? 'a' : "etaoinshrdlu"[(i * i >> 3) % 12];
        struct pith_ids ids = encode(t, text, size, false);
        assert_true(ids.count > 1000);
        struct pith_str s = decode(t, &ids);
        assert_int_equal(s.len, size);
        assert_memory_equal(s.data, text, size);
        pith_str_free(&s);
        pith_ids_free(&ids);
        memset(text, k % 2 ? ' ' : '\n', size);
        ids = encode(t, text, size, false);
        pith_ids_free(&ids);
        pith_tokenizer_close(t);
    }
    free(text);
}

struct shared {
    const struct pith_tokenizer *t;
    const char *text;
    size_t size;
    struct pith_ids ids[16];
};

static void encode_task(void *ctx, size_t task, unsigned thread)
{
    (void)thread;
    struct shared *s = ctx;
    struct pith_error err = {0};
    pith_tokenizer_encode(s->t, s->text, s->size, true, &s->ids[task], &err);
}

static void threads_share_a_tokenizer(void **state)
{
    (void)state;
    struct pith_error err = {0};
    struct pith_pool *pool;
    struct pith_map map;
    assert_ok(pith_map_open("tests/golden/tok/strings.py", &map, &err), err);
    assert_ok(pith_pool_new(4, &pool, &err), err);
    static const char *const names[] = {"llama3", "llama2", "spm_unused"};
    for (size_t k = 0; k < PITH_COUNT(names); k++) {
        struct pith_tokenizer *t = open_golden(names[k]);
        struct shared s = {.t = t, .text = (const char *)map.data, .size = map.size};
        pith_pool_run(pool, 16, encode_task, &s);
        assert_true(s.ids[0].count > 0);
        for (size_t i = 1; i < 16; i++) {
            assert_int_equal(s.ids[i].count, s.ids[0].count);
            assert_memory_equal(s.ids[i].id, s.ids[0].id, s.ids[0].count * sizeof(int32_t));
            pith_ids_free(&s.ids[i]);
        }
        pith_ids_free(&s.ids[0]);
        pith_tokenizer_close(t);
    }
    pith_pool_free(pool);
    pith_map_close(&map);
}

/* The ids of the tiny-stories text that the figure of loss rests on. */
/* What SentencePiece 0.2.3 makes of a text whose scores add up to more than floats tell apart:
 *     for i in sentencepiece.SentencePieceProcessor(model_proto=m).encode(eval_txt * 16):
 *         h = (h * 31 + i) % 2**32 */
static void sums_of_long_texts_stay_fine(void **state)
{
    (void)state;
    enum { TIMES = 16 };
    struct pith_error err = {0};
    struct pith_str text = {0};
    char *once;
    size_t size;
    uint32_t mix = 0;
    assert_ok(pith_file_read("models/probe/eval.txt", 1 << 20, &once, &size, &err), err);
    for (int i = 0; i < TIMES; i++) pith_str_append(&text, once, size);
    struct pith_tokenizer *t = open_golden("spm_uni");
    struct pith_ids ids = encode(t, text.data, text.len, false);
    for (size_t i = 0; i < ids.count; i++) mix = mix * 31 + (uint32_t)ids.id[i];
    assert_int_equal(ids.count, 640369);
    assert_int_equal(mix, 1571015427);
    pith_ids_free(&ids);
    pith_str_free(&text);
    pith_free(once);
    pith_tokenizer_close(t);
}

static void stories_have_the_known_length(void **state)
{
    (void)state;
    struct pith_error err = {0};
    struct pith_map map;
    char path[512];
    snprintf(path, sizeof path, "%s/text/tinystories_cased_197k.txt", test_data_dir());
    if (!pith_path_exists(path)) skip();
    assert_ok(pith_map_open(path, &map, &err), err);
    snprintf(path, sizeof path, "%s/models/stories260K", test_data_dir());
    struct pith_tokenizer *t = open_dir(path);
    struct pith_ids ids = encode(t, (const char *)map.data, 60000, true);
    assert_int_equal(ids.count, 29681);
    pith_ids_free(&ids);
    pith_tokenizer_close(t);
    pith_map_close(&map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_probe_opens),
        cmocka_unit_test(side_files_name_special_tokens),
        cmocka_unit_test(config_ids_fill_the_gaps),
        cmocka_unit_test(vocabulary_and_merges_are_enough),
        cmocka_unit_test(configs_tell_what_is_special),
        cmocka_unit_test(files_beside_tell_what_is_special),
        cmocka_unit_test(streams_show_whole_characters),
        cmocka_unit_test(a_long_word_is_no_trouble),
        cmocka_unit_test(threads_share_a_tokenizer),
        cmocka_unit_test(sums_of_long_texts_stay_fine),
        cmocka_unit_test(stories_have_the_known_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
