/* What of a listing is downloaded, and files that arrive in pieces: src/hub. */
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/tree.h"
#include "hub/arrival.h"
#include "hub/listing.h"
#include "hub/retry.h"
#include "tests/test.h"

#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

/* The paths that are chosen of some, one after the other with blanks between. */
static char *chosen(const char *const *paths, const char *const *patterns, size_t count,
                    enum pith_status *s)
{
    struct pith_hub_listing l = {0};
    struct pith_hub_name name = {"o/n", "main"};
    struct pith_str text = {0};
    struct pith_error err = {0};
    size_t n = 0;
    while (paths[n]) n++;
    l.file = pith_zalloc(n, sizeof *l.file);
    for (l.count = 0; l.count < n; l.count++) l.file[l.count].path = pith_strdup(paths[l.count]);
    *s = pith_hub_choose(&l, patterns, count, &name, &err);
    for (size_t i = 0; i < l.count; i++) pith_str_printf(&text, "%s ", l.file[i].path);
    pith_hub_listing_free(&l);
    return pith_str_take(&text);
}

static void what_is_needed_is_chosen(void **state)
{
    (void)state;
    static const char *const paths[] = {"LICENSE",
                                        "README.md",
                                        "additional_chat_templates/a.jinja",
                                        "chat_template.jinja",
                                        "config.json",
                                        "consolidated.safetensors",
                                        "consolidated.safetensors.index.json",
                                        "generation_config.json",
                                        "model-00001-of-00002.safetensors",
                                        "model-00002-of-00002.safetensors",
                                        "model.safetensors.index.json",
                                        "onnx/model.onnx",
                                        "original/model.safetensors",
                                        "original/tokenizer.model",
                                        "pytorch_model.bin",
                                        "tokenizer.json",
                                        "tokenizer.model.v3",
                                        "x/config.json",
                                        NULL};
    static const char *const own[] = {"config.json", "consolidated.safetensors", NULL};
    static const char *const pattern[] = {"onnx/*"}, *const none[] = {"*.gguf"};
    enum pith_status s;
    char *text = chosen(paths, NULL, 0, &s);
    assert_int_equal(s, PITH_OK);
    assert_string_equal(text, "LICENSE additional_chat_templates/a.jinja chat_template.jinja "
                              "config.json generation_config.json model-00001-of-00002.safetensors "
                              "model-00002-of-00002.safetensors model.safetensors.index.json "
                              "tokenizer.json ");
    pith_free(text);
    text = chosen(own, NULL, 0, &s); /* the only weights there are */
    assert_string_equal(text, "config.json consolidated.safetensors ");
    pith_free(text);
    text = chosen(paths, pattern, 1, &s);
    assert_string_equal(text, "onnx/model.onnx ");
    pith_free(text);
    text = chosen(paths, none, 1, &s);
    assert_int_equal(s, PITH_ARG);
    pith_free(text);
}

/* A folder for one test. */
static char *folder(char text[64])
{
    snprintf(text, 64, "/tmp/pith-hub-XXXXXX");
    assert_non_null(mkdtemp(text));
    return text;
}

enum { SIZE = 3 * PITH_PIECE_LEAST + 5 };

static void an_arrival_goes_on(void **state)
{
    (void)state;
    char at[64], blob[96];
    struct pith_error err = {0};
    struct pith_arrival a;
    snprintf(blob, sizeof blob, "%s/blob", folder(at));
    assert_int_equal(pith_arrival_open(blob, SIZE, 8, &a, &err), PITH_OK);
    assert_int_equal(a.count, 3);
    assert_int_equal(a.piece[0].from, 0);
    assert_int_equal(a.piece[2].to, SIZE);
    assert_int_equal(a.piece[1].from, a.piece[0].to);
    a.piece[0].done = 17;
    a.piece[2].done = a.piece[2].to - a.piece[2].from;
    a.changed = true;
    const uint64_t done = pith_arrival_done(&a);
    pith_arrival_close(&a, false);
    assert_int_equal(pith_arrival_open(blob, SIZE, 1, &a, &err), PITH_OK); /* as it was cut */
    assert_int_equal(a.count, 3);
    assert_int_equal(pith_arrival_done(&a), done);
    pith_arrival_unite(&a);
    assert_int_equal(a.count, 1);
    assert_int_equal(pith_arrival_done(&a), 0);
    pith_arrival_close(&a, true);
    pith_arrival_close(&a, true);
    assert_int_equal(rmdir(at), 0); /* nothing is left */
}

