/* tok/trie.h: a set of byte strings with a number each, asked for the longest one that a text
 * starts with. */
#ifndef PITH_TOK_TRIE_H
#define PITH_TOK_TRIE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Start with {0}. */
struct pith_trie {
    struct pith_trie_node {
        uint32_t child, sibling; /* 0: none */
        int32_t value;           /* -1: no string ends here */
        unsigned char byte;
    } * node; /* node 0 is not used: the first level hangs on `root` */
    size_t count, cap;
    uint32_t root[256];
};

/* Adds a string of len > 0 bytes with a value >= 0, unless it is there already. False when memory
 * is out. */
bool pith_trie_add(struct pith_trie *t, const char *text, size_t len, int32_t value);
/* Length of the longest string that text starts with, 0 when there is none; *value is its number.
 */
size_t pith_trie_longest(const struct pith_trie *t, const char *text, size_t len, int32_t *value);
void pith_trie_free(struct pith_trie *t);

#endif
