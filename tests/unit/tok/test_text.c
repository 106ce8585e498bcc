/* tok/: UTF-8, normalization forms, the translation of patterns, byte spelling, matchers. */
#include "base/file.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/utf8.h"
#include "test.h"
#include "tok/matcher.h"
#include "tok/normalizer.h"
#include "tok/regex/regex.h"
#include "tok/unicode/bytemap.h"
#include "tok/unicode/unicode.h"
#include "tok/unicode/utf8.h"
#include "tok/vocab.h"

#define BAD PITH_UTF8_REPLACEMENT

static void broken_utf8_is_replaced(void **state)
{
    (void)state;
    static const struct {
        const char *in, *out;
    } cases[] = {
        {"", ""},
        {"a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"},
        {"\x80"
         "a",
         BAD "a"},
        {"\xc3"
         "a",
         BAD "a"},
        {"\xc0\xaf", BAD BAD},
        {"\xe0\x80\xbf", BAD BAD BAD},
        {"\xed\xa0\x80", BAD BAD BAD}, /* a surrogate */
        {"\xf4\x90\x80\x80", BAD BAD BAD BAD},
        {"\xf8\x88\x80\x80\x80", BAD BAD BAD BAD BAD},
        /* table 3-11 of Unicode 15: one U+FFFD for each maximal subpart */
        {"\xe1\x80\xe2\xf0\x91\x92\xf1\xbf"
         "A",
         BAD BAD BAD BAD "A"},
        {"a\xf0\x9f\x98", "a" BAD},
        {"a\xe2\x82", "a" BAD},
    };
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        struct pith_str s = {0};
        pith_utf8_clean(cases[i].in, strlen(cases[i].in), &s);
        assert_string_equal(pith_str_text(&s), cases[i].out);
        assert_int_equal(pith_utf8_valid(cases[i].in, strlen(cases[i].in)),
                         strcmp(cases[i].in, cases[i].out) == 0);
        pith_str_free(&s);
    }
}

static void every_code_point_survives(void **state)
{
    (void)state;
    struct pith_str s = {0};
    for (uint32_t cp = 0; cp <= 0x10ffff; cp++) {
        if (cp >= 0xd800 && cp < 0xe000) continue;
        pith_str_clear(&s);
        pith_utf8_put(&s, cp);
        assert_true(pith_utf8_valid(s.data, s.len));
        assert_int_equal(pith_utf8_get(s.data), cp);
        assert_int_equal(pith_utf8_len(s.data[0]), s.len);
        assert_int_equal(pith_utf8_back(s.data, s.len), 0);
    }
    pith_str_free(&s);
}

static void bytes_are_spelled(void **state)
{
    (void)state;
    struct pith_str spelled = {0}, back = {0};
    char bytes[256];
    for (int i = 0; i < 256; i++) bytes[i] = (char)i;
    pith_bytemap_put(bytes, 256, &spelled);
    assert_true(pith_utf8_valid(spelled.data, spelled.len));
    pith_bytemap_read(spelled.data, spelled.len, &back);
    assert_int_equal(back.len, 256);
    assert_memory_equal(back.data, bytes, 256);
    /* the known corners: NUL, space, DEL, soft hyphen, last byte */
    pith_str_clear(&spelled);
    pith_bytemap_put("\0 \x7f\xad\xff", 5, &spelled);
    assert_string_equal(spelled.data, "\xc4\x80\xc4\xa0\xc4\xa1\xc5\x83\xc3\xbf");
    /* a character that spells no byte keeps the whole text as it is */
    pith_str_clear(&back);
    pith_bytemap_read("\xc4\xa0\xe2\x82\xac", 5, &back);
    assert_string_equal(back.data, "\xc4\xa0\xe2\x82\xac");
    pith_str_free(&spelled);
    pith_str_free(&back);
}

