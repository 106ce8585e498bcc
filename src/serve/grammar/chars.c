#include "serve/grammar/chars.h"

#include "base/grow.h"
#include "base/mem.h"
#include "serve/grammar/intern.h"
#include "tok/unicode/utf8.h"

#include <stdlib.h>
#include <string.h>

/* States of an automaton, at most; nodes and ways of a net. */
enum { MOST_STATES = 1 << 16, MOST_NODES = 1 << 19, MOST_EDGES = 1 << 20 };

static enum pith_status too_large(struct pith_error *err)
{
    return pith_fail(err, PITH_LIMIT, "a text's pattern or length takes more than %d states",
                     MOST_STATES);
}

static bool room(void **array, size_t *cap, uint32_t count, size_t size)
{
    void *p = pith_grow(*array, count, cap, 32, size);
    if (p) *array = p;
    return p != NULL;
}

void pith_chars_free(struct pith_chars *c)
{
    pith_free(c->state);
    pith_free(c->edge);
    *c = (struct pith_chars){0};
}

/* Starts the next state; the edges that follow are its own. */
static enum pith_status add_state(struct pith_chars *c, bool final, struct pith_error *err)
{
    void *p = c->state;
    if (c->states == MOST_STATES) return too_large(err);
    if (!room(&p, &c->state_cap, c->states, sizeof *c->state)) return pith_fail_nomem(err, "text");
    c->state = p;
    c->state[c->states++] = (struct pith_chars_state){.first = c->edges, .final = final};
    return PITH_OK;
}

/* Adds an edge to the last state; one that goes on where the last ended becomes a part of it. */
static enum pith_status add_edge(struct pith_chars *c, uint32_t lo, uint32_t hi, uint32_t to,
                                 struct pith_error *err)
{
    void *p = c->edge;
    struct pith_chars_state *s = &c->state[c->states - 1];
    struct pith_chars_edge *last = s->count ? &c->edge[c->edges - 1] : NULL;
    if (last && last->to == to && last->hi + 1 == lo) {
        last->hi = hi;
        return PITH_OK;
    }
    if (c->edges == MOST_EDGES) return too_large(err);
    if (!room(&p, &c->edge_cap, c->edges, sizeof *c->edge)) return pith_fail_nomem(err, "text");
    c->edge = p;
    c->edge[c->edges++] = (struct pith_chars_edge){lo, hi, to};
    s->count++;
    return PITH_OK;
}

enum pith_status pith_chars_length(uint32_t min, uint32_t max, struct pith_chars *out,
                                   struct pith_error *err)
{
    const bool open = max == PITH_CHARS_NO_LIMIT;
    const uint32_t last = open ? min : max;
    enum pith_status s = min > last ? PITH_OK : add_state(out, min == 0, err);
    if (min > last) return PITH_OK;
    for (uint32_t i = 0; i < last && s == PITH_OK; i++) {
        s = add_edge(out, 0, PITH_CHARS_LAST, i + 1, err);
        if (s == PITH_OK) s = add_state(out, i + 1 >= min, err);
    }
    if (s == PITH_OK && open) s = add_edge(out, 0, PITH_CHARS_LAST, last, err);
    if (s != PITH_OK) pith_chars_free(out);
    return s;
}

/* The edge of a character or, failing that, the first behind it; *at is where to look from. */
static const struct pith_chars_edge *edge_at(const struct pith_chars *c, uint32_t state,
                                             uint32_t cp, uint32_t *at)
{
    const struct pith_chars_state *s = &c->state[state];
    for (; *at < s->count; ++*at)
        if (c->edge[s->first + *at].hi >= cp) return &c->edge[s->first + *at];
    return NULL;
}

/* --- of two ----------------------------------------------------------------------------------- */

struct sifting {
    const struct pith_chars *a, *b;
    bool keep;
    struct pith_interned pairs; /* states of both; of b + 1, 0: none */
    struct pith_chars *out;
};

static enum pith_status sift_edge(struct sifting *s, uint32_t lo, uint32_t hi, uint32_t a,
                                  uint32_t b, struct pith_error *err)
{
    if (s->keep && b == 0) return PITH_OK;
    const uint32_t pair[2] = {a, b}, to = pith_intern(&s->pairs, pair, 2);
    if (to == PITH_INTERN_NONE) return pith_fail_nomem(err, "text");
    return add_edge(s->out, lo, hi, to, err);
}

