/* tok/files/added_files: tokens that stand beside a tokenizer.model have the ids that transformers
 * gives them (tests/golden/tok/make_folders.py), wherever a folder names them; and which tokens end
 * an answer, by files and by name. */
#include "folders.h"
#include "vectors.h"

static struct bytes model;

/* A folder with the model and files. */
static char *make_folder(const json_t *files)
{
    char *dir = new_folder(files);
    folder_put(dir, "tokenizer.model", model.data, model.size);
    return dir;
}

static void ids_are_those_of_transformers(void **state)
{
    (void)state;
    struct pith_error err = {0};
    json_t *rows = NULL, *row;
    size_t i;
    assert_ok(pith_json_load("tests/golden/tok/folders.json", 1 << 20, &rows, &err), err);
    json_array_foreach (rows, i, row) {
        struct pith_tokenizer *t = NULL;
        char *dir = make_folder(json_object_get(row, "files"));
        assert_ok(pith_tokenizer_open(dir, &t, &err), err);
        check_texts(t, row, json_object_get(row, "texts"));
        pith_tokenizer_close(t);
        folder_remove(dir);
    }
    assert_true(i >= 4);
    json_decref(rows);
}

#define PROBE "models/probe/tokenizer.json"

static struct pith_tokenizer *open_probe(const json_t *files)
{
    struct pith_error err = {0};
    struct pith_tokenizer *t = NULL;
    size_t size;
    char *data, *dir = new_folder(files);
    assert_ok(pith_file_read(PROBE, 1 << 20, &data, &size, &err), err);
    folder_put(dir, "tokenizer.json", data, size);
    pith_free(data);
    assert_ok(pith_tokenizer_open(dir, &t, &err), err);
    folder_remove(dir);
    return t;
}

/* tests/golden/tok/make_named.py */
static void what_lists_name_is_numbered_on(void **state)
{
    (void)state;
    struct pith_error err = {0};
    json_t *rows = NULL, *row;
    size_t i;
    assert_ok(pith_json_load("tests/golden/tok/named.json", 1 << 20, &rows, &err), err);
    json_array_foreach (rows, i, row) {
        struct pith_tokenizer *t = open_probe(json_object_get(row, "files"));
        check_texts(t, row, json_object_get(row, "texts"));
        pith_tokenizer_close(t);
    }
    assert_true(i >= 12);
    json_decref(rows);
}

/* An id without a row of the embedding would be of no use to the model. */
static void tokens_need_rows(void **state)
{
    (void)state;
    static const struct {
        int vocab, inner; /* "vocab_size", and that of "text_config"; 0: none */
        int32_t one, two;
    } rows[] = {{4096, 0, -1, -1}, {4097, 0, 4096, -1}, {0, 4098, 4096, 4097}, {0, 0, -1, -1},
                {-1, 0, -1, -1},   {4097, 5000, 4096, -1}};
    for (size_t i = 0; i < PITH_COUNT(rows); i++) {
        json_t *files = json_pack("{s:{}, s:{s:[s, s]}}", "config.json", "tokenizer_config.json",
                                  "additional_special_tokens", "<one>", "<two>");
        json_t *config = json_object_get(files, "config.json");
        if (rows[i].vocab) json_object_set_new(config, "vocab_size", json_integer(rows[i].vocab));
        if (rows[i].inner)
            json_object_set_new(config, "text_config",
                                json_pack("{s:i}", "vocab_size", rows[i].inner));
        struct pith_tokenizer *t = open_probe(files);
        assert_int_equal(pith_tokenizer_find(t, "<one>"), rows[i].one);
        assert_int_equal(pith_tokenizer_find(t, "<two>"), rows[i].two);
        pith_tokenizer_close(t);
        json_decref(files);
    }
}

