/* quant/grid/integer.c: int formats. The rules are those of quant/scale.h.
 *
 * The loops run over CHUNK weights in local arrays: a fixed trip count without aliasing is what
 * compilers turn into vector instructions at -O2. Everything is plain IEEE arithmetic in a fixed
 * order, so the result does not depend on the machine; that is also why x^2.4 is computed here
 * and not by libm. */
#include "quant/tables.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { CHUNK = 32, MSE_STEPS = 80, MSE_GRID = 100, GATHER = 512 };

/* 1.5 * 2^23: added to and subtracted from |x| < 2^22 it leaves x rounded to an integer, ties to
 * even. */
#define ROUND_MAGIC 12582912.0f
#define ROUND_LIMIT 1048576.0f

static inline float round_even(float x)
{
    return (x + ROUND_MAGIC) - ROUND_MAGIC;
}

/* NaN gives lo. */
static inline float clamp(float x, float lo, float hi)
{
    x = x > lo ? x : lo;
    return x < hi ? x : hi;
}

/* Stored codes of CHUNK weights, as floats. One step a loop: with more, the compilers branch.
 * NaN takes the lowest code. */
static void find_codes(const float w[CHUNK], const float scale[CHUNK], const float zero[CHUNK],
                       float top, float u[CHUNK])
{
    float t[CHUNK];
    for (int i = 0; i < CHUNK; i++) t[i] = w[i] / scale[i];
    for (int i = 0; i < CHUNK; i++) t[i] = t[i] > -ROUND_LIMIT ? t[i] : -ROUND_LIMIT;
    for (int i = 0; i < CHUNK; i++) t[i] = t[i] < ROUND_LIMIT ? t[i] : ROUND_LIMIT;
    for (int i = 0; i < CHUNK; i++) t[i] = round_even(t[i]) + zero[i];
    for (int i = 0; i < CHUNK; i++) t[i] = t[i] > 0.0f ? t[i] : 0.0f;
    for (int i = 0; i < CHUNK; i++) t[i] = t[i] < top ? t[i] : top;
    memcpy(u, t, sizeof t);
}

static void splat(float x, float out[CHUNK])
{
    for (int i = 0; i < CHUNK; i++) out[i] = x;
}

static float top_code(const struct pith_format *f)
{
    return (float)((1u << f->bits) - 1);
}

/* One step of Newton's iteration for z = a^(-1/5); it needs no division. */
static inline float fifth_root_step(float a, float z)
{
    const float z2 = z * z;
    return z * (1.2f - 0.2f * (((a * z) * z2) * z2));
}

/* |x|^2.4 as x^2 a^(1/5) with a = x^2 and a^(1/5) = a z^4. The guess for z = a^(-1/5) comes from
 * the exponent bits and is within 6%. Relative error below 1e-6. */
static inline float pow24(float x)
{
    const float a = x * x;
    int32_t bits;
    memcpy(&bits, &a, sizeof bits);
    const int32_t guess = (int32_t)(1277970816.0f - 0.2f * (float)bits);
    float z;
    memcpy(&z, &guess, sizeof z);
    z = fifth_root_step(a, fifth_root_step(a, fifth_root_step(a, z)));
    return (a * a) * ((z * z) * (z * z));
}

struct weights {
    const float *w;
    size_t n, stride;
};

/* Weights first.. into out, zeros behind the last (they lie on every grid). */
static void load(const struct weights *x, size_t first, float out[CHUNK])
{
    const size_t n = x->n - first < CHUNK ? x->n - first : CHUNK;
    if (x->stride == 1) memcpy(out, x->w + first, n * sizeof *out);
    else
        for (size_t i = 0; i < n; i++) out[i] = x->w[(first + i) * x->stride];
    for (size_t i = n; i < CHUNK; i++) out[i] = 0.0f;
}

/* lo = min(w, 0), hi = max(w, 0); both NaN when a weight is. */
static void find_range(const struct weights *x, float *lo, float *hi)
{
    float least[CHUNK] = {0}, most[CHUNK] = {0}, sum[CHUNK] = {0}, w[CHUNK];
    for (size_t first = 0; first < x->n; first += CHUNK) {
        load(x, first, w);
        for (int i = 0; i < CHUNK; i++) {
            least[i] = w[i] < least[i] ? w[i] : least[i];
            most[i] = w[i] > most[i] ? w[i] : most[i];
            sum[i] += w[i] * 0.0f;
        }
    }
    float nan = 0.0f;
    *lo = *hi = 0.0f;
    for (int i = 0; i < CHUNK; i++) {
        *lo = least[i] < *lo ? least[i] : *lo;
        *hi = most[i] > *hi ? most[i] : *hi;
        nan += sum[i];
    }
    *lo += nan;
    *hi += nan;
}

static double sum_of(const float x[CHUNK])
{
    float t[CHUNK / 4];
    for (int i = 0; i < CHUNK / 4; i++)
        t[i] = (x[i] + x[i + CHUNK / 4]) + (x[i + CHUNK / 2] + x[i + CHUNK / 4 * 3]);
    double total = 0.0;
    for (int i = 0; i < CHUNK / 4; i++) total += (double)t[i];
    return total;
}

