/* base/progress.h: how long work tells what it is doing, and how it is asked to stop. */
#ifndef PITH_BASE_PROGRESS_H
#define PITH_BASE_PROGRESS_H

#include <pith/progress.h>

#include "base/status.h"

/* Reports `done` of `total` units of `what`; p may be NULL. PITH_INTERRUPTED when the listener asks
 * to stop, PITH_OK otherwise. */
enum pith_status pith_progress_step(const struct pith_progress *p, const char *what, double done,
                                    double total, struct pith_error *err);

#endif
