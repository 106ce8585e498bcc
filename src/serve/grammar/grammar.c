#include "serve/grammar/grammar.h"

#include "base/grow.h"
#include "base/mem.h"
#include "serve/grammar/build.h"
#include "serve/grammar/state.h"
#include "serve/grammar/vocab.h"

#include <string.h>

/* What a local state allows, whatever its stack is: ids, and the nodes of the vocabulary's tree at
 * which its rule may end while tokens go on. */
struct local_mask {
    uint64_t *bits; /* [words]; NULL: not computed */
    uint32_t *end;
    size_t ends;
};

struct pith_grammar {
    const struct pith_vocab_bytes *vocab;
    struct pith_net net;
    struct pith_states states;
    uint32_t start;
    struct local_mask *mask; /* [masks]: by local state */
    size_t masks, mask_bytes;
    uint64_t limit; /* of states.work */
    uint32_t *end;  /* scratch of a walk */
    size_t ends, end_cap;
    struct pith_grammar_matcher *first; /* all that are open */
    size_t matchers;
};

struct pith_grammar_matcher {
    struct pith_grammar *grammar;
    struct pith_grammar_matcher *next, *before;
    uint32_t state, masked; /* the state that bits are of, or PITH_STATE_DEAD */
    uint64_t *bits;
    enum pith_status failed; /* of the last token: reported by the next mask */
};

/* Masks of local states are forgotten beyond this. */
#define MASK_BYTES ((size_t)64 << 20)

/* All answers wait while a mask is made: what one may take at once, and each one in the mean. Free
 * texts take some 300,000 to 500,000 at a vocabulary of 128,000 tokens, once for a state. */
#define WORK_AT_ONCE ((uint64_t)32 << 20)
#define WORK_OF_A_MASK ((uint64_t)2 << 20)

/* --- masks ------------------------------------------------------------------------------------ */

static bool note_end(struct pith_grammar *g, uint32_t node)
{
    uint32_t *p = pith_grow(g->end, g->ends, &g->end_cap, 256, sizeof *p);
    if (!p) return false;
    g->end = p;
    g->end[g->ends++] = node;
    return true;
}

static void allow(const struct pith_vocab_bytes *v, uint32_t node, uint64_t *bits)
{
    for (uint32_t i = v->node[node].first; i < v->node[node + 1].first; i++)
        bits[v->ids[i] / 64] |= (uint64_t)1 << (v->ids[i] % 64);
}

/* Allows what can follow a state, of the nodes from..to (below one of depth `above`). With `ends`,
 * nodes at which the text may end while tokens go on are noted. */
static bool walk(struct pith_grammar *g, uint32_t state, uint32_t from, uint32_t to, uint64_t *bits,
                 bool ends)
{
    const struct pith_vocab_node *node = g->vocab->node;
    uint32_t at[PITH_TOKEN_BYTES + 1];
    if (from >= to || state == PITH_STATE_DEAD) return g->states.failed == PITH_OK;
    const uint32_t above = (uint32_t)node[from].depth - 1;
    at[0] = state;
    for (uint32_t i = from; i < to;) {
        if (++g->states.work > g->limit) {
            g->states.failed = PITH_LIMIT;
            return false;
        }
        const uint32_t depth = node[i].depth - above;
        const uint32_t next = pith_states_next(&g->states, at[depth - 1], node[i].byte);
        if (next == PITH_STATE_DEAD) {
            i = node[i].skip;
            continue;
        }
        at[depth] = next;
        if (node[i].first != node[i + 1].first) allow(g->vocab, i, bits);
        if (ends && node[i].skip > i + 1 && pith_states_ended(&g->states, next) && !note_end(g, i))
            return false;
        i++;
    }
    return g->states.failed == PITH_OK;
}

static void forget_masks(struct pith_grammar *g)
{
    for (size_t i = 0; i < g->masks; i++) {
        pith_free(g->mask[i].bits);
        pith_free(g->mask[i].end);
        g->mask[i] = (struct local_mask){0};
    }
    g->mask_bytes = 0;
}

