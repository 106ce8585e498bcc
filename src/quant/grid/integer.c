/* quant/grid/integer.c: int formats. The rules are those of quant/scale.h; the arithmetic is that
 * of the grid operations in kern/ops.h, in a fixed order, so the result does not depend on the
 * machine. */
#include "quant/tables.h"

#include "kern/grid.h"
#include "quant/grid/line.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { MSE_STEPS = 80, MSE_GRID = 100 };

/* The search for the least weighted squares: from 9/8 of the extremes down, a sixteenth less each
 * time. Every trial is refined, so they need not be dense. When one has HOPELESS times the least
 * error, those after it only cut off more. */
static const float WIDEST = 1.125f, NARROWER = 0.9375f;
enum { RANGES = 48, HOPELESS = 16, REFINEMENTS = 2 };

static inline float round_even(float x)
{
    return (x + PITH_GRID_MAGIC) - PITH_GRID_MAGIC;
}

/* NaN gives lo. */
static inline float clamp(float x, float lo, float hi)
{
    x = x > lo ? x : lo;
    return x < hi ? x : hi;
}

static float top_code(const struct pith_format *f)
{
    return (float)((1u << f->bits) - 1);
}

static size_t part_of(const struct pith_weights *x, size_t first)
{
    return x->n - first < PITH_GATHER ? x->n - first : PITH_GATHER;
}

/* lo = min(w, 0), hi = max(w, 0); both NaN when a weight is not finite. */
static void find_range(const struct pith_kern *k, const struct pith_weights *x, float *lo,
                       float *hi)
{
    pith_range_fn *range = k ? k->range : pith_range_scalar;
    float copy[PITH_GATHER], least, most;
    *lo = *hi = 0.0f;
    for (size_t first = 0; first < x->n; first += PITH_GATHER) {
        const size_t n = part_of(x, first);
        range(n, pith_weights_gather(x, first, n, copy), &least, &most);
        *lo = isnan(*lo) || *lo < least ? *lo : least;
        *hi = isnan(*hi) || *hi > most ? *hi : most;
    }
}

static double sum_of(const float x[PITH_TRIAL_LANES])
{
    enum { PART = PITH_TRIAL_LANES / 4 };
    float t[PART];
    for (int i = 0; i < PART; i++)
        t[i] = (x[i] + x[i + PART]) + (x[i + 2 * PART] + x[i + 3 * PART]);
    double total = 0.0;
    for (int i = 0; i < PART; i++) total += (double)t[i];
    return total;
}

/* Sum of |w - q|^2.4 in units, or infinity as soon as it is certain to end above `best`. */
static double trial_error(const struct pith_kern *k, const struct pith_weights *x,
                          const struct pith_grid_trial *t, double best)
{
    enum { STEP = 128 };
    pith_grid_error_fn *add = k ? k->grid_error : pith_grid_error_scalar;
    float sum[PITH_TRIAL_LANES] = {0}, copy[PITH_GATHER];
    for (size_t first = 0; first < x->n; first += STEP) {
        const size_t n = x->n - first < STEP ? x->n - first : STEP;
        add(n, pith_weights_gather(x, first, n, copy), t, sum);
        if (0.999 * sum_of(sum) > best) return INFINITY;
    }
    return sum_of(sum);
}

struct range {
    float lo, hi;
    float top, middle; /* the largest code; the zero of symmetric grids */
    bool asym;
    enum pith_dtype scale_dtype;
};

static void place(const struct range *r, float shrink, float *scale, float *zero)
{
    const float lo = shrink * r->lo, hi = shrink * r->hi;
    *scale = pith_storable_scale(r->scale_dtype, (hi - lo) / r->top);
    if (r->asym) *zero = clamp(round_even(clamp(-lo / *scale, 0.0f, r->top)), 0.0f, r->top);
    else *zero = r->middle;
}

static float inverse_power_of_two(float x)
{
    int exponent;
    frexpf(x, &exponent);
    return ldexpf(1.0f, exponent < -126 ? 126 : -exponent);
}

static void search_range(const struct pith_kern *k, const struct range *r,
                         const struct pith_weights *x, float *scale, float *zero)
{
    struct pith_grid_trial t = {.top = r->top, .unit = inverse_power_of_two(*scale)};
    double best = INFINITY;
    for (int i = 0; i < MSE_STEPS; i++) {
        place(r, (float)(1.0 - (double)i / MSE_GRID), &t.scale, &t.zero);
        const double e = trial_error(k, x, &t, best);
        if (e < best) {
            best = e;
            *scale = t.scale;
            *zero = t.zero;
        }
    }
}

/* ---- the least weighted squares ---- */

struct search {
    const struct pith_grid_rule *rule;
    const struct range *range;
    const struct pith_weights *x;
    float scale, zero; /* the best so far */
    double error;
};

static float storable(const struct search *s, float scale)
{
    return copysignf(pith_storable_scale(s->range->scale_dtype, fabsf(scale)), scale);
}

static void keep_better(struct search *s, float scale, float zero, double error)
{
    if (!isfinite(scale) || !(error < s->error)) return;
    s->scale = scale;
    s->zero = zero;
    s->error = error;
}

/* Looks at a scale, and at the one with which the codes that it leads to have the least error: with
 * their own they have no more. The first one's error. */
