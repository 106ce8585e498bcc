/* tok/: the tree of strings, the best cut of a text, and tokenizer.json files of kind Unigram that
 * are broken, hostile or curious. */
#include "tok/unigram.h"

#include "base/mem.h"
#include "base/rng.h"
#include "base/str.h"
#include "stopped.h"

#include <unistd.h>

/* What took minutes or had no end: the alarm kills a test that is back to that. */
enum { PATIENCE = 60 };

/* ---- the tree ---- */

static int32_t look_up(const struct pith_trie *t, const char *text, size_t len)
{
    uint32_t node = 0;
    for (size_t i = 0; i < len; i++) {
        node = pith_trie_step(t, node, (uint8_t)text[i]);
        if (!node) return -1;
    }
    return t->value[node];
}

static void the_tree_holds_its_strings(void **state)
{
    (void)state;
    struct pith_error err = {0};
    struct pith_trie t = {0};
    char text[256][2];
    struct pith_trie_key key[262] = {{"abc", 3, 256},  {"ab", 2, 257},   {"abd", 3, 258},
                                     {"\xff", 1, 259}, {"zzzz", 4, 260}, {"b", 1, 261}};
    for (int i = 0; i < 256; i++) { /* a node with 256 children */
        text[i][0] = 'q';
        text[i][1] = (char)i;
        key[6 + i] = (struct pith_trie_key){text[i], 2, i};
    }
    assert_ok(pith_trie_build(&t, key, PITH_COUNT(key), &err), err);
    for (size_t i = 0; i < PITH_COUNT(key); i++)
        assert_int_equal(look_up(&t, key[i].text, key[i].len), key[i].value);
    assert_int_equal(look_up(&t, "a", 1), -1);
    assert_int_equal(look_up(&t, "abca", 4), -1);
    assert_int_equal(look_up(&t, "c", 1), -1);
    pith_trie_free(&t);
    struct pith_trie_key twice[] = {{"a", 1, 0}, {"b", 1, 1}, {"a", 1, 2}};
    assert_int_equal(pith_trie_build(&t, twice, 3, &err), PITH_FORMAT);
    pith_trie_free(&t);
}

/* ---- the cut ---- */

#define LETTERS 3
#define LONGEST 4
#define TEXT 200

struct cut {
    int32_t id[TEXT];
    size_t at[TEXT + 1], count;
};

static enum pith_status note(void *ctx, int32_t id, size_t at, size_t len, struct pith_error *err)
{
    struct cut *c = ctx;
    (void)err;
    assert_true(c->count < TEXT && c->at[c->count] == at);
    c->id[c->count++] = id;
    c->at[c->count] = at + len;
    return PITH_OK;
}

/* A vocabulary of some texts of one to four letters, with scores that often add up alike. */
struct random_vocab {
    char text[512][LONGEST];
    struct pith_trie_key key[512];
    double score[512];
    size_t count;
};

static void make_vocab(struct random_vocab *v, struct pith_rng *rng)
{
    v->count = 0;
    for (size_t len = 1, all = LETTERS; len <= LONGEST; len++, all *= LETTERS) {
        for (size_t n = 0; n < all; n++) {
            if (pith_rng_below(rng, 4) == 0) continue;
            size_t rest = n;
            for (size_t i = 0; i < len; i++, rest /= LETTERS)
                v->text[v->count][i] = (char)('a' + (char)(rest % LETTERS));
            v->key[v->count] =
                (struct pith_trie_key){v->text[v->count], (uint32_t)len, (int32_t)v->count};
            v->score[v->count++] = -(double)pith_rng_below(rng, 4) * 0.7;
        }
    }
}

/* The same cut without stretches and without a tree: for each place all tokens that stand there,
 * short ones first. */
