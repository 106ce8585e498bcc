/* kern/template/grid_template.h: the grid operations of kern/ops.h written once in sixteen-lane
 * vectors, as kern/template/rows_template.h is. Rounding steps are those of
 * kern/scalar/grid_scalar.c, one by one. */
#include "kern/grid.h"
#include "kern/ops.h"

double TIER(sumsq_diff)(size_t n, const float *x, const float *y)
{
    v16d sum = v16d_zero();
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        const v16d d = v16d_sub(v16d_from(v16_load(x + i)), v16d_from(v16_load(y + i)));
        sum = v16d_fma(d, d, sum);
    }
    if (i < n) {
        const v16d d = v16d_sub(v16d_from(v16_load_part(x + i, n - i)),
                                v16d_from(v16_load_part(y + i, n - i)));
        sum = v16d_fma(d, d, sum);
    }
    return v16d_sum(sum);
}

void TIER(range)(size_t n, const float *x, float *lo, float *hi)
{
    const v16 none = v16_zero();
    v16 least = none, most = none, sum = none;
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        const v16 w = v16_load(x + i);
        least = v16_min(w, least);
        most = v16_max(w, most);
        sum = v16_add(sum, v16_mul(w, none));
    }
    if (i < n) {
        const v16 w = v16_load_part(x + i, n - i);
        least = v16_min(w, least);
        most = v16_max(w, most);
        sum = v16_add(sum, v16_mul(w, none));
    }
    const float nan = v16_sum(sum);
    *lo = -v16_max_lane(v16_negate(least)) + nan;
    *hi = v16_max_lane(most) + nan;
}

static inline v16 grid_cut_off(v16 t)
{
    return v16_min(v16_max(t, v16_set(-PITH_GRID_LIMIT)), v16_set(PITH_GRID_LIMIT));
}

static inline v16 grid_unit_codes(v16 t, v16 zero, v16 top)
{
    const v16 magic = v16_set(PITH_GRID_MAGIC);
    const v16 code = v16_add(v16_sub(v16_add(t, magic), magic), zero);
    return v16_min(v16_max(code, v16_zero()), top);
}

static inline v16 grid_codes(v16 w, v16 scale, v16 zero, v16 top)
{
    return grid_unit_codes(grid_cut_off(v16_div(w, scale)), zero, top);
}

void TIER(grid_round)(size_t n, const float *w, const float *scale, const float *zero, size_t step,
                      float top, uint8_t *codes, float *values)
{
    const v16 most = v16_set(top);
    v16 s = v16_set(n ? scale[0] : 1.0f), z = v16_set(n ? zero[0] : 0.0f);
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        if (step) {
            s = v16_load(scale + i);
            z = v16_load(zero + i);
        }
        const v16 u = grid_codes(v16_load(w + i), s, z, most);
        if (codes) v16_store_u8(codes + i, u);
        if (values) v16_store(values + i, v16_mul(v16_sub(u, z), s));
    }
    if (i == n) return;
    if (step) {
        s = v16_load_part(scale + i, n - i);
        z = v16_load_part(zero + i, n - i);
    }
    const v16 u = grid_codes(v16_load_part(w + i, n - i), s, z, most);
    if (codes) v16_store_u8_part(codes + i, u, n - i);
    if (values) v16_store_part(values + i, v16_mul(v16_sub(u, z), s), n - i);
}

static inline v16 fifth_root_step(v16 a, v16 z)
{
    const v16 z2 = v16_mul(z, z), t = v16_mul(v16_mul(v16_mul(a, z), z2), z2);
    return v16_mul(z, v16_sub(v16_set(1.2f), v16_mul(v16_set(0.2f), t)));
}

static inline v16 grid_pow24(v16 x)
{
    const v16 a = v16_mul(x, x), fifth = v16_mul(v16_set(0.2f), v16_number_of_bits(a));
    v16 z = v16_bits_of_number(v16_sub(v16_set(PITH_POW24_GUESS), fifth));
    z = fifth_root_step(a, fifth_root_step(a, fifth_root_step(a, z)));
    const v16 z2 = v16_mul(z, z);
    return v16_mul(v16_mul(a, a), v16_mul(z2, z2));
}

static inline v16 grid_distance(v16 w, const struct pith_grid_trial *t)
{
    const v16 scale = v16_set(t->scale), zero = v16_set(t->zero);
    const v16 u = grid_codes(w, scale, zero, v16_set(t->top));
    const v16 value = v16_mul(v16_sub(u, zero), scale);
    return grid_pow24(v16_mul(v16_sub(w, value), v16_set(t->unit)));
}

void TIER(grid_error)(size_t n, const float *w, const struct pith_grid_trial *t,
                      float acc[PITH_TRIAL_LANES])
{
    v16 a = v16_load(acc), b = v16_load(acc + 16);
    size_t i = 0;
    for (; i + 32 <= n; i += 32) {
        a = v16_add(a, grid_distance(v16_load(w + i), t));
        b = v16_add(b, grid_distance(v16_load(w + i + 16), t));
    }
    if (i + 16 <= n) {
        a = v16_add(a, grid_distance(v16_load(w + i), t));
        i += 16;
        if (i < n) {
            const v16 e = grid_distance(v16_load_part(w + i, n - i), t);
            b = v16_blend(v16_add(b, e), b, n - i);
        }
    } else if (i < n) {
        const v16 e = grid_distance(v16_load_part(w + i, n - i), t);
        a = v16_blend(v16_add(a, e), a, n - i);
    }
    v16_store(acc, a);
    v16_store(acc + 16, b);
}

struct grid_lanes {
    v16 error, slope, square;
};

static inline struct grid_lanes grid_add_squares(struct grid_lanes sum, v16 w, v16 weight,
                                                 const struct pith_grid_fit *t)
{
    const v16 zero = v16_set(t->zero);
    const v16 x = grid_cut_off(v16_mul(w, v16_set(t->inverse)));
    const v16 q = v16_sub(grid_unit_codes(x, zero, v16_set(t->top)), zero), e = v16_sub(x, q);
    const v16 felt = v16_mul(weight, e);
    sum.error = v16_fma(felt, e, sum.error);
    sum.slope = v16_fma(felt, q, sum.slope);
    sum.square = v16_fma(v16_mul(weight, q), q, sum.square);
    return sum;
}

/* Lanes behind the last weight have the weight 0 and add nothing. */
void TIER(grid_squares)(size_t n, const float *w, const float *weight,
                        const struct pith_grid_fit *t, struct pith_grid_sums *sums)
{
    struct grid_lanes sum = {v16_zero(), v16_zero(), v16_zero()};
    size_t i = 0;
    for (; i + 16 <= n; i += 16)
        sum = grid_add_squares(sum, v16_load(w + i), v16_load(weight + i), t);
    if (i < n)
        sum =
            grid_add_squares(sum, v16_load_part(w + i, n - i), v16_load_part(weight + i, n - i), t);
    *sums = (struct pith_grid_sums){v16_sum(sum.error), v16_sum(sum.slope), v16_sum(sum.square)};
}
