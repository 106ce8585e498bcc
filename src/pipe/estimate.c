/* What a run will allocate at most, from the same sizes that it allocates by. Mapped files (the
 * input, the output, the activations) are not counted: the kernel drops their pages when it needs
 * memory. */
#include "pipe/run.h"

#include "pipe/inspect.h"

enum { SAMPLES = 512 };

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Rounding one matrix: the solver's scratch, the codes, their packed form and what is read back. */
static uint64_t rounding_bytes(const struct pith_run *r, const struct pith_choice *c)
{
    const uint64_t q = pith_qmat_bytes(c->rows, c->cols, &c->grid);
    return r->recipe.round->scratch(c->rows, c->cols) + 3 * q;
}

static uint64_t site_bytes(const struct pith_run *r, enum pith_site which)
{
    const struct pith_site_info *site = &r->model->arch->sites[which];
    uint64_t most = 0;
    for (unsigned i = 0; i < site->count; i++) {
        const struct pith_choice *c = pith_run_choice(r, 0, site->roles[i]);
        if (c->grid.format) most = larger(most, rounding_bytes(r, c));
    }
    return most + pith_stats_bytes(pith_site_dim(&r->model->shape, which), r->needs_round, 0);
}

/* A transform's scratch for one site, asked by a job that has shapes but no numbers. */
static uint64_t transform_scratch(const struct pith_run *r, enum pith_site which)
{
    const struct pith_site_info *site = &r->model->arch->sites[which];
    const struct pith_stats stats = {
        .dim = pith_site_dim(&r->model->shape, which),
        .sample_count = SAMPLES,
    };
    struct pith_transform_job job = {
        .backend = r->backend,
        .count = site->count,
        .stats = &stats,
        .clip_search = r->recipe.clip,
    };
    for (unsigned i = 0; i < site->count; i++) {
        const struct pith_choice *c = pith_run_choice(r, 0, site->roles[i]);
        job.linear[i] = (struct pith_transform_linear){
            .rows = c->rows,
            .cols = c->cols,
            .grid = c->grid,
            .clip = true,
        };
    }
    return r->recipe.transform->scratch(&job);
}

static uint64_t transform_bytes(const struct pith_run *r)
{
    uint64_t stats = 0, most = 0;
    for (int i = 0; i < PITH_SITE_COUNT; i++) {
        const uint32_t dim = pith_site_dim(&r->model->shape, (enum pith_site)i);
        stats += pith_stats_bytes(dim, r->needs_transform, SAMPLES);
        most = larger(most, transform_scratch(r, (enum pith_site)i));
    }
    return stats + most + pith_inspector_bytes(&r->model->shape, r->calib.length);
}

uint64_t pith_run_estimate(const struct pith_run *r)
{
    const struct pith_shape *shape = &r->model->shape;
    const unsigned threads = pith_pool_threads(pith_backend_pool(r->backend));
    uint64_t most = 0;
    for (int i = 0; i < PITH_SITE_COUNT; i++) most = larger(most, site_bytes(r, (enum pith_site)i));
    uint64_t total = pith_block_float_bytes(shape) + pith_backend_bytes(threads);
    if (r->needs_transform) most = larger(most, transform_bytes(r));
    if (pith_run_calibrates(r)) {
        total += pith_collector_bytes(shape, r->calib.length);
        total += (uint64_t)r->calib.windows * r->calib.length * sizeof(int32_t);
        total += 1024ull * pith_tokenizer_vocab(r->tokenizer); /* strings, merges, hash tables */
    }
    total += 2048ull *
             (r->model->checkpoint->count + r->choice_count * 4); /* headers and accounts */
    return total + most + (16ull << 20);
}
