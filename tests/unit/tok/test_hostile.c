/* tok/: files that lie, are cut or make no sense are refused with one clear line. */
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "stopped.h"

#include <unistd.h>

/* A small valid tokenizer.json; each case below replaces one stretch of it. */
static const char good[] =
    "{\"version\":\"1.0\",\"added_tokens\":[{\"id\":5,\"content\":\"<s>\",\"special\":true}],"
    "\"normalizer\":{\"type\":\"NFC\"},"
    "\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a+|b\"},\"behavior\":"
    "\"Isolated\","
    "\"invert\":false},"
    "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<"
    "s>\"}},"
    "{\"Sequence\":{\"id\":\"A\"}}],\"special_tokens\":{\"<s>\":{\"id\":\"<s>\",\"ids\":[5]}}},"
    "\"decoder\":{\"type\":\"Fuse\"},"
    "\"model\":{\"type\":\"BPE\",\"unk_token\":\"u\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"u\":3,"
    "\"aa\":4},"
    "\"merges\":[\"a b\",[\"a\",\"a\"]]}}";

static const struct {
    const char *from, *to;
    enum pith_status status;
    const char *message; /* part of it */
} cases[] = {
    {"\"version\"", "", PITH_FORMAT, "not valid JSON"},
    {"\"model\":", "\"nodel\":", PITH_FORMAT, "no \"model\""},
    {"\"type\":\"BPE\"", "\"type\":\"WordLevel\"", PITH_UNSUPPORTED,
     "\"WordLevel\" is not supported"},
    {"\"type\":\"BPE\"", "\"type\":\"Unigram\"", PITH_FORMAT, "no \"vocab\" list"},
    {"\"type\":\"BPE\"", "\"type\":7", PITH_FORMAT, "\"type\" is not a string"},
    {"\"type\":\"BPE\"", "\"dropout\":0.1", PITH_UNSUPPORTED, "dropout"},
    {"\"vocab\":", "\"vocap\":", PITH_FORMAT, "no \"vocab\""},
    {"\"a\":0", "\"a\":\"0\"", PITH_FORMAT, "the id of \"a\" is not a number"},
    {"\"a\":0", "\"a\":-1", PITH_FORMAT, "token id -1"},
    {"\"a\":0", "\"a\":2147483647", PITH_FORMAT, "token id 2147483647"},
    {"\"a\":0", "\"a\":99999999999999999999", PITH_FORMAT, "the id of \"a\" is not a number"},
    {"\"a\":0", "\"b\":0", PITH_FORMAT, "merge 0"},
    {"\"merges\":", "\"verges\":", PITH_FORMAT, "no \"merges\""},
    {"\"a b\"", "\"a b c\"", PITH_FORMAT, "merge 0 is not a pair"},
    {"\"a b\"", "\"ab\"", PITH_FORMAT, "merge 0 is not a pair"},
    {"\"a b\"", "7", PITH_FORMAT, "merge 0 is not a pair"},
    {"\"a b\"", "\"b a\"", PITH_FORMAT, "merge 0 (\"b\" \"a\") is not in the vocabulary"},
    {"[\"a\",\"a\"]", "[\"a\",\"a\",\"a\"]", PITH_FORMAT, "merge 1 is not a pair"},
    {"[\"a\",\"a\"]", "[\"a\",\"x\"]", PITH_FORMAT, "merge 1"},
    {"\"unk_token\":\"u\"", "\"unk_token\":\"x\"", PITH_FORMAT, "unk_token \"x\""},
    {"[{\"id\":5", "[7,{\"id\":5", PITH_FORMAT, "added_tokens"},
    {"\"content\":\"<s>\"", "\"content\":3", PITH_FORMAT, "no \"content\""},
    {"\"special\":true", "\"special\":1", PITH_FORMAT, "\"special\" is not true or false"},
    {"\"NFC\"", "\"BertNormalizer\"", PITH_UNSUPPORTED, "normalizer \"BertNormalizer\""},
    {"{\"type\":\"NFC\"}", "{\"type\":\"Sequence\"}", PITH_FORMAT, "Sequence without a list"},
    {"{\"type\":\"NFC\"}", "{\"type\":\"Prepend\"}", PITH_FORMAT, "\"prepend\" is missing"},
    {"{\"type\":\"NFC\"}", "[]", PITH_FORMAT, "normalizer: not an object"},
    {"\"type\":\"Split\"", "\"type\":\"UnicodeScripts\"", PITH_UNSUPPORTED,
     "pre_tokenizer \"UnicodeScripts\""},
    {"\"Isolated\"", "\"Sideways\"", PITH_FORMAT, "unknown behavior \"Sideways\""},
    {"{\"Regex\":\"a+|b\"}", "{}", PITH_FORMAT, "neither"},
    {"a+|b", "(a+|b", PITH_FORMAT, "pattern: missing closing parenthesis"},
    {"a+|b", "[a-z", PITH_FORMAT, "[ without ]"},
    {"a+|b", "[a[bc]]", PITH_UNSUPPORTED, "nested"},
    {"a+|b", "[[a]b]", PITH_UNSUPPORTED, "nested"},
    {"a+|b", "[a&&]", PITH_FORMAT, "an empty set"},
    {"a+|b", "[&&a]", PITH_FORMAT, "an empty set"},
    {"a+|b", "[a&&[b]", PITH_UNSUPPORTED, "nested"},
    {"a+|b", "[a&&b&&c&&d&&e]", PITH_UNSUPPORTED, "more than 4 sets"},
    {"a+|b", "[[[[[a]]]]]", PITH_UNSUPPORTED, "nested too deep"},
    {"a+|b", "a\\\\", PITH_FORMAT, "backslash"},
    {"a+|b", "\\\\p{Nonsense}", PITH_FORMAT, "pattern: unknown property"},
    {"a+|b", "\\\\C", PITH_FORMAT, "pattern: "},
    {"\"TemplateProcessing\"", "\"Magic\"", PITH_UNSUPPORTED, "post_processor \"Magic\""},
    {"\"ids\":[5]", "\"ids\":[6]", PITH_FORMAT, "no token has the id 6"},
    {"\"ids\":[5]", "\"ids\":[-5]", PITH_FORMAT, "bad token id"},
    {"\"ids\":[5]", "\"ids\":5", PITH_FORMAT, "unknown special token"},
    {"{\"Sequence\":{\"id\":\"A\"}}", "{\"Sequence\":{\"id\":\"B\"}}", PITH_FORMAT, "bad piece"},
    {",{\"Sequence\":{\"id\":\"A\"}}", "", PITH_UNSUPPORTED, "the text 0 times"},
    {"\"Fuse\"", "\"WordPiece\"", PITH_UNSUPPORTED, "decoder \"WordPiece\""},
    {"{\"type\":\"Fuse\"}", "{\"type\":\"Strip\",\"content\":\"ab\",\"start\":1,\"stop\":0}",
     PITH_FORMAT, "one character"},
    {"{\"type\":\"Fuse\"}", "{\"type\":\"Strip\",\"content\":\"a\",\"start\":-1,\"stop\":0}",
     PITH_FORMAT, "\"start\" is -1"},
};

