/* What a run will allocate at most, from the same sizes that it allocates by. Mapped files (the
 * input, the output, the activations) are not counted: the kernel drops their pages when it needs
 * memory. */
#include "pipe/run.h"

#include "base/file.h"
#include "base/mem.h"
#include "pipe/closeness.h"
#include "pipe/inspect.h"

enum { SAMPLES = 512, HEAP = 256 << 10 };

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Rounding one matrix: the solver's scratch and the codes; afterwards the codes and a comparison;
 * then the codes, their packed form, and what is read back. */
static uint64_t rounding_bytes(const struct pith_run *r, const struct pith_choice *c, bool alone)
{
    const unsigned threads = pith_pool_threads(pith_backend_pool(r->backend));
    const uint64_t q = pith_qmat_bytes(c->rows, c->cols, &c->grid);
    const uint64_t solving = alone ? r->recipe.round->scratch(c->rows, c->cols) : 0;
    uint64_t comparing =
        pith_relative_error_bytes(c->rows, c->cols, threads, r->needs_transform != 0);
    if (pith_run_turns(r)) comparing += (uint64_t)c->rows * c->cols * sizeof(float);
    const double value = r->recipe.split_value;
    const uint64_t kept = pith_round_kept_scratch(r->recipe.split, value, c->rows, c->cols);
    const uint64_t levels = pith_fit_levels_scratch(&c->grid, c->cols, threads);
    const uint64_t beside =
        r->recipe.split->sparse ? 12 * (uint64_t)pith_sparse_count(c->rows, c->cols, value) : 0;
    return larger(larger(solving + kept + levels, comparing) + q, 4 * (q + beside));
}

static uint64_t site_bytes(const struct pith_run *r, uint32_t layer, uint32_t which)
{
    const struct pith_site_spec *site = &pith_run_plan(r, layer)->site[which];
    uint64_t most = 0;
    for (uint32_t i = 0; i < site->count; i++) {
        const struct pith_choice *c = pith_run_choice(r, layer, site->first + i);
        if (c->grid.format || c->prune) most = larger(most, rounding_bytes(r, c, true));
    }
    return most + pith_stats_bytes(site->dim, r->needs_round, 0);
}

/* A block that is rounded as a whole; afterwards its matrices are stored one by one. */
static uint64_t learning_bytes(const struct pith_run *r, uint32_t layer, unsigned threads)
{
    uint64_t most = 0, made = 0;
    for (uint32_t i = 0; i < pith_run_plan(r, layer)->linears; i++) {
        const struct pith_choice *c = pith_run_choice(r, layer, i);
        if (!c->grid.format) continue;
        most = larger(most, rounding_bytes(r, c, false));
        made += pith_qmat_bytes(c->rows, c->cols, &c->grid);
    }
    return larger(most + made, pith_learn_block_bytes(r, layer, threads));
}

/* A transform's scratch for one site, asked by a job that has shapes but no numbers. */
static uint64_t transform_scratch(const struct pith_run *r, uint32_t layer, uint32_t which)
{
    const struct pith_site_spec *site = &pith_run_plan(r, layer)->site[which];
    const struct pith_stats stats = {
        .dim = site->dim,
        .sample_count = SAMPLES,
    };
    struct pith_transform_job job = {
        .backend = r->backend,
        .stats = &stats,
        .clip_search = r->recipe.clip,
        .feeds_back = r->needs_transform & PITH_NEED_HESSIAN,
    };
    const struct pith_layer_plan *l = pith_run_plan(r, layer);
    job.linear = pith_zalloc(l->linears, sizeof *job.linear);
    if (!job.linear) return UINT64_MAX / 4; /* too much to say how much */
    job.count = pith_plan_group(l, which, NULL);
    uint32_t *member = pith_alloc(job.count, sizeof *member);
    (void)pith_plan_group(l, which, member);
    for (uint32_t i = 0; member && i < job.count; i++) {
        const struct pith_choice *c = pith_run_choice(r, layer, member[i]);
        job.linear[i] = (struct pith_transform_linear){
            .rows = c->rows,
            .cols = c->cols,
            .grid = c->grid,
            .clip = true,
        };
    }
    const uint64_t bytes = member ? r->recipe.transform->scratch(&job) : 0;
    pith_free(job.linear);
    pith_free(member);
    return bytes;
}

