#include "quantize/ranks/rehearsed_cost.h"

#include "plan/time/quantize_time.h"
#include "quantize/stream.h"
#include "quantize/time_estimate.h"

/* --- seconds ---------------------------------------------------------------------------------- */

/* How ranks divide a phase; what kind_of() says of some comes first. */
static const enum pith_work_kind usual[PITH_PHASE_COUNT] = {
    [PITH_PHASE_READ] = PITH_WORK_REPEATED,     [PITH_PHASE_COLLECT] = PITH_WORK_WINDOWS,
    [PITH_PHASE_HESSIAN] = PITH_WORK_WINDOWS,   [PITH_PHASE_TRANSFORM] = PITH_WORK_REPEATED,
    [PITH_PHASE_FACTOR] = PITH_WORK_REPEATED,   [PITH_PHASE_ROUND] = PITH_WORK_ROWS,
    [PITH_PHASE_ERROR] = PITH_WORK_ROWS,        [PITH_PHASE_PACK] = PITH_WORK_ROWS,
    [PITH_PHASE_WRITE] = PITH_WORK_ROWS,        [PITH_PHASE_VERIFY] = PITH_WORK_ROWS,
    [PITH_PHASE_PROPAGATE] = PITH_WORK_WINDOWS, [PITH_PHASE_SYNC] = PITH_WORK_ROWS,
    [PITH_PHASE_REREAD] = PITH_WORK_ROWS,
};

/* Whether each rank reads only what it rounds of a layer, not the whole of it (block.c). */
static bool reads_its_own(const struct pith_job *job)
{
    return job->convert || pith_job_streams(job);
}

/* An expert's search and factors are its owner's; with --gather rank 0 writes all. l NULL: what
 * goes before the blocks, which each rank reads a part of. */
static enum pith_work_kind kind_of(const struct pith_quantize_task *t, const struct pith_job *job,
                                   const struct pith_layer_plan *l, enum pith_phase phase)
{
    const bool writes = phase >= PITH_PHASE_PACK && phase != PITH_PHASE_PROPAGATE;
    const bool factors = l && (pith_plan_experts(l) || pith_quantize_shares_factors(t, l));
    if (writes && job->options->gather) return PITH_WORK_REPEATED;
    if (phase == PITH_PHASE_READ && (!l || reads_its_own(job))) return PITH_WORK_ROWS;
    if (phase == PITH_PHASE_TRANSFORM && pith_quantize_shares_search(t)) return PITH_WORK_ROWS;
    if (phase == PITH_PHASE_FACTOR && factors) return PITH_WORK_ROWS;
    if (phase == PITH_PHASE_ROUND && pith_job_learns(job)) return PITH_WORK_REPEATED;
    return usual[phase];
}

/* A layer of a job. */
struct place {
    const struct pith_job *job;
    uint32_t layer;
};

static uint32_t group_of(const void *ctx, const struct pith_linear_spec *l)
{
    const struct place *p = ctx;
    const ptrdiff_t linear = l - pith_job_plan(p->job, p->layer)->linear;
    return pith_job_choice(p->job, p->layer, (uint32_t)linear)->grid.group;
}

/* What no phase has is repeated. */
struct pith_ranks_cost pith_rehearsed_cost(const struct pith_job *job,
                                           const struct pith_rehearsed *block,
                                           const struct pith_rehearsed_time *time)
{
    const size_t tokens = job->calib.windows * job->calib.length;
    const struct place place = {job, block ? block->layer : 0};
    const struct pith_layer_plan *layer = block ? pith_job_plan(job, block->layer) : NULL;
    struct pith_quantize_task t = pith_expect_task(job, &job->recipe, tokens);
    t.group = group_of;
    t.group_ctx = &place;
    struct pith_ranks_cost c = pith_quantize_cost(&t);
    double rest = time->seconds - time->guiding;
    for (int i = 0; i < PITH_PHASE_COUNT; i++) {
        c.seconds[kind_of(&t, job, layer, (enum pith_phase)i)] += time->phases.seconds[i];
        rest -= time->phases.seconds[i];
    }
    c.seconds[PITH_WORK_WINDOWS] += time->guiding;
    c.seconds[PITH_WORK_REPEATED] += rest > 0 ? rest : 0;
    if (layer && !reads_its_own(job)) { /* parts of phases whose rest is repeated */
        c.seconds[PITH_WORK_REPEATED] -= time->hashing + time->stepping;
        c.seconds[PITH_WORK_ROWS] += time->hashing;
        c.seconds[PITH_WORK_BATCH] += time->stepping;
    }
    for (int i = 0; i < PITH_WORK_KINDS; i++) c.seconds[i] /= time->pieces;
    if (layer) pith_quantize_layer_traffic(&t, layer, &c);
    else pith_quantize_outside_traffic(&t, &c);
    return c;
}

/* --- the report ------------------------------------------------------------------------------- */

/* Why there is no estimate, or NULL. */
static const char *why_not(const struct pith_job *job, const struct pith_rehearsed *block,
                           uint32_t count)
{
    bool routed = !job->model->shape.moe.experts;
    for (uint32_t i = 0; i < count; i++)
        routed |= pith_plan_experts(pith_job_plan(job, block[i].layer)) != NULL;
    return routed ? NULL
                  : "there is no estimate where layers of so many kinds share keys and values";
}

static struct pith_ranks_report report_of(const struct pith_job *job,
                                          const struct pith_rehearsal *all)
{
    struct pith_error ignored;
    struct pith_ranks_report r = {.why = why_not(job, all->block, all->count),
                                  .blocks = job->model->shape.layers};
    const char *link = job->options->link ? job->options->link : PITH_CABLE_DEFAULT;
    (void)pith_cable_parse(link, &r.cable, &ignored); /* checked with the options */
    for (unsigned n = 1; !r.why && n <= PITH_RANKS_MOST; n *= 2) {
        struct pith_ranks_row *row = pith_ranks_report_row(&r, n);
        if (!row) break;
        pith_ranks_forecast_add(&row->other, &all->before, 1);
        for (uint32_t i = 0; i < all->count; i++)
            pith_ranks_forecast_add(&row->blocks, &all->cost[i], all->block[i].like);
    }
    return r;
}

void pith_rehearsed_text(struct pith_report *to, const struct pith_job *job,
                         const struct pith_rehearsal *all)
{
    const struct pith_ranks_report r = report_of(job, all);
    pith_ranks_report_text(to, &r);
}

void pith_rehearsed_set(struct pith_report *to, const struct pith_job *job,
                        const struct pith_rehearsal *all)
{
    const struct pith_ranks_report r = report_of(job, all);
    pith_ranks_report_set(to, &r);
}
