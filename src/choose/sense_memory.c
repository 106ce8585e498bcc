#include "base/mem.h"
#include "calib/stages.h"
#include "choose/sense_pass.h"
#include "model/grad/block_grad.h"
#include "model/grad/head_grad.h"
#include "quantize/memory_estimate.h"

/* Bytes that a layer's errors may take at once: of more, the pass back is made again. */
static const uint64_t RESIDENT = (uint64_t)1 << 30;

/* The most that a site's errors take, with a copy of a matrix, its statistics and its rounding. */
static uint64_t site_bytes(const struct pith_job *job, const struct pith_sense *s, uint32_t layer,
                           const struct pith_site_spec *site, unsigned needs)
{
    uint64_t errors = 0, rounding = 0;
    for (uint32_t i = site->first; i < site->first + site->count; i++) {
        const struct pith_choice *c = pith_job_choice(job, layer, i);
        const uint64_t matrix = (uint64_t)c->rows * c->cols * sizeof(float);
        const uint64_t more = matrix + pith_job_rounding_bytes(job, c) +
                              pith_job_made_bytes(job, c);
        errors += matrix * (s->grids + 1);
        if (more > rounding) rounding = more;
    }
    return errors + rounding + pith_stats_bytes(site->dim, needs, 0);
}

/* What the forward and the backward part take in addition to a block. */
static uint64_t through_bytes(const struct pith_job *job)
{
    const struct pith_model *m = job->model;
    const unsigned threads = pith_pool_threads(pith_backend_pool(job->backend));
    return pith_tape_bytes(m, threads, job->calib.length) +
           pith_collector_bytes(m, job->calib.length) +
           job->calib.length * (uint64_t)(m->shape.hidden + pith_plans_carried(&m->plans)) *
               sizeof(float) +
           2ull * PITH_HEAD_ROWS * m->shape.vocab * sizeof(float);
}

/* What ranks take more: a panel of a Hessian, what windows gave of what layers read. */
static uint64_t shared_bytes(const struct pith_job *job, const struct pith_sense *s)
{
    const struct pith_plans *plans = &job->model->plans;
    const uint64_t windows = job->calib.windows / pith_ranks_count(s->ranks) + 3;
    const uint64_t reads =
        s->reads ? plans->most_sites * s->reads->acts_count + 2 * s->reads->kv_count : 0;
    uint64_t panel = 0;
    if (pith_ranks_alone(s->ranks)) return 0;
    for (uint32_t k = 0; k < plans->kinds; k++)
        for (uint32_t i = 0; i < plans->kind[k].sites; i++) {
            const uint64_t dim = plans->kind[k].site[i].dim;
            const uint64_t floats = pith_ranks_panel(pith_ranks_count(s->ranks), dim) * dim;
            if (floats > panel) panel = floats;
        }
    return panel * sizeof(float) + windows * reads * (plans->experts ? 2 : 1) * sizeof(double);
}

uint64_t pith_sense_guide_bytes(const struct pith_job *job)
{
    uint64_t block = 0;
    for (uint32_t l = 0; l < job->model->shape.layers; l++) {
        const uint64_t bytes = pith_block_float_bytes(pith_job_plan(job, l));
        if (bytes > block) block = bytes;
    }
    return block + through_bytes(job);
}

enum pith_status pith_sense_fit(const struct pith_job *job, const struct pith_sense *s,
                                unsigned needs, uint64_t *most, struct pith_error *err)
{
    const struct pith_model *m = job->model;
    const uint64_t limit = job->options->memory;
    const unsigned threads = pith_pool_threads(pith_backend_pool(job->backend));
    uint64_t site = 0, block = 0, transform = 0;
    *most = RESIDENT;
    if (!limit || s->guide) return PITH_OK; /* the guided run was checked against it */
    for (uint32_t l = 0; l < m->shape.layers; l++) {
        const struct pith_layer_plan *plan = pith_job_plan(job, l);
        const uint64_t bytes = pith_block_float_bytes(plan);
        if (bytes > block) block = bytes;
        const uint64_t first = pith_job_transform_bytes(job, l);
        if (first > transform) transform = first;
        for (uint32_t i = 0; i < plan->sites; i++) {
            const uint64_t one = site_bytes(job, s, l, &plan->site[i], needs);
            if (one > site) site = one;
        }
    }
    if (transform > site) site = transform; /* nothing is rounded meanwhile */
    const uint64_t fixed = pith_memory_anonymous() + pith_heap_holes() + block + site +
                           through_bytes(job) + shared_bytes(job, s) +
                           pith_route_work_bytes(m, job->calib.length) +
                           (s->reads ? pith_reads_bytes(s->reads, m, threads) : 0);
    if (fixed > limit)
        return pith_fail(err, PITH_LIMIT,
                         "sensitivities need about %llu MiB and `memory` allows %llu MiB; fewer"
                         " grids to `tries` or a shorter `seq_len` need less",
                         (unsigned long long)(fixed >> 20), (unsigned long long)(limit >> 20));
    if (limit - fixed < *most) *most = limit - fixed;
    return PITH_OK;
}
