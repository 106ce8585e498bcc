/* What a run will allocate at most, from the same sizes that it allocates by. Mapped files (the
 * input, the output, the activations) are not counted: the kernel drops their pages when it needs
 * memory. */
#include "pipe/job.h"

#include "base/async.h"
#include "base/file.h"
#include "base/mem.h"
#include "pipe/closeness.h"
#include "pipe/inspect.h"
#include "pipe/learn.h"
#include "pipe/output.h"

enum { SAMPLES = 512, HEAP = 256 << 10 };

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Rounding one matrix: the solver's scratch and the codes; afterwards the codes and a comparison;
 * then the codes, their packed form, and what is read back. */
static uint64_t rounding_bytes(const struct pith_job *job, const struct pith_choice *c, bool alone)
{
    const unsigned threads = pith_pool_threads(pith_backend_pool(job->backend));
    const uint64_t q = pith_qmat_bytes(c->rows, c->cols, &c->grid);
    const uint64_t solving = alone ? job->recipe.round->scratch(c->rows, c->cols) : 0;
    uint64_t comparing =
        pith_relative_error_bytes(c->rows, c->cols, threads, job->needs_transform != 0);
    if (pith_job_turns(job)) comparing += (uint64_t)c->rows * c->cols * sizeof(float);
    const double value = job->recipe.split_value;
    const uint64_t kept = pith_round_kept_scratch(job->recipe.split, value, c->rows, c->cols);
    const uint64_t levels = pith_fit_levels_scratch(&c->grid, c->cols, threads);
    const uint64_t beside =
        job->recipe.split->sparse ? 12 * (uint64_t)pith_sparse_count(c->rows, c->cols, value) : 0;
    return larger(larger(solving + kept + levels, comparing) + q, 4 * (q + beside));
}

static uint64_t site_bytes(const struct pith_job *job, uint32_t layer, uint32_t which)
{
    const struct pith_site_spec *site = &pith_job_plan(job, layer)->site[which];
    uint64_t most = 0;
    for (uint32_t i = 0; i < site->count; i++) {
        const struct pith_choice *c = pith_job_choice(job, layer, site->first + i);
        if (c->grid.format || c->prune) most = larger(most, rounding_bytes(job, c, true));
    }
    return most + pith_stats_bytes(site->dim, job->needs_round, 0);
}

/* A block that is rounded as a whole; afterwards its matrices are stored one by one. */
static uint64_t learning_bytes(const struct pith_job *job, uint32_t layer, unsigned threads)
{
    uint64_t most = 0, made = 0;
    for (uint32_t i = 0; i < pith_job_plan(job, layer)->linears; i++) {
        const struct pith_choice *c = pith_job_choice(job, layer, i);
        if (!c->grid.format) continue;
        most = larger(most, rounding_bytes(job, c, false));
        made += pith_qmat_bytes(c->rows, c->cols, &c->grid);
    }
    return larger(most + made, pith_learn_block_bytes(job, layer, threads));
}

/* A transform's scratch for one site, asked by a job that has shapes but no numbers. */
static uint64_t transform_scratch(const struct pith_job *job, uint32_t layer, uint32_t which)
{
    const struct pith_site_spec *site = &pith_job_plan(job, layer)->site[which];
    const struct pith_stats stats = {
        .dim = site->dim,
        .sample_count = SAMPLES,
    };
    struct pith_transform_job site_job = {
        .backend = job->backend,
        .stats = &stats,
        .clip_search = job->recipe.clip,
        .feeds_back = job->needs_transform & PITH_NEED_HESSIAN,
    };
    const struct pith_layer_plan *l = pith_job_plan(job, layer);
    site_job.linear = pith_zalloc(l->linears, sizeof *site_job.linear);
    if (!site_job.linear) return UINT64_MAX / 4; /* too much to say how much */
    site_job.count = pith_plan_group(l, which, NULL);
    uint32_t *member = pith_alloc(site_job.count, sizeof *member);
    (void)pith_plan_group(l, which, member);
    for (uint32_t i = 0; member && i < site_job.count; i++) {
        const struct pith_choice *c = pith_job_choice(job, layer, member[i]);
        site_job.linear[i] = (struct pith_transform_linear){
            .rows = c->rows,
            .cols = c->cols,
            .grid = c->grid,
            .clip = true,
        };
    }
    const uint64_t bytes = member ? job->recipe.transform->scratch(&site_job) : 0;
    pith_free(site_job.linear);
    pith_free(member);
    return bytes;
}

