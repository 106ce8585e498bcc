/* Calibration text: documents, windows, choice by seed, and what is refused. */
#include "calib/corpus.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "test.h"

#include <unistd.h>

enum { LENGTH = 16 };

struct fixture {
    char *dir;
    struct pith_tokenizer *tokenizer;
};

static int set_up(void **state)
{
    struct pith_error err = {0};
    struct fixture *f = calloc(1, sizeof *f);
    f->dir = test_temp_dir();
    assert_ok(pith_tokenizer_open("models/probe", &f->tokenizer, &err), err);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct pith_error err = {0};
    struct fixture *f = *state;
    assert_ok(pith_dir_remove(f->dir, &err), err);
    pith_tokenizer_close(f->tokenizer);
    free(f->dir);
    free(f);
    return 0;
}

static char *write_file(const struct fixture *f, const char *name, const char *text, size_t size)
{
    struct pith_error err = {0};
    char *path = pith_path_join(f->dir, name);
    assert_ok(pith_file_write(path, text, size, &err), err);
    return path;
}

/* Loads one file by options that have all but its name; what is held out goes to *held, if that is
 * not NULL. */
static enum pith_status load_by(const struct fixture *f, const char *path,
                                struct pith_calib_options o, struct pith_calib_set *set,
                                struct pith_calib_set *judge, struct pith_error *err)
{
    o.paths = &path;
    o.path_count = 1;
    return pith_calib_load_apart(&o, f->tokenizer, set, judge, err);
}

/* Loads a file of this text; the status, with the message in *err. */
static enum pith_status load(const struct fixture *f, const char *name, const char *text,
                             size_t tokens, struct pith_calib_set *set, struct pith_error *err)
{
    char *path = write_file(f, name, text, strlen(text));
    const struct pith_calib_options o = {.tokens = tokens, .seq_len = LENGTH};
    *err = (struct pith_error){0};
    *set = (struct pith_calib_set){0};
    const enum pith_status s = load_by(f, path, o, set, NULL, err);
    pith_free(path);
    return s;
}

static char *long_text(size_t sentences)
{
    char *text = calloc(sentences, 64);
    for (size_t i = 0; i < sentences; i++)
        sprintf(text + strlen(text), "Sentence %zu has its own words and number %zu.\n", i, i * i);
    return text;
}

/* All windows together are the text's ids, each with BOS in front. */
static void test_windows_cover_the_text(void **state)
{
    const struct fixture *f = *state;
    struct pith_error err = {0};
    struct pith_calib_set set;
    struct pith_ids ids = {0};
    char *text = long_text(60);
    assert_ok(pith_tokenizer_encode(f->tokenizer, text, strlen(text), false, &ids, &err), err);
    assert_ok(load(f, "a.txt", text, 1 << 20, &set, &err), err);
    const int32_t bos = pith_tokenizer_bos(f->tokenizer);
    assert_true(pith_tokenizer_adds_bos(f->tokenizer));
    assert_int_equal(set.length, LENGTH);
    assert_int_equal(set.windows, ids.count / (LENGTH - 1));
    for (size_t w = 0; w < set.windows; w++) {
        assert_int_equal(set.ids[w * LENGTH], bos);
        assert_memory_equal(set.ids + w * LENGTH + 1, ids.id + w * (LENGTH - 1),
                            (LENGTH - 1) * sizeof *ids.id);
    }
    pith_calib_free(&set);
    pith_ids_free(&ids);
    free(text);
}

/* True when every window of `part` is one of `whole`, in the same order. */
static bool is_ordered_subset(const struct pith_calib_set *part, const struct pith_calib_set *whole)
{
    size_t at = 0, found = 0;
    for (size_t w = 0; w < part->windows; w++)
        for (; at < whole->windows; at++)
            if (memcmp(part->ids + w * LENGTH, whole->ids + at * LENGTH,
                       LENGTH * sizeof *part->ids) == 0) {
                found++;
                at++;
                break;
            }
    return found == part->windows;
}

