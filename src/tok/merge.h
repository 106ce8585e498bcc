/* tok/merge.h: byte-pair encoding of one word: join the best neighbouring pair until none remains.
 * The rule that rates pairs belongs to the caller (a merge list, or the scores of SentencePiece).
 * O(n log n): symbols are a linked list, candidate pairs a heap; stale candidates are dropped when
 * met. */
#ifndef PITH_TOK_MERGE_H
#define PITH_TOK_MERGE_H

#include "base/progress.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A part of the word's text; neighbours by index, -1 at the ends. A symbol with len == 0 has been
 * joined to its left neighbour. */
struct pith_symbol {
    int32_t id;
    uint32_t at, len;
    int32_t prev, next;
};

/* What joining a pair gives, and how early: lower keys first, then the leftmost. */
struct pith_joint {
    uint32_t key;
    int32_t id;
};

struct pith_candidate {
    struct pith_joint joint;
    uint32_t pos, len; /* left symbol, and the bytes that the pair covered when it was rated */
};

/* Scratch of one encoding thread; start with {0}, or with the beat of a listener. */
struct pith_word {
    struct pith_symbol *symbol;
    size_t count, cap;
    struct pith_candidate *heap;
    size_t waiting, heap_cap;
    struct pith_beat beat;
};

/* Rates a pair of neighbours; false when they must not be joined. */
typedef bool pith_pair_fn(const void *rule, const struct pith_symbol *left,
                          const struct pith_symbol *right, struct pith_joint *joint);

/* Forgets the symbols, keeps the memory. */
void pith_word_clear(struct pith_word *w);
/* Appends a symbol of len > 0 bytes; false when memory is out. */
bool pith_word_add(struct pith_word *w, int32_t id, size_t at, size_t len);
/* Joins until no pair remains; survivors are those with len > 0, in order. PITH_NOMEM, or
 * PITH_INTERRUPTED when the listener asks. */
enum pith_status pith_word_merge(struct pith_word *w, pith_pair_fn *rate, const void *rule,
                                 struct pith_error *err);
void pith_word_free(struct pith_word *w);

/* A merge list: (left id, right id) to rank and joined id. Start with {0}. */
struct pith_merges {
    struct pith_merge_slot {
        int32_t left, right; /* left < 0: empty */
        struct pith_joint joint;
    } * slot;
    size_t slots, count;
};

/* Makes room for `count` merges in all; false when memory is out. */
bool pith_merges_reserve(struct pith_merges *m, size_t count);
/* Adds a merge; a pair that is there already takes the new rank. False when memory is out. */
bool pith_merges_add(struct pith_merges *m, int32_t left, int32_t right, struct pith_joint joint);
/* A pith_pair_fn over a struct pith_merges. */
bool pith_merges_rate(const void *merges, const struct pith_symbol *left,
                      const struct pith_symbol *right, struct pith_joint *joint);
/* A mix of all merges with their ranks that does not depend on the order of adding. */
uint64_t pith_merges_mix(const struct pith_merges *m);
void pith_merges_free(struct pith_merges *m);

#endif
