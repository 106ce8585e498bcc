/* serve/grammar/grammar.h: answers that have a form: which tokens may come next so that the text
 * stays what a JSON schema, or a regular expression, takes, and can still become whole.
 *
 *     vocabulary (once a tokenizer) -> grammar (once a constraint) -> matcher (one an answer)
 *
 * A grammar is a network of byte automata that call each other (src/serve/grammar/net.h); what an
 * answer may still become is a set of places with the calls that each must return to. The text is
 * that of the tokens in the middle of a text: no space is dropped in front of the first.
 *
 * What of JSON Schema and of regular expressions is taken, and in which form JSON is written, says
 * docs/constraints.md. */
#ifndef PITH_SERVE_GRAMMAR_GRAMMAR_H
#define PITH_SERVE_GRAMMAR_GRAMMAR_H

#include "tok/tokenizer.h"

#include <pith/engine.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pith_vocab_bytes;
struct pith_grammar;
struct pith_grammar_matcher;

/* The bytes of every token, as a tree; immutable, any number of threads may use it. vocab: columns
 * of the model's logits; ids beyond the tokenizer's are never allowed. ends: tokens that end an
 * answer; they are allowed where the text may end, and nowhere else. Special tokens are never
 * allowed otherwise. A byte that is no token by itself is not used, so that there is always a
 * token that goes on. PITH_UNSUPPORTED: what a token becomes depends on its neighbours. */
enum pith_status pith_vocab_bytes_open(const struct pith_tokenizer *t, size_t vocab,
                                       const int32_t *ends, size_t end_count,
                                       struct pith_vocab_bytes **out, struct pith_error *err);
/* The same of given bytes: token i is text[at[i]] .. text[at[i + 1]], at[vocab + 1]; empty: none.
 */
struct pith_spelling {
    const char *text;
    const uint32_t *at;
    size_t vocab;
};
enum pith_status pith_vocab_bytes_make(const struct pith_spelling *tokens, const int32_t *ends,
                                       size_t end_count, struct pith_vocab_bytes **out,
                                       struct pith_error *err);
void pith_vocab_bytes_close(struct pith_vocab_bytes *v);
size_t pith_vocab_bytes_size(const struct pith_vocab_bytes *v); /* bytes of memory */

/* Compiles a constraint; v is borrowed for its life. text: NUL-terminated; NULL for PITH_JSON. May
 * be called from any thread; a grammar and its matchers are then used by one thread at a time.
 * PITH_FORMAT: not a schema, not an expression, or nothing satisfies it; PITH_UNSUPPORTED: a
 * keyword or construct that is not supported, by its name and place; PITH_LIMIT: too large. */
enum pith_status pith_grammar_open(const struct pith_vocab_bytes *v, enum pith_constraint kind,
                                   const char *text, struct pith_grammar **out,
                                   struct pith_error *err);
/* After the last of its matchers is closed. */
void pith_grammar_close(struct pith_grammar *g);
size_t pith_grammar_size(const struct pith_grammar *g); /* bytes of memory, tables of states too */

/* One answer, at its start; g is borrowed. */
enum pith_status pith_matcher_open(struct pith_grammar *g, struct pith_grammar_matcher **out,
                                   struct pith_error *err);
/* Which ids may come next: *bits [(vocab + 63) / 64], valid until the next call for this matcher.
 * At least one is set. PITH_NOMEM, PITH_LIMIT: the tables of states do not fit. */
enum pith_status pith_matcher_mask(struct pith_grammar_matcher *m, const uint64_t **bits,
                                   struct pith_error *err);
/* Goes on by a token. False: it is not allowed (or memory is out), and nothing has changed. An end
 * that is allowed changes nothing. */
bool pith_matcher_accept(struct pith_grammar_matcher *m, int32_t id);
/* Whether nothing but an end can follow, and whether one can. */
bool pith_matcher_done(const struct pith_grammar_matcher *m);
bool pith_matcher_may_end(const struct pith_grammar_matcher *m);
void pith_matcher_close(struct pith_grammar_matcher *m);

#endif
