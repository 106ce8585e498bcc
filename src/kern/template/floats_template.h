/* kern/template/floats_template.h: weights on the levels of small float formats and of codebooks,
 * written once in sixteen-lane vectors, as kern/template/rows_template.h is. Rounding steps are
 * those of kern/scalar/floats_scalar.c, one by one. */
#include "kern/grid.h"
#include "kern/ops.h"
#include "num/codebook.h"

static inline float floats_run_max(size_t n, const float *x)
{
    v16 most = v16_zero(), sum = v16_zero();
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        const v16 w = v16_load(x + i);
        most = v16_max(v16_max(w, v16_negate(w)), most);
        sum = v16_add(sum, v16_mul(w, v16_zero()));
    }
    if (i < n) {
        const v16 w = v16_load_part(x + i, n - i);
        most = v16_max(v16_max(w, v16_negate(w)), most);
        sum = v16_add(sum, v16_mul(w, v16_zero()));
    }
    return v16_max_lane(most) + v16_sum(sum);
}

void TIER(group_max)(size_t n, size_t group, const float *x, float *most)
{
    for (size_t first = 0; first < n; first += group, most++)
        *most = floats_run_max(n - first < group ? n - first : group, x + first);
}

/* The fields of struct pith_float_levels, in every lane. */
struct float_lanes {
    v16 max, min_normal, magic, unit, offset, per_step, normal, sign;
};

/* What one vector becomes; `value` is v without sign and scale, `negative` 1 or 0. */
struct float_rounded {
    v16 value, negative;
};

static inline v16 floats_level(const struct float_lanes *f, v16 magnitude)
{
    const v16 t = v16_min(v16_max(magnitude, v16_zero()), f->max);
    const v16 p = v16_mul(v16_max(v16_power_below(t), f->min_normal), f->magic);
    return v16_sub(v16_add(t, p), p);
}

static inline struct float_rounded floats_nearest(const struct float_lanes *f, v16 w, v16 scale)
{
    const v16 q = v16_div(w, scale);
    /* The bits of a negative number, as a signed integer, are at most -2^23; of others at least 0.
     */
    const v16 below = v16_max(v16_negate(v16_number_of_bits(w)), v16_zero());
    return (struct float_rounded){floats_level(f, v16_max(q, v16_negate(q))),
                                  v16_min(below, v16_set(1.0f))};
}

static inline v16 floats_code(const struct float_lanes *f, struct float_rounded r)
{
    const v16 high = v16_sub(v16_mul(v16_number_of_bits(r.value), f->unit), f->offset);
    const v16 low = v16_min(v16_mul(r.value, f->per_step), f->normal);
    return v16_add(v16_max(high, low), v16_mul(r.negative, f->sign));
}

static inline v16 floats_value(struct float_rounded r, v16 scale)
{
    const v16 sign = v16_sub(v16_set(1.0f), v16_add(r.negative, r.negative));
    return v16_mul(v16_mul(r.value, sign), scale);
}

/* n weights with one scale, or (each) with their own. */
static inline void floats_run(size_t n, const float *w, const float *scale, bool each,
                              const struct float_lanes *f, uint8_t *codes, float *values)
{
    v16 s = v16_set(scale[0]);
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        if (each) s = v16_load(scale + i);
        const struct float_rounded r = floats_nearest(f, v16_load(w + i), s);
        if (codes) v16_store_u8(codes + i, floats_code(f, r));
        if (values) v16_store(values + i, floats_value(r, s));
    }
    if (i == n) return;
    if (each) s = v16_load_part(scale + i, n - i);
    const struct float_rounded r = floats_nearest(f, v16_load_part(w + i, n - i), s);
    if (codes) v16_store_u8_part(codes + i, floats_code(f, r), n - i);
    if (values) v16_store_part(values + i, floats_value(r, s), n - i);
}

