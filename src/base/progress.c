#include "base/progress.h"

enum pith_status pith_progress_step(const struct pith_progress *p, const char *what, double done,
                                    double total, struct pith_error *err)
{
    if (!p || !p->fn || p->fn(p->ctx, what, done, total) == 0) return PITH_OK;
    return pith_fail(err, PITH_INTERRUPTED, "interrupted");
}
