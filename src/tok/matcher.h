/* tok/matcher.h: a set of byte strings with a number each, to find the longest one that stands at a
 * place of a text.
 *
 * The strings are stored backwards in an automaton (Aho and Corasick, 1975) that runs over the text
 * from its end: a string that it recognizes there begins at that place of the text. One pass
 * answers for every place, in time linear in the text whatever the strings are; trying the strings
 * at each place would take the product of both lengths. */
#ifndef PITH_TOK_MATCHER_H
#define PITH_TOK_MATCHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Start with {0}. */
struct pith_matcher {
    struct pith_matcher_node {
        uint32_t child, sibling; /* 0: none */
        uint32_t shorter;        /* node of the longest proper suffix in the tree, 0: none */
        uint32_t best;           /* nearest of this node and its shorter ones with a value, or 0 */
        uint32_t length;         /* of the string that ends here */
        int32_t value;           /* -1: none does */
        unsigned char byte;
    } * node; /* node 0 is the root */
    size_t count, cap;
    uint32_t first[256]; /* children of the root */
    size_t longest;      /* bytes of the longest string */
};

/* Adds a string of len > 0 bytes with a value >= 0, unless it is there already. False when memory
 * is out or the strings have more than 4 GiB. */
bool pith_matcher_add(struct pith_matcher *m, const char *text, size_t len, int32_t value);
/* To be called once, after the last string and before the first question. False when memory is out.
 */
bool pith_matcher_finish(struct pith_matcher *m);
void pith_matcher_free(struct pith_matcher *m);

/* Questions about one text; start with {.m, .text, .len} and the rest zero. */
struct pith_match_run {
    const struct pith_matcher *m;
    const char *text;
    size_t len;
    size_t from, to; /* the places that `found` answers for */
    uint32_t *found; /* nodes; owned */
    bool failed;     /* memory was out: the answers were 0 */
};

/* Length of the longest string that stands at text[at], 0 when there is none; *value is its number.
 * Fast when places come in rising order. */
size_t pith_match_at(struct pith_match_run *run, size_t at, int32_t *value);
void pith_match_run_free(struct pith_match_run *run);

#endif
