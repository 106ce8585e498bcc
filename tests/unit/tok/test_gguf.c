/* tok/: tokenizers of GGUF files give the ids that llama.cpp's own test vectors have
 * (models/ggml-vocab-*.gguf with .inp and .out: texts between marks, and a line of ids for each).
 */
#include "base/file.h"
#include "base/mem.h"
#include "test.h"
#include "tok/files/gguf.h"
#include "tok/pretokenizer.h"
#include "tok/tokenizer.h"

static char *read_all(const char *name, const char *ending, size_t *size)
{
    struct pith_error err = {0};
    char path[600], *text;
    snprintf(path, sizeof path, "%s/tokenizers/llama.cpp-vocab/%s%s", test_data_dir(), name,
             ending);
    assert_ok(pith_file_read(path, 1 << 20, &text, size, &err), err);
    return text;
}

static void check_text(const struct pith_tokenizer *t, const char *text, size_t size,
                       const char *ids)
{
    struct pith_error err = {0};
    struct pith_ids is = {0};
    assert_ok(pith_tokenizer_encode(t, text, size, false, &is, &err), err);
    size_t n = 0;
    while (*ids && *ids != '\n') {
        char *end;
        const long want = strtol(ids, &end, 10);
        if (n >= is.count || is.id[n] != want)
            fail_msg("\"%.*s\": token %zu is not %ld", (int)size, text, n, want);
        n++;
        for (ids = end; *ids == ' '; ids++) continue;
    }
    assert_int_equal(is.count, n);
    pith_ids_free(&is);
}

static void check_vectors(const char *name)
{
    static const char mark[] = "\n__ggml_vocab_test__\n";
    struct pith_error err = {0};
    struct pith_tokenizer *t;
    char path[600];
    size_t size, ids_size, count = 0;
    snprintf(path, sizeof path, "%s/tokenizers/llama.cpp-vocab/%s", test_data_dir(), name);
    assert_ok(pith_tokenizer_open(path, &t, &err), err);
    char *texts = read_all(name, ".inp", &size), *lines = read_all(name, ".out", &ids_size);
    const char *line = lines;
    for (char *p = texts, *end; p < texts + size; p = end + sizeof mark - 1, count++) {
        end = strstr(p, mark);
        if (!end) break;
        check_text(t, p, (size_t)(end - p), line);
        line = strchr(line, '\n');
        if (!line) break;
        line++;
    }
    print_message("%s: %zu texts\n", name, count);
    assert_true(count > 30);
    pith_free(texts);
    pith_free(lines);
    pith_tokenizer_close(t);
}

static void ids_are_those_of_llama_cpp(void **state)
{
    (void)state;
    char path[600];
    snprintf(path, sizeof path, "%s/tokenizers/llama.cpp-vocab", test_data_dir());
    if (!pith_path_is_dir(path)) skip();
    check_vectors("ggml-vocab-gpt-2.gguf");
    check_vectors("ggml-vocab-starcoder.gguf");
    check_vectors("ggml-vocab-deepseek-coder.gguf");
    check_vectors("ggml-vocab-phi-3.gguf");
    check_vectors("ggml-vocab-llama-spm.gguf");
}

static enum pith_status add_piece(void *ctx, struct pith_piece piece, struct pith_error *err)
{
    struct pith_str *s = ctx;
    (void)err;
    if (s->len) pith_str_puts(s, "|");
    pith_str_append(s, piece.text, piece.len);
    return PITH_OK;
}

/* Pieces of a text by the patterns of a row, with bars between. */
static void check_cuts(const char *name, const char *text, const char *want)
{
    const struct pith_gguf_pre *row = pith_gguf_pre_find(name);
    struct pith_pretokenizer p = {0};
    struct pith_pretok_run *run;
    struct pith_error err = {0};
    struct pith_str got = {0};
    assert_non_null(row);
    json_t *list = json_array();
    for (size_t i = 0; i < PITH_GGUF_CUTS && row->cut[i]; i++)
        json_array_append_new(list,
                              json_pack("{s:s, s:{s:s}, s:s, s:b}", "type", "Split", "pattern",
                                        "Regex", row->cut[i], "behavior", "Isolated", "invert", 0));
    json_t *json = json_pack("{s:s, s:o}", "type", "Sequence", "pretokenizers", list);
    assert_ok(pith_pretokenizer_read(&p, json, &err), err);
    assert_ok(pith_pretok_run_new(&p, NULL, &run, &err), err);
    const struct pith_piece whole = {text, strlen(text), true};
    assert_ok(pith_pretokenizer_apply(run, whole, add_piece, &got, &err), err);
    assert_string_equal(pith_str_text(&got), want);
    pith_str_free(&got);
    pith_pretok_run_free(run);
    pith_pretokenizer_free(&p);
    json_decref(json);
}

/* By hand, after llama.cpp's patterns and, for the digits of afmoe, its own function. */
static void numbers_are_cut_from_the_right(void **state)
{
    (void)state;
    check_cuts("afmoe", "1234567 abc\xe4\xb8\xad\xe6\x96\x87x!yes\n\n",
               "1|234|567| abc|\xe4\xb8\xad\xe6\x96\x87|x|!yes|\n\n");
    check_cuts("afmoe", "12 a 345", "12| a| |345");
    check_cuts("superbpe", "a 1234567 and 12, 123 or 4567",
               "a |1|234|567| and |12|, |123| or |4|567");
    check_cuts("superbpe", "no number at all", "no number at all");
}

static void unknown_ways_are_refused(void **state)
{
    (void)state;
    static const char key[] = "tokenizer.ggml.pre";
    struct pith_tokenizer *t;
    struct pith_error err = {0};
    char from[600], *data;
    size_t size, at = 0;
    snprintf(from, sizeof from, "%s/tokenizers/llama.cpp-vocab/ggml-vocab-starcoder.gguf",
             test_data_dir());
    if (!pith_path_exists(from)) skip();
    char *dir = test_temp_dir(), *to = pith_path_join(dir, "m.gguf");
    assert_ok(pith_file_read(from, 1 << 24, &data, &size, &err), err);
    while (memcmp(data + at, key, sizeof key - 1) != 0) at++;
    data[at + sizeof key - 1 + 12] = 'S'; /* behind its type and length */
    assert_ok(pith_file_write(to, data, size, &err), err);
    assert_int_equal(pith_tokenizer_open(to, &t, &err), PITH_UNSUPPORTED);
    assert_non_null(strstr(err.text, "tokenizer.ggml.pre \"Starcoder\" is not supported"));
    pith_free(data);
    pith_free(to);
    assert_ok(pith_dir_remove(dir, &err), err);
    free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_are_those_of_llama_cpp),
        cmocka_unit_test(numbers_are_cut_from_the_right),
        cmocka_unit_test(unknown_ways_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
