/* kern/bf16/words.h: operands of bf16_tile from rows and columns, in either order of a step's
 * elements in its words: a word w has elements low[w] and high[w].
 *
 *     in order:  0 1 | 2 3 | 4 5 ...           AMX
 *     in chains: 2 0 | 6 4 | ... | 3 1 | 7 5   BF16, whose instruction adds the upper half first
 */
#ifndef PITH_KERN_BF16_WORDS_H
#define PITH_KERN_BF16_WORDS_H

#include "kern/ops.h"

#include <immintrin.h>

#define BF16_INLINE static inline __attribute__((always_inline))

/* Which element of a step the lower (0) or upper half of a word is. */
BF16_INLINE unsigned word_element(unsigned word, unsigned half, bool chains)
{
    if (!chains) return 2 * word + half;
    return 4 * (word % 8) + word / 8 + (half ? 0 : 2);
}

BF16_INLINE __m512i word_order(bool chains)
{
    uint16_t order[PITH_BF16_STEP];
    for (unsigned i = 0; i < PITH_BF16_STEP; i++)
        order[i] = (uint16_t)word_element(i / 2, i % 2, chains);
    return _mm512_loadu_si512(order);
}

BF16_INLINE __mmask32 first(size_t n)
{
    return n < 32 ? ((__mmask32)1 << n) - 1 : 0xffffffff;
}

BF16_INLINE void words_store(__m512i halves, __m512i order, bool chains, uint32_t *to)
{
    _mm512_storeu_si512(to, chains ? _mm512_permutexvar_epi16(order, halves) : halves);
}

BF16_INLINE void rows_to_words(size_t rows, size_t k, const float *src, size_t ld, size_t height,
                               bool chains, uint32_t *dst)
{
    const __m512i order = word_order(chains);
    for (size_t p = 0; p < k; p += PITH_BF16_STEP) {
        const __mmask32 some = first(k - p);
        const float *x = src + p;
        uint32_t *to = dst + p / PITH_BF16_STEP * height * PITH_TILE_WORDS;
        for (size_t r = 0; r < rows; r++, x += ld, to += PITH_TILE_WORDS) {
            const __m512 low = _mm512_maskz_loadu_ps((__mmask16)some, x);
            const __m512 high = _mm512_maskz_loadu_ps((__mmask16)(some >> 16), x + 16);
            words_store((__m512i)_mm512_cvtne2ps_pbh(high, low), order, chains, to);
        }
    }
}

BF16_INLINE void nibbles_to_words(size_t rows, size_t k, const void *src, size_t ld, size_t height,
                                  bool chains, uint32_t *dst)
{
    const __m512i order = word_order(chains);
    for (size_t p = 0; p < k; p += PITH_BF16_STEP) {
        const __mmask32 some = first(k - p);
        const char *x = (const char *)src + 2 * p;
        uint32_t *to = dst + p / PITH_BF16_STEP * height * PITH_TILE_WORDS;
        for (size_t r = 0; r < rows; r++, x += 2 * ld, to += PITH_TILE_WORDS)
            words_store(_mm512_maskz_loadu_epi16(some, x), order, chains, to);
    }
}

/* A row of n floats; NULL: zeros. */
BF16_INLINE __m512 some_floats(const float *x, __mmask16 some)
{
    return x ? _mm512_maskz_loadu_ps(some, x) : _mm512_setzero_ps();
}

BF16_INLINE void columns_to_words(size_t k, size_t n, const float *src, size_t ld, size_t width,
                                  bool chains, uint32_t *dst)
{
    uint16_t interleave[PITH_BF16_STEP]; /* sixteen low halves and sixteen high ones to words */
    for (unsigned i = 0; i < PITH_BF16_STEP; i++) interleave[i] = (uint16_t)(i / 2 + i % 2 * 16);
    const __m512i order = _mm512_loadu_si512(interleave);
    for (size_t p = 0; p < k; p += PITH_BF16_STEP)
        for (unsigned w = 0; w < PITH_TILE_WORDS; w++, dst += width) {
            const size_t low = p + word_element(w, 0, chains);
            const size_t high = p + word_element(w, 1, chains);
            const float *x = low < k ? src + low * ld : NULL;
            const float *y = high < k ? src + high * ld : NULL;
            for (size_t i = 0; i < n; i += 16) {
                const __mmask16 some = (__mmask16)first(n - i < 16 ? n - i : 16);
                const __m512 u = some_floats(x ? x + i : NULL, some);
                const __m512 v = some_floats(y ? y + i : NULL, some);
                const __m512i halves = (__m512i)_mm512_cvtne2ps_pbh(v, u);
                _mm512_mask_storeu_epi32(dst + i, some, _mm512_permutexvar_epi16(order, halves));
            }
        }
}

#endif
