/* 14 x 32 sums of products of bfloat16 pairs: see kern/template/gemm_template.h, which has the same
 * tile of float32. */
#include "kern/ops.h"

#include <immintrin.h>

enum { ROWS = 14, COLS = 32, LANES = 16 };
#define EACH(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13)

static inline __m512bh load(const uint32_t *p)
{
    return (__m512bh)_mm512_loadu_si512(p);
}

void pith_bf16_tile_bf16(size_t pairs, const uint32_t *a, const uint32_t *b, float *c, size_t ldc,
                         enum pith_tile_mode mode, float alpha)
{
#define ZERO(i) __m512 s##i = _mm512_setzero_ps(), t##i = s##i;
    EACH(ZERO)
#undef ZERO
    if (mode == PITH_TILE_ADD) {
#define START(i)                                                                                   \
    s##i = _mm512_loadu_ps(c + i * ldc);                                                           \
    t##i = _mm512_loadu_ps(c + i * ldc + LANES);
        EACH(START)
#undef START
    }
    for (size_t p = 0; p < pairs; p++, a += ROWS, b += COLS) {
        const __m512bh x = load(b), y = load(b + LANES);
#define STEP(i)                                                                                    \
    {                                                                                              \
        const __m512bh e = (__m512bh)_mm512_set1_epi32((int)a[i]);                                 \
        s##i = _mm512_dpbf16_ps(s##i, e, x);                                                       \
        t##i = _mm512_dpbf16_ps(t##i, e, y);                                                       \
    }
        EACH(STEP)
#undef STEP
    }
    __asm__("" : "+r"(c)); /* or its rows' addresses take registers from the sums */
    if (mode == PITH_TILE_SCALE) {
        const __m512 f = _mm512_set1_ps(alpha);
#define SCALE(i)                                                                                   \
    s##i = _mm512_fmadd_ps(f, s##i, _mm512_loadu_ps(c + i * ldc));                                 \
    t##i = _mm512_fmadd_ps(f, t##i, _mm512_loadu_ps(c + i * ldc + LANES));
        EACH(SCALE)
#undef SCALE
    }
#define STORE(i)                                                                                   \
    _mm512_storeu_ps(c + i * ldc, s##i);                                                           \
    _mm512_storeu_ps(c + i * ldc + LANES, t##i);
    EACH(STORE)
#undef STORE
}