/* `good` with one stretch replaced; free with pith_str_free(). */
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

static void refused(enum pith_status got, const struct pith_error *err, enum pith_status status,
                    const char *message)
{
    if (got != status || !strstr(err->text, message) || strchr(err->text, '\n'))
        fail_msg("status %d \"%s\", expected %d \"%s\"", (int)got, err->text, (int)status, message);
}

static void json_files_are_checked(void **state)
{
    (void)state;
    struct pith_error err = {0};
    struct pith_tokenizer *t = NULL;
    assert_ok(pith_tokenizer_from_json(good, sizeof good - 1, &t, &err), err);
    pith_tokenizer_close(t);
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        struct pith_str s = edited(cases[i].from, cases[i].to);
        err = (struct pith_error){0};
        t = NULL;
        refused(pith_tokenizer_from_json(s.data, s.len, &t, &err), &err, cases[i].status,
                cases[i].message);
        assert_null(t);
        pith_str_free(&s);
    }
}

static void json_may_be_cut_anywhere(void **state)
{
    (void)state;
    for (size_t n = 0; n < sizeof good - 1; n++) {
        struct pith_error err = {0};
        struct pith_tokenizer *t = NULL;
        refused(pith_tokenizer_from_json(good, n, &t, &err), &err, PITH_FORMAT, "not valid JSON");
    }
}

