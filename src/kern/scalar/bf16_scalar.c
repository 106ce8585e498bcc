/* The definitions of products of bfloat16: see kern/ops.h. Words hold elements in order, the first
 * of two in the lower half. */
#include "kern/ops.h"
#include "num/format.h"

#include <math.h>
#include <string.h>

enum { ROWS = 4, COLS = 8, WORDS = PITH_TILE_WORDS };

static float flushed(float x)
{
    return fabsf(x) < 0x1p-126f ? copysignf(0.0f, x) : x;
}

static float half(uint32_t pair, unsigned which)
{
    return flushed(pith_bf16_to_f32((uint16_t)(pair >> 16 * which)));
}

/* fma(x, y, s) with subnormal numbers as zeros. Whether a result is subnormal is decided after
 * rounding to 24 bits, which a subnormal float does not have: so it is computed 2^64 times as
 * large. */
static float fma_flushed(float x, float y, float s)
{
    const float r = fmaf(x, y, s);
    if (!(fabsf(r) <= 0x1p-126f) || fabsf(x) > 0x1p60f) return r;
    const float large = fmaf(x * 0x1p64f, y, s * 0x1p64f);
    return fabsf(large) < 0x1p-62f ? copysignf(0.0f, large) : r;
}

/* A step's product of row x with column y. */
static float step_sum(const uint32_t *x, const uint32_t *y)
{
    float sum[2] = {0.0f, 0.0f};
    for (size_t w = 0; w < WORDS; w++)
        for (unsigned h = 0; h < 2; h++)
            sum[h] = fma_flushed(half(x[w], h), half(y[w * COLS], h), sum[h]);
    return flushed(sum[0] + sum[1]);
}

void pith_bf16_tile_scalar(size_t steps, const uint32_t *a, const uint32_t *b, float *c, size_t ldc,
                           enum pith_tile_mode mode, float alpha)
{
    for (size_t i = 0; i < ROWS; i++)
        for (size_t j = 0; j < COLS; j++) {
            float *out = &c[i * ldc + j], s = mode == PITH_TILE_ADD ? *out : 0.0f;
            for (size_t p = 0; p < steps; p++) {
                const float sum = step_sum(a + (p * ROWS + i) * WORDS, b + p * WORDS * COLS + j);
                s = flushed(flushed(s) + sum);
            }
            *out = mode == PITH_TILE_SCALE ? fmaf(alpha, s, *out) : s;
        }
}

static uint32_t rounded(float x)
{
    return pith_f32_to_bf16(flushed(x));
}

static size_t steps_of(size_t k)
{
    return (k + PITH_BF16_STEP - 1) / PITH_BF16_STEP;
}

void pith_bf16_round_scalar(size_t rows, size_t k, const float *src, size_t ld, size_t height,
                           uint32_t *dst)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t w = 0; w < steps_of(k) * WORDS; w++) {
            const float *x = src + r * ld + 2 * w;
            uint32_t word = 2 * w < k ? rounded(x[0]) : 0;
            if (2 * w + 1 < k) word |= rounded(x[1]) << 16;
            dst[(w / WORDS * height + r) * WORDS + w % WORDS] = word;
        }
}

void pith_bf16_words_scalar(size_t rows, size_t k, const void *src, size_t ld, size_t height,
                            uint32_t *dst)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t p = 0; p < k; p += PITH_BF16_STEP) {
            uint32_t *to = dst + (p / PITH_BF16_STEP * height + r) * WORDS;
            const size_t n = k - p < PITH_BF16_STEP ? k - p : PITH_BF16_STEP;
            if (n < PITH_BF16_STEP) memset(to, 0, WORDS * sizeof *to);
            memcpy(to, (const char *)src + 2 * (r * ld + p), 2 * n);
        }
}

void pith_bf16_pairs_scalar(size_t k, size_t n, const float *src, size_t ld, size_t width,
                            uint32_t *dst)
{
    for (size_t w = 0; w < steps_of(k) * WORDS; w++)
        for (size_t i = 0; i < n; i++) {
            uint32_t word = 2 * w < k ? rounded(src[2 * w * ld + i]) : 0;
            if (2 * w + 1 < k) word |= rounded(src[(2 * w + 1) * ld + i]) << 16;
            dst[w * width + i] = word;
        }
}
