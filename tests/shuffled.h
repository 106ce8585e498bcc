/* tests/shuffled.h: act-order groups for a quantized matrix. */
#ifndef PITH_TESTS_SHUFFLED_H
#define PITH_TESTS_SHUFFLED_H

#include "base/mem.h"
#include "base/rng.h"
#include "num/qmat.h"
#include "test.h"

/* Columns belong to groups at random, as many to each. */
static inline void shuffle_groups(struct pith_qmat *q)
{
    struct pith_rng r;
    pith_rng_seed(&r, q->cols + 1);
    q->g_idx = pith_alloc(q->cols, sizeof *q->g_idx);
    assert_non_null(q->g_idx);
    for (uint32_t c = 0; c < q->cols; c++) q->g_idx[c] = c / q->group;
    for (uint32_t c = q->cols; c-- > 1;) {
        const uint32_t other = (uint32_t)pith_rng_below(&r, c + 1), g = q->g_idx[c];
        q->g_idx[c] = q->g_idx[other];
        q->g_idx[other] = g;
    }
}

#endif