/* Rules that let a text grow without end. */
static void growth_has_a_limit(void **state)
{
    (void)state;
    struct pith_str list = {0};
    pith_str_puts(&list, "{\"type\":\"Sequence\",\"normalizers\":[");
    for (int i = 0; i < 40; i++)
        pith_str_printf(
            &list, "%s{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"aaaa\"}",
            i ? "," : "");
    pith_str_puts(&list, "]}");
    struct pith_str s = edited("{\"type\":\"NFC\"}", list.data);
    struct pith_error err = {0};
    struct pith_tokenizer *t = NULL;
    assert_ok(pith_tokenizer_from_json(s.data, s.len, &t, &err), err);
    struct pith_ids ids = {0};
    refused(pith_tokenizer_encode(t, "aaa", 3, true, &ids, &err), &err, PITH_LIMIT, "too long");
    assert_int_equal(ids.count, 0);
    pith_ids_free(&ids);
    pith_tokenizer_close(t);
    pith_str_free(&s);
    pith_str_free(&list);
}

/* A pattern that backtracks exponentially ends with a message. */
static void patterns_have_a_limit(void **state)
{
    (void)state;
    struct pith_str s = edited("a+|b", "(?:a+)+[cd]");
    struct pith_error err = {0};
    struct pith_tokenizer *t = NULL;
    assert_ok(pith_tokenizer_from_json(s.data, s.len, &t, &err), err);
    char text[64];
    memset(text, 'a', sizeof text);
    text[63] = 'b';
    struct pith_ids ids = {0};
    refused(pith_tokenizer_encode(t, text, sizeof text, true, &ids, &err), &err, PITH_LIMIT,
            "pattern");
    pith_ids_free(&ids);
    pith_tokenizer_close(t);
    pith_str_free(&s);
}

static void long_lists_are_refused(void **state)
{
    (void)state;
    struct pith_str list = {0};
    pith_str_puts(&list, "{\"type\":\"Sequence\",\"pretokenizers\":[");
    for (int i = 0; i < 100; i++) pith_str_printf(&list, "%s{\"type\":\"Digits\"}", i ? "," : "");
    pith_str_puts(&list, "]},\"x\":{");
    struct pith_str s = edited("{\"type\":\"Split\",", list.data);
    struct pith_error err = {0};
    struct pith_tokenizer *t = NULL;
    refused(pith_tokenizer_from_json(s.data, s.len, &t, &err), &err, PITH_UNSUPPORTED,
            "more than 64 steps");
    pith_str_free(&s);
    pith_str_clear(&list);
    for (int i = 0; i < 30; i++) pith_str_puts(&list, "{\"type\":\"Sequence\",\"normalizers\":[");
    pith_str_puts(&list, "{\"type\":\"NFC\"}");
    for (int i = 0; i < 30; i++) pith_str_puts(&list, "]}");
    s = edited("{\"type\":\"NFC\"}", list.data);
    err = (struct pith_error){0};
    refused(pith_tokenizer_from_json(s.data, s.len, &t, &err), &err, PITH_FORMAT,
            "nested too deep");
    pith_str_free(&s);
    pith_str_free(&list);
}

/* ---- SentencePiece: a writer of protocol buffers ---- */

static void put_varint(struct pith_str *s, uint64_t v)
{
    for (; v > 127; v >>= 7) pith_str_putc(s, (char)(v & 127) | (char)-128);
    pith_str_putc(s, (char)v);
}

static void put_number(struct pith_str *s, unsigned tag, uint64_t v)
{
    put_varint(s, tag << 3);
    put_varint(s, v);
}

static void put_bytes(struct pith_str *s, unsigned tag, const char *data, size_t size)
{
    put_varint(s, tag << 3 | 2);
    put_varint(s, size);
    pith_str_append(s, data, size);
}

static void put_piece(struct pith_str *model, const char *text, float score, unsigned type)
{
    struct pith_str p = {0};
    uint32_t bits;
    memcpy(&bits, &score, 4);
    put_bytes(&p, 1, text, strlen(text));
    put_varint(&p, 2 << 3 | 5);
    for (int i = 0; i < 4; i++) pith_str_putc(&p, (char)(bits >> 8 * i & 255));
    put_number(&p, 3, type);
    put_bytes(model, 1, p.data, p.len);
    pith_str_free(&p);
}

