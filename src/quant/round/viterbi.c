#include "quant/round/viterbi.h"

#include <math.h>
#include <string.h>

/* The first pass looks at all weights, from half a tile before the seam on: those within 48 of it
 * leave errors 1% larger, those within 24 2%. */
enum { WEIGHTS = PITH_TRELLIS_WEIGHTS, ABOUT = WEIGHTS / 2, LANES = 16 };

static size_t nodes_of(unsigned bits)
{
    return PITH_TRELLIS_STATES >> bits;
}

void pith_viterbi_table(enum pith_trellis_code code, unsigned bits, float *table)
{
    const size_t nodes = nodes_of(bits);
    for (size_t o = 0; o < nodes; o += LANES)
        for (size_t k = 0; k < (size_t)1 << bits; k++)
            for (size_t i = 0; i < LANES; i++)
                *table++ = pith_trellis_value(code, bits, (uint32_t)(k * nodes + o + i));
}

/* Two rows of costs; the way to each node by step. */
size_t pith_viterbi_bytes(unsigned bits)
{
    return nodes_of(bits) * (2 * sizeof(float) + WEIGHTS);
}

struct walk {
    const struct pith_viterbi *v;
    const float *x;
    size_t nodes;
    float *cost, *next;
    uint8_t *from; /* [WEIGHTS][nodes] */
};

/* Costs of the walks through `count` weights from weight `first` on, that begin in node `start`, or
 * in any (start == nodes). */
static void forward(struct walk *w, size_t first, size_t count, size_t start)
{
    const struct pith_viterbi *v = w->v;
    for (size_t i = 0; i < w->nodes; i++) w->cost[i] = start < w->nodes ? INFINITY : 0.0f;
    if (start < w->nodes) w->cost[start] = 0.0f;
    for (size_t i = 0; i < count; i++) {
        v->kern->trellis_step(v->bits, w->cost, v->table, w->x[(first + i) % WEIGHTS], w->next,
                              w->from + i * w->nodes);
        float *spare = w->cost;
        w->cost = w->next;
        w->next = spare;
    }
}

static size_t cheapest(const struct walk *w)
{
    size_t best = 0;
    for (size_t i = 1; i < w->nodes; i++)
        if (w->cost[i] < w->cost[best]) best = i;
    return best;
}

/* Back from `node` behind step `end` to the node behind step `begin`; the windows on the way, or
 * NULL. */
static size_t back(const struct walk *w, size_t node, size_t end, size_t begin, uint16_t *window)
{
    for (size_t i = end; i > begin; i--) {
        const size_t both = w->from[(i - 1) * w->nodes + node] * w->nodes + node;
        if (window) window[i - 1] = (uint16_t)both;
        node = both >> w->v->bits;
    }
    return node;
}

void pith_viterbi_walk(const struct pith_viterbi *v, const float *x, void *scratch,
                       uint16_t window[PITH_TRELLIS_WEIGHTS])
{
    struct walk w = {.v = v, .x = x, .nodes = nodes_of(v->bits), .cost = scratch};
    w.next = w.cost + w.nodes;
    w.from = (uint8_t *)(void *)(w.next + w.nodes);
    forward(&w, WEIGHTS - ABOUT, 2 * ABOUT, w.nodes);
    const size_t seam = back(&w, cheapest(&w), 2 * ABOUT, ABOUT, NULL);
    forward(&w, 0, WEIGHTS, seam);
    (void)back(&w, seam, WEIGHTS, 0, window);
}
