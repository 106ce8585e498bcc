#include "quant/grid/line.h"

#include "kern/grid.h"

#include <float.h>
#include <math.h>

const float *pith_weights_gather(const struct pith_weights *x, size_t first, size_t n,
                                 float copy[PITH_GATHER])
{
    if (x->stride == 1) return x->w + first;
    for (size_t i = 0; i < n; i++) copy[i] = x->w[(first + i) * x->stride];
    return copy;
}

static size_t part_within(const struct pith_weights *x, size_t first, size_t limit)
{
    return x->n - first < limit ? x->n - first : limit;
}

float pith_weights_most(const struct pith_kern *k, const struct pith_weights *x)
{
    pith_group_max_fn *group_max = k ? k->group_max : pith_group_max_scalar;
    float copy[PITH_GATHER], most = 0.0f;
    for (size_t first = 0; first < x->n; first += PITH_GATHER) {
        const size_t n = part_within(x, first, PITH_GATHER);
        float part;
        group_max(n, n, pith_weights_gather(x, first, n, copy), &part);
        most = isnan(most) || most > part ? most : part;
    }
    return most;
}

void pith_grid_fit(const struct pith_gridder *gridder, const struct pith_grid_rule *rule,
                   const struct pith_weights *x, float *scale, float *zero)
{
    if (gridder->fit) {
        gridder->fit(rule, x, scale, zero);
        return;
    }
    *scale = gridder->scale_for(rule, x, pith_weights_most(rule->kern, x));
    *zero = 0.0f;
}

void pith_line_fit_row(const struct pith_grid_rule *rule, pith_line_scale_fn *scale_for,
                       const float *w, size_t n, size_t group, float *scales)
{
    pith_group_max_fn *group_max = rule->kern ? rule->kern->group_max : pith_group_max_scalar;
    group_max(n, group, w, scales);
    struct pith_grid_rule part = *rule;
    for (size_t g = 0, at = 0; at < n; g++, at += group) {
        const struct pith_weights x = {w + at, n - at < group ? n - at : group, 1};
        if (rule->weight) part.weight = rule->weight + at;
        scales[g] = scale_for(&part, &x, scales[g]);
    }
}

float pith_storable_scale(enum pith_dtype t, float scale)
{
    const float r = pith_round_to(t, scale);
    if (r != 0.0f) return r;
    return t == PITH_F16 ? 0x1p-14f : FLT_MIN;
}

void pith_float_errors(const struct pith_grid_rule *rule, const struct pith_format *f,
                       const struct pith_weights *x, size_t count, const float *scale,
                       double enough, double *error)
{
    const struct pith_kern *k = rule->kern;
    pith_float_trials_fn *trials = k ? k->float_trials : pith_float_trials_scalar;
    const struct pith_float_levels levels =
        pith_float_levels_of(f->exponent_bits, f->mantissa_bits, f->max);
    float copy[PITH_GATHER], inverse[PITH_TRIALS], sum[PITH_TRIALS];
    for (size_t i = 0; i < count; i++) {
        inverse[i] = 1.0f / scale[i];
        error[i] = 0.0;
    }
    for (size_t first = 0; first < x->n; first += PITH_GATHER) {
        const size_t n = part_within(x, first, PITH_GATHER);
        bool more = false;
        trials(n, pith_weights_gather(x, first, n, copy),
               rule->weight ? rule->weight + first : NULL, count, inverse, &levels, sum);
        for (size_t i = 0; i < count; i++) {
            error[i] += (double)sum[i] * (double)scale[i] * (double)scale[i];
            more |= error[i] <= enough;
        }
        if (!more) return;
    }
}

float pith_scale_search(const struct pith_grid_rule *rule, pith_line_error_fn *error,
                        const struct pith_weights *x, float absmax)
{
    enum { PARTS = 64, REACH = 32 };
    float best_scale = pith_storable_scale(rule->scale_dtype, absmax);
    double best = error(rule, x, best_scale, INFINITY);
    for (int i = 1; i <= REACH; i++)
        for (int sign = -1; sign <= 1; sign += 2) {
            const float scale = pith_storable_scale(
                rule->scale_dtype, absmax * (float)(PARTS + sign * i) / (float)PARTS);
            if (!isfinite(scale)) continue;
            const double e = error(rule, x, scale, best);
            if (e < best) {
                best = e;
                best_scale = scale;
            }
        }
    return best_scale;
}