/* What a test model has wrong. */
struct flaw {
    bool no_unk, two_unk, no_bytes;
    unsigned type;    /* of the piece "ab" */
    unsigned trainer; /* model_type */
    const char *text; /* of the piece "ab" */
    float score;
    const char *rules; /* precompiled_charsmap: first byte its length */
    const char *tail;  /* appended to the file */
};

static struct pith_str spm(struct flaw f)
{
    struct pith_str m = {0}, t = {0}, n = {0};
    put_piece(&m, "<unk>", 0, f.no_unk ? 3 : 2);
    put_piece(&m, "<s>", 0, f.two_unk ? 2 : 3);
    put_piece(&m, "</s>", 0, 3);
    put_piece(&m, "a", -2, 1);
    put_piece(&m, "b", -3, 1);
    put_piece(&m, f.text ? f.text : "ab", f.score, f.type ? f.type : 1);
    put_number(&t, 3, f.trainer ? f.trainer : 2);
    put_number(&t, 35, f.no_bytes);
    put_bytes(&m, 2, t.data, t.len);
    if (f.rules) put_bytes(&n, 2, f.rules + 1, (size_t)f.rules[0]);
    put_number(&n, 3, 1);
    put_bytes(&m, 3, n.data, n.len);
    if (f.tail) pith_str_puts(&m, f.tail);
    pith_str_free(&t);
    pith_str_free(&n);
    return m;
}

static void spm_files_are_checked(void **state)
{
    (void)state;
    float nan_score, infinity;
    const uint32_t nan_bits = 0x7fc00000;
    const uint32_t infinity_bits = 0x7f800000;
    memcpy(&nan_score, &nan_bits, 4);
    memcpy(&infinity, &infinity_bits, 4);
    const struct {
        struct flaw flaw;
        enum pith_status status;
        const char *message;
    } bad[] = {
        {{.no_unk = true}, PITH_FORMAT, "no piece is the unknown one"},
        {{.two_unk = true}, PITH_FORMAT, "two pieces are the unknown one"},
        {{.no_bytes = true}, PITH_FORMAT, "without the piece <0x00>"},
        {{.type = 9}, PITH_FORMAT, "piece 5 has the unknown type 9"},
        {{.trainer = 1, .score = infinity}, PITH_FORMAT, "score of piece 5 is not finite"},
        {{.trainer = 3}, PITH_UNSUPPORTED, "word models are not supported"},
        {{.trainer = 4}, PITH_UNSUPPORTED, "char models are not supported"},
        {{.trainer = 77}, PITH_UNSUPPORTED, "unknown models are not supported"},
        {{.text = "a"}, PITH_FORMAT, "token \"a\" stands twice"},
        {{.text = "\xff"}, PITH_FORMAT, "piece 5 is not UTF-8"},
        {{.text = ""}, PITH_FORMAT, "piece 5 is empty"},
        {{.score = nan_score}, PITH_FORMAT, "score of piece 5 is not a number"},
        {{.rules = "\x03"
                   "abc"},
         PITH_FORMAT,
         "normalization rules is broken"},
        {{.rules = "\x05"
                   "\x08\0\0\0a"},
         PITH_FORMAT,
         "normalization rules is broken"},
        {{.rules = "\x09"
                   "\x04\0\0\0\0\0\0\0\xff"},
         PITH_FORMAT,
         "rules are not UTF-8"},
        {{.tail = "\x0a"}, PITH_FORMAT, "broken protocol buffer"},
        {{.tail = "\x0a\x7f"}, PITH_FORMAT, "broken protocol buffer"},
        {{.tail = "\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f"}, PITH_FORMAT, "broken"},
        {{.tail = "\x0b"}, PITH_FORMAT, "broken protocol buffer"},
        {{.tail = "\x0a\x02\x0a\x7f"}, PITH_FORMAT, "broken protocol buffer"},
    };
    struct pith_tokenizer *t = NULL;
    for (size_t i = 0; i < PITH_COUNT(bad); i++) {
        struct pith_error err = {0};
        struct pith_str m = spm(bad[i].flaw);
        refused(pith_tokenizer_from_spm((uint8_t *)m.data, m.len, &t, &err), &err, bad[i].status,
                bad[i].message);
        assert_null(t);
        pith_str_free(&m);
    }
}

