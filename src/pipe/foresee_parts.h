/* pipe/foresee_parts.h: bytes that go round, of one crew. Inside pipe/foresee*.c only. */
#ifndef PITH_PIPE_FORESEE_PARTS_H
#define PITH_PIPE_FORESEE_PARTS_H

#include "pipe/foresee.h"

/* Something of one rank's, to a single other, or to all (PITH_TO_ALL). */
void pith_foresee_send(struct pith_crew *c, unsigned from, unsigned to, uint64_t bytes);
void pith_foresee_send_matrix(struct pith_crew *c, unsigned from, unsigned to,
                              const struct pith_route_sizes *of);
/* pith_ranks_share_parts(): items that ranks have runs of, `size` bytes each. */
void pith_foresee_parts(struct pith_crew *c, size_t items, uint64_t size);

/* calib/relay.c: what of a site's statistics is no product; products, that take one rank so many
 * seconds; samples. */
void pith_foresee_sums(struct pith_crew *c, size_t dim, unsigned needs, uint32_t views);
struct pith_foresee_products {
    size_t dim;
    unsigned needs;
    uint32_t views;
    double seconds;
};
void pith_foresee_products(struct pith_crew *c, const struct pith_job *job,
                           const struct pith_foresee_products *p);
void pith_foresee_samples(struct pith_crew *c, const struct pith_job *job, size_t dim);

/* calib/sent.c: taken[experts][c->ranks] is memory for counts. */
void pith_foresee_sent(struct pith_crew *c, const struct pith_job *job, const struct pith_routed *r,
                       size_t width, size_t *taken);

/* What goes with units, whatever their steps. */
enum pith_foresee_when {
    PITH_FORESEE_ONCE,    /* before the first unit */
    PITH_FORESEE_UNIT,    /* each unit */
    PITH_FORESEE_LAYER,   /* each block */
    PITH_FORESEE_BETWEEN, /* behind each unit but the last */
};
void pith_foresee_count(struct pith_crew *c, const struct pith_job *job,
                        enum pith_foresee_when when);

#endif
