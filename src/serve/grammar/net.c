#include "serve/grammar/net.h"

#include "base/grow.h"

#include <string.h>

/* Room for one more of an array whose elements are `size` bytes; false, remembered, when there is
 * none. */
static bool more(struct pith_net *n, void **array, size_t *cap, uint32_t count, size_t size)
{
    if (n->failed != PITH_OK) return false;
    if (count < *cap) return true;
    if (count >= PITH_NET_MOST) {
        n->failed = PITH_LIMIT;
        return false;
    }
    void *p = pith_grow(*array, count, cap, 256, size);
    if (!p) {
        n->failed = PITH_NOMEM;
        return false;
    }
    *array = p;
    return true;
}

uint32_t pith_net_add(struct pith_net *n)
{
    void *p = n->node;
    if (!more(n, &p, &n->node_cap, n->nodes, sizeof *n->node)) return 0;
    n->node = p;
    n->node[n->nodes] = (struct pith_net_node){.need = PITH_NET_NEVER};
    return n->nodes++;
}

uint32_t pith_net_add_rule(struct pith_net *n)
{
    const uint32_t start = pith_net_add(n), final = pith_net_add(n);
    void *p = n->rule;
    if (!more(n, &p, &n->rule_cap, n->rules, sizeof *n->rule)) return 0;
    n->rule = p;
    n->node[final].final = true;
    n->rule[n->rules] = (struct pith_net_rule){start, final};
    return n->rules++;
}

static void add_edge(struct pith_net *n, uint32_t from, struct pith_net_edge edge)
{
    void *p = n->edge;
    if (n->edges == 0) n->edges = 1;
    if (!more(n, &p, &n->edge_cap, n->edges, sizeof *n->edge)) return;
    n->edge = p;
    edge.next = n->node[from].edge;
    n->edge[n->edges] = edge;
    n->node[from].edge = n->edges++;
}

void pith_net_bytes(struct pith_net *n, uint32_t from, uint8_t lo, uint8_t hi, uint32_t to)
{
    add_edge(n, from, (struct pith_net_edge){.to = to, .lo = lo, .hi = hi, .kind = PITH_NET_BYTES});
}

void pith_net_empty(struct pith_net *n, uint32_t from, uint32_t to)
{
    if (from != to) add_edge(n, from, (struct pith_net_edge){.to = to, .kind = PITH_NET_EMPTY});
}

void pith_net_call(struct pith_net *n, uint32_t from, uint32_t rule, uint32_t to)
{
    add_edge(n, from, (struct pith_net_edge){.to = to, .rule = rule, .kind = PITH_NET_CALL});
}

void pith_net_text(struct pith_net *n, uint32_t from, const char *text, size_t len, uint32_t to)
{
    if (len == 0) pith_net_empty(n, from, to);
    for (size_t i = 0; i < len && n->failed == PITH_OK; i++) {
        const uint32_t next = i + 1 == len ? to : pith_net_add(n);
        pith_net_bytes(n, from, (uint8_t)text[i], (uint8_t)text[i], next);
        from = next;
    }
}

static void find_classes(struct pith_net *n, const bool usable[256])
{
    bool starts[257] = {true}; /* a class starts at this byte */
    for (uint32_t e = 1; e < n->edges; e++)
        if (n->edge[e].kind == PITH_NET_BYTES)
            starts[n->edge[e].lo] = starts[n->edge[e].hi + 1] = true;
    for (int b = 0; b < 256; b++) {
        n->used[b] = usable[b];
        if (b && usable[b] != usable[b - 1]) starts[b] = true;
        if (starts[b]) n->sample[n->classes++] = (uint8_t)b;
        n->class_of[b] = (uint8_t)(n->classes - 1);
    }
}

/* --- what can be satisfied -------------------------------------------------------------------- */

/* Edges backwards: those that lead to a node, and the calls of a rule; and nodes that wait. */
struct backwards {
    uint32_t *source;   /* [edges]: the node that an edge leaves */
    uint32_t *into;     /* [nodes]: first edge to a node */
    uint32_t *behind;   /* [edges]: next of them */
    uint32_t *caller;   /* [rules]: first call */
    uint32_t *also;     /* [edges]: next of them */
    uint32_t *start_of; /* [nodes]: rule + 1 that starts here, or 0 */
    uint32_t *queue;    /* [nodes], a ring */
    bool *waits;        /* [nodes] */
    uint32_t head, count;
};

static void wait_for(struct pith_net *n, struct backwards *b, uint32_t node, uint32_t need)
{
    if (need > PITH_NET_DEPTH || need >= n->node[node].need) return;
    n->node[node].need = need;
    if (b->waits[node]) return;
    b->waits[node] = true;
    b->queue[(b->head + b->count++) % n->nodes] = node;
}

static bool has_used(const struct pith_net *n, const struct pith_net_edge *e)
{
    for (int byte = e->lo; byte <= e->hi; byte++)
        if (n->used[byte]) return true;
    return false;
}

/* The need of a node that goes on by this edge. */
static uint32_t need_by(const struct pith_net *n, const struct pith_net_edge *e)
{
    const uint32_t need = n->node[e->to].need;
    if (e->kind == PITH_NET_BYTES) return has_used(n, e) ? need : PITH_NET_NEVER;
    if (e->kind == PITH_NET_EMPTY || need == PITH_NET_NEVER) return need;
    const uint32_t within = n->node[n->rule[e->rule].start].need;
    if (within == PITH_NET_NEVER) return within;
    return within + 1 > need ? within + 1 : need;
}