static enum pith_status sift_state(struct sifting *s, uint32_t a, uint32_t b,
                                   struct pith_error *err)
{
    const bool in_b = b && s->b->state[b - 1].final;
    PITH_TRY(add_state(s->out, s->a->state[a].final && in_b == s->keep, err));
    uint32_t at = 0;
    for (uint32_t i = 0; i < s->a->state[a].count; i++) {
        const struct pith_chars_edge e = s->a->edge[s->a->state[a].first + i];
        for (uint32_t lo = e.lo; lo <= e.hi;) {
            const struct pith_chars_edge *f = b ? edge_at(s->b, b - 1, lo, &at) : NULL;
            uint32_t hi = e.hi, to = 0;
            if (f && f->lo > lo) {
                if (f->lo <= hi) hi = f->lo - 1;
            } else if (f) {
                if (f->hi < hi) hi = f->hi;
                to = f->to + 1;
            }
            PITH_TRY(sift_edge(s, lo, hi, e.to, to, err));
            lo = hi + 1;
        }
    }
    return PITH_OK;
}

enum pith_status pith_chars_sift(struct pith_chars *c, const struct pith_chars *by, bool keep,
                                 struct pith_error *err)
{
    struct pith_chars left = {0};
    struct sifting s = {.a = c, .b = by, .keep = keep, .out = &left};
    const uint32_t start[2] = {0, by->states ? 1 : 0};
    enum pith_status status = PITH_OK;
    if (c->states == 0) return PITH_OK;
    if (pith_intern(&s.pairs, start, 2) != 0) status = pith_fail_nomem(err, "text");
    for (uint32_t i = 0; status == PITH_OK && i < s.pairs.count; i++) {
        size_t n;
        const uint32_t *pair = pith_interned_get(&s.pairs, i, &n);
        status = sift_state(&s, pair[0], pair[1], err);
    }
    pith_interned_free(&s.pairs);
    pith_chars_free(status == PITH_OK ? c : &left);
    if (status == PITH_OK) *c = left;
    return status;
}

bool pith_chars_has(const struct pith_chars *c, const char *text)
{
    uint32_t state = 0;
    if (c->states == 0) return false;
    while (*text) {
        const uint32_t cp = pith_utf8_get(text);
        uint32_t at = 0;
        const struct pith_chars_edge *e = edge_at(c, state, cp, &at);
        if (!e || e->lo > cp) return false;
        state = e->to;
        text += pith_utf8_len(*text);
    }
    return c->state[state].final;
}

bool pith_chars_any(const struct pith_chars *c)
{
    for (uint32_t i = 0; i < c->states; i++)
        if (c->state[i].final) return true; /* every state is reached from the start */
    return false;
}

/* --- from nets -------------------------------------------------------------------------------- */

uint32_t pith_chars_node(struct pith_chars_net *n)
{
    void *p = n->node;
    if (n->failed == PITH_OK && n->nodes == MOST_NODES) n->failed = PITH_LIMIT;
    if (n->failed == PITH_OK && !room(&p, &n->node_cap, n->nodes, sizeof *n->node))
        n->failed = PITH_NOMEM;
    if (n->failed != PITH_OK) return 0;
    n->node = p;
    n->node[n->nodes] = (struct pith_chars_node){0};
    return n->nodes++;
}

void pith_chars_way(struct pith_chars_net *n, uint32_t from, uint32_t lo, uint32_t hi, uint32_t to)
{
    void *p = n->way;
    if (n->ways == 0) n->ways = 1;
    if (n->failed == PITH_OK && n->ways == MOST_EDGES) n->failed = PITH_LIMIT;
    if (n->failed == PITH_OK && !room(&p, &n->way_cap, n->ways, sizeof *n->way))
        n->failed = PITH_NOMEM;
    if (n->failed != PITH_OK) return;
    n->way = p;
    n->way[n->ways] = (struct pith_chars_way){to, n->node[from].way, lo, hi};
    n->node[from].way = n->ways++;
}

void pith_chars_net_free(struct pith_chars_net *n)
{
    pith_free(n->node);
    pith_free(n->way);
    *n = (struct pith_chars_net){0};
}

struct settling {
    const struct pith_chars_net *net;
    struct pith_interned sets; /* nodes, in order */
    uint32_t *found, count;    /* the set that is being made */
    uint32_t *mark, epoch;     /* [nodes] */
    uint32_t *cut;             /* [2 * ways + 2]: where characters begin to differ */
    uint64_t work;             /* nodes looked at, and sorted, for characters */
    struct pith_chars *out;
};
#define MOST_WORK ((uint64_t)1 << 24)

