/* kern/template/dot_template.h: dot products in lanes and widening, written once in sixteen-lane vectors: see
 * rows_template.h. The matrix-vector product takes four rows at a time: four independent chains of sums hide the
 * latency of the multiply-add, and x is loaded once for the four. */
#include "kern/ops.h"

static inline void dot_acc(size_t n, const float *x, const float *y, float acc[PITH_LANES])
{
    v16 s = v16_load(acc);
    size_t p = 0;
    for (; p + 16 <= n; p += 16) s = v16_fma(v16_load(x + p), v16_load(y + p), s);
    if (p < n) {
        const v16 t = v16_fma(v16_load_part(x + p, n - p), v16_load_part(y + p, n - p), s);
        s = v16_blend(t, s, n - p);
    }
    v16_store(acc, s);
}

/* Defines NAME, the product for one way of storing w. */
#define PITH_MATVEC(NAME, BYTES, LOAD, LOAD_PART)                                                   \
    static inline float NAME##_row(size_t cols, const char *w, const float *x)                      \
    {                                                                                               \
        v16 s = v16_zero();                                                                         \
        size_t p = 0;                                                                               \
        for (; p + 16 <= cols; p += 16) s = v16_fma(LOAD(w + p * (BYTES)), v16_load(x + p), s);     \
        if (p == cols) return v16_sum(s);                                                           \
        const size_t n = cols - p;                                                                  \
        const v16 t = v16_fma(LOAD_PART(w + p * (BYTES), n), v16_load_part(x + p, n), s);           \
        return v16_sum(v16_blend(t, s, n));                                                         \
    }                                                                                               \
    static inline void NAME##_four(size_t cols, const char *w, size_t ld, const float *x, float *y) \
    {                                                                                               \
        v16 s0 = v16_zero(), s1 = s0, s2 = s0, s3 = s0;                                             \
        const char *w1 = w + ld, *w2 = w1 + ld, *w3 = w2 + ld;                                      \
        size_t p = 0;                                                                               \
        for (; p + 16 <= cols; p += 16) {                                                           \
            const v16 v = v16_load(x + p);                                                          \
            s0 = v16_fma(LOAD(w + p * (BYTES)), v, s0);                                             \
            s1 = v16_fma(LOAD(w1 + p * (BYTES)), v, s1);                                            \
            s2 = v16_fma(LOAD(w2 + p * (BYTES)), v, s2);                                            \
            s3 = v16_fma(LOAD(w3 + p * (BYTES)), v, s3);                                            \
        }                                                                                           \
        if (p < cols) {                                                                             \
            const size_t n = cols - p;                                                              \
            const v16 v = v16_load_part(x + p, n);                                                  \
            s0 = v16_blend(v16_fma(LOAD_PART(w + p * (BYTES), n), v, s0), s0, n);                   \
            s1 = v16_blend(v16_fma(LOAD_PART(w1 + p * (BYTES), n), v, s1), s1, n);                  \
            s2 = v16_blend(v16_fma(LOAD_PART(w2 + p * (BYTES), n), v, s2), s2, n);                  \
            s3 = v16_blend(v16_fma(LOAD_PART(w3 + p * (BYTES), n), v, s3), s3, n);                  \
        }                                                                                           \
        y[0] = v16_sum(s0);                                                                         \
        y[1] = v16_sum(s1);                                                                         \
        y[2] = v16_sum(s2);                                                                         \
        y[3] = v16_sum(s3);                                                                         \
    }                                                                                               \
    static inline void NAME(size_t rows, size_t cols, const void *w, size_t ldw, const float *x,    \
                            float *y)                                                               \
    {                                                                                               \
        const char *row = w;                                                                        \
        const size_t ld = ldw * (BYTES);                                                            \
        size_t r = 0;                                                                               \
        for (; r + 4 <= rows; r += 4) NAME##_four(cols, row + r * ld, ld, x, y + r);                \
        for (; r < rows; r++) y[r] = NAME##_row(cols, row + r * ld, x);                             \
    }

#define LOAD_F32(p) v16_load((const float *)(const void *)(p))
#define LOAD_F32_PART(p, n) v16_load_part((const float *)(const void *)(p), n)
PITH_MATVEC(matvec_f32, 4, LOAD_F32, LOAD_F32_PART)
PITH_MATVEC(matvec_bf16, 2, v16_load_bf16, v16_load_bf16_part)
PITH_MATVEC(matvec_f16, 2, v16_load_f16, v16_load_f16_part)

static inline void widen_bf16(size_t n, const void *src, float *dst)
{
    const char *s = src;
    size_t i = 0;
    for (; i + 16 <= n; i += 16) v16_store(dst + i, v16_load_bf16(s + i * 2));
    if (i < n) v16_store_part(dst + i, v16_load_bf16_part(s + i * 2, n - i), n - i);
}

static inline void widen_f16(size_t n, const void *src, float *dst)
{
    const char *s = src;
    size_t i = 0;
    for (; i + 16 <= n; i += 16) v16_store(dst + i, v16_load_f16(s + i * 2));
    if (i < n) v16_store_part(dst + i, v16_load_f16_part(s + i * 2, n - i), n - i);
}