static void forms_are_normal(void **state)
{
    (void)state;
    /* UAX #15, and the reference's Unicode 9: U+1DF9 (Unicode 10) stays where it is */
    static const struct {
        const char *in, *nfd, *nfc, *nfkd, *nfkc;
    } cases[] = {
        {"\xc3\x85", "A\xcc\x8a", "\xc3\x85", "A\xcc\x8a", "\xc3\x85"},
        {"\xe2\x84\xab", "A\xcc\x8a", "\xc3\x85", "A\xcc\x8a", "\xc3\x85"},
        {"\xef\xac\x81", "\xef\xac\x81", "\xef\xac\x81", "fi", "fi"},
        {"\xc2\xb2", "\xc2\xb2", "\xc2\xb2", "2", "2"},
        {"\xe1\xba\x9b\xcc\xa3", "\xc5\xbf\xcc\xa3\xcc\x87", "\xe1\xba\x9b\xcc\xa3",
         "s\xcc\xa3\xcc\x87", "\xe1\xb9\xa9"},
        {"\xea\xb0\x81", "\xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa8", "\xea\xb0\x81",
         "\xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa8", "\xea\xb0\x81"},
        {"a\xe1\xb7\xb9\xcc\x81", "a\xe1\xb7\xb9\xcc\x81", "a\xe1\xb7\xb9\xcc\x81",
         "a\xe1\xb7\xb9\xcc\x81", "a\xe1\xb7\xb9\xcc\x81"},
    };
    struct pith_error err = {0};
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        const char *const want[] = {cases[i].nfd, cases[i].nfc, cases[i].nfkd, cases[i].nfkc};
        for (size_t k = 0; k < 4; k++) {
            struct pith_str s = {0};
            assert_ok(pith_normal_form(cases[i].in, strlen(cases[i].in), k >= 2, k % 2, &s, &err),
                      err);
            assert_string_equal(pith_str_text(&s), want[k]);
            pith_str_free(&s);
        }
    }
}

/* Ordering a long run of marks must not take quadratic time. */
static void marks_are_ordered_fast(void **state)
{
    (void)state;
    struct pith_error err = {0};
    struct pith_str in = {0}, out = {0};
    for (int i = 0; i < 200000; i++) pith_str_puts(&in, i % 2 ? "\xcc\xa3" : "\xcc\x81");
    assert_ok(pith_normal_form(in.data, in.len, false, true, &out, &err), err);
    assert_int_equal(out.len, in.len);
    assert_memory_equal(out.data, "\xcc\xa3\xcc\xa3", 4);
    assert_memory_equal(out.data + out.len - 4, "\xcc\x81\xcc\x81", 4);
    pith_str_free(&in);
    pith_str_free(&out);
}

static void patterns_are_translated(void **state)
{
    (void)state;
    static const struct {
        const char *in, *out;
    } cases[] = {
        {"a+?b*{2,3}", "a+?b*{2,3}"},
        {"\\p{L}[^\\r\\n\\p{N}]", "[\\p{L}][^\\r\\n\\p{N}]"},
        {"\\P{L}\\p{^L}", "[^\\p{L}][^\\p{L}]"},
        {"\\pL", "[\\p{L}]"},
        {"\\h\\H", "[0-9a-fA-F][^0-9a-fA-F]"},
        {"\\u00e9", "\\x{00e9}"},
        {"(?m:.)(?i:s)(?<n>a)(?!b)", "(?s:.)(?i:s)(?<n>a)(?!b)"},
        {"\\p{N}{1,3}+", "(?:[\\p{N}]{1,3})+"},
        {"(ab|c){2}+x", "(?:(ab|c){2})+x"},
        {"\xc3\xa9{2}+", "(?:\xc3\xa9{2})+"},
        {"a{x}+[]a]", "a{x}+[]a]"},
        {"[[:alpha:]\\]]", "[[:alpha:]\\]]"},
        {"[a-z&&[^b]]+", "(?:(?=[a-z])[^b])+"},
        {"[^a-z&&b-y&&[x]]{2}+", "(?:(?:(?!(?=[a-z])(?=[b-y])[x])[\\x00-\\x{10FFFF}]){2})+"},
        {"[^[ab]&&[^c]]", "(?:(?!(?=[ab])[^c])[\\x00-\\x{10FFFF}])"},
        {"[[ab]]", "(?:[ab])"},
        {"[a&b]", "[a&b]"},
    };
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        struct pith_error err = {0};
        struct pith_str s = {0};
        bool property;
        assert_ok(
            pith_regex_translate(cases[i].in, strlen(cases[i].in), false, &property, &s, &err),
            err);
        assert_string_equal(s.data, cases[i].out);
        pith_str_free(&s);
    }
}

