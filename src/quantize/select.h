/* quantize/select.h: which linear gets which grid. */
#ifndef PITH_QUANTIZE_SELECT_H
#define PITH_QUANTIZE_SELECT_H

#include "quantize/job.h"

/* Whether each --override can be read; *needs gains what their grids need. */
enum pith_status pith_select_check(const struct pith_job *job, unsigned *needs,
                                   struct pith_error *err);
/* Fills job->choices from the recipe, --ignore and --override; checks that the container
 * can hold each. PITH_ARG for a pattern that matches no linear. */
enum pith_status pith_job_select(struct pith_job *job, struct pith_error *err);
/* Whether some linear has smaller groups than the recipe's, which do not divide its rows. */
bool pith_job_falls(const struct pith_job *job);
/* Frees what pith_job_select() made, also when it failed half way. */
void pith_job_unselect(struct pith_job *job);

#endif