static void test_seed_chooses_windows(void **state)
{
    const struct fixture *f = *state;
    struct pith_error err = {0};
    struct pith_calib_set whole, again, set[2];
    char *text = long_text(80);
    assert_ok(load(f, "a.txt", text, 1 << 20, &whole, &err), err);
    char *path = pith_path_join(f->dir, "a.txt");
    struct pith_calib_options o = {.tokens = 10 * LENGTH, .seq_len = LENGTH};
    for (int i = 0; i < 2; i++) {
        o.seed = (uint64_t)i + 5;
        assert_ok(load_by(f, path, o, &set[i], NULL, &err), err);
        assert_int_equal(set[i].windows, 10);
        assert_true(is_ordered_subset(&set[i], &whole));
    }
    assert_string_not_equal(set[0].sha256, set[1].sha256);
    assert_ok(load_by(f, path, o, &again, NULL, &err), err);
    assert_string_equal(again.sha256, set[1].sha256);
    assert_memory_equal(again.ids, set[1].ids, 10 * LENGTH * sizeof *again.ids);
    pith_calib_free(&whole);
    pith_calib_free(&again);
    for (int i = 0; i < 2; i++) pith_calib_free(&set[i]);
    pith_free(path);
    free(text);
}

/* Both draws of a text, each with the other's numbers, and what is held out of them. */
struct apart {
    struct pith_calib_set set[2], judge[2];
};
static void draw_apart(const struct fixture *f, const char *text, struct pith_calib_draw a,
                       struct pith_calib_draw b, struct apart *out)
{
    struct pith_error err = {0};
    char *path = write_file(f, "apart.txt", text, strlen(text));
    const struct pith_calib_draw draw[2] = {a, b};
    for (int i = 0; i < 2; i++) {
        const struct pith_calib_options o = {.tokens = draw[i].tokens,
                                             .seq_len = draw[i].seq_len,
                                             .seed = 3,
                                             .other = draw[1 - i],
                                             .judge = a.tokens < b.tokens ? a.tokens : b.tokens};
        assert_ok(load_by(f, path, o, &out->set[i], &out->judge[i], &err), err);
    }
    pith_free(path);
    assert_int_equal(out->judge[0].windows, out->judge[1].windows);
    assert_string_equal(out->judge[0].sha256, out->judge[1].sha256);
}

static void free_apart(struct apart *a)
{
    for (int i = 0; i < 2; i++) {
        pith_calib_free(&a->set[i]);
        pith_calib_free(&a->judge[i]);
    }
}

/* No id of one set is one of the other's. */
static bool are_disjoint(const struct pith_calib_set *a, const struct pith_calib_set *b)
{
    for (size_t i = 0; i < a->windows; i++)
        for (size_t k = 0; k < b->windows; k++)
            if (a->at[i] < b->at[k] + b->shows && b->at[k] < a->at[i] + a->shows) return false;
    return true;
}

static void check_apart(const struct apart *a, size_t length)
{
    assert_int_equal(a->judge[0].length, length);
    assert_true(a->judge[0].windows >= PITH_CALIB_JUDGE_LEAST);
    for (int i = 0; i < 2; i++) assert_true(are_disjoint(&a->judge[0], &a->set[i]));
}

/* Where windows are left, each draw is what it is without: the same bytes come of it. */
static void test_held_out_of_what_is_left(void **state)
{
    const struct fixture *f = *state;
    struct pith_error err = {0};
    char *text = long_text(400);
    const struct pith_calib_draw draw[2] = {{640, 32}, {320, 16}};
    struct apart a;
    draw_apart(f, text, draw[0], draw[1], &a);
    check_apart(&a, 16);
    assert_int_equal(a.judge[0].windows, 320 / 16);
    char *path = pith_path_join(f->dir, "apart.txt");
    struct pith_ids ids = {0};
    assert_ok(pith_tokenizer_encode(f->tokenizer, text, strlen(text), false, &ids, &err), err);
    for (int i = 0; i < 2; i++) {
        const struct pith_calib_options o = {
            .tokens = draw[i].tokens, .seq_len = draw[i].seq_len, .seed = 3};
        struct pith_calib_set plain;
        assert_ok(load_by(f, path, o, &plain, NULL, &err), err);
        assert_string_equal(plain.sha256, a.set[i].sha256);
        assert_int_equal(plain.available, a.set[i].available);
        pith_calib_free(&plain);
    }
    for (size_t w = 0; w < a.judge[0].windows; w++) /* it is where it says */
        assert_memory_equal(a.judge[0].ids + w * 16 + 1, ids.id + a.judge[0].at[w],
                            15 * sizeof *ids.id);
    pith_ids_free(&ids);
    free_apart(&a);
    pith_free(path);
    free(text);
}