static uint64_t transform_bytes(const struct pith_job *job, uint32_t layer)
{
    const struct pith_layer_plan *l = pith_job_plan(job, layer);
    const uint32_t router = pith_plan_router(l),
                   first = router == PITH_NO_PART ? l->sites : router + 1;
    uint64_t all = 0, one = 0, most = 0;
    for (uint32_t i = 0; i < l->sites; i++) {
        const uint64_t stats = pith_stats_bytes(l->site[i].dim, job->needs_transform, SAMPLES);
        if (i < first) all += stats; /* held together; of the others one after the other */
        else one = larger(one, stats);
        most = larger(most, transform_scratch(job, layer, i));
    }
    return larger(all, one) + most + pith_inspector_bytes(&job->model->shape, job->calib.length);
}

/* Before the work: the tokenizer's file as JSON and as strings, the text's ids. */
static uint64_t loading_bytes(const struct pith_job *job)
{
    uint64_t size = 0;
    int64_t changed;
    char *path = pith_path_join(job->options->model, "tokenizer.json");
    if (path && pith_path_exists(path)) pith_file_stat(path, &size, &changed, NULL);
    pith_free(path);
    return 9 * size + 8ull * sizeof(int32_t) * job->calib.windows * job->calib.length;
}

/* What calibration holds all the time. */
static uint64_t calibration_bytes(const struct pith_job *job, unsigned threads)
{
    return pith_backend_bytes(threads) + (job->fast ? pith_backend_bf16_bytes(threads) : 0) +
           pith_learn_bytes(job, threads) + pith_collector_bytes(job->model, job->calib.length) +
           (uint64_t)job->calib.windows * job->calib.length * sizeof(int32_t) +
           256ull * pith_tokenizer_vocab(job->tokenizer); /* strings, merges, hash tables */
}

/* A block's matrices: as floats, or experts' one after the other, whose codes stay. */
static uint64_t block_bytes(const struct pith_job *job, uint32_t layer)
{
    const struct pith_layer_plan *l = pith_job_plan(job, layer);
    uint64_t floats = pith_block_float_bytes(l), codes = 0, most = 0;
    if (pith_job_whole_layers(job)) return floats;
    for (uint32_t i = 0; i < l->sites; i++) {
        uint64_t one = 0;
        if (l->site[i].expert == PITH_NO_PART) continue;
        for (uint32_t k = 0; k < l->site[i].count; k++) {
            const struct pith_choice *c = pith_job_choice(job, layer, l->site[i].first + k);
            one += (uint64_t)c->rows * c->cols * sizeof(float);
            if (c->grid.format) codes += pith_qmat_bytes(c->rows, c->cols, &c->grid);
        }
        floats -= one;
        most = larger(most, one);
    }
    const uint64_t choices = pith_plan_experts(l) ? 4ull * job->calib.windows * job->calib.length *
                                                        job->model->plans.taken
                                                  : 0;
    return floats + most + codes + choices;
}

uint64_t pith_job_estimate(const struct pith_job *job)
{
    const unsigned threads = pith_pool_threads(pith_backend_pool(job->backend));
    /* The libraries' own, what malloc cannot give back, two jobs beside the work; malloc keeps a
     * heap for each thread. */
    const uint64_t process = (3 << 20) + 2 * PITH_ASYNC_BYTES + (threads + 2ull) * HEAP;
    const uint64_t lists = 2048ull * (job->model->checkpoint->count + job->choice_count * 4);
    uint64_t most = 0, block = 0;
    const uint64_t header = job->container->file ? loading_bytes(job) : 0;
    if (job->convert) return process + lists + larger(header, pith_convert_bytes(job));
    const uint64_t ends = larger(header, pith_stream_end_bytes(job, threads));
    if (pith_job_streams(job))
        return process + lists + larger(ends, pith_stream_bytes(job, threads));
    for (uint32_t layer = 0; layer < job->model->shape.layers; layer++) {
        block = larger(block, block_bytes(job, layer));
        if (pith_job_learns(job)) most = larger(most, learning_bytes(job, layer, threads));
        for (uint32_t i = 0; i < pith_job_plan(job, layer)->sites; i++)
            if (!pith_job_learns(job)) most = larger(most, site_bytes(job, layer, i));
        if (job->needs_transform) most = larger(most, transform_bytes(job, layer));
    }
    const uint64_t turn = pith_job_turns(job) ? pith_turn_scratch(&job->basis, threads) : 0;
    uint64_t work = most + turn + block;
    if (pith_job_turns(job)) work = larger(work, turn + pith_made_bytes(job->model->shape.hidden));
    if (pith_job_calibrates(job))
        work = larger(work + calibration_bytes(job, threads), loading_bytes(job));
    if (pith_job_calibrates(job) && job->ends[PITH_END_EMBED].grid.format)
        work = larger(work, calibration_bytes(job, threads) + ends);
    return process + lists + larger(ends, work);
}