struct parts {
    const char *text;
    struct pith_str out;
};

static enum pith_status put_part(void *ctx, size_t from, size_t to, bool match,
                                 struct pith_error *err)
{
    (void)err;
    struct parts *p = ctx;
    pith_str_puts(&p->out, match ? "<" : "(");
    pith_str_append(&p->out, p->text + from, to - from);
    pith_str_puts(&p->out, match ? ">" : ")");
    return PITH_OK;
}

static void texts_are_cut_by_patterns(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *text, *parts;
        bool literal;
    } cases[] = {
        {"a+", "baac", "(b)<aa>(c)", false},
        {"a*", "baac", "<>(b)<aa>(c)<>", false},
        {"", "xy", "<>(x)<>(y)<>", false},
        {"x", "", "()", false},
        {"\\s",
         "a\xe1\xa0\x8e"
         "b\xe3\x80\x80",
         "(a\xe1\xa0\x8e"
         "b)<\xe3\x80\x80>",
         false},
        {"[^\\S\\n]+", " \n\xc2\xa0 x", "< >(\n)<\xc2\xa0 >(x)", false},
        {"\\w+", "a\xcc\x81_1 \xc2\xb2", "<a\xcc\x81_1>( )<\xc2\xb2>", false},
        {"(?i:'s)", "'S'\xc5\xbf's", "<'S><'\xc5\xbf><'s>", false},
        {"\\p{Lu}", "\xe1\xb2\x89x", "<\xe1\xb2\x89>(x)", false}, /* Unicode 16 */
        {"\\p{Han}+", "\xf0\xb1\x8d\x90x", "<\xf0\xb1\x8d\x90>(x)", false},
        {"a\\s+$", "a  \nb", "<a  >(\nb)", false},
        {"aa", "aaaab", "<aa><aa>(b)", true},
        {"a.", "a.ab", "<a.>(ab)", true},
        {".*", "x", "(x)", true},
    };
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        struct pith_error err = {0};
        struct pith_regex *re;
        struct pith_regex_run run = {0};
        struct parts p = {.text = cases[i].text};
        const size_t len = strlen(cases[i].pattern);
        if (cases[i].literal) assert_ok(pith_regex_literal(cases[i].pattern, len, &re, &err), err);
        else assert_ok(pith_regex_new(cases[i].pattern, len, &re, &err), err);
        assert_ok(pith_regex_parts(re, &run, p.text, strlen(p.text), put_part, &p, &err), err);
        assert_string_equal(p.out.data, cases[i].parts);
        pith_str_free(&p.out);
        pith_regex_run_free(&run);
        pith_regex_free(re);
    }
}

static size_t longest(const struct pith_matcher *m, const char *text, size_t len, int32_t *v)
{
    struct pith_match_run run = {.m = m, .text = text, .len = len};
    const size_t n = pith_match_at(&run, 0, v);
    assert_false(run.failed);
    pith_match_run_free(&run);
    return n;
}

static void matchers_find_the_longest(void **state)
{
    (void)state;
    struct pith_matcher t = {0};
    assert_true(pith_matcher_add(&t, "a", 1, 0));
    assert_true(pith_matcher_add(&t, "abc", 3, 1));
    assert_true(pith_matcher_add(&t, "abd", 3, 2));
    assert_true(pith_matcher_add(&t, "abc", 3, 9)); /* the first one stays */
    assert_true(pith_matcher_add(&t, "\xff\0x", 3, 3));
    assert_true(pith_matcher_finish(&t));
    int32_t v = -1;
    assert_int_equal(longest(&t, "abcd", 4, &v), 3);
    assert_int_equal(v, 1);
    assert_int_equal(longest(&t, "abx", 3, &v), 1);
    assert_int_equal(v, 0);
    assert_int_equal(longest(&t, "abd", 2, &v), 1);
    assert_int_equal(longest(&t, "\xff\0x", 3, &v), 3);
    assert_int_equal(longest(&t, "b", 1, &v), 0);
    assert_int_equal(longest(&t, "", 0, &v), 0);
    pith_matcher_free(&t);
}

