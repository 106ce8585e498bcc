/* serve/grammar/chars.h: sets of texts over characters (code points), as automata in which every
 * character leads to one state at most. */
#ifndef PITH_SERVE_GRAMMAR_CHARS_H
#define PITH_SERVE_GRAMMAR_CHARS_H

#include "serve/grammar/net.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PITH_CHARS_LAST 0x10ffffu
#define PITH_CHARS_NO_LIMIT UINT32_MAX

struct pith_chars_edge {
    uint32_t lo, hi, to;
};
struct pith_chars_state {
    uint32_t first, count; /* its edges, in order of characters */
    bool final;
};
/* State 0 is the start; no states: no text. Start with {0}. */
struct pith_chars {
    struct pith_chars_state *state;
    struct pith_chars_edge *edge;
    uint32_t states, edges;
    size_t state_cap, edge_cap;
};
void pith_chars_free(struct pith_chars *c);

/* All texts of min..max characters. Here and below *out is empty before, and after a failure;
 * PITH_LIMIT when there would be too many states. */
enum pith_status pith_chars_length(uint32_t min, uint32_t max, struct pith_chars *out,
                                   struct pith_error *err);
/* What an expression matches: as a whole, or (search) anywhere in a text. PITH_FORMAT and
 * PITH_UNSUPPORTED say where. */
enum pith_status pith_chars_regex(const char *pattern, bool search, struct pith_chars *out,
                                  struct pith_error *err);
/* A pattern of a schema, found anywhere; it may begin with ^ and assertions of what follows
 * (look-aheads). */
enum pith_status pith_chars_pattern(const char *pattern, struct pith_chars *out,
                                    struct pith_error *err);
/* Some texts of well-formed UTF-8. */
enum pith_status pith_chars_words(const char *const *word, size_t count, struct pith_chars *out,
                                  struct pith_error *err);
/* Leaves of *c the texts that are texts of `by` too (keep), or those that are not; after a failure
 * *c is as it was. */
enum pith_status pith_chars_sift(struct pith_chars *c, const struct pith_chars *by, bool keep,
                                 struct pith_error *err);
/* Whether a text of well-formed UTF-8 is one of them; whether there is any text. */
bool pith_chars_has(const struct pith_chars *c, const char *text);
bool pith_chars_any(const struct pith_chars *c);
/* Takes away what leads to no text; frees all after a failure. */
enum pith_status pith_chars_trim(struct pith_chars *c, struct pith_error *err);
/* Characters of the longest text; PITH_CHARS_NO_LIMIT: there is none. */
enum pith_status pith_chars_longest(const struct pith_chars *c, uint32_t *out,
                                    struct pith_error *err);

/* Adds ways from a node to another by each text, in UTF-8; json: as it stands within a JSON string.
 * Where any character may stand, it may be escaped in any way; else only what must be is escaped,
 * in its shortest form. */
void pith_net_chars(struct pith_net *n, uint32_t from, const struct pith_chars *c, bool json,
                    uint32_t to);

/* --- for those that build them ---------------------------------------------------------------- */

/* Nodes with ways by characters, or by nothing. Start with {0}; what fails is remembered. */
struct pith_chars_way {
    uint32_t to, next, lo, hi; /* next: 0 is none; lo > hi: by nothing */
};
struct pith_chars_net {
    struct pith_chars_node {
        uint32_t way;
        bool final, all; /* all: every text goes on from here */
    } * node;
    struct pith_chars_way *way; /* [0] is none */
    uint32_t nodes, ways;
    size_t node_cap, way_cap;
    enum pith_status failed;
};
uint32_t pith_chars_node(struct pith_chars_net *n);
/* lo > hi: by nothing. */
void pith_chars_way(struct pith_chars_net *n, uint32_t from, uint32_t lo, uint32_t hi, uint32_t to);
void pith_chars_net_free(struct pith_chars_net *n);
/* The automaton of what leads from node 0 to a final one. */
enum pith_status pith_chars_settle(const struct pith_chars_net *n, struct pith_chars *out,
                                   struct pith_error *err);

#endif