/* One candidate range, and the unit that keeps the 2.4th power inside float's range. */
struct trial {
    float scale, zero, top;
    float per_unit; /* a power of two */
};

/* Sum of |w - q|^2.4 in units; or infinity as soon as it is certain to end above `best`. */
static double error_of(const struct weights *x, const struct trial *t, double best)
{
    float w[CHUNK], s[CHUNK], z[CHUNK], u[CHUNK], sum[CHUNK] = {0};
    splat(t->scale, s);
    splat(t->zero, z);
    for (size_t first = 0; first < x->n; first += CHUNK) {
        load(x, first, w);
        find_codes(w, s, z, t->top, u);
        for (int i = 0; i < CHUNK; i++) u[i] = (w[i] - (u[i] - t->zero) * t->scale) * t->per_unit;
        for (int i = 0; i < CHUNK; i++) sum[i] += pow24(u[i]);
        if (0.999 * sum_of(sum) > best) return INFINITY;
    }
    return sum_of(sum);
}

/* As it will be stored; never 0. */
static float storable(enum pith_dtype t, float scale)
{
    const float r = pith_round_to(t, scale);
    if (r != 0.0f) return r;
    return t == PITH_F16 ? 0x1p-14f : FLT_MIN;
}

struct range {
    float lo, hi;
    float top;
    bool asym;
    enum pith_dtype scale_dtype;
};

static void place(const struct range *r, float shrink, float *scale, float *zero)
{
    const float lo = shrink * r->lo, hi = shrink * r->hi;
    *scale = storable(r->scale_dtype, (hi - lo) / r->top);
    if (r->asym) *zero = clamp(round_even(clamp(-lo / *scale, 0.0f, r->top)), 0.0f, r->top);
    else *zero = (r->top + 1.0f) / 2.0f;
}

static float inverse_power_of_two(float x)
{
    int exponent;
    frexpf(x, &exponent);
    return ldexpf(1.0f, exponent < -126 ? 126 : -exponent);
}

static void search(const struct range *r, const struct weights *x, float *scale, float *zero)
{
    struct trial t = {.top = r->top, .per_unit = inverse_power_of_two(*scale)};
    double best = INFINITY;
    for (int i = 0; i < MSE_STEPS; i++) {
        place(r, (float)(1.0 - (double)i / MSE_GRID), &t.scale, &t.zero);
        const double e = error_of(x, &t, best);
        if (e < best) {
            best = e;
            *scale = t.scale;
            *zero = t.zero;
        }
    }
}

/* The search reads the weights many times: side by side is faster. */
static void gather_and_search(const struct range *r, const struct weights *x, float *scale,
                              float *zero)
{
    float copy[GATHER];
    if (x->stride == 1 || x->n > GATHER) {
        search(r, x, scale, zero);
        return;
    }
    for (size_t i = 0; i < x->n; i++) copy[i] = x->w[i * x->stride];
    const struct weights near = {copy, x->n, 1};
    search(r, &near, scale, zero);
}

static void fit(const struct pith_grid *grid, enum pith_dtype scale_dtype, const float *w, size_t n,
                size_t stride, float *scale, float *zero)
{
    const struct weights x = {w, n, stride};
    struct range r = {
        .top = top_code(grid->format), .asym = grid->asym, .scale_dtype = scale_dtype};
    find_range(&x, &r.lo, &r.hi);
    if (!r.asym) {
        r.hi = -r.lo > r.hi ? -r.lo : r.hi;
        r.lo = -r.hi;
    }
    if (r.lo == 0.0f && r.hi == 0.0f) {
        *scale = 1.0f;
        *zero = r.asym ? 0.0f : (r.top + 1.0f) / 2.0f;
        return;
    }
    place(&r, 1.0f, scale, zero);
    if (grid->mse && isfinite(*scale)) gather_and_search(&r, &x, scale, zero);
}

static void quantize(const struct pith_format *f, const struct pith_grid_line *line)
{
    const float top = top_code(f);
    float w[CHUNK] = {0}, s[CHUNK], z[CHUNK], u[CHUNK], value[CHUNK];
    uint8_t code[CHUNK];
    splat(line->scale[0], s);
    splat(line->zero[0], z);
    for (size_t first = 0; first < line->n; first += CHUNK) {
        const size_t n = line->n - first < CHUNK ? line->n - first : CHUNK;
        memcpy(w, line->w + first, n * sizeof *w);
        if (line->step) {
            memcpy(s, line->scale + first, n * sizeof *s);
            memcpy(z, line->zero + first, n * sizeof *z);
        }
        find_codes(w, s, z, top, u);
        for (int i = 0; i < CHUNK; i++) value[i] = (u[i] - z[i]) * s[i];
        for (int i = 0; i < CHUNK; i++) code[i] = (uint8_t)(int32_t)u[i];
        if (line->codes) memcpy(line->codes + first, code, n);
        if (line->values) memcpy(line->values + first, value, n * sizeof *value);
    }
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
    .kind = PITH_KIND_INT,
    .fit = fit,
    .encode = encode,
    .quantize = quantize,
};
