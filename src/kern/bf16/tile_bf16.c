/* 7 x 32 sums of products of bfloat16. The instruction adds the upper half of a word to its sum and
 * then the lower one, so words hold two even elements or two odd ones (kern/bf16/words.h): the
 * first eight of a step make e of the definition, the others o. Both grow in registers side by
 * side, 28 of them; what they add up to goes to the first cache once a step. */
#include "kern/ops.h"

#include <immintrin.h>

enum { ROWS = 7, COLS = 32, LANES = 16, WORDS = PITH_TILE_WORDS, FLUSH = 0x8040 };
#define EACH(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6)
#define INLINE static inline __attribute__((always_inline))

INLINE __m512bh load(const uint32_t *p)
{
    return (__m512bh)_mm512_loadu_si512(p);
}
INLINE __m512bh broadcast(uint32_t word)
{
    return (__m512bh)_mm512_set1_epi32((int)word);
}
INLINE void add_to(float *c, __m512 sum)
{
    _mm512_storeu_ps(c, _mm512_add_ps(_mm512_loadu_ps(c), sum));
}

INLINE void step(const uint32_t *a, const uint32_t *b, float *c, size_t ldc)
{
#define ZERO(i) __m512 e##i = _mm512_setzero_ps(), f##i = e##i, o##i = e##i, p##i = e##i;
    EACH(ZERO)
#undef ZERO
#pragma GCC unroll 8
    for (size_t w = 0; w < WORDS / 2; w++, a++, b += COLS) {
        const uint32_t *a_odd = a + WORDS / 2, *b_odd = b + WORDS / 2 * COLS;
        const __m512bh x = load(b), y = load(b + LANES);
#define EVEN(i)                                                                                    \
    e##i = _mm512_dpbf16_ps(e##i, broadcast(a[i * WORDS]), x);                                     \
    f##i = _mm512_dpbf16_ps(f##i, broadcast(a[i * WORDS]), y);
        EACH(EVEN)
#undef EVEN
        const __m512bh u = load(b_odd), v = load(b_odd + LANES);
#define ODD(i)                                                                                     \
    o##i = _mm512_dpbf16_ps(o##i, broadcast(a_odd[i * WORDS]), u);                                 \
    p##i = _mm512_dpbf16_ps(p##i, broadcast(a_odd[i * WORDS]), v);
        EACH(ODD)
#undef ODD
    }
#define ADD(i)                                                                                     \
    add_to(c + i * ldc, _mm512_add_ps(e##i, o##i));                                                \
    add_to(c + i * ldc + LANES, _mm512_add_ps(f##i, p##i));
    EACH(ADD)
#undef ADD
}

/* c += the products. Not inlined, so that no arithmetic leaves the part of the program where
 * subnormal numbers are zeros. */
static __attribute__((noinline)) void sums(size_t steps, const uint32_t *a, const uint32_t *b,
                                           float *c, size_t ldc)
{
    for (size_t p = 0; p < steps; p++, a += ROWS * WORDS, b += WORDS * COLS) step(a, b, c, ldc);
}

static void zero(float *c, size_t ldc)
{
    for (size_t i = 0; i < ROWS; i++)
        for (size_t j = 0; j < COLS; j += LANES)
            _mm512_storeu_ps(c + i * ldc + j, _mm512_setzero_ps());
}

void pith_bf16_tile_bf16(size_t steps, const uint32_t *a, const uint32_t *b, float *c, size_t ldc,
                         enum pith_tile_mode mode, float alpha)
{
    const unsigned before = _mm_getcsr();
    _Alignas(64) float own[ROWS * COLS];
    const bool scale = mode == PITH_TILE_SCALE;
    if (mode != PITH_TILE_ADD) zero(scale ? own : c, scale ? (size_t)COLS : ldc);
    _mm_setcsr(before | FLUSH);
    sums(steps, a, b, scale ? own : c, scale ? (size_t)COLS : ldc);
    _mm_setcsr(before);
    if (!scale) return;
    const __m512 f = _mm512_set1_ps(alpha);
    for (size_t i = 0; i < ROWS; i++)
        for (size_t j = 0; j < COLS; j += LANES) {
            float *to = c + i * ldc + j;
            const __m512 s = _mm512_load_ps(own + i * COLS + j);
            _mm512_storeu_ps(to, _mm512_fmadd_ps(f, s, _mm512_loadu_ps(to)));
        }
}
