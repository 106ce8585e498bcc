/* quant/transform/smoothrot.c: rotations and smoothing together (as SmoothRot does, Czako et al.
 * 2025, where rotations are done online), of what no engine has to know anything.
 *
 * What can be folded into the weights is rotated ("rotate:folded"): the residual stream, so that
 * no channel of what q, k, v, gate and up read stands out, and each head's values. What o and down
 * read is smoothed, by the linears before them. The option is that of smooth, "search" without. */
#include "quant/tables.h"

static enum pith_status option(const char *text, double *value, struct pith_error *err)
{
    return pith_transform_smooth.option(text[0] ? text : "search", value, err);
}

static void basis(double value, struct pith_basis_plan *plan)
{
    double folded = 0.0;
    (void)value;
    if (pith_transform_rotate.option("folded", &folded, NULL) == PITH_OK)
        pith_transform_rotate.basis(folded, plan);
}

/* Behind a norm there is nothing to do: its output is rotated already. */
static const struct pith_transform *stage(const struct pith_transform_job *job)
{
    return job->gain ? &pith_transform_rotate : &pith_transform_smooth;
}

static enum pith_status run(const struct pith_transform_job *job, float *s,
                            struct pith_transform_report *report, struct pith_error *err)
{
    return stage(job)->run(job, s, report, err);
}

static uint64_t scratch(const struct pith_transform_job *job)
{
    return stage(job)->scratch(job);
}

const struct pith_transform pith_transform_smoothrot = {
    .name = "smoothrot",
    .summary = "rotate:folded, and smooth:search of what o and down read (smoothrot:ALPHA, :auto)",
    .needs = PITH_NEED_RANGE | PITH_NEED_SAMPLES,
    .option = option,
    .basis = basis,
    .run = run,
    .scratch = scratch,
};
