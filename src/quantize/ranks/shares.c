#include "quantize/ranks/shares.h"

#include <stddef.h>

/* --- whole linears ---------------------------------------------------------------------------- */

struct weighed {
    const struct pith_layer_plan *l;
    bool (*is)(const void *ctx, uint32_t linear);
    const void *ctx;
};

static uint64_t weights_of(const struct weighed *w, uint32_t i)
{
    return w->is(w->ctx, i) ? (uint64_t)w->l->linear[i].rows * w->l->linear[i].cols : 0;
}

/* The largest that has no owner yet; l->linears when all have one. */
static uint32_t next_largest(const struct weighed *w, const unsigned *owner)
{
    uint32_t best = w->l->linears;
    for (uint32_t i = 0; i < w->l->linears; i++)
        if (owner[i] == PITH_TO_ALL &&
            (best == w->l->linears || weights_of(w, i) > weights_of(w, best)))
            best = i;
    return best;
}

unsigned pith_spread_least(const uint64_t *load, unsigned ranks)
{
    unsigned least = 0;
    for (unsigned k = 1; k < ranks; k++)
        if (load[k] < load[least]) least = k;
    return least;
}

void pith_spread_owners(const struct pith_layer_plan *l,
                        bool (*is)(const void *ctx, uint32_t linear), const void *ctx,
                        unsigned ranks, unsigned *owner)
{
    enum { MOST = 256 };
    const struct weighed w = {l, is, ctx};
    const unsigned most = ranks < MOST ? ranks : MOST;
    uint64_t load[MOST] = {0};
    for (uint32_t i = 0; i < l->linears; i++) {
        const uint32_t expert = l->linear[i].expert;
        owner[i] = expert == PITH_NO_PART ? PITH_TO_ALL : expert % ranks;
        if (expert != PITH_NO_PART && owner[i] < most) load[owner[i]] += weights_of(&w, i);
    }
    for (uint32_t i; (i = next_largest(&w, owner)) < l->linears;) {
        owner[i] = pith_spread_least(load, most);
        load[owner[i]] += weights_of(&w, i);
    }
}

/* --- rows ------------------------------------------------------------------------------------- */

/* Linears on their way to ranks. */
struct way {
    const struct pith_spread_part *l;
    uint32_t linears, *first;
    unsigned ranks;
};

/* The next rank has rows of linear i from `row` on. */
static bool next_rank(const struct way *s, uint32_t i, unsigned *rank, uint32_t row)
{
    if (++*rank == s->ranks) return false;
    s->first[(size_t)i * (s->ranks + 1) + *rank] = row;
    return true;
}

/* Gives ranks as much as `level` each, one after the other; false when something remains. */
static bool fill(const struct way *s, uint64_t level)
{
    unsigned rank = 0;
    uint64_t used = 0;
    for (uint32_t i = 0; i < s->linears; i++) {
        uint32_t *first = s->first + (size_t)i * (s->ranks + 1), row = 0;
        const uint32_t rows = s->l[i].rows, unit = s->l[i].unit;
        for (unsigned k = 0; k <= rank; k++) first[k] = 0;
        while (row < rows) {
            const uint64_t room = level - used;
            uint64_t take = rows - row;
            if (take > room) take = unit ? room / unit * unit : 0;
            row += (uint32_t)take;
            used += take;
            if (row == rows) break;
            if (!next_rank(s, i, &rank, row)) return false;
            used = 0;
        }
        for (unsigned k = rank + 1; k <= s->ranks; k++) first[k] = rows;
    }
    return true;
}

void pith_spread_rows(const struct pith_spread_part *l, uint32_t linears, unsigned ranks,
                      uint32_t *first)
{
    const struct way s = {l, linears, first, ranks};
    uint64_t low = 0, high = 0;
    for (uint32_t i = 0; i < linears; i++) high += l[i].rows;
    while (low + 1 < high) { /* the least that takes all */
        const uint64_t level = low + (high - low) / 2;
        if (fill(&s, level)) high = level;
        else low = level;
    }
    (void)fill(&s, high);
}

void pith_spread_whole(uint32_t rows, unsigned ranks, unsigned owner, uint32_t *first)
{
    for (unsigned k = 0; k <= ranks; k++) first[k] = k > owner ? rows : 0;
}

unsigned pith_rows_owner(const uint32_t *first, unsigned ranks)
{
    for (unsigned k = 0; k < ranks; k++)
        if (first[k] == 0 && first[k + 1] == first[ranks]) return k;
    return PITH_TO_ALL;
}

bool pith_rows_some(const uint32_t *first, uint32_t linears, unsigned ranks, unsigned rank)
{
    for (uint32_t i = 0; i < linears; i++) {
        const uint32_t *own = first + (size_t)i * (ranks + 1) + rank;
        if (own[0] < own[1]) return true;
    }
    return false;
}

unsigned pith_rows_workers(const uint32_t *first, uint32_t linears, unsigned ranks)
{
    unsigned n = 0;
    for (unsigned k = 0; k < ranks; k++) n += pith_rows_some(first, linears, ranks, k);
    return n;
}
