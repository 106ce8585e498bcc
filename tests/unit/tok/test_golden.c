/* tok/: ids and texts equal those of Hugging Face tokenizers and SentencePiece, on the vectors that
 * tests/golden/tok/make_golden.py made. PITH_TOK_VECTORS names another folder of them (the script
 * can write thousands of strings for real tokenizers); then a line is printed for each file. */
#include "vectors.h"

struct tally {
    size_t strings, encode, special, kept, skipped, stream;
};

static bool same_ids(const struct pith_ids *a, const struct pith_ids *b)
{
    return a->count == b->count && (a->count == 0 || memcmp(a->id, b->id, a->count * 4) == 0);
}

static bool same_text(const struct pith_str *a, struct bytes b)
{
    return a->len == b.size && memcmp(pith_str_text(a), b.data, b.size) == 0;
}

static void show(const char *file, const char *what, const struct vector *v)
{
    print_message("%s: %s differs for \"", file, what);
    for (size_t i = 0; i < v->text.size && i < 300; i++) {
        const unsigned char c = (unsigned char)v->text.data[i];
        print_message(c >= ' ' && c < 127 && c != '\\' ? "%c" : "\\x%02x", c);
    }
    print_message("\"\n");
}

static bool encodes(const struct pith_tokenizer *t, const struct vector *v, bool special)
{
    struct pith_error err = {0};
    struct pith_ids ids = {0};
    assert_ok(pith_tokenizer_encode(t, v->text.data, v->text.size, special, &ids, &err), err);
    const bool same = same_ids(&ids, special ? &v->special : &v->ids);
    pith_ids_free(&ids);
    return same;
}

static bool decodes(const struct pith_tokenizer *t, const struct vector *v, bool skip)
{
    struct pith_error err = {0};
    struct pith_str s = {0};
    const struct pith_ids *ids = &v->special;
    assert_ok(pith_tokenizer_decode(t, ids->id, ids->count, skip, &s, &err), err);
    const bool same = same_text(&s, skip ? v->skipped : v->kept);
    pith_str_free(&s);
    return same;
}

static bool streams(const struct pith_tokenizer *t, const struct vector *v)
{
    struct pith_error err = {0};
    struct pith_str s = {0};
    struct pith_stream stream = {0};
    for (size_t i = 0; i < v->special.count; i++)
        assert_ok(pith_stream_push(t, &stream, v->special.id[i], &s, &err), err);
    assert_ok(pith_stream_end(&stream, &s, &err), err);
    const bool same = same_text(&s, v->skipped);
    pith_str_free(&s);
    return same;
}

static void count(size_t *counter, bool good, const char *file, const char *what,
                  const struct vector *v)
{
    *counter += good;
    static int shown;
    if (!good && shown++ < 40) show(file, what, v);
}

static void check_file(const char *path, const char *name, struct tally *total)
{
    struct pith_error err = {0};
    struct pith_map map;
    assert_ok(pith_map_open(path, &map, &err), err);
    struct cursor c = {map.data, map.data + map.size};
    uint32_t n;
    bool spm;
    struct pith_tokenizer *t = open_vectors(&c, &n, &spm);
    struct vector v = {0};
    struct tally tally = {.strings = n};
    for (uint32_t i = 0; i < n; i++) {
        take_vector(&c, &v);
        count(&tally.encode, encodes(t, &v, false), name, "encoding", &v);
        count(&tally.special, encodes(t, &v, true), name, "encoding with special tokens", &v);
        count(&tally.kept, spm || decodes(t, &v, false), name, "decoding", &v);
        count(&tally.skipped, decodes(t, &v, true), name, "decoding without special tokens", &v);
        count(&tally.stream, streams(t, &v), name, "streaming", &v);
    }
    if (getenv("PITH_TOK_VECTORS"))
        print_message(
            "%-28s %6zu strings: encode %zu, special %zu, decode %zu, skip %zu, stream %zu\n", name,
            tally.strings, tally.encode, tally.special, tally.kept, tally.skipped, tally.stream);
    total->strings += 5 * tally.strings;
    total->encode += tally.encode + tally.special + tally.kept + tally.skipped + tally.stream;
    pith_ids_free(&v.ids);
    pith_ids_free(&v.special);
    pith_tokenizer_close(t);
    pith_map_close(&map);
}

static void equals_the_references(void **state)
{
    (void)state;
    const char *dir = getenv("PITH_TOK_VECTORS");
    if (!dir) dir = "tests/golden/tok";
    struct pith_error err = {0};
    struct tally total = {0};
    char **names;
    size_t files;
    assert_ok(pith_dir_list(dir, &names, &files, &err), err);
    for (size_t i = 0; i < files; i++) {
        const size_t len = strlen(names[i]);
        if (len < 4 || strcmp(names[i] + len - 4, ".tok") != 0) continue;
        char *path = pith_path_join(dir, names[i]);
        check_file(path, names[i], &total);
        pith_free(path);
    }
    pith_names_free(names, files);
    assert_true(total.strings > 0);
    assert_int_equal(total.encode, total.strings);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(equals_the_references)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