static void plain_cut(const struct pith_unigram *u, const struct random_vocab *v, const char *text,
                      struct cut *out)
{
    double sum[TEXT + 1] = {0};
    int from[TEXT + 1], id[TEXT + 1] = {0};
    memset(from, -1, sizeof from);
    for (int at = 0; at < TEXT; at++) {
        bool single = false;
        for (int len = 1; len <= LONGEST + 1; len++) {
            if (len <= LONGEST && at + len > TEXT) continue;
            double s = u->unk_score;
            int32_t found = u->unk;
            if (len <= LONGEST) {
                found = look_up(&u->trie, text + at, (size_t)len);
                single = single || (len == 1 && found >= 0);
                if (found < 0) continue;
                s = v->score[found];
            } else if (single) {
                continue;
            }
            const int to = len <= LONGEST ? at + len : at + 1;
            s += sum[at];
            if (u->narrow) s = (double)(float)s;
            if (from[to] >= 0 && !(s > sum[to])) continue;
            sum[to] = s;
            from[to] = at;
            id[to] = found;
        }
    }
    size_t count = 0;
    for (int at = TEXT; at > 0; at = from[at]) count++;
    out->count = count;
    for (int at = TEXT; at > 0; at = from[at]) {
        out->at[count] = (size_t)at;
        out->id[--count] = id[at];
    }
    out->at[0] = 0;
}

static void cuts_are_the_best_ones(void **state)
{
    (void)state;
    struct pith_error err = {0};
    struct pith_rng rng;
    struct random_vocab v;
    struct pith_unigram_run run = {0};
    pith_rng_seed(&rng, 7);
    for (int round = 0; round < 200; round++) {
        struct pith_unigram u = {.unk_score = -3.5, .unk = 511, .narrow = round % 2};
        char text[TEXT];
        struct cut got = {0}, want = {0};
        make_vocab(&v, &rng);
        u.score = v.score;
        assert_ok(pith_unigram_build(&u, v.key, v.count, &err), err);
        for (size_t i = 0; i < TEXT; i++) text[i] = (char)('a' + (char)pith_rng_below(&rng, 4));
        assert_ok(pith_unigram_cut(&u, &run, text, TEXT, note, &got, &err), err);
        plain_cut(&u, &v, text, &want);
        assert_int_equal(got.count, want.count);
        assert_memory_equal(got.id, want.id, got.count * sizeof got.id[0]);
        assert_memory_equal(got.at, want.at, (got.count + 1) * sizeof got.at[0]);
        u.score = NULL;
        pith_unigram_free(&u);
    }
    pith_unigram_run_free(&run);
}

/* ---- files ---- */

static const char good[] =
    "{\"normalizer\":{\"type\":\"NFC\"},\"pre_tokenizer\":null,\"decoder\":null,"
    "\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"<unk>\",0],[\"a\",-1.5],"
    "[\"b\",-2],[\"ab\",-2.5]],\"byte_fallback\":false}}";

static struct pith_str edited(const char *from, const char *to)
{
    const char *at = strstr(good, from);
    assert_non_null(at);
    struct pith_str s = {0};
    pith_str_append(&s, good, (size_t)(at - good));
    pith_str_puts(&s, to);
    pith_str_puts(&s, at + strlen(from));
    return s;
}

static enum pith_status open_edited(const char *from, const char *to, struct pith_tokenizer **t,
                                    struct pith_error *err)
{
    struct pith_str s = edited(from, to);
    *t = NULL;
    *err = (struct pith_error){0};
    const enum pith_status status = pith_tokenizer_from_json(s.data, s.len, t, err);
    pith_str_free(&s);
    return status;
}

#define RULES(base64) "{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"" base64 "\"}"

