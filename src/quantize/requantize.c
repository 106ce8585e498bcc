/* A linear that the input stores quantized, and what that means for quantizing it. */
#include "quantize/requantize.h"

#include "io/dense.h"
#include "num/recode.h"
#include "quantize/job.h"

bool pith_grid_is_lossy(const struct pith_grid *grid, uint32_t rows, uint32_t cols)
{
    enum { FEW = 6 };
    const struct pith_qspec spec = {
        .rows = rows, .cols = cols, .grid = *grid, .scale_dtype = PITH_F16};
    return grid->format && pith_qspec_bits(&spec) < FEW;
}

static enum pith_status check_lossy(const struct pith_job *job, const struct pith_choice *c,
                                    struct pith_error *err)
{
    char from[PITH_GRID_TEXT];
    if (!c->grid.format || c->keeps || job->options->requantize) return PITH_OK;
    if (!pith_grid_is_lossy(&c->from, c->rows, c->cols)) return PITH_OK;
    pith_grid_format(&c->from, from);
    return pith_fail(err, PITH_UNSUPPORTED,
                     "%s: \"%.150s\" is stored as %s, and what that lost stays lost; start from "
                     "the original, or add `requantize`",
                     job->options->model, c->module, from);
}

/* Whether the input's codes can stay, on the same grid or restated on the new one. However scales
 * are found, they are the input's then. */
static bool keeps_codes(const struct pith_job *job, const struct pith_choice *c,
                        const struct pith_dense_source *source)
{
    struct pith_grid from = c->from;
    from.mse = c->grid.mse;
    return from.format && c->grid.format && !source->ordered && !source->rotated &&
           c->hadamard <= 1 &&
           pith_recode_fits(&from, &c->grid, c->cols) &&
           job->recipe.transform == pith_transform_find("none") &&
           job->recipe.split == pith_split_find("none") && !pith_job_learns(job);
}

enum pith_status pith_job_requantize(const struct pith_job *job, struct pith_choice *c,
                                     struct pith_error *err)
{
    const struct pith_dense_source source =
        pith_dense_source(job->model->checkpoint, c->module);
    c->from = source.grid;
    c->keeps = keeps_codes(job, c, &source);
    return check_lossy(job, c, err);
}
