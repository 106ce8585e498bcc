#include "quant/grid/line.h"

#include <float.h>
#include <math.h>

const float *pith_weights_gather(const struct pith_weights *x, size_t first, size_t n,
                                 float copy[PITH_GATHER])
{
    if (x->stride == 1) return x->w + first;
    for (size_t i = 0; i < n; i++) copy[i] = x->w[(first + i) * x->stride];
    return copy;
}

static size_t part_of(const struct pith_weights *x, size_t first, size_t limit)
{
    return x->n - first < limit ? x->n - first : limit;
}

float pith_weights_most(const struct pith_kern *k, const struct pith_weights *x)
{
    pith_group_max_fn *group_max = k ? k->group_max : pith_group_max_scalar;
    float copy[PITH_GATHER], most = 0.0f;
    for (size_t first = 0; first < x->n; first += PITH_GATHER) {
        const size_t n = part_of(x, first, PITH_GATHER);
        float part;
        group_max(n, n, pith_weights_gather(x, first, n, copy), &part);
        most = isnan(most) || most > part ? most : part;
    }
    return most;
}

float pith_storable_scale(enum pith_dtype t, float scale)
{
    const float r = pith_round_to(t, scale);
    if (r != 0.0f) return r;
    return t == PITH_F16 ? 0x1p-14f : FLT_MIN;
}

double pith_weights_error(const struct pith_grid_rule *rule, const struct pith_gridder *gridder,
                          const struct pith_weights *x, float scale, double best)
{
    enum { STEP = 256 };
    pith_sumsq_diff_fn *difference = rule->kern ? rule->kern->sumsq_diff : pith_sumsq_diff_scalar;
    const struct pith_grid elements = pith_grid_elements(rule->grid, NULL);
    float copy[PITH_GATHER], values[STEP];
    const float zero = 0.0f;
    double sum = 0.0;
    for (size_t first = 0; first < x->n; first += STEP) {
        const size_t n = part_of(x, first, STEP);
        const struct pith_grid_line line = {.kern = rule->kern,
                                            .n = n,
                                            .w = pith_weights_gather(x, first, n, copy),
                                            .scale = &scale,
                                            .zero = &zero,
                                            .values = values};
        gridder->quantize(elements.format, &line);
        sum += difference(n, line.w, values);
        if (!(sum <= best)) return INFINITY;
    }
    return sum;
}

float pith_scale_search(const struct pith_grid_rule *rule, const struct pith_gridder *gridder,
                        const struct pith_weights *x, float absmax)
{
    enum { PARTS = 64, REACH = 32 };
    float best_scale = pith_storable_scale(rule->scale_dtype, absmax);
    double best = pith_weights_error(rule, gridder, x, best_scale, INFINITY);
    for (int i = 1; i <= REACH; i++)
        for (int sign = -1; sign <= 1; sign += 2) {
            const float scale = pith_storable_scale(
                rule->scale_dtype, absmax * (float)(PARTS + sign * i) / (float)PARTS);
            if (!isfinite(scale)) continue;
            const double e = pith_weights_error(rule, gridder, x, scale, best);
            if (e < best) {
                best = e;
                best_scale = scale;
            }
        }
    return best_scale;
}
