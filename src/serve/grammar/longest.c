/* The longest text of an automaton of characters. */
#include "base/mem.h"
#include "serve/grammar/chars.h"

/* Edges backwards, and states whose edges have all been looked at. */
struct lengths {
    const struct pith_chars *c;
    uint32_t *source, *next; /* [edges]: the state an edge leaves; next edge to the same state */
    uint32_t *into;          /* [states]: first edge to a state, + 1 */
    uint32_t *open;          /* [states]: edges to useful states that are not done */
    uint32_t *longest, *queue;
    bool *useful; /* [states]: it leads to an end */
};

static void link_edges(struct lengths *l)
{
    for (uint32_t i = 0; i < l->c->states; i++)
        for (uint32_t k = 0; k < l->c->state[i].count; k++) {
            const uint32_t e = l->c->state[i].first + k, to = l->c->edge[e].to;
            l->source[e] = i;
            l->next[e] = l->into[to];
            l->into[to] = e + 1;
        }
}

/* Marks what leads to an end; how many states do. */
static uint32_t find_useful(struct lengths *l)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < l->c->states; i++)
        if (l->c->state[i].final) l->useful[i] = true, l->queue[count++] = i;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t e = l->into[l->queue[i]]; e; e = l->next[e - 1]) {
            const uint32_t from = l->source[e - 1];
            l->open[from]++;
            if (l->useful[from]) continue;
            l->useful[from] = true;
            l->queue[count++] = from;
        }
    return count;
}

/* From the ends backwards; what lies on a circle is never done. */
static uint32_t find_longest(struct lengths *l)
{
    const uint32_t useful = find_useful(l);
    uint32_t done = 0;
    for (uint32_t i = 0; i < l->c->states; i++)
        if (l->useful[i] && l->open[i] == 0) l->queue[done++] = i;
    for (uint32_t i = 0; i < done; i++)
        for (uint32_t e = l->into[l->queue[i]]; e; e = l->next[e - 1]) {
            const uint32_t from = l->source[e - 1], n = l->longest[l->queue[i]] + 1;
            if (n > l->longest[from]) l->longest[from] = n;
            if (--l->open[from] == 0) l->queue[done++] = from;
        }
    return done < useful ? PITH_CHARS_NO_LIMIT : useful ? l->longest[0] : 0;
}

static void close_lengths(struct lengths *l)
{
    pith_free(l->source);
    pith_free(l->useful);
}

static enum pith_status open_lengths(const struct pith_chars *c, struct lengths *l,
                                     struct pith_error *err)
{
    const size_t states = c->states, edges = c->edges;
    *l = (struct lengths){.c = c};
    l->source = pith_zalloc(2 * edges + 4 * states + 1, sizeof *l->source);
    l->useful = pith_zalloc(states + 1, sizeof *l->useful);
    if (!l->source || !l->useful) {
        close_lengths(l);
        return pith_fail_nomem(err, "text");
    }
    l->next = l->source + edges;
    l->into = l->next + edges;
    l->open = l->into + states;
    l->longest = l->open + states;
    l->queue = l->longest + states;
    link_edges(l);
    return PITH_OK;
}

enum pith_status pith_chars_longest(const struct pith_chars *c, uint32_t *out,
                                    struct pith_error *err)
{
    struct lengths l;
    PITH_TRY(open_lengths(c, &l, err));
    *out = find_longest(&l);
    close_lengths(&l);
    return PITH_OK;
}

enum pith_status pith_chars_trim(struct pith_chars *c, struct pith_error *err)
{
    struct lengths l;
    const enum pith_status status = open_lengths(c, &l, err);
    if (status != PITH_OK) {
        pith_chars_free(c);
        return status;
    }
    (void)find_useful(&l);
    for (uint32_t i = 0; i < c->states; i++) {
        struct pith_chars_state *s = &c->state[i];
        uint32_t used = 0;
        for (uint32_t k = 0; k < s->count && l.useful[i]; k++)
            if (l.useful[c->edge[s->first + k].to])
                c->edge[s->first + used++] = c->edge[s->first + k];
        s->count = used;
    }
    if (c->states && !l.useful[0]) pith_chars_free(c);
    close_lengths(&l);
    return PITH_OK;
}