/* As many lists of as many tokens as a hostile file may have take no time that grows with both. */
static void many_names_are_looked_up_once(void **state)
{
    (void)state;
    enum { MANY = 100000 };
    json_t *list = json_array(), *added = json_object();
    for (int i = 0; i < MANY; i++) {
        char name[24];
        snprintf(name, sizeof name, "<t%d>", i);
        json_array_append_new(list, json_string(name));
        json_object_set_new(added, name, json_integer(4096 + i));
    }
    json_t *files = json_pack("{s:{s:i}, s:o, s:{s:o}}", "config.json", "vocab_size", 5000,
                              "added_tokens.json", added, "special_tokens_map.json",
                              "additional_special_tokens", list);
    struct pith_tokenizer *t = open_probe(files);
    assert_int_equal(pith_tokenizer_find(t, "<t903>"), 4999);
    assert_int_equal(pith_tokenizer_find(t, "<t904>"), -1);
    pith_tokenizer_close(t);
    json_decref(files);
}

/* The id of a token is that of its file: transformers numbers on instead, which is another row of
 * the embedding. */
static void ids_between_are_filled_up(void **state)
{
    (void)state;
    struct pith_error err = {0};
    struct pith_tokenizer *t = NULL;
    json_t *files = json_pack("{s:{s:{s:{s:s, s:b}}}}", "tokenizer_config.json",
                              "added_tokens_decoder", "563", "content", "<tool>", "special", 1);
    char *dir = make_folder(files);
    assert_ok(pith_tokenizer_open(dir, &t, &err), err);
    assert_int_equal(pith_tokenizer_vocab(t), 564);
    assert_int_equal(pith_tokenizer_find(t, "<tool>"), 563);
    assert_int_equal(pith_tokenizer_find(t, "[PAD562]"), 562);
    pith_tokenizer_close(t);
    folder_remove(dir);
    json_decref(files);
}

static void files_at_fault_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *file, *text;
        enum pith_status status;
    } rows[] = {
        {"added_tokens.json", "{\"<a>\": \"560\"}", PITH_FORMAT},
        {"added_tokens.json", "{\"<a>\": -1}", PITH_LIMIT},
        {"added_tokens.json", "{\"<a>\": 1000000000}", PITH_LIMIT},
        {"added_tokens.json", "{\"<a>\": 560, \"<a>\": 561}", PITH_OK},
        {"added_tokens.json", "{\"\": 560}", PITH_OK},
        {"tokenizer_config.json", "{\"added_tokens_decoder\": {\"x\": {\"content\": \"<a>\"}}}",
         PITH_FORMAT},
        {"tokenizer_config.json", "{\"added_tokens_decoder\": {\"\": {\"content\": \"<a>\"}}}",
         PITH_FORMAT},
        {"tokenizer_config.json", "{\"added_tokens_decoder\": {\"560\": {\"content\": 1}}}",
         PITH_FORMAT},
        {"tokenizer_config.json",
         "{\"added_tokens_decoder\": {\"560\": {\"content\": \"<a>\", \"special\": 1}}}",
         PITH_FORMAT},
        {"tokenizer_config.json", "{\"added_tokens_decoder\": {\"1\": {\"content\": \"<a>\"}}}",
         PITH_OK}, /* another piece has that id */
    };
    for (size_t i = 0; i < PITH_COUNT(rows); i++) {
        struct pith_error err = {0};
        struct pith_tokenizer *t = NULL;
        json_t *content = NULL;
        assert_ok(pith_json_parse(rows[i].text, strlen(rows[i].text), "t", &content, &err), err);
        json_t *files = json_pack("{s:o}", rows[i].file, content);
        char *dir = make_folder(files);
        if (pith_tokenizer_open(dir, &t, &err) != rows[i].status)
            fail_msg("%s: %s", rows[i].text, err.text);
        pith_tokenizer_close(t);
        folder_remove(dir);
        json_decref(files);
    }
}

/* ---- the ends of an answer ---- */

/* Tokens added behind the 560 of the model, apart by a space, with "!" before those that are not
 * special; a generation_config.json; and the ends. */
