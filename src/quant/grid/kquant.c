/* quant/grid/kquant.c: GGUF's types: scales by search, a block at a time, and nearest codes. */
#include "quant/grid/kfit.h"
#include "quant/tables.h"

static bool takes(const struct pith_grid *grid)
{
    return grid->format->kind == PITH_KIND_GGUF;
}

static void fit_block(const struct pith_grid_rule *rule, const float *w, const float *weight,
                      struct pith_kblock *out)
{
    pith_kfit(pith_kquant_find(rule->grid->format->name), rule->kern, w, weight, out);
}

static uint8_t encode(const struct pith_format *f, float w, float scale, float zero)
{
    uint8_t code = 0;
    const struct pith_grid_line line = {
        .n = 1, .w = &w, .scale = &scale, .zero = &zero, .codes = &code};
    pith_kfit_round(f, &line);
    return code;
}

const struct pith_gridder pith_gridder_kquant = {
    .name = "kquant",
    .summary = "GGUF's blocks: scales in one or two levels, some with minimums, by least error",
    .takes = takes,
    .fit_block = fit_block,
    .encode = encode,
    .quantize = pith_kfit_round,
};
