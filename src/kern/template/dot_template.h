/* kern/template/dot_template.h: dot products in lanes and widening, written once in sixteen-lane
 * vectors: see rows_template.h. The product of rows takes four at a time: four independent sums
 * hide the latency of the multiply-add, and x is loaded once for the four. */
#include "kern/ops.h"

#include <string.h>

void TIER(dot_acc)(size_t n, const float *x, const float *y, float acc[PITH_LANES])
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

/* Loads sixteen weights, or n < 16 of them, from any address. With the functions known where it is
 * inlined, the product below is as if written for one way of storing w. */
typedef v16 load_fn(const void *p);
typedef v16 load_part_fn(const void *p, size_t n);
struct storage {
    size_t bytes; /* of a weight */
    load_fn *load;
    load_part_fn *part;
};
#define INLINE static inline __attribute__((always_inline))

INLINE v16 step(const struct storage *s, const char *w, size_t p, v16 x, v16 sum)
{
    return v16_fma(s->load(w + p * s->bytes), x, sum);
}

INLINE v16 last_step(const struct storage *s, const char *w, size_t p, size_t n, v16 x, v16 sum)
{
    return v16_blend(v16_fma(s->part(w + p * s->bytes, n), x, sum), sum, n);
}

INLINE float one_row(const struct storage *s, size_t cols, const char *w, const float *x)
{
    v16 sum = v16_zero();
    size_t p = 0;
    for (; p + 16 <= cols; p += 16) sum = step(s, w, p, v16_load(x + p), sum);
    if (p < cols) sum = last_step(s, w, p, cols - p, v16_load_part(x + p, cols - p), sum);
    return v16_sum(sum);
}

/* Prefetches the lines of four rows some way ahead of byte `at`. Past the end of a row, the fourth
 * row after it comes: the three between are read at the same time. */
INLINE void prefetch_ahead(const char *w, size_t at, size_t row, size_t ld)
{
    enum { AHEAD = 1024 /* bytes, as measured */ };
    const size_t ahead = at + AHEAD + (at + AHEAD < row ? 0 : 4 * ld - row);
    __builtin_prefetch(w + ahead);
    __builtin_prefetch(w + ahead + ld);
    __builtin_prefetch(w + ahead + 2 * ld);
    __builtin_prefetch(w + ahead + 3 * ld);
}

INLINE void four_rows(const struct storage *s, size_t cols, const char *w, size_t ld,
                      const float *x, float *y)
{
    v16 s0 = v16_zero(), s1 = s0, s2 = s0, s3 = s0;
    const char *w1 = w + ld, *w2 = w1 + ld, *w3 = w2 + ld;
    size_t p = 0;
    for (; p + 16 <= cols; p += 16) {
        const v16 v = v16_load(x + p);
        if (p * s->bytes % 64 == 0) prefetch_ahead(w, p * s->bytes, cols * s->bytes, ld);
        s0 = step(s, w, p, v, s0);
        s1 = step(s, w1, p, v, s1);
        s2 = step(s, w2, p, v, s2);
        s3 = step(s, w3, p, v, s3);
    }
    if (p < cols) {
        const size_t n = cols - p;
        const v16 v = v16_load_part(x + p, n);
        s0 = last_step(s, w, p, n, v, s0);
        s1 = last_step(s, w1, p, n, v, s1);
        s2 = last_step(s, w2, p, n, v, s2);
        s3 = last_step(s, w3, p, n, v, s3);
    }
    y[0] = v16_sum(s0);
    y[1] = v16_sum(s1);
    y[2] = v16_sum(s2);
    y[3] = v16_sum(s3);
}

INLINE void lanes(const struct storage *s, size_t rows, size_t cols, const void *w, size_t ldw,
                  const float *x, float *y)
{
    const char *row = w;
    const size_t ld = ldw * s->bytes;
    size_t r = 0;
    for (; r + 4 <= rows; r += 4) four_rows(s, cols, row + r * ld, ld, x, y + r);
    for (; r < rows; r++) y[r] = one_row(s, cols, row + r * ld, x);
}

static inline v16 load_f32(const void *p)
{
    return v16_load(p);
}

static inline v16 load_f32_part(const void *p, size_t n)
{
    return v16_load_part(p, n);
}

void TIER(lanes_f32)(size_t rows, size_t cols, const void *w, size_t ldw, const float *x, float *y)
{
    lanes(&(struct storage){4, load_f32, load_f32_part}, rows, cols, w, ldw, x, y);
}

void TIER(lanes_f16)(size_t rows, size_t cols, const void *w, size_t ldw, const float *x, float *y)
{
    lanes(&(struct storage){2, v16_load_f16, v16_load_f16_part}, rows, cols, w, ldw, x, y);
}

/* --- rows of w side by side ------------------------------------------------------------------- */

/* Rows of x that a number of w is loaded for. A vector has one lane of the sums of sixteen rows of
 * w, and lanes are made in the order in which they are folded, so that few of them wait. */
enum { AT_ONCE = VN_WIDTH / 4 };
struct panel_rows {
    size_t cols, ldx;
    const float *x, *w;
};
#define EACH_ROW(n, x) _Pragma("GCC unroll 4") for (size_t k = 0; k < (n); k++) x;