static void files_are_checked(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to;
        enum pith_status status;
        const char *message;
    } bad[] = {
        {"\"vocab\"", "\"vocap\"", PITH_FORMAT, "no \"vocab\" list"},
        {"[[\"<unk>\",0],[\"a\",-1.5],[\"b\",-2],[\"ab\",-2.5]]", "[]", PITH_FORMAT,
         "no \"vocab\""},
        {"[\"a\",-1.5]", "[\"a\"]", PITH_FORMAT, "entry 1 of the vocabulary"},
        {"[\"a\",-1.5]", "[\"a\",\"b\"]", PITH_FORMAT, "entry 1 of the vocabulary"},
        {"[\"a\",-1.5]", "[\"a\",1,2]", PITH_FORMAT, "entry 1 of the vocabulary"},
        {"[\"a\",-1.5]", "[1,\"a\"]", PITH_FORMAT, "entry 1 of the vocabulary"},
        {"[\"a\",-1.5]", "[\"b\",-1.5]", PITH_FORMAT, "\"b\" stands twice"},
        {"\"unk_id\":0", "\"unk_id\":4", PITH_FORMAT, "\"unk_id\" is not in the vocabulary"},
        {"\"unk_id\":0", "\"unk_id\":-1", PITH_FORMAT, "\"unk_id\""},
        {"\"unk_id\":0", "\"unk_id\":\"a\"", PITH_FORMAT, "\"unk_id\""},
        {"false", "0", PITH_FORMAT, "\"byte_fallback\""},
        {"\"Unigram\"", "\"WordPiece\"", PITH_UNSUPPORTED, "model \"WordPiece\""},
        {"{\"type\":\"NFC\"}", RULES("A"), PITH_FORMAT, "not base64"},
        {"{\"type\":\"NFC\"}", RULES("*AAA"), PITH_FORMAT, "not base64"},
        {"{\"type\":\"NFC\"}", RULES("AAA="), PITH_FORMAT, "rules is broken"},
        {"{\"type\":\"NFC\"}", RULES("CAAAAGEAAAA="), PITH_FORMAT, "rules is broken"},
        {"{\"type\":\"NFC\"}", RULES("AAAAAP8="), PITH_FORMAT, "rules are not UTF-8"},
        {"{\"type\":\"NFC\"}", "{\"type\":\"Precompiled\"}", PITH_FORMAT, "precompiled_charsmap"},
    };
    struct pith_error err;
    struct pith_tokenizer *t;
    for (size_t i = 0; i < PITH_COUNT(bad); i++) {
        const enum pith_status s = open_edited(bad[i].from, bad[i].to, &t, &err);
        if (s != bad[i].status || !strstr(err.text, bad[i].message))
            fail_msg("case %zu: status %d \"%s\"", i, (int)s, err.text);
        assert_null(t);
    }
    assert_ok(open_edited("{\"type\":\"NFC\"}", RULES(""), &t, &err), err);
    pith_tokenizer_close(t);
}

/* Without an id for it, an unknown character is an error and not silence. */
static void unknown_characters_are_told(void **state)
{
    (void)state;
    struct pith_error err;
    struct pith_tokenizer *t;
    struct pith_ids ids = {0};
    assert_ok(open_edited("\"unk_id\":0", "\"unk_id\":null", &t, &err), err);
    assert_ok(pith_tokenizer_encode(t, "abba", 4, false, &ids, &err), err);
    assert_int_equal(ids.count, 3);
    assert_int_equal(pith_tokenizer_encode(t, "ab\xc3\xa9", 4, false, &ids, &err), PITH_FORMAT);
    assert_non_null(strstr(err.text, "no token for \"\xc3\xa9\""));
    assert_int_equal(ids.count, 3);
    pith_ids_free(&ids);
    pith_tokenizer_close(t);
}

#define STRIP "{\"type\":\"Strip\",\"strip_left\":true,\"strip_right\":true}"

/* A mark is put in front of the first piece only where the text itself begins: not when what it
 * began with was taken away. */
