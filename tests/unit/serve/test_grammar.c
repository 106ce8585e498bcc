/* serve/grammar: constraints against what others say of the same texts (tests/golden/serve), and
 * random walks over masks, whose texts must be what the constraint takes. */
#include "serve/grammar.h"

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { END = 256 };

/* A vocabulary of all bytes and an end. */
static struct pith_vocab_bytes *bytes_alone(void)
{
    char text[256];
    uint32_t at[END + 2];
    const int32_t end = END;
    struct pith_vocab_bytes *v = NULL;
    for (int i = 0; i < 256; i++) {
        text[i] = (char)i;
        at[i] = (uint32_t)i;
    }
    at[END] = at[END + 1] = 256;
    const struct pith_spelling tokens = {text, at, END + 1};
    assert_int_equal(pith_vocab_bytes_make(&tokens, &end, 1, &v, NULL), PITH_OK);
    return v;
}

static struct pith_grammar *compile(const struct pith_vocab_bytes *v, enum pith_constraint kind,
                                    const char *text)
{
    struct pith_error err = {0};
    struct pith_grammar *g = NULL;
    const enum pith_status s = pith_grammar_open(v, kind, text, &g, &err);
    if (s != PITH_OK) fail_msg("%s: %s", text, err.text);
    return g;
}

static bool allows(const uint64_t *bits, size_t id)
{
    return bits[id / 64] >> (id % 64) & 1;
}

/* Whether a grammar takes a text; on the way masks must agree with what is accepted. */
static bool takes(struct pith_grammar *g, const char *text, size_t size)
{
    struct pith_grammar_matcher *m = NULL;
    const uint64_t *bits;
    bool ok = true;
    assert_int_equal(pith_matcher_open(g, &m, NULL), PITH_OK);
    for (size_t i = 0; i < size && ok; i++) {
        assert_int_equal(pith_matcher_mask(m, &bits, NULL), PITH_OK);
        const bool allowed = allows(bits, (uint8_t)text[i]);
        ok = pith_matcher_accept(m, (uint8_t)text[i]);
        assert_int_equal(ok, allowed);
    }
    assert_int_equal(pith_matcher_mask(m, &bits, NULL), PITH_OK);
    assert_int_equal(allows(bits, END), pith_matcher_may_end(m));
    ok = ok && pith_matcher_may_end(m);
    pith_matcher_close(m);
    return ok;
}

static void json_objects(void **state)
{
    (void)state;
    static const char *const good[] = {"{}",
                                       "{\"a\":1}",
                                       "{\"a\": [1, 2.5e-3, {\"b\": null}]}",
                                       "{\"\\u00e9\\n\":\"\xc3\xa9\"}",
                                       "{\"a\":\"\\ud83d\\ude00\"}",
                                       "{\"a\":-0.5,\"b\":true}"};
    static const char *const bad[] = {"",
                                      "1",
                                      "[]",
                                      "{",
                                      "{\"a\":01}",
                                      "{\"a\":1,}",
                                      "{\"a\":1}x",
                                      "{\"a\":\"\n\"}",
                                      "{\"a\":\"\xc3\"}",
                                      "{\"a\":\"\\ud83d\"}",
                                      "{\"a\":\"\\u0000\"}",
                                      "{\"a\":  1}",
                                      "{\"a\":tru}"};
    struct pith_vocab_bytes *v = bytes_alone();
    struct pith_grammar *g = compile(v, PITH_JSON, NULL);
    for (size_t i = 0; i < PITH_COUNT(good); i++)
        if (!takes(g, good[i], strlen(good[i]))) fail_msg("refused: %s", good[i]);
    for (size_t i = 0; i < PITH_COUNT(bad); i++)
        if (takes(g, bad[i], strlen(bad[i]))) fail_msg("taken: %s", bad[i]);
    pith_grammar_close(g);
    pith_vocab_bytes_close(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_objects),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
