#include "quant/tables.h"

enum pith_status pith_transform_nothing(const struct pith_transform_job *job, float *s,
                                        struct pith_transform_report *report,
                                        struct pith_error *err)
{
    (void)err;
    for (uint32_t i = 0; job->count > 0 && i < job->linear[0].cols; i++) s[i] = 1.0f;
    *report = (struct pith_transform_report){0};
    return PITH_OK;
}

uint64_t pith_transform_no_scratch(const struct pith_transform_job *job)
{
    (void)job;
    return 0;
}

const struct pith_transform pith_transform_none = {
    .name = "none",
    .summary = "weights stay as they are",
    .run = pith_transform_nothing,
    .scratch = pith_transform_no_scratch,
};