static void what_was_cut_off_was_first(void **state)
{
    (void)state;
    static const char first[] = ",\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"b\","
                                "\"prepend_scheme\":\"first\",\"split\":false}";
    static const struct {
        const char *normalizer, *text;
        size_t ids; /* of "a", with or without "b" before it */
    } cases[] = {
        {"{\"type\":\"NFC\"}", "a", 2},
        {STRIP, " a", 1},
        {STRIP, "a ", 2},
        {"{\"type\":\"Nmt\"}",
         "\x01"
         "a",
         1},
        {"{\"type\":\"StripAccents\"}",
         "\xcc\x81"
         "a",
         1},
        {"{\"type\":\"StripAccents\"}",
         "\xe1\xb3\xb2"
         "a", /* U+1CF2, a mark before Unicode 12 */
         1},
        {"{\"type\":\"Replace\",\"pattern\":{\"String\":\"x\"},\"content\":\"\"}", "xxa", 1},
        {"{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":\"  \"}," STRIP
         "]}",
         "a", 2},
    };
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        struct pith_error err;
        struct pith_tokenizer *t;
        struct pith_ids ids = {0};
        struct pith_str s = {0};
        pith_str_printf(&s, "%s%s", cases[i].normalizer, first);
        assert_ok(open_edited("{\"type\":\"NFC\"},\"pre_tokenizer\":null", s.data, &t, &err), err);
        assert_ok(pith_tokenizer_encode(t, cases[i].text, strlen(cases[i].text), false, &ids, &err),
                  err);
        if (ids.count != cases[i].ids) fail_msg("case %zu: %zu ids", i, ids.count);
        pith_ids_free(&ids);
        pith_str_free(&s);
        pith_tokenizer_close(t);
    }
}

/* ---- work in proportion to the text ---- */

/* Letters of a long word. */
#define MANY (1 << 18)

static void encode_many(struct pith_tokenizer *t, size_t count)
{
    enum { SIZE = MANY };
    struct pith_error err = {0};
    struct pith_ids ids = {0};
    char *text = pith_alloc(SIZE, 1);
    assert_non_null(text);
    memset(text, 'a', SIZE);
    alarm(PATIENCE);
    assert_ok(pith_tokenizer_encode(t, text, SIZE, false, &ids, &err), err);
    alarm(0);
    assert_int_equal(ids.count, count);
    pith_ids_free(&ids);
    pith_free(text);
    pith_tokenizer_close(t);
}

/* One token that nearly stands everywhere, and a thousand that do. */
static void long_tokens_take_no_longer(void **state)
{
    (void)state;
    struct pith_error err;
    struct pith_tokenizer *t;
    struct pith_str a = {0}, list = {0};
    for (int i = 0; i < PITH_UNIGRAM_PIECE + 1; i++) pith_str_putc(&a, 'a');
    pith_str_printf(&list, "[\"%.*sb\",-1],[\"a\",-1.5]", PITH_UNIGRAM_PIECE - 1, a.data);
    assert_ok(open_edited("[\"a\",-1.5]", list.data, &t, &err), err);
    encode_many(t, MANY);
    pith_str_clear(&list);
    pith_str_puts(&list, "[\"a\",-1]");
    for (int n = 2; n <= PITH_UNIGRAM_PIECE; n++)
        pith_str_printf(&list, ",[\"%.*s\",-1]", n, a.data);
    assert_ok(open_edited("[\"a\",-1.5]", list.data, &t, &err), err);
    encode_many(t, MANY / PITH_UNIGRAM_PIECE);
    pith_str_clear(&list);
    pith_str_printf(&list, "[\"%s\",-1],[\"a\",-1.5]", a.data);
    assert_int_equal(open_edited("[\"a\",-1.5]", list.data, &t, &err), PITH_UNSUPPORTED);
    assert_non_null(strstr(err.text, "token 1 has 1025 bytes, more than 1024"));
    pith_str_free(&a);
    pith_str_free(&list);
}

static void cutting_can_be_stopped(void **state)
{
    (void)state;
    struct pith_error err;
    struct pith_tokenizer *t;
    char text[1 << 15];
    memset(text, 'a', sizeof text);
    assert_ok(open_edited("\"NFC\"", "\"NFC\"", &t, &err), err);
    check_stopped(t, text, sizeof text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_tree_holds_its_strings), cmocka_unit_test(cuts_are_the_best_ones),
        cmocka_unit_test(files_are_checked),          cmocka_unit_test(unknown_characters_are_told),
        cmocka_unit_test(what_was_cut_off_was_first), cmocka_unit_test(long_tokens_take_no_longer),
        cmocka_unit_test(cutting_can_be_stopped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