/* Documents behind those that the draws choose from are what is held out first. */
static void test_held_out_behind(void **state)
{
    const struct fixture *f = *state;
    struct pith_error err = {0};
    struct pith_str lines = {0};
    for (int i = 0; i < 400; i++)
        pith_str_printf(&lines, "{\"text\": \"Line %d says what it is, and %d more.\"}\n", i,
                        i * 7);
    char *path = write_file(f, "behind.jsonl", lines.data, lines.len);
    const struct pith_calib_options o = {
        .tokens = 64, .seq_len = 16, .other = {64, 16}, .judge = 64};
    struct pith_calib_set set, judge;
    assert_ok(load_by(f, path, o, &set, &judge, &err), err);
    assert_int_equal(judge.windows, 4);
    for (size_t w = 0; w < judge.windows; w++)
        assert_true(judge.at[w] + judge.shows > set.available);
    assert_true(are_disjoint(&set, &judge));
    pith_calib_free(&set);
    pith_calib_free(&judge);
    pith_str_free(&lines);
    pith_free(path);
}

/* Who takes all of a text leaves its last eighth; of one that is too short nothing is held out. */
static void test_held_out_of_all(void **state)
{
    const struct fixture *f = *state;
    char *text = long_text(60), *brief = long_text(4);
    struct apart a;
    draw_apart(f, text, (struct pith_calib_draw){1 << 20, 64}, (struct pith_calib_draw){4096, 16},
               &a);
    check_apart(&a, 16);
    assert_true(a.set[0].windows > 4 && a.set[1].windows > 16);
    for (size_t w = 0; w < a.judge[0].windows; w++)
        assert_true(a.judge[0].at[w] + 64 > a.set[0].available * 7 / 8);
    free_apart(&a);
    draw_apart(f, brief, (struct pith_calib_draw){1 << 20, 32}, (struct pith_calib_draw){64, 32},
               &a);
    assert_int_equal(a.judge[0].windows, 0);
    assert_null(a.judge[0].ids);
    assert_true(a.set[0].windows > 0);
    free_apart(&a);
    free(text);
    free(brief);
}

/* The digest is that of the ids. */
static void test_digest(void **state)
{
    const struct fixture *f = *state;
    struct pith_error err = {0};
    struct pith_calib_set set;
    char hex[PITH_SHA256_HEX], *text = long_text(20);
    assert_ok(load(f, "a.txt", text, 64, &set, &err), err);
    assert_true(pith_sha256_hex(set.ids, set.windows * LENGTH * sizeof *set.ids, hex));
    assert_string_equal(set.sha256, hex);
    pith_calib_free(&set);
    free(text);
}

/* JSON lines in every form give what the same documents give as files of text. */
static void test_json_lines(void **state)
{
    const struct fixture *f = *state;
    struct pith_error err = {0};
    struct pith_calib_set lines, files;
    const char one[] = "One \\\"two\\\" three \\u00e9 four five six seven eight nine ten.";
    const char plain[] = "One \"two\" three \xc3\xa9 four five six seven eight nine ten.";
    char json[2048], joined[1024];
    snprintf(json, sizeof json,
             "{\"text\": \"%s\"}\r\n\n \t\n{\"messages\": [{\"role\": \"user\", \"content\": "
             "\"%s\"}, {\"role\": \"assistant\", \"content\": \"%s\"}], \"id\": 7}",
             one, one, one);
    snprintf(joined, sizeof joined, "%s\n\n%s", plain, plain);
    assert_ok(load(f, "a.jsonl", json, 1 << 20, &lines, &err), err);
    char *a = write_file(f, "a.txt", plain, strlen(plain));
    char *b = write_file(f, "b.txt", joined, strlen(joined));
    const char *const paths[] = {a, b};
    const struct pith_calib_options o = {
        .paths = paths, .path_count = 2, .tokens = 1 << 20, .seq_len = LENGTH};
    assert_ok(pith_calib_load(&o, f->tokenizer, &files, &err), err);
    assert_true(files.windows >= 2);
    assert_string_equal(lines.sha256, files.sha256);
    pith_calib_free(&lines);
    pith_calib_free(&files);
    pith_free(a);
    pith_free(b);
}

