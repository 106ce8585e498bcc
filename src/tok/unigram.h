/* tok/unigram.h: cuts a text into the tokens whose scores have the largest sum (a unigram language
 * model; Viterbi, 1967).
 *
 * Steps are those of the references, so that equal sums fall alike: places in increasing order, at
 * each the tokens that stand there from short to long, and a way to a place gives way only to a
 * better one. A character at which no token begins may be passed as unknown. */
#ifndef PITH_TOK_UNIGRAM_H
#define PITH_TOK_UNIGRAM_H

#include "base/progress.h"
#include "tok/trie.h"

/* The longest token, in bytes: a text may have to be read so far from each of its places. */
#define PITH_UNIGRAM_PIECE 1024

/* Start with {0}. */
struct pith_unigram {
    struct pith_trie trie; /* values are ids */
    double *score;         /* [largest id + 1], finite */
    uint32_t longest;      /* bytes of the longest token */
    double unk_score;      /* of a character that is passed as unknown */
    int32_t unk; /* the id that unknown characters get; -1: none, texts with some are refused */
    bool narrow; /* sums are floats and counted anew beyond 100,000, as SentencePiece 0.2.3
                    does; else as doubles, as Hugging Face tokenizers */
};

/* Takes the strings of ids with their scores: `count` keys, whose values are below `ids`; sorts
 * `key`. PITH_UNSUPPORTED when one is longer than PITH_UNIGRAM_PIECE. On failure *u is as before or
 * may be freed. */
enum pith_status pith_unigram_build(struct pith_unigram *u, struct pith_trie_key *key, size_t count,
                                    struct pith_error *err);
void pith_unigram_free(struct pith_unigram *u);

struct pith_unigram_way;

/* Scratch of one encoding thread; start with {0}, or with the beat of a listener. */
struct pith_unigram_run {
    struct pith_unigram_way *way;
    size_t cap;
    struct pith_beat beat;
};
void pith_unigram_run_free(struct pith_unigram_run *run);

/* Called for the tokens of a text in order: text[at..at+len) has this id. */
typedef enum pith_status pith_unigram_fn(void *ctx, int32_t id, size_t at, size_t len,
                                         struct pith_error *err);

/* Cuts well-formed text. Time is in proportion to the text times the tokens that stand at a place,
 * memory to the longest stretch that tokens bridge. PITH_FORMAT when a character is unknown and
 * there is no id for that. */
enum pith_status pith_unigram_cut(const struct pith_unigram *u, struct pith_unigram_run *run,
                                  const char *text, size_t len, pith_unigram_fn *fn, void *ctx,
                                  struct pith_error *err);

#endif