static inline struct float_lanes floats_lanes(const struct pith_float_levels *levels)
{
    return (struct float_lanes){v16_set(levels->max),    v16_set(levels->min_normal),
                                v16_set(levels->magic),  v16_set(levels->unit),
                                v16_set(levels->offset), v16_set(levels->per_step),
                                v16_set(levels->normal), v16_set(levels->sign)};
}

static inline v16 floats_distance(const struct float_lanes *f, v16 w, v16 inverse)
{
    const v16 q = v16_mul(w, inverse), t = v16_max(q, v16_negate(q));
    return v16_sub(t, floats_level(f, t));
}

void TIER(float_trials)(size_t n, const float *w, const float *weight, size_t count,
                        const float *inverse, const struct pith_float_levels *levels, float *sum)
{
    const struct float_lanes f = floats_lanes(levels);
    for (size_t k = 0; k < count; k++) {
        const v16 by = v16_set(inverse[k]);
        v16 acc = v16_zero();
        size_t i = 0;
        for (; i + 16 <= n; i += 16) {
            const v16 d = floats_distance(&f, v16_load(w + i), by);
            const v16 felt = weight ? v16_mul(v16_load(weight + i), d) : d;
            acc = v16_fma(felt, d, acc);
        }
        if (i < n) {
            const v16 d = floats_distance(&f, v16_load_part(w + i, n - i), by);
            const v16 felt = weight ? v16_mul(v16_load_part(weight + i, n - i), d) : d;
            acc = v16_blend(v16_fma(felt, d, acc), acc, n - i);
        }
        sum[k] = v16_sum(acc);
    }
}

void TIER(float_round)(size_t n, const float *w, const float *scale, size_t group,
                       const struct pith_float_levels *levels, uint8_t *codes, float *values)
{
    const struct float_lanes f = floats_lanes(levels);
    if (group == 1) {
        if (n) floats_run(n, w, scale, true, &f, codes, values);
        return;
    }
    for (size_t at = 0; at < n; at += group, scale++)
        floats_run(n - at < group ? n - at : group, w + at, scale, false, &f,
                   codes ? codes + at : NULL, values ? values + at : NULL);
}

struct book_rounded {
    v16 level, code;
};

static inline struct book_rounded book_nearest(const struct pith_codebook *book, v16 w, v16 scale)
{
    const v16 s = v16_max(scale, v16_set(1e-38f));
    const v16 t = v16_mul(w, v16_div(v16_set(1.0f), s));
    struct book_rounded r = {v16_set(book->level[0]), v16_set((float)book->code[0])};
    for (size_t k = 1; k < PITH_BOOK_LEVELS; k++) {
        const v16 threshold = v16_set(book->threshold[k - 1]);
        r.level = v16_above(t, threshold, v16_set(book->level[k]), r.level);
        r.code = v16_above(t, threshold, v16_set((float)book->code[k]), r.code);
    }
    return r;
}

static inline void book_run(size_t n, const float *w, const float *scale, bool each,
                            const struct pith_codebook *book, uint8_t *codes, float *values)
{
    v16 s = v16_set(scale[0]);
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        if (each) s = v16_load(scale + i);
        const struct book_rounded r = book_nearest(book, v16_load(w + i), s);
        if (codes) v16_store_u8(codes + i, r.code);
        if (values) v16_store(values + i, v16_mul(r.level, s));
    }
    if (i == n) return;
    if (each) s = v16_load_part(scale + i, n - i);
    const struct book_rounded r = book_nearest(book, v16_load_part(w + i, n - i), s);
    if (codes) v16_store_u8_part(codes + i, r.code, n - i);
    if (values) v16_store_part(values + i, v16_mul(r.level, s), n - i);
}

void TIER(book_round)(size_t n, const float *w, const float *scale, size_t group,
                      const struct pith_codebook *book, uint8_t *codes, float *values)
{
    if (group == 1) {
        if (n) book_run(n, w, scale, true, book, codes, values);
        return;
    }
    for (size_t at = 0; at < n; at += group, scale++)
        book_run(n - at < group ? n - at : group, w + at, scale, false, book,
                 codes ? codes + at : NULL, values ? values + at : NULL);
}
