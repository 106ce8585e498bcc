/* plan/time/ranks_report.h: what several ranks would take, in the reports of a rehearsal and of
 * "pith plan --quantize". */
#ifndef PITH_PLAN_TIME_RANKS_REPORT_H
#define PITH_PLAN_TIME_RANKS_REPORT_H

#include "plan/time/ranks_forecast.h"
#include "report/report.h"

enum { PITH_RANKS_ROWS = 8 };
/* So many ranks: the sum of the model's blocks, and what is outside them. */
struct pith_ranks_row {
    struct pith_ranks_forecast blocks, other;
};
struct pith_ranks_report {
    struct pith_cable cable;
    const char *why;                            /* there is no estimate, hence no row; else NULL */
    unsigned blocks;                            /* of the model */
    struct pith_ranks_row row[PITH_RANKS_ROWS]; /* the first is of one rank */
    unsigned rows;
};
/* Adds a row of so many ranks, which the caller fills. NULL when there is no room. */
struct pith_ranks_row *pith_ranks_report_row(struct pith_ranks_report *r, unsigned ranks);

/* Their text: a table, or why there is none. */
void pith_ranks_report_text(struct pith_report *to, const struct pith_ranks_report *r);
/* Their JSON: "ranks": {"link": {"bits_per_second", "delay_seconds"}, "why": text or null, "rows":
 * [{"ranks", "seconds_expected": of the whole run, "speedup", "seconds_per_block", "limit":
 * "repeated" or "link" where that takes longer than what is divided, else "", "bytes_received": in
 * the whole run, "bytes_received_per_block", and the seconds of a block that are "divided",
 * "repeated", "link"}]}. */
void pith_ranks_report_set(struct pith_report *to, const struct pith_ranks_report *r);

#endif
