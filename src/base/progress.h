/* base/progress.h: how long work reports its progress, and how it is stopped. */
#ifndef PITH_BASE_PROGRESS_H
#define PITH_BASE_PROGRESS_H

#include <pith/progress.h>

#include "base/status.h"

/* Reports `done` of `total` units of `what`; p may be NULL. PITH_INTERRUPTED when the listener asks
 * to stop, PITH_OK otherwise. */
enum pith_status pith_progress_step(const struct pith_progress *p, const char *what, double done,
                                    double total, struct pith_error *err);

/* For loops of very many short steps: asks the listener once in a while, so that a call is stopped
 * within a second. Start with {progress}. */
struct pith_beat {
    const struct pith_progress *progress; /* may be NULL */
    unsigned count;
};

static inline enum pith_status pith_beat(struct pith_beat *b, struct pith_error *err)
{
    enum { EVERY = 1 << 14 };
    if (!b->progress || ++b->count % EVERY) return PITH_OK;
    return pith_progress_step(b->progress, "preparing", 0, 1, err);
}

#endif
