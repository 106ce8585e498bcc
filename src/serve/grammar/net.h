/* serve/grammar/net.h: a network of rules: automata over bytes whose edges may also call a rule and
 * go on where it ends. Rules may call each other in a circle.
 *
 * What is built is not checked at every step: a failure is remembered, and reported by
 * pith_net_finish(). */
#ifndef PITH_SERVE_GRAMMAR_NET_H
#define PITH_SERVE_GRAMMAR_NET_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Calls that a text may be within. */
enum { PITH_NET_DEPTH = 256 };
/* Nodes and edges of a network, at most. */
enum { PITH_NET_MOST = 1 << 21 };
#define PITH_NET_NEVER UINT32_MAX

enum pith_net_kind { PITH_NET_BYTES, PITH_NET_EMPTY, PITH_NET_CALL };

struct pith_net_edge {
    uint32_t to, next; /* next edge of the node, 0: none */
    uint32_t rule;     /* of a call */
    uint8_t lo, hi;    /* of bytes */
    uint8_t kind;
};
struct pith_net_node {
    uint32_t edge; /* first, 0: none */
    uint32_t need; /* calls that the rest of its rule is within, at least; PITH_NET_NEVER: no way */
    bool final;    /* its rule ends here */
};
struct pith_net_rule {
    uint32_t start, final;
};

struct pith_net {
    struct pith_net_node *node;
    struct pith_net_edge *edge; /* [0] is none */
    struct pith_net_rule *rule;
    uint32_t nodes, edges, rules;
    size_t node_cap, edge_cap, rule_cap;
    enum pith_status failed; /* PITH_OK, PITH_NOMEM, PITH_LIMIT */
    uint8_t class_of[256];   /* bytes that no edge distinguishes; set by pith_net_finish() */
    uint8_t sample[256];     /* a byte of each class */
    uint32_t classes;
    bool used[256]; /* by byte: it may stand in a text */
};

/* A new node; a new rule with its start and its end. After a failure: 0. */
uint32_t pith_net_add(struct pith_net *n);
uint32_t pith_net_add_rule(struct pith_net *n);

/* Ways from a node to another: by a byte of lo..hi; by nothing; by all that a rule takes; by a
 * text.
 */
void pith_net_bytes(struct pith_net *n, uint32_t from, uint8_t lo, uint8_t hi, uint32_t to);
void pith_net_empty(struct pith_net *n, uint32_t from, uint32_t to);
void pith_net_call(struct pith_net *n, uint32_t from, uint32_t rule, uint32_t to);
void pith_net_text(struct pith_net *n, uint32_t from, const char *text, size_t len, uint32_t to);

/* Finds classes and needs; bytes that are not `usable` are used nowhere. PITH_FORMAT when a rule
 * calls itself before it has taken a byte, or nothing satisfies `root`. */
enum pith_status pith_net_finish(struct pith_net *n, uint32_t root, const bool usable[256],
                                 struct pith_error *err);
void pith_net_free(struct pith_net *n);
size_t pith_net_size(const struct pith_net *n);

#endif
