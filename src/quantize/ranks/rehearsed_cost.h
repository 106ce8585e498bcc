/* quantize/ranks/rehearsed_cost.h: what several ranks would take, estimated from the phases of a
 * rehearsal by one rank (plan/time/ranks_forecast.h). */
#ifndef PITH_QUANTIZE_RANKS_REHEARSED_COST_H
#define PITH_QUANTIZE_RANKS_REHEARSED_COST_H

#include "plan/time/ranks_report.h"
#include "plan/time/rehearsed.h"
#include "quantize/job.h"
#include "quantize/phases.h"

/* What was measured of a piece of a rehearsal. */
struct pith_rehearsed_time {
    struct pith_phases phases;
    double seconds;           /* of all of it, at least the sum of the phases */
    double hashing, stepping; /* struct pith_run's */
    double guiding;           /* passes of guided rounding, not in a phase */
    double pieces;            /* blocks that were learned together; else 1 */
};
/* Of a block; NULL: what goes before the blocks. */
struct pith_ranks_cost pith_rehearsed_cost(const struct pith_job *job,
                                           const struct pith_rehearsed *block,
                                           const struct pith_rehearsed_time *time);

/* What a rehearsal has found. */
struct pith_rehearsal {
    struct pith_rehearsed block[PITH_REHEARSED_MOST];
    uint32_t count, together;                   /* blocks that are learned together, 1: none */
    double seconds[PITH_REHEARSED_MOST], other; /* of each of them, before */
    struct pith_phases phases;                  /* of a block on average */
    struct pith_ranks_cost cost[PITH_REHEARSED_MOST], before;
};
/* The estimate for 1, 2, 4, ... 64 ranks, of all blocks and what goes before them, to a report: its
 * text; its JSON. */
void pith_rehearsed_text(struct pith_report *to, const struct pith_job *job,
                         const struct pith_rehearsal *all);
void pith_rehearsed_set(struct pith_report *to, const struct pith_job *job,
                        const struct pith_rehearsal *all);

#endif