/* The first product is added to nothing, not to a copy of it, which takes as long as a product. */
INLINE void panel_lane(const struct panel_rows *b, size_t n, size_t lane, v16 s[])
{
    const v16 none = v16_zero();
    if (lane >= b->cols) {
        EACH_ROW(n, s[k] = none)
        return;
    }
    const v16 first = v16_load(b->w + lane * 16);
    EACH_ROW(n, s[k] = v16_fma(first, v16_set(b->x[k * b->ldx + lane]), none))
    for (size_t c = lane + 16; c < b->cols; c += 16) {
        const v16 w = v16_load(b->w + c * 16);
        EACH_ROW(n, s[k] = v16_fma(w, v16_set(b->x[k * b->ldx + c]), s[k]))
    }
}

/* The lanes first, first + half, first + 2 half, ... in one. */
#define FOLD(name, inner, half)                                                                    \
    INLINE void name(const struct panel_rows *b, size_t n, size_t first, v16 s[])                  \
    {                                                                                              \
        v16 other[AT_ONCE];                                                                        \
        inner(b, n, first, s);                                                                     \
        inner(b, n, first + (half), other);                                                        \
        EACH_ROW(n, s[k] = v16_add(s[k], other[k]))                                                \
    }
FOLD(fold_8, panel_lane, 8)
FOLD(fold_4, fold_8, 4)
FOLD(fold_2, fold_4, 2)
FOLD(fold_1, fold_2, 1)
#undef FOLD

INLINE void panel_sums(const struct panel_rows *b, size_t n, float *y, size_t ldy)
{
    v16 s[AT_ONCE];
    fold_1(b, n, 0, s);
    EACH_ROW(n, v16_store(y + k * ldy, v16_add(v16_load(y + k * ldy), s[k])))
}
#undef EACH_ROW

void TIER(lanes_panel)(size_t rows, size_t cols, const float *x, size_t ldx, const float *w,
                       float *y, size_t ldy)
{
    size_t i = 0;
    for (; i + AT_ONCE <= rows; i += AT_ONCE)
        panel_sums(&(struct panel_rows){cols, ldx, x + i * ldx, w}, AT_ONCE, y + i * ldy, ldy);
    for (; i < rows; i++)
        panel_sums(&(struct panel_rows){cols, ldx, x + i * ldx, w}, 1, y + i * ldy, ldy);
}
#undef INLINE

void TIER(widen_bf16)(size_t n, const void *src, float *dst)
{
    const char *s = src;
    size_t i = 0;
    for (; i + 16 <= n; i += 16) v16_store(dst + i, v16_load_bf16(s + i * 2));
    if (i < n) v16_store_part(dst + i, v16_load_bf16_part(s + i * 2, n - i), n - i);
}

void TIER(widen_f16)(size_t n, const void *src, float *dst)
{
    const char *s = src;
    size_t i = 0;
    for (; i + 16 <= n; i += 16) v16_store(dst + i, v16_load_f16(s + i * 2));
    if (i < n) v16_store_part(dst + i, v16_load_f16_part(s + i * 2, n - i), n - i);
}

/* FP8 codes as half floats, which have all their numbers, those of E4M3 2^8 times too small: their
 * exponents' bias is larger by 8. Of a number of codes that compilers know. */
enum { FP8_STEP = 64 };
static inline __attribute__((always_inline)) void fp8_halves(bool e4m3, const uint8_t *code,
                                                             uint16_t half[FP8_STEP])
{
    enum { NOT_A_NUMBER = 0x7e00 };
    const unsigned last = e4m3 ? 0x7e : 0x7c, shift = e4m3 ? 7 : 8;
    for (size_t i = 0; i < FP8_STEP; i++) {
        const unsigned size = code[i] & 0x7f, number = (code[i] & 0x80u) << 8 | size << shift;
        half[i] = (uint16_t)(size > last ? NOT_A_NUMBER : number);
    }
}

static inline __attribute__((always_inline)) void widen_fp8(bool e4m3, size_t n, const void *src,
                                                            float *dst)
{
    const v16 unit = v16_set(e4m3 ? 0x1p8f : 1.0f);
    uint16_t half[FP8_STEP];
    uint8_t last[FP8_STEP] = {0};
    for (size_t i = 0; i < n; i += FP8_STEP) {
        const size_t left = n - i < FP8_STEP ? n - i : FP8_STEP;
        const uint8_t *from = (const uint8_t *)src + i;
        if (left < FP8_STEP) from = memcpy(last, from, left);
        fp8_halves(e4m3, from, half);
        for (size_t k = 0; k + 16 <= left; k += 16)
            v16_store(dst + i + k, v16_mul(v16_load_f16(half + k), unit));
        const size_t rest = left - left % 16;
        if (rest < left)
            v16_store_part(dst + i + rest, v16_mul(v16_load_f16(half + rest), unit), left - rest);
    }
}

void TIER(widen_e4m3)(size_t n, const void *src, float *dst)
{
    widen_fp8(true, n, src, dst);
}

void TIER(widen_e5m2)(size_t n, const void *src, float *dst)
{
    widen_fp8(false, n, src, dst);
}

static inline __attribute__((always_inline)) void narrow(void (*store)(void *, v16), size_t n,
                                                         const float *src, void *dst)
{
    char *d = dst;
    size_t i = 0;
    for (; i + 16 <= n; i += 16) store(d + i * 2, v16_load(src + i));
    if (i == n) return;
    char last[32];
    store(last, v16_load_part(src + i, n - i));
    memcpy(d + i * 2, last, (n - i) * 2);
}

void TIER(narrow_bf16)(size_t n, const float *src, void *dst)
{
    narrow(v16_store_bf16, n, src, dst);
}

void TIER(narrow_f16)(size_t n, const float *src, void *dst)
{
    narrow(v16_store_f16, n, src, dst);
}