static void link_edges(const struct pith_net *n, struct backwards *b)
{
    for (uint32_t i = 0; i < n->nodes; i++)
        for (uint32_t e = n->node[i].edge; e; e = n->edge[e].next) {
            b->source[e] = i;
            b->behind[e] = b->into[n->edge[e].to];
            b->into[n->edge[e].to] = e;
            if (n->edge[e].kind != PITH_NET_CALL) continue;
            b->also[e] = b->caller[n->edge[e].rule];
            b->caller[n->edge[e].rule] = e;
        }
    for (uint32_t r = 0; r < n->rules; r++) b->start_of[n->rule[r].start] = r + 1;
}

static void find_needs(struct pith_net *n, struct backwards *b)
{
    link_edges(n, b);
    for (uint32_t i = 0; i < n->nodes; i++)
        if (n->node[i].final) wait_for(n, b, i, 0);
    while (b->count) {
        const uint32_t at = b->queue[b->head];
        b->head = (b->head + 1) % n->nodes;
        b->count--;
        b->waits[at] = false;
        for (uint32_t e = b->into[at]; e; e = b->behind[e])
            wait_for(n, b, b->source[e], need_by(n, &n->edge[e]));
        if (!b->start_of[at]) continue;
        for (uint32_t e = b->caller[b->start_of[at] - 1]; e; e = b->also[e])
            wait_for(n, b, b->source[e], need_by(n, &n->edge[e]));
    }
}

/* --- rules that call themselves at once ------------------------------------------------------- */

/* What a rule calls before it has taken a byte: its first calls are listed one by one. */
static uint32_t first_calls(const struct pith_net *n, struct backwards *b, uint32_t rule,
                            uint32_t *out)
{
    uint32_t seen = 1, calls = 0;
    b->queue[0] = n->rule[rule].start;
    b->waits[b->queue[0]] = true;
    for (uint32_t i = 0; i < seen; i++)
        for (uint32_t e = n->node[b->queue[i]].edge; e; e = n->edge[e].next) {
            const struct pith_net_edge *edge = &n->edge[e];
            if (edge->kind == PITH_NET_CALL) out[calls++] = edge->rule;
            if (edge->kind != PITH_NET_EMPTY || b->waits[edge->to]) continue;
            b->waits[edge->to] = true;
            b->queue[seen++] = edge->to;
        }
    for (uint32_t i = 0; i < seen; i++) b->waits[b->queue[i]] = false;
    return calls;
}

/* Takes away, again and again, rules that no other begins with: a circle remains. calls[edges],
 * callers and order[rules] are scratch. */
static bool has_circle(const struct pith_net *n, struct backwards *b, uint32_t *calls,
                       uint32_t *callers, uint32_t *order)
{
    uint32_t done = 0, ready = 0;
    for (uint32_t r = 0; r < n->rules; r++)
        for (uint32_t i = first_calls(n, b, r, calls); i-- > 0;) callers[calls[i]]++;
    for (uint32_t r = 0; r < n->rules; r++)
        if (!callers[r]) order[ready++] = r;
    for (; done < ready; done++)
        for (uint32_t i = first_calls(n, b, order[done], calls); i-- > 0;)
            if (--callers[calls[i]] == 0) order[ready++] = calls[i];
    return done < n->rules;
}

static enum pith_status examine(struct pith_net *n, uint32_t root, struct backwards *b,
                                uint32_t *scratch, struct pith_error *err)
{
    uint32_t *callers = scratch + n->edges, *order = callers + n->rules;
    if (has_circle(n, b, scratch, callers, order))
        return pith_fail(err, PITH_FORMAT,
                         "a part of the schema refers to itself and to nothing "
                         "else");
    find_needs(n, b);
    if (n->node[n->rule[root].start].need == PITH_NET_NEVER)
        return pith_fail(err, PITH_FORMAT, "no text that this vocabulary can write satisfies it");
    return PITH_OK;
}

enum pith_status pith_net_finish(struct pith_net *n, uint32_t root, const bool usable[256],
                                 struct pith_error *err)
{
    if (n->failed == PITH_LIMIT)
        return pith_fail(err, PITH_LIMIT, "the constraint takes more than %d nodes", PITH_NET_MOST);
    if (n->failed != PITH_OK) return pith_fail_nomem(err, "grammar");
    if (n->edges == 0) return pith_fail(err, PITH_FORMAT, "nothing satisfies it");
    find_classes(n, usable);
    /* One block of what both searches need: 3 arrays by edge and 3 by node, 2 by rule, and scratch.
     */
    const size_t words = (size_t)n->edges * 4 + (size_t)n->nodes * 3 + (size_t)n->rules * 3;
    uint32_t *p = pith_zalloc(words, sizeof *p);
    bool *waits = pith_zalloc(n->nodes, sizeof *waits);
    enum pith_status s = PITH_OK;
    if (p && waits) {
        struct backwards b = {.source = p, .behind = p + n->edges, .also = p + 2 * n->edges};
        b.into = p + 3 * n->edges;
        b.start_of = b.into + n->nodes;
        b.queue = b.start_of + n->nodes;
        b.caller = b.queue + n->nodes;
        b.waits = waits;
        s = examine(n, root, &b, b.caller + n->rules, err);
    } else {
        s = pith_fail_nomem(err, "grammar");
    }
    pith_free(p);
    pith_free(waits);
    return s;
}

void pith_net_free(struct pith_net *n)
{
    pith_free(n->node);
    pith_free(n->edge);
    pith_free(n->rule);
    *n = (struct pith_net){0};
}

size_t pith_net_size(const struct pith_net *n)
{
    return n->node_cap * sizeof *n->node + n->edge_cap * sizeof *n->edge +
           n->rule_cap * sizeof *n->rule;
}
