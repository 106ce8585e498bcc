/* quant/round/row_groups.h: a matrix whose groups of rows have separate statistics is rounded a
 * group at a time. */
#ifndef PITH_QUANT_ROUND_ROW_GROUPS_H
#define PITH_QUANT_ROUND_ROW_GROUPS_H

#include "quant/round.h"

/* All rows, by as many calls of the rounder's part() as job->stats has views; q is what
 * pith_round_begin() made, and stays the caller's; NULL: without a grid, in place. The report's
 * losses are of a mean row, its damping and dead inputs the worst. PITH_UNSUPPORTED for several
 * views where rows do not stand alone: scales that rows share, scales that are quantized again,
 * weights off the grid, groups in another order. */
enum pith_status pith_round_parts(const struct pith_rounder *rounder,
                                  const struct pith_round_job *job, struct pith_qmat *q,
                                  struct pith_round_report *report, struct pith_error *err);

#endif