/* Conversations of a model with a chat template are its prompts, special tokens and all; of one
 * without, their contents. */
static void test_conversations(void **state)
{
    const struct fixture *f = *state;
    struct pith_error err = {0};
    struct pith_calib_set set;
    struct pith_ids ids = {0};
    static const char template[] =
        "{% for m in messages %}{{ '<|begin_of_text|>' + m.role }}: {{ m.content }}"
        "{{ strftime_now(' %Y') }}\n{% endfor %}",
                      prompt[] = "<|begin_of_text|>user: One two three four five six. 2025\n"
                                 "<|begin_of_text|>assistant: Seven eight nine ten eleven. 2025\n",
                      line[] = "{\"messages\": [{\"role\": \"user\", \"content\": \"One two three "
                               "four five six.\"}, {\"role\": \"assistant\", \"content\": \"Seven "
                               "eight nine ten eleven.\"}]}\n";
    pith_free(write_file(f, "chat_template.jinja", template, strlen(template)));
    char *path = write_file(f, "a.jsonl", line, strlen(line));
    struct pith_calib_options o = {.tokens = 1 << 20, .seq_len = LENGTH, .model = f->dir};
    assert_ok(load_by(f, path, o, &set, NULL, &err), err);
    assert_ok(pith_tokenizer_encode(f->tokenizer, prompt, strlen(prompt), false, &ids, &err), err);
    assert_int_equal(set.rendered, 1);
    assert_int_equal(set.joined, 0);
    assert_int_equal(set.available, ids.count);
    assert_memory_equal(set.ids + 1, ids.id, (LENGTH - 1) * sizeof *ids.id);
    pith_calib_free(&set);
    o.model = "models/probe";
    assert_ok(load_by(f, path, o, &set, NULL, &err), err);
    assert_int_equal(set.rendered, 0);
    assert_int_equal(set.joined, 1);
    pith_calib_free(&set);
    pith_free(write_file(f, "chat_template.jinja", "{{ raise_exception('no') }}", 27));
    o.model = f->dir;
    assert_int_equal(load_by(f, path, o, &set, NULL, &err), PITH_FORMAT);
    assert_non_null(strstr(err.text, "a.jsonl, line 1: the chat template: line 1: no"));
    pith_ids_free(&ids);
    pith_free(path);
}

static void test_builtin(void **state)
{
    const struct fixture *f = *state;
    struct pith_error err = {0};
    struct pith_calib_set a, b;
    const struct pith_calib_options o = {.tokens = 1024, .seq_len = LENGTH};
    assert_int_equal(strlen(pith_builtin_text), pith_builtin_text_size);
    assert_ok(pith_calib_load(&o, f->tokenizer, &a, &err), err);
    assert_ok(load_by(f, "builtin", o, &b, NULL, &err), err);
    assert_int_equal(a.windows, 1024 / LENGTH);
    assert_string_equal(a.sha256, b.sha256);
    pith_calib_free(&a);
    pith_calib_free(&b);
}

/* A text far longer than needed is not read to its end; pieces are cut at line ends. */
static void test_long_text(void **state)
{
    const struct fixture *f = *state;
    struct pith_error err = {0};
    struct pith_calib_set set;
    char *text = long_text(50000);
    assert_true(strlen(text) > (2u << 20));
    assert_ok(load(f, "a.txt", text, 32, &set, &err), err);
    assert_int_equal(set.windows, 2);
    pith_calib_free(&set);
    free(text);
}

