/* quant/grid/fixed.c: NF4 and bitsandbytes' FP4, sixteen levels from -1 to 1, with the largest
 * magnitude of a group as its scale (QLoRA, Dettmers et al. 2023). Scales that are quantized again
 * are pith_fit_scales()'s doing: here they are floats. */
#include "quant/tables.h"

#include "num/codebook.h"
#include "quant/grid/line.h"

#include <math.h>

static bool takes(const struct pith_grid *grid)
{
    return grid->format->kind == PITH_KIND_CODEBOOK && grid->format->bits == 4 &&
           grid->format->max == 1.0f && grid->granularity != PITH_PER_BLOCK;
}

static double book_error(const struct pith_grid_rule *rule, const struct pith_weights *x,
                         float scale, double enough)
{
    const struct pith_kern *k = rule->kern;
    pith_book_round_fn *round = k ? k->book_round : pith_book_round_scalar;
    pith_sumsq_diff_fn *difference = k ? k->sumsq_diff : pith_sumsq_diff_scalar;
    const struct pith_codebook *book = pith_codebook_of(rule->grid->format);
    float copy[PITH_GATHER], values[PITH_GATHER];
    double sum = 0.0;
    for (size_t first = 0; first < x->n && sum <= enough; first += PITH_GATHER) {
        const size_t n = x->n - first < PITH_GATHER ? x->n - first : PITH_GATHER;
        const float *w = pith_weights_gather(x, first, n, copy);
        round(n, w, &scale, n, book, NULL, values);
        sum += difference(n, w, values);
    }
    return sum;
}

static float scale_for(const struct pith_grid_rule *rule, const struct pith_weights *x, float most)
{
    const float scale = most == 0.0f ? 1.0f : pith_storable_scale(rule->scale_dtype, most);
    if (!rule->grid->mse || most == 0.0f || !isfinite(scale)) return scale;
    return pith_scale_search(rule, book_error, x, most);
}

static void quantize(const struct pith_format *f, const struct pith_grid_line *line)
{
    pith_book_round_fn *round = line->kern ? line->kern->book_round : pith_book_round_scalar;
    if (line->n == 0) return;
    round(line->n, line->w, line->scale, pith_line_group(line), pith_codebook_of(f), line->codes,
          line->values);
}

static uint8_t encode(const struct pith_format *f, float w, float scale, float zero)
{
    uint8_t code = 0;
    const struct pith_grid_line line = {
        .n = 1, .w = &w, .scale = &scale, .zero = &zero, .codes = &code};
    quantize(f, &line);
    return code;
}

const struct pith_gridder pith_gridder_fixed = {
    .name = "fixed",
    .summary = "levels laid down once for all: nf4, bnb_fp4, scales in floats or quantized again",
    .takes = takes,
    .scale_for = scale_for,
    .encode = encode,
    .quantize = quantize,
};
