/* kern/template/rows_template.h: the row operations of kern/ops.h written once in sixteen-lane
 * vectors. A file of avx2/, avx512/ or neon/ includes its vec header and then this, with
 * TIER(op), the name of its kernel. Rounding steps are those of kern/scalar/rows_scalar.c, one by
 * one. */
#include "kern/exp.h"
#include "kern/ops.h"

#include <math.h>

/* Of n vectors, which is known, step by step for all: one after the other each step waits for the
 * one before it. */
#define TOGETHER (VN_WIDTH / 4)
#define EACH(n, x) _Pragma("GCC unroll 4") for (size_t k = 0; k < (n); k++) x;
static inline __attribute__((always_inline)) void row_exps(size_t n, v16 x[])
{
    const v16 magic = v16_set(PITH_EXP32_MAGIC);
    v16 t[TOGETHER], r[TOGETHER], p[TOGETHER];
    EACH(n, x[k] = v16_min(v16_set(PITH_EXP32_HIGH), x[k]))
    EACH(n, x[k] = v16_max(v16_set(PITH_EXP32_LOW), x[k]))
    EACH(n, t[k] = v16_fma(x[k], v16_set(PITH_EXP32_LOG2E), magic))
    EACH(n, r[k] = v16_fnma(v16_sub(t[k], magic), v16_set(PITH_EXP32_LN2_HIGH), x[k]))
    EACH(n, r[k] = v16_fnma(v16_sub(t[k], magic), v16_set(PITH_EXP32_LN2_LOW), r[k]))
#define FIRST(c) EACH(n, p[k] = v16_set(c))
#define NEXT(c) EACH(n, p[k] = v16_fma(p[k], r[k], v16_set(c)))
    PITH_EXP32_POLY(FIRST, NEXT)
#undef FIRST
#undef NEXT
    EACH(n, x[k] = v16_scale(p[k], t[k]))
}

static inline v16 row_exp(v16 x)
{
    row_exps(1, &x);
    return x;
}

static inline v16d row_exp_f64(v16d x)
{
    x = v16d_max(v16d_set(PITH_EXP64_LOW), x);
    const v16d magic = v16d_set(PITH_EXP64_MAGIC);
    const v16d t = v16d_fma(x, v16d_set(PITH_EXP64_LOG2E), magic), n = v16d_sub(t, magic);
    v16d r = v16d_fnma(n, v16d_set(PITH_EXP64_LN2_HIGH), x);
    r = v16d_fnma(n, v16d_set(PITH_EXP64_LN2_LOW), r);
    v16d p;
#define FIRST(c) p = v16d_set(c);
#define NEXT(c) p = v16d_fma(p, r, v16d_set(c));
    PITH_EXP64_POLY(FIRST, NEXT)
#undef FIRST
#undef NEXT
    return v16d_scale(p, t);
}

static inline float row_max(size_t n, const float *x)
{
    v16 m = v16_set(-INFINITY), most[TOGETHER];
    size_t i = 0;
    EACH(TOGETHER, most[k] = m)
    for (; i + TOGETHER * 16 <= n; i += TOGETHER * 16)
        EACH(TOGETHER, most[k] = v16_max(v16_load(x + i + k * 16), most[k]))
    EACH(TOGETHER, m = v16_max(most[k], m))
    for (; i + 16 <= n; i += 16) m = v16_max(v16_load(x + i), m);
    if (i < n) m = v16_blend(v16_max(v16_load_part(x + i, n - i), m), m, n - i);
    return v16_max_lane(m);
}

float TIER(max)(size_t n, const float *x)
{
    return row_max(n, x);
}

void TIER(softmax)(size_t n, float *x)
{
    const v16 m = v16_set(row_max(n, x));
    v16 sum = v16_zero();
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        const v16 e = row_exp(v16_sub(v16_load(x + i), m));
        v16_store(x + i, e);
        sum = v16_add(sum, e);
    }
    if (i < n) {
        v16 e = row_exp(v16_sub(v16_load_part(x + i, n - i), m));
        e = v16_blend(e, v16_zero(), n - i);
        v16_store_part(x + i, e, n - i);
        sum = v16_add(sum, e);
    }
    const v16 r = v16_set(1.0f / v16_sum(sum));
    for (i = 0; i + 16 <= n; i += 16) v16_store(x + i, v16_mul(v16_load(x + i), r));
    if (i < n) v16_store_part(x + i, v16_mul(v16_load_part(x + i, n - i), r), n - i);
}

