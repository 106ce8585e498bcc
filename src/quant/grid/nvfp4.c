/* quant/grid/nvfp4.c: 16 elements of E2M1 with a scale of E4M3, within a scale of the tensor, which
 * comes from pith_round_global(): the block's scale is the nearest that takes its largest magnitude
 * to 6. With mse the scales about it are tried, and the one with the least squared error is taken;
 * that the largest magnitude may come to lie on 4 as well as on 6 is what Cook et al. (four over
 * six) found to help most, and the global scale then leaves room above for it. */
#include "quant/tables.h"

#include "num/block.h"
#include "num/elements/elements.h"
#include "quant/grid/line.h"

#include <math.h>
#include <string.h>

/* E4M3 has eight values an octave: from three quarters of the scale to one and three quarters, at
 * most PITH_TRIALS. */
enum { BELOW = 4, ABOVE = 6, LOWEST = 1, HIGHEST = 0x7e };

static bool takes(const struct pith_grid *grid)
{
    return grid->format->kind == PITH_KIND_BLOCK && strcmp(grid->format->scale, "fp8_e4m3") == 0;
}

static float global_of(const struct pith_grid_rule *rule)
{
    return rule->global > 0.0f ? rule->global : 1.0f;
}

static float search_nvfp4(const struct pith_grid_rule *rule, const struct pith_format *element,
                          const struct pith_weights *x, uint8_t code)
{
    const int first = code > BELOW ? code - BELOW : LOWEST;
    const int last = code + ABOVE < HIGHEST ? code + ABOVE : HIGHEST;
    const size_t count = (size_t)(last - first + 1);
    float scale[PITH_TRIALS];
    double error[PITH_TRIALS];
    for (size_t k = 0; k < count; k++)
        scale[k] = pith_fp8_e4m3_decode((uint32_t)first + (uint32_t)k) * global_of(rule);
    pith_float_errors(rule, element, x, count, scale, INFINITY, error);
    size_t best = (size_t)(code - first);
    for (size_t k = 0; k < count; k++)
        if (error[k] < error[best]) best = k;
    return scale[best];
}

static float scale_for(const struct pith_grid_rule *rule, const struct pith_weights *x, float most)
{
    const struct pith_format *element = pith_format_find(rule->grid->format->element);
    const uint8_t code = pith_nvfp4_scale(&most, 1, global_of(rule));
    if (rule->grid->mse && most > 0.0f && code <= HIGHEST)
        return search_nvfp4(rule, element, x, code);
    return pith_fp8_e4m3_decode(code) * global_of(rule);
}

const struct pith_gridder pith_gridder_nvfp4 = {
    .name = "nvfp4",
    .summary = "nvfp4: an E4M3 scale for 16 elements within a scale of the tensor",
    .takes = takes,
    .scale_for = scale_for,
    .encode = pith_float_encode,
    .quantize = pith_float_quantize,
};
