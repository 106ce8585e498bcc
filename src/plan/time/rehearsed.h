/* plan/time/rehearsed.h: which blocks a rehearsal does, and how many of the model each stands for.
 */
#ifndef PITH_PLAN_TIME_REHEARSED_H
#define PITH_PLAN_TIME_REHEARSED_H

#include "model/plan.h"

struct pith_rehearsed {
    uint32_t layer;
    uint32_t like; /* blocks that it stands for, itself among them */
};
enum { PITH_REHEARSED_MOST = 8 };

/* The first block, and the first of each other kind (linears of other shapes, experts where there
 * were none, keys and values that other layers share), in their order; their number. A layer of a
 * kind for which there is no room is taken to be like the first of those that have experts where it
 * has, and none where it has none, else like the first of all. Where kinds have no room and layers
 * read the state of others, which may not be done, it is the first block alone. */
uint32_t pith_rehearsed_blocks(const struct pith_plans *plans,
                               struct pith_rehearsed out[PITH_REHEARSED_MOST]);

#endif