float TIER(exp_sum)(size_t n, float *x, float max)
{
    const v16 m = v16_set(max);
    v16 sum = v16_zero(), some[TOGETHER];
    size_t i = 0;
    for (; i + TOGETHER * 16 <= n; i += TOGETHER * 16) {
        EACH(TOGETHER, some[k] = v16_sub(v16_load(x + i + k * 16), m))
        row_exps(TOGETHER, some);
        EACH(TOGETHER, v16_store(x + i + k * 16, some[k]))
        EACH(TOGETHER, sum = v16_add(sum, some[k]))
    }
    for (; i + 16 <= n; i += 16) {
        const v16 e = row_exp(v16_sub(v16_load(x + i), m));
        v16_store(x + i, e);
        sum = v16_add(sum, e);
    }
    if (i < n) {
        const v16 e = row_exp(v16_sub(v16_load_part(x + i, n - i), m));
        v16_store_part(x + i, e, n - i);
        sum = v16_blend(v16_add(sum, e), sum, n - i);
    }
    return v16_sum(sum);
}

void TIER(mix)(size_t n, float a, float b, const float *x, float *y)
{
    const v16 f = v16_set(a), g = v16_set(b);
    size_t i = 0;
    for (; i + 16 <= n; i += 16)
        v16_store(y + i, v16_fma(f, v16_load(y + i), v16_mul(g, v16_load(x + i))));
    if (i == n) return;
    const v16 last =
        v16_fma(f, v16_load_part(y + i, n - i), v16_mul(g, v16_load_part(x + i, n - i)));
    v16_store_part(y + i, last, n - i);
}

void TIER(add)(size_t n, const float *x, float *y)
{
    size_t i = 0;
    for (; i + 16 <= n; i += 16) v16_store(y + i, v16_add(v16_load(y + i), v16_load(x + i)));
    if (i == n) return;
    v16_store_part(y + i, v16_add(v16_load_part(y + i, n - i), v16_load_part(x + i, n - i)), n - i);
}

static inline v16 rotated(v16 x, v16 c, v16 y, v16 s)
{
    return v16_add(v16_mul(x, c), v16_mul(y, s));
}

void TIER(rope_pairs)(size_t n, const float *cos, const float *sin, float *low, float *high)
{
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        const v16 c = v16_load(cos + i), s = v16_load(sin + i);
        const v16 a = v16_load(low + i), b = v16_load(high + i);
        v16_store(low + i, rotated(a, c, b, v16_negate(s)));
        v16_store(high + i, rotated(b, c, a, s));
    }
    if (i == n) return;
    const v16 c = v16_load_part(cos + i, n - i), s = v16_load_part(sin + i, n - i);
    const v16 a = v16_load_part(low + i, n - i), b = v16_load_part(high + i, n - i);
    v16_store_part(low + i, rotated(a, c, b, v16_negate(s)), n - i);
    v16_store_part(high + i, rotated(b, c, a, s), n - i);
}

/* x / (1 + exp(minus_y)) */
static inline v16 over_sigmoid(v16 x, v16 minus_y)
{
    return v16_div(x, v16_add(v16_set(1.0f), row_exp(minus_y)));
}

static inline v16 silu_of(v16 x)
{
    return over_sigmoid(x, v16_negate(x));
}

static inline v16 sigmoid_of(v16 x)
{
    return over_sigmoid(v16_set(1.0f), v16_negate(x));
}

static inline v16d tanh_of(v16d x)
{
    const v16d one = v16d_set(1.0), less = v16d_signed(x, v16d_set(-1.0));
    const v16d e = row_exp_f64(v16d_mul(v16d_set(2.0), less));
    return v16d_signed(v16d_div(v16d_sub(one, e), v16d_add(one, e)), x);
}

static inline v16 gelu_tanh_of(v16 x)
{
    const v16d v = v16d_from(x), square = v16d_mul(v16d_mul(v16d_set(PITH_GELU_CUBE), v), v);
    const v16d u = v16d_mul(v16d_set(PITH_GELU_ROOT), v16d_add(v, v16d_mul(square, v)));
    const v16d half = v16d_mul(v16d_set(0.5), v);
    return v16d_narrow(v16d_mul(half, v16d_add(v16d_set(1.0), tanh_of(u))));
}