static uint64_t transform_bytes(const struct pith_run *r, uint32_t layer)
{
    const struct pith_layer_plan *l = pith_run_plan(r, layer);
    const uint32_t router = pith_plan_router(l),
                   first = router == PITH_NO_PART ? l->sites : router + 1;
    uint64_t all = 0, one = 0, most = 0;
    for (uint32_t i = 0; i < l->sites; i++) {
        const uint64_t stats = pith_stats_bytes(l->site[i].dim, r->needs_transform, SAMPLES);
        if (i < first) all += stats; /* held together; of the others one after the other */
        else one = larger(one, stats);
        most = larger(most, transform_scratch(r, layer, i));
    }
    return larger(all, one) + most + pith_inspector_bytes(&r->model->shape, r->calib.length);
}

/* Before the work: the tokenizer's file as JSON and as strings, the text's ids. */
static uint64_t loading_bytes(const struct pith_run *r)
{
    uint64_t size = 0;
    int64_t changed;
    char *path = pith_path_join(r->options->model, "tokenizer.json");
    if (path && pith_path_exists(path)) pith_file_stat(path, &size, &changed, NULL);
    pith_free(path);
    return 9 * size + 8ull * sizeof(int32_t) * r->calib.windows * r->calib.length;
}

/* What calibration holds all the time. */
static uint64_t calibration_bytes(const struct pith_run *r, unsigned threads)
{
    return pith_backend_bytes(threads) + (r->fast ? pith_backend_bf16_bytes(threads) : 0) +
           pith_learn_bytes(r, threads) + pith_collector_bytes(r->model, r->calib.length) +
           (uint64_t)r->calib.windows * r->calib.length * sizeof(int32_t) +
           256ull * pith_tokenizer_vocab(r->tokenizer); /* strings, merges, hash tables */
}

/* A block's matrices: as floats, or experts' one after the other, whose codes stay. */
static uint64_t block_bytes(const struct pith_run *r, uint32_t layer)
{
    const struct pith_layer_plan *l = pith_run_plan(r, layer);
    uint64_t floats = pith_block_float_bytes(l), codes = 0, most = 0;
    if (pith_run_whole_layers(r)) return floats;
    for (uint32_t i = 0; i < l->sites; i++) {
        uint64_t one = 0;
        if (l->site[i].expert == PITH_NO_PART) continue;
        for (uint32_t k = 0; k < l->site[i].count; k++) {
            const struct pith_choice *c = pith_run_choice(r, layer, l->site[i].first + k);
            one += (uint64_t)c->rows * c->cols * sizeof(float);
            if (c->grid.format) codes += pith_qmat_bytes(c->rows, c->cols, &c->grid);
        }
        floats -= one;
        most = larger(most, one);
    }
    const uint64_t choices = pith_plan_experts(l)
                                 ? 4ull * r->calib.windows * r->calib.length * r->model->plans.taken
                                 : 0;
    return floats + most + codes + choices;
}

uint64_t pith_run_estimate(const struct pith_run *r)
{
    const unsigned threads = pith_pool_threads(pith_backend_pool(r->backend));
    /* The libraries' own, what malloc cannot give back, two jobs beside the work; malloc keeps a
     * heap for each thread. */
    const uint64_t process = (3 << 20) + 2 * PITH_ASYNC_BYTES + (threads + 2ull) * HEAP;
    const uint64_t lists = 2048ull * (r->model->checkpoint->count + r->choice_count * 4);
    uint64_t most = 0, block = 0;
    const uint64_t header = r->container->file ? loading_bytes(r) : 0;
    if (r->convert) return process + lists + larger(header, pith_convert_bytes(r));
    const uint64_t ends = larger(header, pith_stream_end_bytes(r, threads));
    if (pith_run_streams(r)) return process + lists + larger(ends, pith_stream_bytes(r, threads));
    for (uint32_t layer = 0; layer < r->model->shape.layers; layer++) {
        block = larger(block, block_bytes(r, layer));
        if (pith_learn_needed(&r->recipe)) most = larger(most, learning_bytes(r, layer, threads));
        for (uint32_t i = 0; i < pith_run_plan(r, layer)->sites; i++)
            if (!pith_learn_needed(&r->recipe)) most = larger(most, site_bytes(r, layer, i));
        if (r->needs_transform) most = larger(most, transform_bytes(r, layer));
    }
    const uint64_t turn = pith_run_turns(r) ? pith_turn_scratch(&r->basis, threads) : 0;
    uint64_t work = most + turn + block;
    if (pith_run_turns(r)) work = larger(work, turn + pith_made_bytes(r->model->shape.hidden));
    if (pith_run_calibrates(r))
        work = larger(work + calibration_bytes(r, threads), loading_bytes(r));
    if (pith_run_calibrates(r) && r->ends[PITH_END_EMBED].grid.format)
        work = larger(work, calibration_bytes(r, threads) + ends);
    return process + lists + larger(ends, work);
}
