/* plan/time/ranks_stats.h: what goes round of a site's statistics, as calib/relay.c passes it. */
#ifndef PITH_PLAN_TIME_RANKS_STATS_H
#define PITH_PLAN_TIME_RANKS_STATS_H

#include "plan/time/ranks_time.h"
#include "quant/stats.h"

/* Those of a site of `dim` inputs that are asked for (enum pith_needs), `views` of each that is
 * guided; but products and samples. */
void pith_crew_sums(struct pith_crew *c, size_t dim, unsigned needs, uint32_t views);
/* Hessians and drifts, of which Hessians take one rank so many seconds in all. */
struct pith_crew_products {
    size_t dim;
    unsigned needs;
    uint32_t views;
    bool whole; /* a Hessian goes as one, not in panels of rows */
    double seconds;
};
void pith_crew_products(struct pith_crew *c, const struct pith_crew_products *p);
/* pith_ranks_share_parts(): items that ranks have runs of, `size` bytes each. */
void pith_crew_parts(struct pith_crew *c, size_t items, uint64_t size);

#endif
