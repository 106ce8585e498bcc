/* tok/trie.h: a set of byte strings with a number each, walked byte by byte, so that one walk finds
 * every string that stands at a place of a text.
 *
 * The tree is laid out level by level: the children of a node lie side by side in rising order of
 * their bytes, and those of the next node follow. So a node needs no more than where its children
 * begin, its own byte and its number, and memory is in proportion to the strings whatever they are.
 */
#ifndef PITH_TOK_TRIE_H
#define PITH_TOK_TRIE_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A string to put in. */
struct pith_trie_key {
    const char *text;
    uint32_t len;  /* > 0 */
    int32_t value; /* >= 0 */
};

/* Start with {0}: no strings. */
struct pith_trie {
    uint32_t
        *first; /* [nodes + 1]: the first child of a node; they end where the next one's begin */
    int32_t *value; /* [nodes]: of the string that ends here, -1: none does */
    uint8_t *byte;  /* [nodes]: by which the parent leads here; node 0 is the root */
    uint32_t nodes;
};

/* Builds the tree of `count` strings, all different (PITH_FORMAT), and sorts `key` on the way. */
enum pith_status pith_trie_build(struct pith_trie *t, struct pith_trie_key *key, size_t count,
                                 struct pith_error *err);
void pith_trie_free(struct pith_trie *t);

/* The child of a node by a byte, 0 when there is none. Only for trees with strings. */
static inline uint32_t pith_trie_step(const struct pith_trie *t, uint32_t node, uint8_t byte)
{
    const uint32_t from = t->first[node], to = t->first[node + 1];
    if (to - from > 16) {
        const uint8_t *at = memchr(t->byte + from, byte, to - from);
        return at ? (uint32_t)(at - t->byte) : 0;
    }
    for (uint32_t i = from; i < to; i++)
        if (t->byte[i] == byte) return i;
    return 0;
}

#endif