/* Line ends of a text count and become LF when asked; those between lines of JSON do not. */
static void test_line_ends(void **state)
{
    const struct fixture *f = *state;
    struct pith_error err = {0};
    struct pith_calib_set plain, kept, changed, lines;
    char *lf = long_text(20), *crlf = calloc(1, 2 * strlen(lf) + 1);
    for (size_t i = 0, n = 0; lf[i]; i++) {
        if (lf[i] == '\n') crlf[n++] = '\r';
        crlf[n++] = lf[i];
    }
    assert_ok(load(f, "a.txt", lf, 1 << 20, &plain, &err), err);
    assert_ok(load(f, "b.txt", crlf, 1 << 20, &kept, &err), err);
    char *path = pith_path_join(f->dir, "b.txt");
    const struct pith_calib_options o = {.tokens = 1 << 20, .seq_len = LENGTH, .lf = true};
    assert_ok(load_by(f, path, o, &changed, NULL, &err), err);
    assert_ok(load(f, "c.jsonl",
                   "\xef\xbb\xbf{\"text\": \"one two three four five six seven\"}"
                   "\r\n{\"text\": \"nine ten eleven twelve\"}\r\n",
                   16, &lines, &err),
              err);
    assert_int_equal(plain.crlf, 0);
    assert_int_equal(kept.crlf, 20);
    assert_int_equal(changed.crlf, 20);
    assert_int_equal(lines.crlf, 0);
    assert_string_equal(plain.sha256, changed.sha256);
    assert_string_not_equal(plain.sha256, kept.sha256);
    pith_calib_free(&plain);
    pith_calib_free(&kept);
    pith_calib_free(&changed);
    pith_calib_free(&lines);
    pith_free(path);
    free(lf);
    free(crlf);
}

static void test_refused(void **state)
{
    const struct fixture *f = *state;
    static const struct {
        const char *name, *text, *says;
        enum pith_status status;
    } cases[] = {
        {"a.txt", "", "a.txt) has 0 tokens", PITH_ARG},
        {"a.txt", "Too short.", "fewer than one window of 16", PITH_ARG},
        {"a.jsonl", "", "0 tokens", PITH_ARG},
        {"a.jsonl", "\r\n \n", "0 tokens", PITH_ARG},
        {"a.jsonl", "{\"text\": \"a\"}\n{\"text\": ", "a.jsonl, line 2", PITH_FORMAT},
        {"a.jsonl", "[]", "line 1: neither", PITH_FORMAT},
        {"a.jsonl", "{\"text\": 1}", "line 1: neither", PITH_FORMAT},
        {"a.jsonl", "{\"messages\": {}}", "line 1: neither", PITH_FORMAT},
        {"a.jsonl", "{\"messages\": [{}]}", "message 0 has no", PITH_FORMAT},
        {"a.jsonl", "{\"text\": \"\xff\"}", "byte 10 (line 1)", PITH_FORMAT},
        {"a.txt", "caf\xe9 au lait and more of it\n", "a.txt: not UTF-8: byte 3", PITH_FORMAT},
    };
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        struct pith_error err;
        struct pith_calib_set set;
        assert_int_equal(load(f, cases[i].name, cases[i].text, 64, &set, &err), cases[i].status);
        assert_non_null(strstr(err.text, cases[i].says));
        assert_null(set.ids);
    }
}

static void test_options_refused(void **state)
{
    const struct fixture *f = *state;
    static const char *const nowhere[] = {"nowhere.txt"}, *const folder[] = {"models"};
    const struct {
        struct pith_calib_options o;
        enum pith_status status;
    } cases[] = {
        {{.tokens = 1024, .seq_len = 1}, PITH_ARG},
        {{.tokens = 0, .seq_len = LENGTH}, PITH_ARG},
        {{.paths = nowhere, .path_count = 1, .tokens = 64, .seq_len = LENGTH}, PITH_IO},
        {{.paths = folder, .path_count = 1, .tokens = 64, .seq_len = LENGTH}, PITH_IO},
        {{.tokens = SIZE_MAX, .seq_len = SIZE_MAX}, PITH_ARG},
    };
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        struct pith_error err = {0};
        struct pith_calib_set set = {0};
        assert_int_equal(pith_calib_load(&cases[i].o, f->tokenizer, &set, &err), cases[i].status);
        assert_null(set.ids);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_windows_cover_the_text, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_seed_chooses_windows, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_held_out_of_what_is_left, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_held_out_behind, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_held_out_of_all, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_digest, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_json_lines, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_conversations, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_builtin, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_long_text, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_line_ends, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_options_refused, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
