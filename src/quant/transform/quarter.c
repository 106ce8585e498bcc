/* quant/transform/quarter.c, made up: AWQ's scaling without its search. Column j of the linears is
 * multiplied by s_j = (mean |x_j|)^(1/4), and its input divided by it. */
#include "base/mem.h"
#include "quant/tables.h"
#include "quant/transform/fold.h"

#include <math.h>

static enum pith_status run(const struct pith_transform_job *job, float *s,
                            struct pith_transform_report *report, struct pith_error *err)
{
    *report = (struct pith_transform_report){.ratio = 0.25};
    PITH_TRY(pith_fold_check(job, "quarter", err));
    const bool possible = pith_fold_possible(job) && !pith_fold_tied(job);
    for (uint32_t c = 0; c < job->linear[0].cols; c++) {
        const float mean = job->stats->absmean[c];
        s[c] = possible && mean > 0.0f && isfinite(mean) ? powf(mean, 0.25f) : 1.0f;
    }
    if (!possible) return PITH_OK;
    pith_fold_settle(job, s);
    pith_fold_scale(job, s);
    pith_fold_divide(job, s);
    return PITH_OK;
}

static uint64_t scratch(const struct pith_transform_job *job)
{
    (void)job;
    return 0;
}

const struct pith_transform pith_transform_quarter = {
    .name = "quarter",
    .summary = "columns times the fourth root of their input's mean magnitude",
    .needs = PITH_NEED_ABSMEAN,
    .run = run,
    .scratch = scratch,
};