enum { SETS = 300, STRINGS = 12, LONG = 9, TEXT = 40000 };

/* A string of two or three letters, so that strings overlap in every way. */
static size_t random_string(struct pith_rng *rng, char *out, size_t most)
{
    const size_t n = 1 + pith_rng_below(rng, most), letters = 2 + pith_rng_below(rng, 2);
    for (size_t i = 0; i < n; i++) out[i] = (char)('a' + pith_rng_below(rng, letters));
    return n;
}

/* At every place the answer is that of trying all strings, also beyond what one pass answers. */
static void matchers_agree_with_trying_all(void **state)
{
    (void)state;
    struct pith_rng rng;
    pith_rng_seed(&rng, 3);
    char *text = malloc(TEXT);
    for (int set = 0; set < SETS; set++) {
        struct pith_matcher m = {0};
        char string[STRINGS][LONG];
        size_t len[STRINGS];
        for (int i = 0; i < STRINGS; i++) {
            len[i] = random_string(&rng, string[i], LONG);
            assert_true(pith_matcher_add(&m, string[i], len[i], i));
        }
        assert_true(pith_matcher_finish(&m));
        size_t n = 0;
        while (n < TEXT / 2 && (n == 0 || set == 0)) n += random_string(&rng, text + n, 200);
        struct pith_match_run run = {.m = &m, .text = text, .len = n};
        for (size_t at = 0; at < n; at++) {
            size_t best = 0;
            int32_t v = -1;
            int want = -1;
            for (int i = 0; i < STRINGS; i++)
                if (len[i] > best && len[i] <= n - at &&
                    memcmp(string[i], text + at, len[i]) == 0) {
                    best = len[i];
                    want = i;
                }
            assert_int_equal(pith_match_at(&run, at, &v), best);
            assert_int_equal(v, want);
        }
        pith_match_run_free(&run);
        pith_matcher_free(&m);
    }
    free(text);
}

static void vocabularies_go_both_ways(void **state)
{
    (void)state;
    struct pith_error err = {0};
    struct pith_vocab v = {0};
    char name[16];
    size_t len;
    assert_int_equal(pith_vocab_find(&v, "x", 1), -1);
    for (int i = 0; i < 5000; i++) {
        snprintf(name, sizeof name, "t%d", i);
        assert_ok(pith_vocab_add(&v, name, strlen(name), i * 3, &err), err);
    }
    assert_int_equal(v.ids, 14998);
    for (int i = 0; i < 5000; i++) {
        snprintf(name, sizeof name, "t%d", i);
        assert_int_equal(pith_vocab_find(&v, name, strlen(name)), i * 3);
        const char *text = pith_vocab_text(&v, i * 3, &len);
        assert_memory_equal(text, name, len);
        assert_null(pith_vocab_text(&v, i * 3 + 1, &len));
    }
    assert_null(pith_vocab_text(&v, -1, &len));
    assert_null(pith_vocab_text(&v, 1 << 30, &len));
    assert_int_equal(pith_vocab_add(&v, "t7", 2, 1, &err), PITH_FORMAT);
    assert_int_equal(pith_vocab_add(&v, "new", 3, PITH_VOCAB_ID_MAX + 1, &err), PITH_FORMAT);
    pith_vocab_free(&v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(broken_utf8_is_replaced),   cmocka_unit_test(every_code_point_survives),
        cmocka_unit_test(bytes_are_spelled),         cmocka_unit_test(forms_are_normal),
        cmocka_unit_test(marks_are_ordered_fast),    cmocka_unit_test(patterns_are_translated),
        cmocka_unit_test(texts_are_cut_by_patterns), cmocka_unit_test(matchers_find_the_longest),
        cmocka_unit_test(matchers_agree_with_trying_all),
        cmocka_unit_test(vocabularies_go_both_ways),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
