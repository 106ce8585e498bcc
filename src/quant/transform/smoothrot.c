/* quant/transform/smoothrot.c: rotations and smoothing together (as SmoothRot does, Czako et al.
 * 2025, where rotations are done online).
 *
 * What can be folded into the weights is rotated ("rotate:folded"), so that no engine has to know
 * anything of it: each head's values, and the residual stream, so that no channel of what q, k, v,
 * gate and up read stands out. What o and down read is smoothed, by the linears before them, and so
 * is what norms give where the stream cannot be rotated.
 *
 * The option is that of smooth, "search" without; or "online": what down reads is then rotated
 * online, and the rest is as with "search". */
#include "quant/tables.h"

#include <string.h>

static const double ONLINE = -3.0; /* none of the values of smooth */

static enum pith_status option(const char *text, double *value, struct pith_error *err)
{
    const bool online = strcmp(text, "online") == 0;
    const char *smooth = text[0] && !online ? text : "search";
    const enum pith_status s = pith_transform_smooth.option(smooth, value, err);
    if (online) *value = ONLINE;
    return s;
}

/* What rotate chooses with that option. */
static struct pith_basis_plan rotated(const char *how, const struct pith_basis_plan *widths)
{
    struct pith_basis_plan plan = *widths;
    double value = 0.0;
    if (pith_transform_rotate.option(how, &value, NULL) == PITH_OK)
        pith_transform_rotate.basis(value, &plan);
    return plan;
}

static void basis(double value, struct pith_basis_plan *plan)
{
    *plan = rotated("folded", plan);
    if (plan->fixed) plan->stream = 0;
    if (value == ONLINE) plan->down = rotated("", plan).down;
}

/* The same job of smooth. */
static struct pith_transform_job smoothing(const struct pith_transform_job *job)
{
    struct pith_transform_job as = *job;
    if (job->value == ONLINE) (void)pith_transform_smooth.option("search", &as.value, NULL);
    return as;
}

static enum pith_status run(const struct pith_transform_job *job, float *s,
                            struct pith_transform_report *report, struct pith_error *err)
{
    const struct pith_transform_job as = smoothing(job);
    return pith_transform_smooth.run(&as, s, report, err);
}

static uint64_t scratch(const struct pith_transform_job *job)
{
    const struct pith_transform_job as = smoothing(job);
    return pith_transform_smooth.scratch(&as);
}

const struct pith_transform pith_transform_smoothrot = {
    .name = "smoothrot",
    .summary = "rotate:folded, and smooth:search of what o and down read (smoothrot:ALPHA, :auto), "
               "or down's inputs rotated online (:online)",
    .needs = PITH_NEED_RANGE | PITH_NEED_SAMPLES,
    .option = option,
    .basis = basis,
    .run = run,
    .scratch = scratch,
};