static void a_damaged_record_begins_anew(void **state)
{
    (void)state;
    static const char *const records[] = {"",
                                          "pieces",
                                          "pieces 1 of 99\n0 99 5\n",
                                          "pieces 1 of 100\n",
                                          "pieces 1 of 100\n0 99 5\n",
                                          "pieces 1 of 100\n1 100 5\n",
                                          "pieces 1 of 100\n0 100 101\n",
                                          "pieces 0 of 100\n",
                                          "pieces 65 of 100\n0 100 5\n",
                                          "pieces 2 of 100\n0 60 5\n50 100 5\n",
                                          "pieces 2 of 100\n0 60 5\n60 40 5\n",
                                          "pieces 1 of 100\n0 100 -1\n",
                                          "pieces 2 of 100\n0 60 5\n70 100 5\n",
                                          "pieces 18446744073709551616 of 100\n0 100 5\n"};
    char at[64], blob[96], record[128];
    struct pith_error err = {0};
    struct pith_arrival a;
    snprintf(blob, sizeof blob, "%s/blob", folder(at));
    snprintf(record, sizeof record, "%s.pith.pieces", blob);
    for (size_t i = 0; i < PITH_COUNT(records); i++) {
        assert_int_equal(pith_arrival_open(blob, 100, 8, &a, &err), PITH_OK);
        pith_arrival_close(&a, false);
        assert_int_equal(pith_file_write(record, records[i], strlen(records[i]), &err), PITH_OK);
        assert_int_equal(pith_arrival_open(blob, 100, 8, &a, &err), PITH_OK);
        assert_int_equal(pith_arrival_done(&a), 0);
        assert_int_equal(a.count, 1);
        assert_int_equal(a.piece[0].to, 100);
        pith_arrival_close(&a, true);
    }
    rmdir(at);
}

static void hashes_are_compared(void **state)
{
    (void)state;
    /* printf 'hello\n' | sha256sum; git hash-object */
    static const char *const good[] = {
        "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03",
        "ce013625030ba8dba906f756967f9e9ca394464a"};
    static const char *const bad[] = {
        "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be04",
        "f572d396fae9206628714fb2ce00f72e94f2258f" /* SHA-1 of the bytes alone */};
    char at[64], blob[96];
    struct pith_error err = {0};
    struct pith_arrival a;
    _Atomic(bool) stop = false;
    snprintf(blob, sizeof blob, "%s/blob", folder(at));
    assert_int_equal(pith_arrival_open(blob, 6, 8, &a, &err), PITH_OK);
    assert_int_equal(pith_out_write(&a.out, 0, "hello\n", 6, &err), PITH_OK);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(pith_arrival_check(&a, good[i], &stop, &err), PITH_OK);
        assert_int_equal(pith_arrival_check(&a, bad[i], &stop, NULL), PITH_MISMATCH);
    }
    stop = true;
    assert_int_equal(pith_arrival_check(&a, good[0], &stop, NULL), PITH_INTERRUPTED);
    pith_arrival_close(&a, true);
    rmdir(at);
}

static void tries_come_to_an_end(void **state)
{
    (void)state;
    struct pith_tries t = {0};
    struct pith_http_call c = {.end = PITH_HTTP_CUT, .retry_after = -1};
    size_t n = 0;
    while (pith_tries_again(&t, &c, false)) assert_in_range(++n, 1, PITH_HUB_TRIES);
    assert_int_equal(n, PITH_HUB_TRIES - 1);
    assert_true(pith_tries_again(&t, &c, true)); /* as long as something comes, it goes on */
    c.retry_after = 1e9;
    assert_true(pith_tries_again(&t, &c, true));
    assert_true(t.again - pith_clock() <= 600);
    c.end = PITH_HTTP_REFUSED;
    c.status = 404;
    assert_false(pith_tries_again(&t, &c, true));
    c.status = 429;
    assert_true(pith_tries_again(&t, &c, true));
    c.end = PITH_HTTP_WRONG;
    assert_false(pith_tries_again(&t, &c, true));
}

static void links_and_locks(void **state)
{
    (void)state;
    char at[64], path[128], to[8] = "";
    struct pith_error err = {0};
    int one, two;
    folder(at);
    snprintf(path, sizeof path, "%s/a/b/c/link", at);
    assert_int_equal(pith_tree_make_above(path, &err), PITH_OK);
    assert_int_equal(pith_tree_make_above(path, &err), PITH_OK);
    assert_int_equal(pith_link_make("x", path, &err), PITH_OK);
    assert_int_equal(pith_link_make("yy", path, &err), PITH_OK);
    assert_int_equal(readlink(path, to, sizeof to), 2);
    assert_int_equal(pith_unlink(path, &err), PITH_OK);
    assert_int_equal(pith_file_lock(path, &one, &err), PITH_OK);
    assert_int_equal(pith_file_lock(path, &two, &err), PITH_OK);
    assert_true(one >= 0 && two == -1);
    pith_file_unlock(one);
    assert_int_equal(pith_file_lock(path, &two, &err), PITH_OK);
    assert_true(two >= 0);
    pith_file_unlock(two);
    pith_file_unlock(-1);
    static const char *const made[] = {"/a/b/c/link", "/a/b/c", "/a/b", "/a", ""};
    for (size_t i = 0; i < PITH_COUNT(made); i++) {
        snprintf(path, sizeof path, "%s%s", at, made[i]);
        assert_int_equal(remove(path), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_needed_is_chosen),     cmocka_unit_test(an_arrival_goes_on),
        cmocka_unit_test(a_damaged_record_begins_anew), cmocka_unit_test(hashes_are_compared),
        cmocka_unit_test(tries_come_to_an_end),         cmocka_unit_test(links_and_locks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