static const struct {
    const char *tokens, *config;
    int32_t ends[8]; /* 0 behind the last */
} ends[] = {
    {"<|im_end|>", "{}", {2, 560}},
    {"<|start|> <|eot_id|> <|eom_id|>", "{\"eos_token_id\": [5, 561, 9999]}", {2, 5, 561, 562}},
    {"<|im_end|>", "{\"eos_token_id\": 560}", {2, 560}},
    {"<|end|>", "{}", {2, 560}},
    /* A message of several ends so, where others end the answer. */
    {"<|end|> <|return|> <|call|>", "{}", {2, 561, 562}},
    {"<|end|> <|flush|> <|calls|>", "{}", {2, 561, 562}},
    {"<|end|> <|return|>", "{}", {2, 560, 561}},
    {"[EOS] [EOT] [e~[ <|tool_response>", "{}", {2, 561, 560, 563, 562}},
    /* What stands for itself ends nothing. */
    {"!<|im_end|> !<EOT>", "{}", {2}},
    /* No names of llama.cpp's. */
    {"<|eot|> <|message_sep|> <|file_sep|>", "{}", {2}},
};

static json_t *files_of(const char *tokens, const char *generation)
{
    json_t *decoder = json_object();
    char list[200];
    int id = 560;
    snprintf(list, sizeof list, "%s", tokens);
    for (char *p = strtok(list, " "); p; p = strtok(NULL, " "), id++) {
        char key[16];
        snprintf(key, sizeof key, "%d", id);
        json_object_set_new(decoder, key,
                            json_pack("{s:s, s:b}", "content", *p == '!' ? p + 1 : p, "special",
                                      *p != '!'));
    }
    return json_pack("{s:{s:s, s:o}, s:o}", "tokenizer_config.json", "eos_token", "</s>",
                     "added_tokens_decoder", decoder, "generation_config.json",
                     json_loads(generation, 0, NULL));
}

static void answers_end_by_file_and_by_name(void **state)
{
    (void)state;
    for (size_t i = 0; i < PITH_COUNT(ends); i++) {
        struct pith_error err = {0};
        struct pith_tokenizer *t = NULL;
        struct pith_ids ids = {0};
        json_t *files = files_of(ends[i].tokens, ends[i].config);
        char *dir = make_folder(files);
        assert_true(pith_ids_push(&ids, 7)); /* what is there stays */
        assert_ok(pith_tokenizer_open(dir, &t, &err), err);
        assert_ok(pith_tokenizer_ends(t, dir, &ids, &err), err);
        size_t count = 0;
        while (ends[i].ends[count]) count++;
        for (size_t k = 0; k <= count || k < ids.count; k++)
            if (k >= ids.count || (k > 0 && ids.id[k] != ends[i].ends[k - 1]))
                fail_msg("%s: end %zu of %zu is %d", ends[i].tokens, k, ids.count,
                         k < ids.count ? (int)ids.id[k] : -1);
        pith_ids_free(&ids);
        pith_tokenizer_close(t);
        folder_remove(dir);
        json_decref(files);
    }
}

static int open_model(void **state)
{
    static struct pith_map map;
    struct pith_error err = {0};
    int kind;
    assert_ok(pith_map_open("tests/golden/tok/spm_llama.tok", &map, &err), err);
    struct cursor c = {map.data, map.data + map.size};
    model = take_model(&c, &kind);
    *state = &map;
    return kind != KIND_SPM;
}

static int close_model(void **state)
{
    pith_map_close(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_are_those_of_transformers),
        cmocka_unit_test(what_lists_name_is_numbered_on),
        cmocka_unit_test(tokens_need_rows),
        cmocka_unit_test(many_names_are_looked_up_once),
        cmocka_unit_test(ids_between_are_filled_up),
        cmocka_unit_test(files_at_fault_are_refused),
        cmocka_unit_test(answers_end_by_file_and_by_name),
    };
    return cmocka_run_group_tests(tests, open_model, close_model);
}