/* The mask of a local state; NULL when memory is out. */
static const struct local_mask *local_mask(struct pith_grammar *g, uint32_t local)
{
    const size_t words = g->vocab->words;
    if (local >= g->masks) {
        const size_t masks = (size_t)local * 2 + 64;
        struct local_mask *p = pith_realloc(g->mask, masks, sizeof *p);
        if (!p) return NULL;
        memset(p + g->masks, 0, (masks - g->masks) * sizeof *p);
        g->mask = p;
        g->masks = masks;
    }
    if (g->mask[local].bits) return &g->mask[local];
    if (g->mask_bytes > MASK_BYTES) forget_masks(g);
    struct local_mask m = {.bits = pith_zalloc(words, sizeof *m.bits)};
    const uint32_t state = pith_states_at(&g->states, local, 0);
    g->ends = 0;
    bool ok = m.bits && walk(g, state, 0, g->vocab->nodes, m.bits, true);
    m.end = ok ? pith_alloc(g->ends, sizeof *m.end) : NULL;
    ok = ok && m.end;
    if (!ok) {
        pith_free(m.bits);
        return NULL;
    }
    if (g->ends) memcpy(m.end, g->end, g->ends * sizeof *m.end);
    m.ends = g->ends;
    g->mask_bytes += words * sizeof *m.bits + m.ends * sizeof *m.end;
    g->mask[local] = m;
    return &g->mask[local];
}

/* Allows what a place does: what its local state allows, and what goes on behind the end of its
 * rule. */
static bool allow_place(struct pith_grammar *g, struct pith_place at, uint64_t *bits)
{
    const struct pith_vocab_bytes *v = g->vocab;
    const struct local_mask *m = local_mask(g, at.local);
    if (!m) return false;
    for (size_t i = 0; i < v->words; i++) bits[i] |= m->bits[i];
    if (at.stack == 0 || m->ends == 0) return true;
    const uint32_t back = pith_states_back(&g->states, at.stack);
    bool ok = g->states.failed == PITH_OK;
    for (size_t i = 0; i < m->ends && ok; i++)
        ok = walk(g, back, m->end[i] + 1, v->node[m->end[i]].skip, bits, false);
    return ok;
}

/* Whether a token may reach the depth at which calls end: then what a local state allows alone is
 * too much. */
static bool is_deep(const struct pith_grammar *g, const uint32_t *place, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (pith_states_depth(&g->states, place[2 * i + 1]) + g->states.local[place[2 * i]].need +
                g->vocab->longest >
            PITH_NET_DEPTH)
            return true;
    return false;
}

static bool compute(struct pith_grammar *g, uint32_t state, uint64_t *bits)
{
    size_t count;
    memset(bits, 0, g->vocab->words * sizeof *bits);
    g->limit += WORK_OF_A_MASK;
    if (g->limit > g->states.work + WORK_AT_ONCE) g->limit = g->states.work + WORK_AT_ONCE;
    if (pith_states_ended(&g->states, state))
        memcpy(bits, g->vocab->ends, g->vocab->words * sizeof *bits);
    const uint32_t *place = pith_states_places(&g->states, state, &count);
    if (is_deep(g, place, count)) return walk(g, state, 0, g->vocab->nodes, bits, false);
    for (size_t i = 0; i < count; i++) {
        const struct pith_place at = {place[2 * i], place[2 * i + 1]};
        if (!allow_place(g, at, bits)) return false;
        place = pith_states_places(&g->states, state, &count); /* it may have moved */
    }
    return true;
}

/* When the tables have grown too far: forgets all but where matchers are. */
static enum pith_status make_room(struct pith_grammar *g, struct pith_error *err)
{
    size_t n = 0;
    if (!pith_states_full(&g->states)) return PITH_OK;
    uint32_t **keep = pith_alloc(g->matchers + 1, sizeof *keep);
    if (!keep) return pith_fail_nomem(err, "grammar");
    keep[n++] = &g->start;
    for (struct pith_grammar_matcher *m = g->first; m; m = m->next) {
        m->masked = PITH_STATE_DEAD;
        keep[n++] = &m->state;
    }
    pith_states_forget(&g->states, keep, n);
    pith_free(keep);
    return PITH_OK;
}

static enum pith_status table_failure(enum pith_status s, struct pith_error *err)
{
    return s == PITH_LIMIT
               ? pith_fail(err, s, "the constraint has too many states, or takes too much work")
               : pith_fail_nomem(err, "grammar");
}

/* The failure of the tables, which others can go on after. */
static enum pith_status take_failure(struct pith_grammar *g)
{
    const enum pith_status s = g->states.failed;
    g->states.failed = PITH_OK;
    return s;
}

/* --- the interface ---------------------------------------------------------------------------- */

