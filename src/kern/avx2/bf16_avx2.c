/* Products of bfloat16 where there is no instruction for them: float32 multiply-adds of the even
 * elements of a step and then of the odd ones, with the processor set to take subnormal numbers for
 * zeros, as the definition does. 4 x 16. */
#include "kern/avx2/vec_avx2.h"
#include "kern/ops.h"

enum {
    ROWS = 4,
    COLS = 16,
    LANES = 8,
    WORDS = PITH_TILE_WORDS,
    FLUSH = 0x8040 /* results (15) and operands (6) */
};
#define EACH(X) X(0) X(1) X(2) X(3)
#define INLINE static inline __attribute__((always_inline))

INLINE __m256i load(const uint32_t *p)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

/* The lower (the even) or the upper halves of words. */
INLINE __m256 half(__m256i words, bool odd)
{
    const __m256i upper = _mm256_set1_epi32((int)0xffff0000);
    return _mm256_castsi256_ps(odd ? _mm256_and_si256(words, upper) : _mm256_slli_epi32(words, 16));
}

/* The sums of a step's even or odd elements: two vectors a row. */
struct sums {
#define FIELD(i) __m256 s##i, t##i;
    EACH(FIELD)
#undef FIELD
};

INLINE struct sums half_step(const uint32_t *a, const uint32_t *b, bool odd)
{
#define ZERO(i) __m256 s##i = _mm256_setzero_ps(), t##i = s##i;
    EACH(ZERO)
#undef ZERO
    for (size_t w = 0; w < WORDS; w++, a++, b += COLS) {
        const __m256 u = half(load(b), odd), v = half(load(b + LANES), odd);
#define STEP(i)                                                                                    \
    {                                                                                              \
        const __m256 e = half(_mm256_set1_epi32((int)a[i * WORDS]), odd);                          \
        s##i = _mm256_fmadd_ps(e, u, s##i);                                                        \
        t##i = _mm256_fmadd_ps(e, v, t##i);                                                        \
    }
        EACH(STEP)
#undef STEP
    }
    return (struct sums){s0, t0, s1, t1, s2, t2, s3, t3};
}

/* s[ROWS][COLS] += the products. Not inlined, so that no arithmetic leaves the part of the program
 * where subnormal numbers are zeros. */
static __attribute__((noinline)) void sums(size_t steps, const uint32_t *a, const uint32_t *b,
                                           float *s)
{
    for (size_t p = 0; p < steps; p++, a += ROWS * WORDS, b += WORDS * COLS) {
        const struct sums even = half_step(a, b, false), odd = half_step(a, b, true);
#define ADD(i)                                                                                     \
    {                                                                                              \
        float *to = s + i * COLS;                                                                  \
        const __m256 u = _mm256_add_ps(even.s##i, odd.s##i);                                       \
        const __m256 v = _mm256_add_ps(even.t##i, odd.t##i);                                       \
        _mm256_storeu_ps(to, _mm256_add_ps(_mm256_loadu_ps(to), u));                               \
        _mm256_storeu_ps(to + LANES, _mm256_add_ps(_mm256_loadu_ps(to + LANES), v));               \
    }
        EACH(ADD)
#undef ADD
    }
}

void pith_bf16_tile_avx2(size_t steps, const uint32_t *a, const uint32_t *b, float *c, size_t ldc,
                         enum pith_tile_mode mode, float alpha)
{
    float s[ROWS * COLS];
    const unsigned before = _mm_getcsr();
    for (size_t i = 0; i < ROWS; i++) {
        if (mode == PITH_TILE_ADD) memcpy(s + i * COLS, c + i * ldc, COLS * sizeof *s);
        else memset(s + i * COLS, 0, COLS * sizeof *s);
    }
    _mm_setcsr(before | FLUSH);
    sums(steps, a, b, s);
    _mm_setcsr(before);
    for (size_t i = 0; i < ROWS; i++)
        for (size_t j = 0; j < COLS; j += LANES) {
            __m256 v = _mm256_loadu_ps(s + i * COLS + j);
            float *to = c + i * ldc + j;
            if (mode == PITH_TILE_SCALE)
                v = _mm256_fmadd_ps(_mm256_set1_ps(alpha), v, _mm256_loadu_ps(to));
            _mm256_storeu_ps(to, v);
        }
}

/* --- operands --------------------------------------------------------------------------------- */

INLINE __m256i rounded(const float *x)
{
    const __m256 v = _mm256_loadu_ps(x), sign = _mm256_set1_ps(-0.0f);
    const __m256 size = _mm256_andnot_ps(sign, v);
    const __m256 small = _mm256_cmp_ps(size, _mm256_set1_ps(0x1p-126f), _CMP_LT_OQ);
    return round_bf16(_mm256_blendv_ps(v, _mm256_and_ps(v, sign), small));
}

/* Sixteen elements, in order. */
INLINE void round_16(const float *x, uint32_t *to)
{
    const __m256i h = _mm256_packus_epi32(rounded(x), rounded(x + LANES));
    _mm256_storeu_si256((__m256i *)(void *)to, _mm256_permute4x64_epi64(h, 0xd8));
}

void pith_bf16_round_avx2(size_t rows, size_t k, const float *src, size_t ld, size_t height,
                         uint32_t *dst)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t p = 0; p < k; p += PITH_BF16_STEP) {
            const float *x = src + r * ld + p;
            uint32_t *to = dst + (p / PITH_BF16_STEP * height + r) * WORDS;
            float rest[PITH_BF16_STEP] = {0};
            if (k - p < PITH_BF16_STEP) x = memcpy(rest, x, (k - p) * sizeof *x);
            round_16(x, to);
            round_16(x + WORDS, to + WORDS / 2);
        }
}

INLINE void eight(const float *x, const float *y, uint32_t *dst)
{
    const __m256i words = _mm256_or_si256(rounded(x), _mm256_slli_epi32(rounded(y), 16));
    _mm256_storeu_si256((__m256i *)(void *)dst, words);
}

/* The last eight of a row may be some of the eight before. */
INLINE void pair_of_rows(size_t n, const float *x, const float *y, uint32_t *dst)
{
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) eight(x + i, y + i, dst + i);
    if (i < n) eight(x + n - LANES, y + n - LANES, dst + n - LANES);
}

/* The remainder, less than two rows, goes with the definition's zeros. */
void pith_bf16_pairs_avx2(size_t k, size_t n, const float *src, size_t ld, size_t width,
                          uint32_t *dst)
{
    const size_t whole = n < LANES ? 0 : k / PITH_BF16_STEP * PITH_BF16_STEP;
    for (size_t p = 0; p < whole; p += 2)
        pair_of_rows(n, src + p * ld, src + (p + 1) * ld, dst + p / 2 * width);
    if (whole < k)
        pith_bf16_pairs_scalar(k - whole, n, src + whole * ld, ld, width, dst + whole / 2 * width);
}
