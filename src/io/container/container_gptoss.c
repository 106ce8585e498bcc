/* The gpt-oss container: the published checkpoints' experts in MXFP4 (io/container/gptoss.h), all
 * of a layer in one tensor. It is read, never written: what is made of it holds a tensor an expert.
 * The model shows a linear's rows as slices MODULE.blocks U8 [N, K/32, 16] and MODULE.scales U8 [N,
 * K/32]. */
#include "io/container/container.h"

#include "base/mem.h"
#include "io/container/gptoss.h"
#include "io/parts.h"

#include <string.h>

static enum pith_status accepts(const struct pith_grid *grid, uint32_t rows, uint32_t cols,
                                const struct pith_container_opts *opts, struct pith_error *err)
{
    (void)grid;
    (void)rows;
    (void)cols;
    (void)opts;
    return pith_fail(err, PITH_UNSUPPORTED,
                     "gpt-oss's form of MXFP4 is only read; compressed-tensors holds mxfp4");
}

static enum pith_dtype scale_dtype(const struct pith_grid *grid, enum pith_dtype model_dtype)
{
    (void)grid;
    (void)model_dtype;
    return PITH_F8_E8M0;
}

static enum pith_status load(void *state, const struct pith_checkpoint *c, const char *module,
                             uint32_t rows, uint32_t cols, struct pith_qmat *q, bool *found,
                             struct pith_error *err)
{
    const struct pith_tensor *blocks = pith_part_find(c, module, ".blocks");
    const struct pith_tensor *scales = pith_part_find(c, module, ".scales");
    (void)state;
    *found = false;
    if (!blocks && !scales) return PITH_OK;
    const struct pith_tensor *all = blocks ? pith_checkpoint_whole(c, blocks) : NULL;
    const struct pith_tensor *all_scales = scales ? pith_checkpoint_whole(c, scales) : NULL;
    if (!all || !all_scales || all->dims != 4 || all->shape[1] == 0 || all->bytes == 0)
        return pith_fail(err, PITH_FORMAT, "%s: %.100s has no blocks with scales", c->dir, module);
    const uint64_t row = all->shape[2] * all->shape[3];
    const uint64_t first = (uint64_t)(blocks->data - all->data) / row;
    const struct pith_gptoss_part part = {
        .expert = (uint32_t)(first / all->shape[1]),
        .first = (uint32_t)(first % all->shape[1]),
        .step = blocks->row_step ? (uint32_t)(blocks->row_step / row) : 1};
    PITH_TRY(pith_gptoss_load(all, all_scales, &part, q, err));
    if (q->rows != rows || q->cols != cols) {
        pith_qmat_free(q);
        return pith_fail(err, PITH_FORMAT, "%s: %.100s is of another shape", c->dir, module);
    }
    *found = true;
    return PITH_OK;
}

static enum pith_status describe(void *state, const struct pith_checkpoint *c, const char *module,
                                 struct pith_grid *grid, struct pith_container_opts *opts,
                                 struct pith_error *err)
{
    (void)state;
    (void)opts;
    (void)err;
    *grid = (struct pith_grid){0};
    if (pith_part_find(c, module, ".blocks"))
        *grid = (struct pith_grid){
            .format = pith_format_find("mxfp4"), .granularity = PITH_PER_GROUP, .group = 32};
    return PITH_OK;
}

const struct pith_container pith_container_gptoss = {
    .name = "gpt-oss",
    .summary = "gpt-oss's MXFP4 experts as they are published; read, not written",
    .method = "mxfp4",
    .accepts = accepts,
    .scale_dtype = scale_dtype,
    .open = pith_container_open_stateless,
    .load = load,
    .describe = describe,
    .close = pith_container_close_stateless,
};
