#include "base/ranks/hops.h"

#include "base/ranks/ranks.h"

enum { SHORT = 64 << 10 }; /* bytes that go whole */

static size_t edge(const struct pith_hops *s, unsigned part)
{
    return s->edges ? s->edges[part] : pith_ranks_cut(s->ranks, part, s->items) * s->size;
}

size_t pith_hops_bytes(const struct pith_hops *s)
{
    return edge(s, s->ranks);
}

static unsigned depth_of(unsigned ranks)
{
    unsigned depth = 0;
    while (ranks > 1u << depth) depth++;
    return depth;
}

static bool goes_whole(const struct pith_hops *s)
{
    return s->ranks == 2 || pith_hops_bytes(s) <= SHORT;
}

unsigned pith_hops_rounds(const struct pith_hops *s)
{
    const unsigned depth = depth_of(s->ranks);
    return s->own || goes_whole(s) ? depth : 2 * depth;
}

/* --- places: ranks counted from the one that has all ------------------------------------------ */

static unsigned rank_at(const struct pith_hops *s, unsigned place)
{
    return (place + s->from) % s->ranks;
}

static unsigned place_of(const struct pith_hops *s, unsigned rank)
{
    return (rank + s->ranks - s->from) % s->ranks;
}

/* A round down the tree goes this far; of the parts that go to all, the round after it. */
static bool is_down(const struct pith_hops *s, unsigned round, unsigned *reach)
{
    const unsigned depth = depth_of(s->ranks);
    const bool down = !s->own && round < depth;
    *reach = down ? 1u << (depth - 1 - round) : 1u << (s->own ? round : round - depth);
    return down;
}

/* Parts that a place has before they go to all, from its own on. */
static unsigned had(const struct pith_hops *s, unsigned place)
{
    const unsigned below = place & (0u - place); /* what hangs on it in the tree */
    if (s->own) return 1;
    if (place == 0) return s->ranks;
    return below < s->ranks - place ? below : s->ranks - place;
}

static void down(const struct pith_hops *s, unsigned reach, unsigned place, struct pith_hop *hop)
{
    const unsigned end = reach < s->ranks - place ? place + reach : s->ranks;
    if (place % (2 * reach) != reach) return;
    hop->from = rank_at(s, place - reach);
    hop->run[0] = goes_whole(s) ? (struct pith_hop_run){0, pith_hops_bytes(s)}
                                : (struct pith_hop_run){edge(s, place), edge(s, end)};
}

static void round_the_end(const struct pith_hops *s, unsigned reach, unsigned place,
                          struct pith_hop *hop)
{
    const unsigned n = s->ranks, known = had(s, place);
    const unsigned from = place + (reach > known ? reach : known);
    const unsigned end = place + (2 * reach < n ? 2 * reach : n);
    if (from >= end) return;
    hop->from = rank_at(s, (place + reach) % n);
    if (from < n) hop->run[0] = (struct pith_hop_run){edge(s, from), edge(s, end < n ? end : n)};
    if (end > n)
        hop->run[1] = (struct pith_hop_run){edge(s, from > n ? from - n : 0), edge(s, end - n)};
}

void pith_hops_in(const struct pith_hops *s, unsigned round, unsigned to, struct pith_hop *hop)
{
    unsigned reach;
    *hop = (struct pith_hop){.from = to};
    if (is_down(s, round, &reach)) down(s, reach, place_of(s, to), hop);
    else round_the_end(s, reach, place_of(s, to), hop);
}

void pith_hops_out(const struct pith_hops *s, unsigned round, unsigned from, struct pith_hop *hop)
{
    unsigned reach;
    const unsigned place = place_of(s, from);
    const bool forth = is_down(s, round, &reach);
    *hop = (struct pith_hop){.from = from};
    if (forth && place + reach >= s->ranks) return;
    const unsigned to = rank_at(s, forth ? place + reach : (place + s->ranks - reach) % s->ranks);
    struct pith_hop there;
    pith_hops_in(s, round, to, &there);
    if (to == from || there.from != from) return;
    *hop = there;
    hop->from = to;
}

static size_t bytes_of(const struct pith_hop *hop)
{
    return hop->run[0].end - hop->run[0].first + hop->run[1].end - hop->run[1].first;
}

bool pith_hops_cross(const struct pith_hop *in, const struct pith_hop *out)
{
    return in->from == out->from && bytes_of(in) > 0 && bytes_of(out) > 0;
}
