/* Products with matrices as they are stored, a chain a row. */
#include "kern/neon/vec_neon.h"

#include <stdbool.h>

static inline vn vn_words(const void *p)
{
    return load_4(p);
}
static inline vn vn_from_f16(const void *p)
{
    return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p)));
}
static inline vn vn_low_bf16(vn w)
{
    return vreinterpretq_f32_u32(vshlq_n_u32(vreinterpretq_u32_f32(w), 16));
}
static inline vn vn_high_bf16(vn w)
{
    return vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(w), vdupq_n_u32(0xffff0000)));
}

static inline vn pair(float32x4_t x, float32x4_t y, bool high)
{
    const float64x2_t a = vreinterpretq_f64_f32(x), b = vreinterpretq_f64_f32(y);
    return vreinterpretq_f32_f64(high ? vtrn2q_f64(a, b) : vtrn1q_f64(a, b));
}

static inline __attribute__((always_inline)) void vn_transpose(vn *r)
{
    const vn a = vtrn1q_f32(r[0], r[1]), b = vtrn2q_f32(r[0], r[1]);
    const vn c = vtrn1q_f32(r[2], r[3]), d = vtrn2q_f32(r[2], r[3]);
    r[0] = pair(a, c, false);
    r[1] = pair(b, d, false);
    r[2] = pair(a, c, true);
    r[3] = pair(b, d, true);
}

enum { BLOCKS_AT_ONCE = 1 };
#include "kern/template/chain_template.h"

void pith_matvec_f32_neon(size_t rows, size_t cols, const void *w, size_t ldw, const float *x,
                          float *y)
{
    matvec_f32(rows, cols, w, ldw, x, y);
}

void pith_matvec_bf16_neon(size_t rows, size_t cols, const void *w, size_t ldw, const float *x,
                           float *y)
{
    matvec_bf16(rows, cols, w, ldw, x, y);
}

void pith_matvec_f16_neon(size_t rows, size_t cols, const void *w, size_t ldw, const float *x,
                          float *y)
{
    matvec_f16(rows, cols, w, ldw, x, y);
}
