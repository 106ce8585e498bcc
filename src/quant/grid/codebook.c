/* quant/grid/codebook.c: levels of each row's own, where its weights lie (SqueezeLLM, Kim et al.
 * 2024): few where they are rare, many where they are many and where errors cost much. */
#include "quant/tables.h"

#include "base/mem.h"
#include "quant/kmeans.h"

#include <math.h>
#include <string.h>

static bool takes(const struct pith_grid *grid)
{
    return grid->format->kind == PITH_KIND_LEVELS && grid->granularity == PITH_PER_CHANNEL;
}

/* The levels do what scales do elsewhere: they are pith_fit_levels()'s. */
static void fit(const struct pith_grid_rule *rule, const struct pith_weights *x, float *scale,
                float *zero)
{
    (void)rule;
    (void)x;
    *scale = 1.0f;
    *zero = 0.0f;
}

static void quantize(const struct pith_format *f, const struct pith_grid_line *line)
{
    for (size_t i = 0; i < line->n; i++) {
        const float *levels = line->levels + i * line->level_step;
        const uint32_t code = pith_kmeans_nearest(levels, 1u << f->bits, line->w[i]);
        if (line->codes) line->codes[i] = (uint8_t)code;
        if (line->values) line->values[i] = levels[code];
    }
}

static uint8_t encode(const struct pith_format *f, float w, float scale, float zero)
{
    (void)scale;
    (void)zero;
    return (uint8_t)f->encode(w);
}

const struct pith_gridder pith_gridder_codebook = {
    .name = "codebook",
    .summary = "levels of each row's own, by weighted k-means: codebook3, codebook4",
    .needs = PITH_NEED_SQUARES,
    .takes = takes,
    .fit = fit,
    .encode = encode,
    .quantize = quantize,
};

/* ---- levels ---- */

struct levels_job {
    const struct pith_level_rule *rule;
    const float *w;
    struct pith_qmat *q;
    size_t bytes;    /* of a thread's scratch */
    uint8_t *memory; /* [threads][bytes]: k-means', then the row's weights in the sum */
};

static void fit_row(void *ctx, size_t row, unsigned thread)
{
    const struct levels_job *j = ctx;
    const struct pith_sparse *off_grid = j->rule->off_grid;
    const uint32_t cols = j->q->cols;
    const unsigned k = 1u << j->q->format->bits;
    uint8_t *scratch = j->memory + thread * j->bytes;
    float *weight = (float *)(void *)(scratch + j->bytes) - cols;
    if (j->rule->weight) memcpy(weight, j->rule->weight, cols * sizeof *weight);
    for (uint32_t c = 0; !j->rule->weight && c < cols; c++) weight[c] = 1.0f;
    for (uint32_t i = off_grid ? off_grid->start[row] : 0; off_grid && i < off_grid->start[row + 1];
         i++)
        weight[off_grid->col[i]] = 0.0f;
    float *levels = j->q->levels + row * k;
    (void)pith_kmeans(j->w + row * cols, weight, cols, k, levels, scratch);
    for (unsigned i = 0; i < k; i++) levels[i] = pith_round_to(PITH_F16, levels[i]);
    j->q->scales[row] = 1.0f;
}

static enum pith_status check_levels(const struct pith_qmat *q, struct pith_error *err)
{
    const size_t k = (size_t)1 << q->format->bits;
    for (size_t i = 0; i < q->rows * k; i++)
        if (!isfinite(q->levels[i]))
            return pith_fail(err, PITH_NUMERIC, "row %zu: a level does not fit into F16", i / k);
    return PITH_OK;
}

static size_t scratch_of(uint32_t cols, unsigned bits)
{
    const size_t bytes = pith_kmeans_bytes(cols, 1u << bits) + cols * sizeof(float);
    return (bytes + 63) / 64 * 64;
}

uint64_t pith_fit_levels_scratch(const struct pith_grid *grid, uint32_t cols, unsigned threads)
{
    if (!grid->format || grid->format->kind != PITH_KIND_LEVELS) return 0;
    return (uint64_t)threads * scratch_of(cols, grid->format->bits);
}

enum pith_status pith_fit_levels(struct pith_backend *b, const struct pith_level_rule *rule,
                                 const float *w, struct pith_qmat *q, struct pith_error *err)
{
    struct pith_pool *pool = b ? pith_backend_pool(b) : NULL;
    const size_t threads = pool ? pith_pool_threads(pool) : 1;
    struct levels_job j = {
        .rule = rule, .w = w, .q = q, .bytes = scratch_of(q->cols, q->format->bits)};
    j.memory = pith_alloc_aligned(threads, j.bytes);
    if (!j.memory) return pith_fail_nomem(err, "a codebook's levels");
    pith_pool_run(pool, q->rows, fit_row, &j);
    pith_free(j.memory);
    return check_levels(q, err);
}
