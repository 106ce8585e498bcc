/* kern/vnni/words_vnni.h: products of six words of x, bytes of six vectors or three digits of two,
 * with two panels: twelve sums in registers, beside two lines of codes and one word of x, so that a
 * step of four columns is twelve integer dot products on eight loads. */
#include "kern/vnni/digits_vnni.h"

enum { WORDS = 6, COLS = 32 };
#define EACH(X) X(0) X(1) X(2) X(3) X(4) X(5)

INLINE size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* The sums of two panels for the words of a step. */
struct whole {
#define FIELD(i) __m512i a##i, b##i;
    EACH(FIELD)
#undef FIELD
};
/* A block begins: what is taken off its sums. */
INLINE void block_open(struct whole *d, const int32_t *less, const int32_t *zero, size_t panel)
{
    if (!zero) {
#define START(i) d->a##i = d->b##i = _mm512_set1_epi32(less[i]);
        EACH(START)
#undef START
        return;
    }
    const __m512i a = _mm512_loadu_si512(zero), b = _mm512_loadu_si512(zero + panel);
#define START(i)                                                                                   \
    d->a##i = _mm512_mullo_epi32(_mm512_set1_epi32(less[i]), a);                                   \
    d->b##i = _mm512_mullo_epi32(_mm512_set1_epi32(less[i]), b);
    EACH(START)
#undef START
}

/* `words` times four columns. */
INLINE void multiply(struct whole *d, size_t words, const uint8_t *w, size_t panel,
                     const uint32_t *x)
{
    for (size_t p = 0; p < words; p++, w += PITH_PANEL_LINE, x += WORDS) {
        const __m512i a = _mm512_loadu_si512(w), b = _mm512_loadu_si512(w + panel);
#define STEP(i)                                                                                    \
    {                                                                                              \
        const __m512i e = _mm512_set1_epi32((int)x[i]);                                            \
        d->a##i = _mm512_dpbusd_epi32(d->a##i, a, e);                                              \
        d->b##i = _mm512_dpbusd_epi32(d->b##i, b, e);                                              \
        __asm__("" : "+v"(d->a##i), "+v"(d->b##i)); /* or they are moved about */                  \
    }
        EACH(STEP)
#undef STEP
    }
}
