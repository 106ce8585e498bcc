/* tok/pairings.h: merges of a vocabulary that comes without a list of them: each way to put a token
 * together of two others is one. Inside tok/ only. */
#ifndef PITH_TOK_PAIRINGS_H
#define PITH_TOK_PAIRINGS_H

#include "base/json.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A token of two others: the first `left` bytes and the rest. */
struct pith_pairing {
    const char *text; /* borrowed; whole characters */
    uint32_t length, left;
    uint32_t left_chars, right_chars;
    uint32_t left_id, right_id;
    uint32_t order; /* the token's place, and its score: the caller's */
    float score;
};
/* Start with {0}. */
struct pith_pairings {
    struct pith_pairing *item;
    size_t count, cap;
};

/* Appends the ways to put a token together of two of a vocabulary, {text: id}; the fields that are
 * not the caller's are set here. False when memory is out. */
bool pith_pairings_add(struct pith_pairings *m, const json_t *vocab,
                       const struct pith_pairing *token);
/* Sorts them and appends them to a list as [left, right]. False when memory is out. */
bool pith_pairings_put(struct pith_pairings *m, int (*compare)(const void *, const void *),
                       json_t *list);
void pith_pairings_free(struct pith_pairings *m);

#endif