static int by_number(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static void begin(struct settling *s)
{
    s->count = 0;
    s->epoch++;
}

static void add(struct settling *s, uint32_t node)
{
    if (s->mark[node] == s->epoch) return;
    s->mark[node] = s->epoch;
    s->found[s->count++] = node;
}

/* The number of the set with all that it leads to by nothing. Where every text goes on, what else
 * there is says nothing. */
static uint32_t close_set(struct settling *s)
{
    const struct pith_chars_net *n = s->net;
    for (uint32_t i = 0; i < s->count; i++) {
        if (n->node[s->found[i]].all) {
            s->found[0] = s->found[i];
            s->count = 1;
            break;
        }
        for (uint32_t w = n->node[s->found[i]].way; w; w = n->way[w].next)
            if (n->way[w].lo > n->way[w].hi) add(s, n->way[w].to);
    }
    if (s->count) qsort(s->found, s->count, sizeof *s->found, by_number);
    return pith_intern(&s->sets, s->found, s->count);
}

/* Characters at which something begins or ends, in order. */
static size_t find_cuts(struct settling *s, const uint32_t *node, size_t count)
{
    const struct pith_chars_net *n = s->net;
    size_t cuts = 0, unique = 0;
    for (size_t i = 0; i < count; i++)
        for (uint32_t w = n->node[node[i]].way; w; w = n->way[w].next) {
            if (n->way[w].lo > n->way[w].hi) continue;
            s->cut[cuts++] = n->way[w].lo;
            s->cut[cuts++] = n->way[w].hi + 1;
        }
    if (cuts) qsort(s->cut, cuts, sizeof *s->cut, by_number);
    for (size_t i = 0; i < cuts; i++)
        if (i == 0 || s->cut[i] != s->cut[i - 1]) s->cut[unique++] = s->cut[i];
    return unique;
}

static enum pith_status settle_state(struct settling *s, uint32_t set, struct pith_error *err)
{
    const struct pith_chars_net *net = s->net;
    size_t n;
    const uint32_t *node = pith_interned_get(&s->sets, set, &n);
    bool final = false;
    for (size_t i = 0; i < n; i++) final = final || net->node[node[i]].final;
    PITH_TRY(add_state(s->out, final, err));
    const size_t cuts = find_cuts(s, node, n);
    for (size_t i = 0; i + 1 < cuts; i++) {
        const uint32_t lo = s->cut[i];
        node = pith_interned_get(&s->sets, set, &n);
        begin(s);
        for (size_t k = 0; k < n; k++)
            for (uint32_t w = net->node[node[k]].way; w; w = net->way[w].next)
                if (net->way[w].lo <= lo && lo <= net->way[w].hi) add(s, net->way[w].to);
        s->work += n;
        if (s->count == 0) continue;
        const uint32_t to = close_set(s);
        s->work += (uint64_t)s->count * 4;
        if (s->work > MOST_WORK)
            return pith_fail(err, PITH_LIMIT, "a text's pattern takes too much work");
        if (to == PITH_INTERN_NONE) return pith_fail_nomem(err, "text");
        PITH_TRY(add_edge(s->out, lo, s->cut[i + 1] - 1, to, err));
    }
    return PITH_OK;
}

static enum pith_status settle_all(struct settling *s, struct pith_error *err)
{
    enum pith_status status = PITH_OK;
    if (!s->found || !s->mark || !s->cut) return pith_fail_nomem(err, "text");
    begin(s);
    add(s, 0);
    if (close_set(s) != 0) return pith_fail_nomem(err, "text");
    for (uint32_t i = 0; status == PITH_OK && i < s->sets.count; i++)
        status = settle_state(s, i, err);
    return status;
}

enum pith_status pith_chars_settle(const struct pith_chars_net *n, struct pith_chars *out,
                                   struct pith_error *err)
{
    if (n->failed == PITH_LIMIT) return too_large(err);
    if (n->failed != PITH_OK || n->nodes == 0) return pith_fail_nomem(err, "text");
    struct settling s = {.net = n, .out = out};
    s.found = pith_alloc(n->nodes, sizeof *s.found);
    s.mark = pith_zalloc(n->nodes, sizeof *s.mark);
    s.cut = pith_alloc((size_t)n->ways * 2 + 2, sizeof *s.cut);
    const enum pith_status status = settle_all(&s, err);
    pith_interned_free(&s.sets);
    pith_free(s.found);
    pith_free(s.mark);
    pith_free(s.cut);
    if (status != PITH_OK) pith_chars_free(out);
    return status;
}

enum pith_status pith_chars_words(const char *const *word, size_t count, struct pith_chars *out,
                                  struct pith_error *err)
{
    struct pith_chars_net n = {0};
    pith_chars_node(&n);
    for (size_t i = 0; i < count && n.failed == PITH_OK; i++) {
        uint32_t at = 0;
        for (const char *p = word[i]; *p; p += pith_utf8_len(*p)) {
            const uint32_t next = pith_chars_node(&n), cp = pith_utf8_get(p);
            pith_chars_way(&n, at, cp, cp, next);
            at = next;
        }
        if (n.failed == PITH_OK) n.node[at].final = true;
    }
    const enum pith_status s = pith_chars_settle(&n, out, err);
    pith_chars_net_free(&n);
    return s;
}