static void other_files_by_that_name(void **state)
{
    (void)state;
    struct pith_error err = {0};
    struct pith_tokenizer *t = NULL;
    static const char tiktoken[] = "IQ== 0\nIg== 1\n";
    refused(pith_tokenizer_from_spm((const uint8_t *)tiktoken, sizeof tiktoken - 1, &t, &err), &err,
            PITH_UNSUPPORTED, "tiktoken");
    err = (struct pith_error){0};
    refused(pith_tokenizer_from_spm((const uint8_t *)"", 0, &t, &err), &err, PITH_FORMAT,
            "no pieces");
    err = (struct pith_error){0};
    static const char pointer[] = "version https://git-lfs.github.com/spec/v1\n";
    refused(pith_tokenizer_from_spm((const uint8_t *)pointer, sizeof pointer - 1, &t, &err), &err,
            PITH_FORMAT, "not a SentencePiece model");
}

/* Cut anywhere, or with any byte changed, a model is refused or works. */
static void damage(unsigned trainer)
{
    struct pith_str m = spm((struct flaw){.trainer = trainer,
                                          .rules = "\x0d"
                                                   "\x08\0\0\0\0\1\0\0a\4\0\0x"});
    for (size_t i = 0; i < m.len * 3; i++) {
        struct pith_error err = {0};
        struct pith_tokenizer *t = NULL;
        const size_t at = i / 3;
        const char old = m.data[at];
        m.data[at] = (char)(i % 3 == 2 ? ~old : old ^ (1 << (i % 8)));
        const size_t size = i % 3 == 1 ? at : m.len;
        const enum pith_status s = pith_tokenizer_from_spm((uint8_t *)m.data, size, &t, &err);
        m.data[at] = old;
        assert_true((s == PITH_OK) == (err.text[0] == '\0'));
        struct pith_ids ids = {0};
        if (s == PITH_OK)
            assert_ok(pith_tokenizer_encode(t, "abba cab \xc3\xa9", 11, true, &ids, &err), err);
        pith_ids_free(&ids);
        pith_tokenizer_close(t);
    }
    pith_str_free(&m);
}

static void spm_may_be_damaged_anywhere(void **state)
{
    (void)state;
    damage(1);
    damage(2);
}

/* ---- work in proportion to the text ---- */

/* What took minutes or had no end: the alarm kills a test that is back to that. */
enum { PATIENCE = 60 };

static struct pith_tokenizer *opened(const char *from, const char *to)
{
    struct pith_error err = {0};
    struct pith_tokenizer *t = NULL;
    struct pith_str s = edited(from, to);
    assert_ok(pith_tokenizer_from_json(s.data, s.len, &t, &err), err);
    pith_str_free(&s);
    return t;
}

static struct pith_str many(const char *text, size_t times)
{
    struct pith_str s = {0};
    while (times--) pith_str_puts(&s, text);
    return s;
}

/* Encodes and expects a number of ids; frees the tokenizer. */
static void gives(struct pith_tokenizer *t, const struct pith_str *text, size_t count)
{
    struct pith_error err = {0};
    struct pith_ids ids = {0};
    alarm(PATIENCE);
    assert_ok(pith_tokenizer_encode(t, text->data, text->len, false, &ids, &err), err);
    alarm(0);
    assert_int_equal(ids.count, count);
    pith_ids_free(&ids);
    pith_tokenizer_close(t);
}

/* Two added tokens that nearly match everywhere. */
static void long_tokens_take_no_longer(void **state)
{
    (void)state;
    struct pith_str text = many("a", 400000), list = {0};
    pith_str_printf(&list, "{\"content\":\"%.*sb\"},{\"content\":\"%.*s\"},{\"id\":5", 200000,
                    text.data, 300000, text.data);
    struct pith_tokenizer *t = opened("{\"id\":5", list.data);
    gives(t, &text, 1 + 50000); /* the shorter one, then pairs of a */
    pith_str_free(&list);
    pith_str_free(&text);
}

static void a_word_of_a_megabyte(void **state)
{
    (void)state;
    struct pith_str text = many("a", 1 << 20);
    gives(opened("a+|b", "a+|b"), &text, 1 << 19);
    pith_str_free(&text);
}

