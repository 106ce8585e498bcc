/* The definitions of products of bfloat16 pairs: see kern/ops.h. */
#include "kern/ops.h"
#include "num/format.h"

#include <math.h>
#include <string.h>

enum { ROWS = 4, COLS = 8 };

static float half(uint32_t pair, unsigned which)
{
    const float f = pith_bf16_to_f32((uint16_t)(pair >> 16 * which));
    return fabsf(f) < 0x1p-126f ? copysignf(0.0f, f) : f;
}

/* fma(x, y, s) with small numbers as zeros. Whether a result is small is asked of it as rounded to
 * 24 bits, which a subnormal float does not have: so it is computed 2^64 times as large. */
static float fma_flushed(float x, float y, float s)
{
    s = fabsf(s) < 0x1p-126f ? copysignf(0.0f, s) : s;
    const float r = fmaf(x, y, s);
    if (!(fabsf(r) <= 0x1p-126f) || fabsf(x) > 0x1p60f) return r;
    const float large = fmaf(x * 0x1p64f, y, s * 0x1p64f);
    return fabsf(large) < 0x1p-62f ? copysignf(0.0f, large) : r;
}

void pith_bf16_tile_scalar(size_t pairs, const uint32_t *a, const uint32_t *b, float *c, size_t ldc,
                           enum pith_tile_mode mode, float alpha)
{
    for (size_t i = 0; i < ROWS; i++)
        for (size_t j = 0; j < COLS; j++) {
            float *out = &c[i * ldc + j], s = mode == PITH_TILE_ADD ? *out : 0.0f;
            for (size_t p = 0; p < pairs; p++) {
                const uint32_t x = a[p * ROWS + i], y = b[p * COLS + j];
                s = fma_flushed(half(x, 1), half(y, 1), s);
                s = fma_flushed(half(x, 0), half(y, 0), s);
            }
            *out = mode == PITH_TILE_SCALE ? fmaf(alpha, s, *out) : s;
        }
}

void pith_bf16_pairs_scalar(size_t pairs, size_t n, const float *src, uint32_t *dst)
{
    for (size_t p = 0; p < pairs; p++, src += 2 * n, dst += n)
        for (size_t i = 0; i < n; i++)
            dst[i] = pith_f32_to_bf16(src[i]) | (uint32_t)pith_f32_to_bf16(src[n + i]) << 16;
}
