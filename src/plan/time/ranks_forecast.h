/* plan/time/ranks_forecast.h: how long several ranks would take for work that was timed on one
 * rank, or whose time was estimated. One formula, of a block's seconds s and bytes b:
 *
 *     seconds(N) = sum over kinds of work of s * part(N)  +  sum over kinds of traffic of
 *                  8 b * link(N) / bits  +  messages * rounds(N) * delay
 *
 *     work       part(N): of the busiest rank              traffic   link(N)          rounds(N)
 *     windows    ceil(windows / N) / windows               gather    (N - 1) / N      log2 N
 *     batch      the same, of the windows of a step        share     2 (N - 1) / N    2 log2 N
 *     rows       1 / N, at least the largest linear        sum       N = 2: 2, else   N
 *                where linears are not divided                       2.25 + 2 (N - 1) / N
 *     repeated   1: every rank does it                     append    (N - 1) / 2      N
 *                                                                    + 2 (N - 1) / N
 *                                                          deal      (N - 1) / N^2    N - 1
 *
 * Gather: each rank has a part, all get the whole (pith_ranks_share_parts). Share: one rank has it,
 * all get it: halves go down a tree, then parts go round. Sum: partial sums go along the ranks in
 * panels, 8 a rank (pith_ranks_panel), a pipeline of 9 N - 1 steps; the last rank shares the
 * result. Append: each rank adds its rows to those of the ranks before; the last rank shares them.
 * Deal: each rank has rows for every other (experts' tokens).
 *
 * The estimate takes all ranks as equally fast. Waiting for a slow rank, frame headers (4%) and
 * messages of a few bytes are not in it; docs/clusters.md says how near runs came. */
#ifndef PITH_PLAN_TIME_RANKS_FORECAST_H
#define PITH_PLAN_TIME_RANKS_FORECAST_H

#include "base/status.h"

#include <stddef.h>

/* What joins ranks: each rank to all others. */
struct pith_cable {
    double bits;  /* a second, each way */
    double delay; /* seconds that a message is under way */
};
#define PITH_CABLE_DEFAULT "10G,50"
/* "BITS[,MICROSECONDS]", bits a second with K, M, G or T (powers of 1000), delay 50 by default.
 * PITH_ARG for anything else. */
enum pith_status pith_cable_parse(const char *text, struct pith_cable *out, struct pith_error *err);

enum pith_work_kind {
    PITH_WORK_WINDOWS,
    PITH_WORK_BATCH,
    PITH_WORK_ROWS,
    PITH_WORK_REPEATED,
    PITH_WORK_KINDS
};
enum pith_traffic_kind {
    PITH_TRAFFIC_GATHER,
    PITH_TRAFFIC_SHARE,
    PITH_TRAFFIC_SUM,
    PITH_TRAFFIC_APPEND,
    PITH_TRAFFIC_DEAL,
    PITH_TRAFFIC_KINDS
};

/* What a piece of the work, such as a block, costs one rank, and what several would send. */
struct pith_ranks_cost {
    double seconds[PITH_WORK_KINDS];
    size_t windows, batch; /* 0: such work is repeated */
    double largest;        /* part of the rows that one rank has at least, 0 to 1 */
    double bytes[PITH_TRAFFIC_KINDS], messages[PITH_TRAFFIC_KINDS];
};
/* Bytes that go in so many messages; of a sum, a message is a panel on its way to the next rank. */
void pith_ranks_traffic(struct pith_ranks_cost *c, enum pith_traffic_kind kind, double bytes,
                        double messages);
/* Seconds of one rank. */
double pith_ranks_cost_seconds(const struct pith_ranks_cost *c);

enum { PITH_RANKS_MOST = 64 }; /* that are estimated */

/* What so many ranks would take. Begins with ranks (at least 1) and cable, else zero. */
struct pith_ranks_forecast {
    unsigned ranks;
    struct pith_cable cable;
    double divided, repeated, link; /* seconds */
    double received;                /* bytes that reach a rank */
};
/* Adds a piece of work that occurs so many times. */
void pith_ranks_forecast_add(struct pith_ranks_forecast *f, const struct pith_ranks_cost *c,
                             double times);
double pith_ranks_forecast_seconds(const struct pith_ranks_forecast *f);
/* What is in the way of more ranks: "repeated" or "link" where that takes longer than what is
 * divided, else "". */
const char *pith_ranks_limit(const struct pith_ranks_forecast *f);

#endif