static enum pith_status compile(struct pith_grammar *g, enum pith_constraint kind, const char *text,
                                struct pith_error *err)
{
    uint32_t root = 0;
    PITH_TRY(pith_grammar_build(&g->net, kind, text, &root, err));
    PITH_TRY(pith_net_finish(&g->net, root, g->vocab->single, err));
    PITH_TRY(pith_states_init(&g->states, &g->net, err));
    g->start = pith_states_start(&g->states, root);
    return g->start == PITH_STATE_DEAD ? table_failure(g->states.failed, err) : PITH_OK;
}

enum pith_status pith_grammar_open(const struct pith_vocab_bytes *v, enum pith_constraint kind,
                                   const char *text, struct pith_grammar **out,
                                   struct pith_error *err)
{
    struct pith_grammar *g = pith_zalloc(1, sizeof *g);
    if (!g) return pith_fail_nomem(err, "grammar");
    g->vocab = v;
    g->limit = WORK_AT_ONCE;
    const enum pith_status s = compile(g, kind, text, err);
    if (s == PITH_OK) *out = g;
    else pith_grammar_close(g);
    return s;
}

void pith_grammar_close(struct pith_grammar *g)
{
    if (!g) return;
    forget_masks(g);
    pith_free(g->mask);
    pith_free(g->end);
    pith_states_free(&g->states);
    pith_net_free(&g->net);
    pith_free(g);
}

size_t pith_grammar_size(const struct pith_grammar *g)
{
    return sizeof *g + pith_net_size(&g->net) + pith_states_size(&g->states) + g->mask_bytes +
           g->masks * sizeof *g->mask + g->end_cap * sizeof *g->end;
}

enum pith_status pith_matcher_open(struct pith_grammar *g, struct pith_grammar_matcher **out,
                                   struct pith_error *err)
{
    struct pith_grammar_matcher *m = pith_zalloc(1, sizeof *m);
    if (m) m->bits = pith_zalloc(g->vocab->words, sizeof *m->bits);
    if (!m || !m->bits) {
        pith_free(m);
        return pith_fail_nomem(err, "matcher");
    }
    m->grammar = g;
    m->state = g->start;
    m->masked = PITH_STATE_DEAD;
    m->next = g->first;
    if (g->first) g->first->before = m;
    g->first = m;
    g->matchers++;
    *out = m;
    return PITH_OK;
}

void pith_matcher_close(struct pith_grammar_matcher *m)
{
    if (!m) return;
    if (m->next) m->next->before = m->before;
    if (m->before) m->before->next = m->next;
    else m->grammar->first = m->next;
    m->grammar->matchers--;
    pith_free(m->bits);
    pith_free(m);
}

enum pith_status pith_matcher_mask(struct pith_grammar_matcher *m, const uint64_t **bits,
                                   struct pith_error *err)
{
    struct pith_grammar *g = m->grammar;
    if (m->failed != PITH_OK) return table_failure(m->failed, err);
    PITH_TRY(make_room(g, err));
    if (m->masked != m->state) {
        m->masked = PITH_STATE_DEAD;
        if (!compute(g, m->state, m->bits)) return table_failure(take_failure(g), err);
        m->masked = m->state;
    }
    *bits = m->bits;
    return PITH_OK;
}

bool pith_matcher_accept(struct pith_grammar_matcher *m, int32_t id)
{
    struct pith_grammar *g = m->grammar;
    const struct pith_vocab_bytes *v = g->vocab;
    uint32_t state = m->state;
    if (id < 0 || (size_t)id >= v->vocab) return false;
    if (v->ends[id / 64] >> (id % 64) & 1) return pith_matcher_may_end(m);
    const uint32_t from = v->at[id], to = v->at[id + 1];
    if (from == to || to - from > PITH_TOKEN_BYTES) return false;
    for (uint32_t i = from; i < to && state != PITH_STATE_DEAD; i++)
        state = pith_states_next(&g->states, state, (uint8_t)v->text[i]);
    if (g->states.failed != PITH_OK) m->failed = take_failure(g);
    if (state == PITH_STATE_DEAD) return false;
    m->state = state;
    return true;
}

bool pith_matcher_may_end(const struct pith_grammar_matcher *m)
{
    return pith_states_ended(&m->grammar->states, m->state);
}

bool pith_matcher_done(const struct pith_grammar_matcher *m)
{
    size_t count;
    pith_states_places(&m->grammar->states, m->state, &count);
    return count == 0;
}
