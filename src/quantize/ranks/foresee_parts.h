/* quantize/ranks/foresee_parts.h: bytes that go round, of one crew. Inside quantize/foresee*.c
 * only. */
#ifndef PITH_QUANTIZE_RANKS_FORESEE_PARTS_H
#define PITH_QUANTIZE_RANKS_FORESEE_PARTS_H

#include "plan/time/ranks_stats.h"
#include "quantize/ranks/foresee.h"

/* Something of one rank's, to a single other, or to all (PITH_TO_ALL). */
void pith_foresee_send(struct pith_crew *c, unsigned from, unsigned to, uint64_t bytes);
void pith_foresee_send_matrix(struct pith_crew *c, unsigned from, unsigned to,
                              const struct pith_route_sizes *of);
/* calib/relay.c: samples. */
void pith_foresee_samples(struct pith_crew *c, const struct pith_job *job, size_t dim);

/* calib/sent.c: taken[experts][c->ranks] is memory for counts. */
void pith_foresee_sent(struct pith_crew *c, const struct pith_job *job, const struct pith_routed *r,
                       size_t width, size_t *taken);

/* What goes with units, whatever their steps. */
enum pith_foresee_when {
    PITH_FORESEE_ONCE,    /* before the first unit */
    PITH_FORESEE_LAYER,   /* each block */
    PITH_FORESEE_BETWEEN, /* behind each unit but the last */
};
struct pith_foresee_unit {
    const struct pith_job *job;
    uint32_t layer; /* where it is each block's */
};
void pith_foresee_count(struct pith_crew *c, const struct pith_foresee_unit *u,
                        enum pith_foresee_when when);

#endif
