/* Products of bfloat16 pairs where there is no instruction for them: two float32 multiply-adds a
 * pair, with the processor told to take small numbers for zeros as that instruction does. 4 x 16.
 */
#include "kern/avx2/vec_avx2.h"
#include "kern/ops.h"

enum { ROWS = 4, COLS = 16, LANES = 8, FLUSH = 0x8040 /* results (15) and operands (6) */ };
#define EACH(X) X(0) X(1) X(2) X(3)

static inline __m256i load(const uint32_t *p)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}
static inline __m256 low(__m256i pairs)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16));
}
static inline __m256 high(__m256i pairs)
{
    return _mm256_castsi256_ps(_mm256_and_si256(pairs, _mm256_set1_epi32((int)0xffff0000)));
}

/* s[ROWS][COLS] += the products. A function of its own, so that no arithmetic leaves the part of
 * the program where small numbers are zeros. */
static __attribute__((noinline)) void sums(size_t pairs, const uint32_t *a, const uint32_t *b,
                                           float *s)
{
#define START(i)                                                                                   \
    __m256 s##i = _mm256_loadu_ps(s + i * COLS), t##i = _mm256_loadu_ps(s + i * COLS + LANES);
    EACH(START)
#undef START
    for (size_t p = 0; p < pairs; p++, a += ROWS, b += COLS) {
        const __m256i u = load(b), v = load(b + LANES);
        const __m256 uh = high(u), vh = high(v), ul = low(u), vl = low(v);
#define STEP(i)                                                                                    \
    {                                                                                              \
        const __m256i e = _mm256_set1_epi32((int)a[i]);                                            \
        s##i = _mm256_fmadd_ps(low(e), ul, _mm256_fmadd_ps(high(e), uh, s##i));                    \
        t##i = _mm256_fmadd_ps(low(e), vl, _mm256_fmadd_ps(high(e), vh, t##i));                    \
    }
        EACH(STEP)
#undef STEP
    }
#define STORE(i)                                                                                   \
    _mm256_storeu_ps(s + i * COLS, s##i);                                                          \
    _mm256_storeu_ps(s + i * COLS + LANES, t##i);
    EACH(STORE)
#undef STORE
}

void pith_bf16_tile_avx2(size_t pairs, const uint32_t *a, const uint32_t *b, float *c, size_t ldc,
                         enum pith_tile_mode mode, float alpha)
{
    float s[ROWS * COLS];
    const unsigned before = _mm_getcsr();
    for (size_t i = 0; i < ROWS; i++) {
        if (mode == PITH_TILE_ADD) memcpy(s + i * COLS, c + i * ldc, COLS * sizeof *s);
        else memset(s + i * COLS, 0, COLS * sizeof *s);
    }
    _mm_setcsr(before | FLUSH);
    sums(pairs, a, b, s);
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

static inline void eight(const float *x, const float *y, uint32_t *dst)
{
    const __m256i u = round_bf16(_mm256_loadu_ps(x)), v = round_bf16(_mm256_loadu_ps(y));
    const __m256i pairs = _mm256_or_si256(u, _mm256_slli_epi32(v, 16));
    _mm256_storeu_si256((__m256i *)(void *)dst, pairs);
}

/* The last eight of a row may be some of the eight before. */
static inline void row(size_t n, const float *src, uint32_t *dst)
{
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) eight(src + i, src + n + i, dst + i);
    if (i < n) eight(src + n - LANES, src + 2 * n - LANES, dst + n - LANES);
}

void pith_bf16_pairs_avx2(size_t pairs, size_t n, const float *src, uint32_t *dst)
{
    if (n < LANES) {
        pith_bf16_pairs_scalar(pairs, n, src, dst);
        return;
    }
    for (size_t p = 0; p < pairs; p++, src += 2 * n, dst += n) {
        if (n == 14) row(14, src, dst);
        else if (n == 32) row(32, src, dst);
        else row(n, src, dst);
    }
}
