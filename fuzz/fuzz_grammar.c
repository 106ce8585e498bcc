/* Any bytes as a constraint: the first byte says of which kind, the second how a text is drawn.
 * What is taken has a token to go on with at each place, which it then accepts, and none that it
 * does not. */
#include "serve/grammar/grammar.h"

#include "base/mem.h"
#include "base/rng.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Bytes, some texts that cross the borders of rules, and an end. */
static const char *const texts[] = {"{\"", "\":", "\": \"", "\",\"", "\"}",
                                    "}]}", "ab",  "null,",  "10"};
enum { BYTES = 256, TEXTS = sizeof texts / sizeof texts[0], END = BYTES + TEXTS, MOST_TOKENS = 48 };

static struct pith_vocab_bytes *make_vocab(void)
{
    char text[BYTES + 64];
    uint32_t at[END + 2];
    const int32_t end = END;
    struct pith_vocab_bytes *v = NULL;
    for (uint32_t i = 0; i < BYTES; i++) text[i] = (char)i;
    for (uint32_t i = 0; i <= BYTES; i++) at[i] = i;
    for (size_t i = 0; i < TEXTS; i++) {
        const size_t n = strlen(texts[i]);
        memcpy(text + at[BYTES + i], texts[i], n);
        at[BYTES + i + 1] = at[BYTES + i] + (uint32_t)n;
    }
    at[END + 1] = at[END];
    const struct pith_spelling tokens = {text, at, END + 1};
    if (pith_vocab_bytes_make(&tokens, &end, 1, &v, NULL) != PITH_OK) abort();
    return v;
}

static void walk(struct pith_grammar *g, uint64_t seed)
{
    struct pith_grammar_matcher *m = NULL;
    struct pith_rng rng;
    pith_rng_seed(&rng, seed);
    if (pith_matcher_open(g, &m, NULL) != PITH_OK) abort();
    for (int i = 0; i < MOST_TOKENS; i++) {
        const uint64_t *bits;
        int32_t allowed[END + 1], refused = -1;
        size_t n = 0;
        if (pith_matcher_mask(m, &bits, NULL) != PITH_OK) break; /* too many states */
        for (int32_t id = 0; id <= END; id++) {
            if (bits[id / 64] >> (id % 64) & 1) allowed[n++] = id;
            else if (refused < 0 || pith_rng_below(&rng, 32) == 0) refused = id;
        }
        if (n == 0) abort();
        if (refused >= 0 && pith_matcher_accept(m, refused)) abort();
        const int32_t id = allowed[pith_rng_below(&rng, n)];
        if (!pith_matcher_accept(m, id)) abort();
        if (id == END) break;
    }
    pith_matcher_close(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pith_grammar *g = NULL;
    if (size < 2) return 0;
    struct pith_vocab_bytes *v = make_vocab();
    char *text = pith_alloc(size, 1);
    if (!text) abort();
    memcpy(text, data + 2, size - 2);
    text[size - 2] = '\0';
    const enum pith_constraint kind = data[0] % 2 ? PITH_SCHEMA : PITH_EXPRESSION;
    if (pith_grammar_open(v, kind, text, &g, NULL) == PITH_OK) walk(g, data[1]);
    pith_grammar_close(g);
    pith_free(text);
    pith_vocab_bytes_close(v);
    return 0;
}
