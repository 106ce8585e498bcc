/* Grammars over a vocabulary of all bytes and an end, for tests. Include cmocka.h before. */
#ifndef PITH_TESTS_GRAMMARS_H
#define PITH_TESTS_GRAMMARS_H

#include "serve/grammar/grammar.h"

enum { END = 256 };

/* A vocabulary of all bytes, whose ids they are, and an end; for pith_vocab_bytes_close(). */
static inline struct pith_vocab_bytes *bytes_alone(void)
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

/* The grammar of a text, which has to be one; for pith_grammar_close(). */
static inline struct pith_grammar *compile(const struct pith_vocab_bytes *v,
                                           enum pith_constraint kind, const char *text)
{
    struct pith_error err = {0};
    struct pith_grammar *g = NULL;
    const enum pith_status s = pith_grammar_open(v, kind, text, &g, &err);
    if (s != PITH_OK) fail_msg("%s: %s", text, err.text);
    return g;
}

/* Whether a mask has the bit of a token. */
static inline bool allows(const uint64_t *bits, size_t id)
{
    return bits[id / 64] >> (id % 64) & 1;
}

/* Whether a grammar takes a text; on the way masks must agree with what is accepted. */
static inline bool takes(struct pith_grammar *g, const char *text, size_t size)
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

#endif