/* A literal that nearly matches everywhere. */
static void long_literals_take_no_longer(void **state)
{
    (void)state;
    struct pith_str text = many("a", 400000), pattern = {0};
    pith_str_printf(&pattern, "{\"String\":\"%.*sb\"}", 200000, text.data);
    gives(opened("{\"Regex\":\"a+|b\"}", pattern.data), &text, 200000);
    pith_str_free(&pattern);
    pith_str_free(&text);
}

static void random_bytes_take_no_longer(void **state)
{
    (void)state;
    struct pith_error err = {0};
    struct pith_tokenizer *t = opened("a+|b", "\\\\p{L}+|\\\\s+(?!\\\\S)|\\\\s+|[^\\\\s]+");
    struct pith_str text = {0};
    uint32_t x = 1;
    for (size_t i = 0; i < 2 << 20; i++)
        pith_str_putc(&text, (char)((x = x * 1664525 + 1013904223) >> 24));
    struct pith_ids ids = {0};
    alarm(PATIENCE);
    assert_ok(pith_tokenizer_encode(t, text.data, text.len, false, &ids, &err), err);
    alarm(0);
    assert_true(ids.count > text.len / 2 && ids.count <= text.len);
    pith_ids_free(&ids);
    pith_str_free(&text);
    pith_tokenizer_close(t);
}

/* Patterns whose single matches stay cheap enough, and whose sum does not. */
static void patterns_share_one_limit(void **state)
{
    (void)state;
    static const char *const bad[] = {"(?:a{1,9}){1,9}b|a", /* each match tries thousands of ways */
                                      "(?:a|aa|aaa|aaaa)*b|a", /* and here millions */
                                      "a++b|a", /* no way back, but to the end and again */
                                      "(?<x>a+)\\\\k<x>b|a", /* comparisons inside one step */
                                      "(?<=a{200})(?:a{1,9}){1,9}b|a"};
    struct pith_str text = many("a", 200000);
    for (size_t i = 0; i < PITH_COUNT(bad); i++) {
        struct pith_error err = {0};
        struct pith_ids ids = {0};
        struct pith_tokenizer *t = opened("a+|b", bad[i]);
        alarm(PATIENCE);
        refused(pith_tokenizer_encode(t, text.data, text.len, false, &ids, &err), &err, PITH_LIMIT,
                "steps");
        alarm(0);
        assert_non_null(strstr(err.text, "|a\""));
        assert_non_null(strstr(err.text, "at byte"));
        pith_ids_free(&ids);
        pith_tokenizer_close(t);
    }
    pith_str_free(&text);
}

/* Long matches of honest patterns are far from the limit. */
static void honest_patterns_are_not_refused(void **state)
{
    (void)state;
    struct pith_str text = many("a", 3 << 20), spaces = many(" ", 1 << 20);
    pith_str_append(&spaces, text.data, 4);
    gives(opened("a+|b", "\\\\p{L}+|\\\\s*[\\r\\n]+|\\\\s+(?!\\\\S)|\\\\s+"), &text, 3 << 19);
    gives(opened("a+|b", "\\\\p{L}+|\\\\s*[\\r\\n]+|\\\\s+(?!\\\\S)|\\\\s+"), &spaces,
          (1 << 20) + 2);
    pith_str_free(&text);
    pith_str_free(&spaces);
}

#define REPLACE_A "{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"%s\"}"

static void decoders_have_a_limit(void **state)
{
    (void)state;
    struct pith_str content = many("a", 256), list = {0};
    pith_str_puts(&list, "{\"type\":\"Sequence\",\"decoders\":[");
    for (int i = 0; i < 8; i++) pith_str_printf(&list, "%s" REPLACE_A, i ? "," : "", content.data);
    pith_str_puts(&list, "]}");
    struct pith_error err = {0};
    struct pith_str out = {0};
    struct pith_tokenizer *t = opened("{\"type\":\"Fuse\"}", list.data);
    const int32_t ids[] = {1, 0, 0};
    alarm(PATIENCE);
    refused(pith_tokenizer_decode(t, ids, 3, false, &out, &err), &err, PITH_LIMIT, "decoder");
    alarm(0);
    assert_true(out.len < 1 << 20);
    pith_tokenizer_close(t);
    pith_str_free(&out);
    pith_str_free(&list);
    /* One such step is allowed. */
    pith_str_printf(&list, REPLACE_A, content.data);
    t = opened("{\"type\":\"Fuse\"}", list.data);
    err = (struct pith_error){0};
    assert_ok(pith_tokenizer_decode(t, ids, 3, false, &out, &err), err);
    assert_int_equal(out.len, 1 + 2 * 256);
    pith_tokenizer_close(t);
    pith_str_free(&out);
    pith_str_free(&list);
    pith_str_free(&content);
}