static double try_scale(struct search *s, float scale, float zero)
{
    const struct pith_kern *k = s->rule->kern;
    pith_grid_squares_fn *add = k ? k->grid_squares : pith_grid_squares_scalar;
    const struct pith_grid_fit t = {1.0f / scale, zero, s->range->top};
    double error = 0.0, slope = 0.0, square = 0.0;
    float copy[PITH_GATHER];
    for (size_t first = 0; first < s->x->n; first += PITH_GATHER) {
        const size_t n = part_of(s->x, first);
        struct pith_grid_sums sums;
        add(n, pith_weights_gather(s->x, first, n, copy), s->rule->weight + first, &t, &sums);
        error += (double)sums.error;
        slope += (double)sums.slope;
        square += (double)sums.square;
    }
    const double unit = (double)scale * (double)scale;
    keep_better(s, scale, zero, unit * error);
    if (!(square > 0.0) || slope <= -square) return unit * error;
    const float better = storable(s, scale * (float)(1.0 + slope / square));
    const double more = (double)better / (double)scale - 1.0;
    keep_better(s, better, zero, unit * (error - 2.0 * more * slope + more * more * square));
    return unit * error;
}

/* Symmetric grids reach farther on one side; with a negative scale on the other. The zero points
 * next to the usual one make up for what its rounding costs. Whether narrower ranges may be better.
 */
static bool try_range(struct search *s, float shrink)
{
    float scale, zero;
    place(s->range, shrink, &scale, &zero);
    if (!isfinite(scale)) return true;
    double error = try_scale(s, scale, zero);
    if (!s->range->asym) error = fmin(error, try_scale(s, -scale, zero));
    for (float z = zero - 1.0f; s->range->asym && z <= zero + 1.0f; z += 2.0f)
        if (z >= 0.0f && z <= s->range->top) error = fmin(error, try_scale(s, scale, z));
    return error <= HOPELESS * s->error;
}

static void search_squares(const struct pith_grid_rule *rule, const struct range *r,
                           const struct pith_weights *x, float *scale, float *zero)
{
    struct search s = {rule, r, x, *scale, *zero, INFINITY};
    (void)try_scale(&s, *scale, *zero);
    float shrink = WIDEST;
    for (int i = 0; i < RANGES && try_range(&s, shrink); i++) shrink *= NARROWER;
    for (int i = 0; i < REFINEMENTS; i++) (void)try_scale(&s, s.scale, s.zero);
    *scale = s.scale;
    *zero = s.zero;
}

/* The search reads the weights many times: side by side is faster. */
static void gather_and_search(const struct pith_grid_rule *rule, const struct range *r,
                              const struct pith_weights *x, float *scale, float *zero)
{
    float copy[PITH_GATHER];
    struct pith_weights near = *x;
    if (x->stride != 1 && x->n <= PITH_GATHER)
        near = (struct pith_weights){pith_weights_gather(x, 0, x->n, copy), x->n, 1};
    if (rule->weight) search_squares(rule, r, &near, scale, zero);
    else search_range(rule->kern, r, &near, scale, zero);
}

static bool takes(const struct pith_grid *grid)
{
    return grid->format->kind == PITH_KIND_INT && !grid->double_quant && !grid->hqq;
}

static void fit(const struct pith_grid_rule *rule, const struct pith_weights *x, float *scale,
                float *zero)
{
    const struct pith_grid *grid = rule->grid;
    struct range r = {.top = top_code(grid->format),
                      .middle = (float)pith_format_middle(grid->format),
                      .asym = grid->asym,
                      .scale_dtype = rule->scale_dtype};
    find_range(rule->kern, x, &r.lo, &r.hi);
    if (!r.asym) {
        r.hi = -r.lo > r.hi ? -r.lo : r.hi;
        r.lo = -r.hi;
    }
    if (r.lo == 0.0f && r.hi == 0.0f) {
        *scale = 1.0f;
        *zero = r.asym ? 0.0f : r.middle;
        return;
    }
    place(&r, 1.0f, scale, zero);
    if ((grid->mse || rule->weight) && isfinite(*scale))
        gather_and_search(rule, &r, x, scale, zero);
}

static void quantize(const struct pith_format *f, const struct pith_grid_line *line)
{
    pith_grid_round_fn *round = line->kern ? line->kern->grid_round : pith_grid_round_scalar;
    const size_t group = pith_line_group(line), step = group == 1 ? 1 : 0;
    const size_t width = step ? line->n : group;
    for (size_t at = 0, i = 0; at < line->n; at += width, i++)
        round(line->n - at < width ? line->n - at : width, line->w + at, line->scale + i,
              line->zero + i, step, top_code(f), line->codes ? line->codes + at : NULL,
              line->values ? line->values + at : NULL);
}

static uint8_t encode(const struct pith_format *f, float w, float scale, float zero)
{
    uint8_t code = 0;
    const struct pith_grid_line line = {
        .n = 1, .w = &w, .scale = &scale, .zero = &zero, .codes = &code};
    quantize(f, &line);
    return code;
}

const struct pith_gridder pith_gridder_integer = {
    .name = "integer",
    .summary = "evenly spaced levels: int2 to int8, symmetric or with a zero point",
    .takes = takes,
    .fit = fit,
    .encode = encode,
    .quantize = quantize,
};
