/* plan/pith_engine.h: what pith's engine holds, by the layouts that it allocates by. */
#ifndef PITH_PLAN_PITH_ENGINE_H
#define PITH_PLAN_PITH_ENGINE_H

#include "plan/capacity.h"

/* Bytes in addition to weights, so many of the cache and the program itself: whole pages of packed
 * matrices, of caches and of work space, gains and biases as floats, registers of the layers'
 * programs, logits, and what each thread works in. */
double pith_own_bytes(const struct pith_deployment *d, double cache);

#endif