/* Bytes spelt as characters, again and again. */
static void cutting_does_not_grow_without_end(void **state)
{
    (void)state;
    struct pith_str list = {0};
    pith_str_puts(&list, "{\"type\":\"Sequence\",\"pretokenizers\":[");
    for (int i = 0; i < 30; i++)
        pith_str_printf(&list, "%s{\"type\":\"ByteLevel\",\"use_regex\":false}", i ? "," : "");
    pith_str_puts(&list, "]},\"x\":{");
    struct pith_error err = {0};
    struct pith_ids ids = {0};
    struct pith_tokenizer *t = opened("{\"type\":\"Split\",", list.data);
    alarm(PATIENCE);
    refused(pith_tokenizer_encode(t, "\xc3\xa9", 2, false, &ids, &err), &err, PITH_LIMIT,
            "too long");
    alarm(0);
    pith_ids_free(&ids);
    pith_tokenizer_close(t);
    pith_str_free(&list);
}

static void spm_pieces_of_a_megabyte(void **state)
{
    (void)state;
    enum { LONG = 1 << 20 };
    struct pith_str text = many("a", LONG), piece = many("a", LONG - 2);
    struct pith_str model = spm((struct flaw){0});
    pith_str_putc(&piece, 'b');
    for (unsigned type = 1; type <= 4; type += 3) {
        struct pith_error err = {0};
        struct pith_tokenizer *t = NULL;
        struct pith_ids ids = {0};
        const size_t len = model.len;
        put_piece(&model, piece.data, 0, type);
        const enum pith_status s =
            pith_tokenizer_from_spm((const uint8_t *)model.data, model.len, &t, &err);
        model.len = len;
        if (type == 1) {
            refused(s, &err, PITH_UNSUPPORTED, "more than 1024");
            continue;
        }
        assert_ok(s, err);
        alarm(PATIENCE);
        assert_ok(pith_tokenizer_encode(t, text.data, text.len, false, &ids, &err), err);
        alarm(0);
        assert_true(ids.count >= LONG);
        pith_ids_free(&ids);
        pith_tokenizer_close(t);
    }
    pith_str_free(&text);
    pith_str_free(&piece);
    pith_str_free(&model);
}

static void encoding_can_be_stopped(void **state)
{
    (void)state;
    struct pith_error err = {0};
    struct pith_str text = many("ab ", 200000), m = spm((struct flaw){0});
    struct pith_tokenizer *t[2] = {opened("a+|b", "a+|b"), NULL};
    assert_ok(pith_tokenizer_from_spm((const uint8_t *)m.data, m.len, &t[1], &err), err);
    for (int i = 0; i < 2; i++) check_stopped(t[i], text.data, text.len);
    pith_str_free(&text);
    pith_str_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_files_are_checked),
        cmocka_unit_test(json_may_be_cut_anywhere),
        cmocka_unit_test(growth_has_a_limit),
        cmocka_unit_test(patterns_have_a_limit),
        cmocka_unit_test(long_lists_are_refused),
        cmocka_unit_test(spm_files_are_checked),
        cmocka_unit_test(other_files_by_that_name),
        cmocka_unit_test(spm_may_be_damaged_anywhere),
        cmocka_unit_test(long_tokens_take_no_longer),
        cmocka_unit_test(a_word_of_a_megabyte),
        cmocka_unit_test(long_literals_take_no_longer),
        cmocka_unit_test(random_bytes_take_no_longer),
        cmocka_unit_test(patterns_share_one_limit),
        cmocka_unit_test(honest_patterns_are_not_refused),
        cmocka_unit_test(decoders_have_a_limit),
        cmocka_unit_test(cutting_does_not_grow_without_end),
        cmocka_unit_test(spm_pieces_of_a_megabyte),
        cmocka_unit_test(encoding_can_be_stopped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