/* Each element of a row by itself. */
#define EACH_OF_ROW(n, x, of)                                                                      \
    size_t i = 0;                                                                                  \
    for (; i + 16 <= (n); i += 16) v16_store((x) + i, of(v16_load((x) + i)));                      \
    if (i < (n)) v16_store_part((x) + i, of(v16_load_part((x) + i, (n)-i)), (n)-i);

void TIER(silu)(size_t n, float *x)
{
    EACH_OF_ROW(n, x, silu_of)
}

void TIER(sigmoid)(size_t n, float *x)
{
    EACH_OF_ROW(n, x, sigmoid_of)
}

void TIER(gelu_tanh)(size_t n, float *x)
{
    EACH_OF_ROW(n, x, gelu_tanh_of)
}

void TIER(softcap)(size_t n, float cap, float *x)
{
    const v16d c = v16d_set((double)cap);
#define CAPPED(v) v16d_narrow(v16d_mul(c, tanh_of(v16d_div(v16d_from(v), c))))
    EACH_OF_ROW(n, x, CAPPED)
#undef CAPPED
}

static inline v16 clamped(v16 gate, v16 up, float limit, float alpha)
{
    const v16 most = v16_set(limit), g = v16_min(gate, most);
    const v16 u = v16_max(v16_min(up, most), v16_set(-limit));
    return v16_mul(over_sigmoid(g, v16_mul(v16_set(-alpha), g)), v16_add(u, v16_set(1.0f)));
}

void TIER(clamped_mul)(size_t n, float limit, float alpha, float *gate, const float *up)
{
    size_t i = 0;
    for (; i + 16 <= n; i += 16)
        v16_store(gate + i, clamped(v16_load(gate + i), v16_load(up + i), limit, alpha));
    if (i == n) return;
    const v16 g = v16_load_part(gate + i, n - i), u = v16_load_part(up + i, n - i);
    v16_store_part(gate + i, clamped(g, u, limit, alpha), n - i);
}

void TIER(mul)(size_t n, const float *x, float *y)
{
    size_t i = 0;
    for (; i + 16 <= n; i += 16) v16_store(y + i, v16_mul(v16_load(y + i), v16_load(x + i)));
    if (i == n) return;
    v16_store_part(y + i, v16_mul(v16_load_part(y + i, n - i), v16_load_part(x + i, n - i)), n - i);
}

static inline v16 gated(v16 gate, v16 up)
{
    return v16_mul(silu_of(gate), up);
}

void TIER(silu_mul)(size_t n, float *gate, const float *up)
{
    size_t i = 0;
    for (; i + 16 <= n; i += 16) v16_store(gate + i, gated(v16_load(gate + i), v16_load(up + i)));
    if (i == n) return;
    const v16 y = gated(v16_load_part(gate + i, n - i), v16_load_part(up + i, n - i));
    v16_store_part(gate + i, y, n - i);
}

double TIER(sumsq)(size_t n, const float *x)
{
    v16d sum = v16d_zero();
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        const v16d d = v16d_from(v16_load(x + i));
        sum = v16d_fma(d, d, sum);
    }
    if (i < n) {
        const v16d d = v16d_from(v16_load_part(x + i, n - i));
        sum = v16d_fma(d, d, sum);
    }
    return v16d_sum(sum);
}

void TIER(scale_mul)(size_t n, const float *x, float r, const float *weight, float *y)
{
    const v16 f = v16_set(r);
    size_t i = 0;
    for (; i + 16 <= n; i += 16)
        v16_store(y + i, v16_mul(v16_mul(v16_load(x + i), f), v16_load(weight + i)));
    if (i == n) return;
    const v16 last =
        v16_mul(v16_mul(v16_load_part(x + i, n - i), f), v16_load_part(weight + i, n - i));
    v16_store_part(y + i, last, n - i);
}

static inline v16d scaled_exp(v16 x, v16d max, v16d scale)
{
    return row_exp_f64(v16d_mul(v16d_sub(v16d_from(x), max), scale));
}

double TIER(sum_exp)(size_t n, const float *x, float max, double scale)
{
    const v16d m = v16d_set((double)max), f = v16d_set(scale);
    v16d sum = v16d_zero();
    size_t i = 0;
    for (; i + 16 <= n; i += 16) sum = v16d_add(sum, scaled_exp(v16_load(x + i), m, f));
    if (i < n) {
        const v16d e = scaled_exp(v16_load_part(x + i, n - i), m, f);
        sum = v16d_add(sum, v16d_part(e, n - i));
    }
    return v16d_sum(sum);
}
