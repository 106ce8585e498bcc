/* quant/grid/mx.c: microscaling, OCP MX 1.0: 32 elements and a power of two.
 *
 * Every reader takes any power, but writers choose differently. With e the exponent of the largest
 * magnitude and E that of the format's largest value:
 *     (none)  e - E: the specification's rule, the largest element may be cut off
 *     even    the same after the magnitude was rounded up where its rounded element would carry
 *             into the next binade: what compressed-tensors writes, and torchao's EVEN. E4M3 has no
 *             value between 1.75 and 2 in its top binade, so there it is rounded up from 1.75 on
 *     ceil    the least power with which nothing is cut off: ModelOpt's rule, cuBLAS's RCEIL
 *     mse     of the first rule's power and its neighbours the one with the least squared error */
#include "quant/tables.h"

#include "num/block.h"
#include "num/elements/elements.h"
#include "num/elements/minifloat.h"
#include "quant/grid/line.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { LOWEST = 0, HIGHEST = 254, NOT_A_SCALE = 255 };

static bool takes(const struct pith_grid *grid)
{
    return grid->format->kind == PITH_KIND_BLOCK && strcmp(grid->format->scale, "e8m0") == 0;
}

/* A magnitude that the first rule takes to where `even` wants it. */
static float carried(const struct pith_format *element, float most)
{
    const int bits = element->max == 448.0f ? 1 : element->mantissa_bits;
    const float up = pith_bits_to_float(pith_float_to_bits(most) + (1u << (22 - bits)));
    return up <= FLT_MAX ? up : most;
}

static uint8_t power_for(const struct pith_grid *grid, const struct pith_format *element,
                         float most)
{
    const struct pith_format *f = grid->format;
    const float m = grid->even ? carried(element, most) : most;
    const uint8_t power = pith_mx_scale(f, &m, 1);
    if (!grid->ceil || power >= HIGHEST || most == 0.0f) return power;
    return (uint8_t)(power + (most > f->max * pith_e8m0_decode(power)));
}

/* The power, the one above and the one below. */
static float search_mx(const struct pith_grid_rule *rule, const struct pith_format *element,
                       const struct pith_weights *x, uint8_t power)
{
    enum { TRIALS = 3 };
    static const int steps[TRIALS] = {0, 1, -1};
    float scale[TRIALS];
    double error[TRIALS];
    size_t count = 0, best = 0;
    for (size_t i = 0; i < TRIALS; i++) {
        const int p = power + steps[i];
        if (p >= LOWEST && p <= HIGHEST) scale[count++] = pith_e8m0_decode((uint32_t)p);
    }
    pith_float_errors(rule, element, x, count, scale, INFINITY, error);
    for (size_t i = 1; i < count; i++)
        if (error[i] < error[best]) best = i;
    return scale[best];
}

static float scale_for(const struct pith_grid_rule *rule, const struct pith_weights *x, float most)
{
    const struct pith_format *element = pith_format_find(rule->grid->format->element);
    const uint8_t power = power_for(rule->grid, element, most);
    if (rule->grid->mse && most > 0.0f && power != NOT_A_SCALE)
        return search_mx(rule, element, x, power);
    return pith_e8m0_decode(power);
}

const struct pith_gridder pith_gridder_mx = {
    .name = "mx",
    .summary = "OCP microscaling: mxfp8, mxfp6, mxfp4 with a power of two for 32 elements",
    .takes = takes,
    .scale_for = scale_for,
    .encode = pith_float_encode,
    .quantize = pith_float_quantize,
};
