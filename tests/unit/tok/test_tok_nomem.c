/* tok/: whichever of pith's requests for memory fails, opening, encoding and decoding say so and
 * leak nothing. */
#include "folders.h"
#include "requests.h"
#include "vectors.h"

static enum pith_status use(const struct pith_tokenizer *t, struct pith_ids *ids,
                            struct pith_str *text, struct pith_str *streamed,
                            struct pith_error *err)
{
    static const char in[] =
        "Hello wordy 12 caf\xc3\xa9 e\xcc\x81\xcc\xa3 <tool> \xf0\x9f\x98\x80\xff [X] ab";
    PITH_TRY(pith_tokenizer_encode(t, in, sizeof in - 1, true, ids, err));
    PITH_TRY(pith_tokenizer_decode(t, ids->id, ids->count, true, text, err));
    struct pith_stream stream = {0};
    enum pith_status s = PITH_OK;
    for (size_t i = 0; s == PITH_OK && i < ids->count; i++)
        s = pith_stream_push(t, &stream, ids->id[i], streamed, err);
    const enum pith_status e = pith_stream_end(&stream, streamed, err);
    if (s == PITH_OK) s = e;
    return s == PITH_OK && streamed->failed ? pith_fail(err, PITH_NOMEM, "stream") : s;
}

struct job {
    struct bytes model;
    bool spm;
};

static enum pith_status run(void *ctx, struct pith_error *err)
{
    const struct job *j = ctx;
    const struct bytes model = j->model;
    struct pith_tokenizer *t = NULL;
    if (j->spm) PITH_TRY(pith_tokenizer_from_spm((const uint8_t *)model.data, model.size, &t, err));
    else PITH_TRY(pith_tokenizer_from_json(model.data, model.size, &t, err));
    struct pith_ids ids = {0};
    struct pith_str text = {0}, streamed = {0};
    const enum pith_status s = use(t, &ids, &text, &streamed, err);
    pith_ids_free(&ids);
    pith_str_free(&text);
    pith_str_free(&streamed);
    pith_tokenizer_close(t);
    return s;
}

static void try_all(const char *name)
{
    struct pith_error err = {0};
    struct pith_map map;
    char path[256];
    snprintf(path, sizeof path, "fuzz/corpus/%s", name);
    assert_ok(pith_map_open(path, &map, &err), err);
    struct job j = {{(const char *)map.data, map.size}, strstr(name, "spm/") != NULL};
    /* Some requests may fail without harm: PCRE2 then works without compiled code. */
    try_each_request(run, &j, true);
    pith_map_close(&map);
}

static void every_request_may_fail(void **state)
{
    (void)state;
    need_requests();
    static const char *const names[] = {
        "tokenizer_json/llama3",   "tokenizer_json/llama2",    "tokenizer_json/clip",
        "tokenizer_json/prefixed", "tokenizer_json/behaviors", "tokenizer_json/metaspace",
        "tokenizer_spm/spm_rules", "tokenizer_spm/spm_unused", "tokenizer_spm/spm_user",
        "tokenizer_json/uni_t5",   "tokenizer_json/uni_bytes", "tokenizer_spm/spm_uni_user",
    };
    for (size_t i = 0; i < PITH_COUNT(names); i++) try_all(names[i]);
}

static enum pith_status open_there(void *dir, struct pith_error *err)
{
    struct pith_tokenizer *t;
    PITH_TRY(pith_tokenizer_open(dir, &t, err));
    pith_tokenizer_close(t);
    return PITH_OK;
}

/* Tokens of a folder's other files behind those of its tokenizer.json. */
static void files_beside_may_fail(void **state)
{
    (void)state;
    need_requests();
    static const char *const vocabs[] = {
        "{\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1}, \"merges\": []}",
        "{\"type\": \"Unigram\", \"unk_id\": 0, \"vocab\": [[\"a\", 0], [\"b\", -1]]}"};
    json_t *files = json_pack("{s:{s:i}, s:{s:i, s:i}, s:{s:s, s:[s]}, s:{s:n}}", "config.json",
                              "vocab_size", 8, "added_tokens.json", "<one>", 4, "<two>", 3,
                              "special_tokens_map.json", "pad_token", "<pad>",
                              "additional_special_tokens", "<one>", "tokenizer.json",
                              "added_tokens");
    for (size_t i = 0; i < PITH_COUNT(vocabs); i++) {
        json_object_set_new(json_object_get(files, "tokenizer.json"), "model",
                            json_loads(vocabs[i], 0, NULL));
        char *dir = new_folder(files);
        try_each_request(open_there, dir, false);
        folder_remove(dir);
    }
    json_decref(files);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_request_may_fail),
        cmocka_unit_test(files_beside_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
