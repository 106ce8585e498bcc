/* plan/say_ranks.h: what several ranks would take, for a rehearsal and a plan. */
#ifndef PITH_PLAN_SAY_RANKS_H
#define PITH_PLAN_SAY_RANKS_H

#include "report/report.h"

/* The text of "ranks" of a report: {"link": {"bits_per_second", "delay_seconds"}, "why": the reason
 * why there are no rows, or null, "rows": [{"ranks", "seconds_expected", "speedup",
 * "bytes_received_per_block", "limit"}]}; nothing of NULL. */
void pith_ranks_say(struct pith_report *r, const json_t *ranks);

#endif
