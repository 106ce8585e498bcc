/* quant/grid/float.c: FP8, FP6 and FP4 elements with scales in floats, per tensor, channel, group
 * or block: the scale takes the largest magnitude to the format's largest value. */
#include "quant/tables.h"

#include "kern/grid.h"
#include "quant/grid/line.h"

#include <math.h>

static bool takes(const struct pith_grid *grid)
{
    const struct pith_format *f = grid->format;
    return f->kind == PITH_KIND_FLOAT && f->bits <= 8 && f->mantissa_bits > 0 &&
           !grid->double_quant;
}

/* The scale for weights up to that magnitude; by tensor, the one that is shared with others. */
static float by_magnitude(const struct pith_grid_rule *rule, float most)
{
    const bool shared = rule->grid->granularity == PITH_PER_TENSOR && rule->global > 0.0f &&
                        rule->global != 1.0f;
    if (shared && !isnan(most)) return pith_storable_scale(rule->scale_dtype, rule->global);
    if (most == 0.0f) return 1.0f;
    return pith_storable_scale(rule->scale_dtype, most / rule->grid->format->max);
}

static double float_error(const struct pith_grid_rule *rule, const struct pith_weights *x,
                          float scale, double enough)
{
    double error;
    pith_float_errors(rule, rule->grid->format, x, 1, &scale, enough, &error);
    return error;
}

static float scale_for(const struct pith_grid_rule *rule, const struct pith_weights *x, float most)
{
    const float scale = by_magnitude(rule, most);
    if (!rule->grid->mse || most == 0.0f || !isfinite(scale)) return scale;
    return pith_scale_search(rule, float_error, x, most / rule->grid->format->max);
}

void pith_float_quantize(const struct pith_format *f, const struct pith_grid_line *line)
{
    pith_float_round_fn *round = line->kern ? line->kern->float_round : pith_float_round_scalar;
    const struct pith_float_levels levels =
        pith_float_levels_of(f->exponent_bits, f->mantissa_bits, f->max);
    if (line->n == 0) return;
    round(line->n, line->w, line->scale, pith_line_group(line), &levels, line->codes, line->values);
}

uint8_t pith_float_encode(const struct pith_format *f, float w, float scale, float zero)
{
    (void)zero;
    return (uint8_t)f->encode(w / scale);
}

const struct pith_gridder pith_gridder_float = {
    .name = "float",
    .summary = "FP8, FP6 and FP4 with scales in floats: absmax, or the least squared error",
    .takes = takes,
    .scale_for = scale_for,
    .encode = pith_float_encode,
    .quantize = pith_float_quantize,
};
