/* quant/grid/nvfp4.c: 16 elements of E2M1 with a scale of E4M3, within a scale of the tensor, which
 * comes from pith_round_global(): the block's scale is the nearest that takes its largest magnitude
 * to 6. With mse the scales about it are tried, and the one with the least squared error is taken;
 * that the largest magnitude may come to lie on 4 as well as on 6 is what Cook et al. (four over
 * six) found to help most, and the global scale then leaves room above for it. */
#include "quant/tables.h"

#include "num/block.h"
#include "num/codecs.h"
#include "quant/grid/line.h"

#include <math.h>
#include <string.h>

/* E4M3 has eight values an octave: from three quarters of the scale to one and three quarters. */
enum { BELOW = 4, ABOVE = 6, TRIALS = BELOW + 1 + ABOVE, BLOCK = 16, LOWEST = 1, HIGHEST = 0x7e };

static bool takes(const struct pith_grid *grid)
{
    return grid->format->kind == PITH_KIND_BLOCK && strcmp(grid->format->scale, "fp8_e4m3") == 0;
}

static float global_of(const struct pith_grid_rule *rule)
{
    return rule->global > 0.0f ? rule->global : 1.0f;
}

/* All trials are rounded in one go, the block repeated. */
static float search(const struct pith_grid_rule *rule, const struct pith_weights *x, uint8_t code)
{
    pith_sumsq_diff_fn *difference = rule->kern ? rule->kern->sumsq_diff : pith_sumsq_diff_scalar;
    float scale[TRIALS], w[TRIALS * BLOCK], values[TRIALS * BLOCK], copy[PITH_GATHER];
    const int first = code > BELOW ? code - BELOW : LOWEST;
    const int last = code + ABOVE < HIGHEST ? code + ABOVE : HIGHEST;
    const size_t count = (size_t)(last - first + 1);
    const float *block = pith_weights_gather(x, 0, x->n, copy), zero = 0.0f;
    for (size_t k = 0; k < count; k++) {
        scale[k] = pith_fp8_e4m3_decode((uint32_t)first + (uint32_t)k) * global_of(rule);
        memcpy(w + k * x->n, block, x->n * sizeof *w);
    }
    const struct pith_grid_line line = {.kern = rule->kern,
                                        .n = count * x->n,
                                        .w = w,
                                        .scale = scale,
                                        .zero = &zero,
                                        .step = 1,
                                        .run = x->n,
                                        .values = values};
    pith_gridder_float.quantize(pith_format_find(rule->grid->format->element), &line);
    size_t best = (size_t)(code - first);
    double least = difference(x->n, block, values + best * x->n);
    for (size_t k = 0; k < count; k++) {
        const double e = difference(x->n, block, values + k * x->n);
        if (e < least) {
            least = e;
            best = k;
        }
    }
    return scale[best];
}

static void fit(const struct pith_grid_rule *rule, const float *w, size_t n, size_t stride,
                float *scale, float *zero)
{
    const struct pith_weights x = {w, n, stride};
    const float most = pith_weights_most(rule->kern, &x), global = global_of(rule);
    const uint8_t code = pith_nvfp4_scale(&most, 1, global);
    *zero = 0.0f;
    *scale = pith_fp8_e4m3_decode(code) * global;
    if (rule->grid->mse && most > 0.0f && isfinite(*scale) && n <= BLOCK)
        *scale = search(rule, &x, code);
}

static void fit_row(const struct pith_grid_rule *rule, const float *w, size_t n, size_t group,
                    float *scales)
{
    pith_group_max_fn *group_max = rule->kern ? rule->kern->group_max : pith_group_max_scalar;
    const float global = global_of(rule);
    group_max(n, group, w, scales);
    for (size_t g = 0; g * group < n; g++)
        scales[g] = pith_fp8_e4m3_decode(pith_nvfp4_scale(&scales[g], 1, global)) * global;
}

static void quantize(const struct pith_format *f, const struct pith_grid_line *line)
{
    pith_gridder_float.quantize(f, line);
}

static uint8_t encode(const struct pith_format *f, float w, float scale, float zero)
{
    return pith_gridder_float.encode(f, w, scale, zero);
}

const struct pith_gridder pith_gridder_nvfp4 = {
    .name = "nvfp4",
    .summary = "nvfp4: an E4M3 scale for 16 elements within a scale of the tensor",
    .takes = takes,
    .fit = fit,
    .fit_row = fit_row,
    .encode = encode,
    .quantize = quantize,
};
