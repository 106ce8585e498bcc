#include "quant/tables.h"

static enum pith_status run(const struct pith_transform_job *job, float *s,
                            struct pith_transform_report *report, struct pith_error *err)
{
    (void)err;
    for (uint32_t i = 0; job->count > 0 && i < job->linear[0].cols; i++) s[i] = 1.0f;
    *report = (struct pith_transform_report){0};
    return PITH_OK;
}

static uint64_t scratch(const struct pith_transform_job *job)
{
    (void)job;
    return 0;
}

const struct pith_transform pith_transform_none = {
    .name = "none",
    .summary = "weights stay as they are",
    .run = run,
    .scratch = scratch,
};
