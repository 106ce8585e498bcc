/* The lanes of mul2, one row of tiles a register. */
#include "kern/ops.h"
#include "kern/trellis.h"

#include <immintrin.h>

#define INLINE static inline __attribute__((always_inline))

enum { VECTORS = 4, ROWS = 1, AHEAD = 0 };
typedef __m256i reg, sum;
typedef uint16_t words16 __attribute__((vector_size(32)));
typedef __m256i number; /* sums of bytes */

#include "kern/template/lanes_windows.h"

#include "kern/template/lanes_template.h"

INLINE reg load(const uint8_t *tile, size_t ld)
{
    (void)ld;
    return _mm256_loadu_si256((const __m256i *)(const void *)tile);
}

INLINE reg rotate_word(reg x)
{
    return _mm256_alignr_epi8(x, _mm256_permute2x128_si256(x, x, 0x01), 14);
}

INLINE reg join(reg before, reg last, int left, int right)
{
    return (__m256i)(((words16)before << left) | ((words16)last >> right));
}

INLINE number number_of(unsigned bits, reg windows)
{
    const uint16_t *f = pith_trellis_factors[bits];
    const __m256i ones = _mm256_set1_epi8(1);
    return _mm256_add_epi16(
        _mm256_maddubs_epi16(_mm256_mullo_epi16(windows, _mm256_set1_epi16((short)f[0])), ones),
        _mm256_maddubs_epi16(_mm256_mullo_epi16(windows, _mm256_set1_epi16((short)f[1])), ones));
}

INLINE sum none(void)
{
    return _mm256_setzero_si256();
}

/* Of either byte that a word has twice, the upper one is a number of 16 bits shifted. */
INLINE sum add(sum s, number w, uint32_t word)
{
    const __m256i x = _mm256_srai_epi16(_mm256_set1_epi32((int)word), 8);
    return _mm256_add_epi32(s, _mm256_madd_epi16(w, x));
}

INLINE void keep(sum *s)
{
    (void)s;
}

INLINE void put(float *y, __m256i d, float scale)
{
    _mm256_storeu_ps(
        y, _mm256_fmadd_ps(_mm256_cvtepi32_ps(d), _mm256_set1_ps(scale), _mm256_loadu_ps(y)));
}

INLINE void finish(sum upper, sum lower, float scale, float *y)
{
    put(y, upper, scale);
    put(y + 8, lower, scale);
}

void pith_trellis_lanes_avx2(const struct pith_trellis_strip *m)
{
    lanes_all(m);
}

/* ---- decoding ---- */

/* Of numbers t of sixteen lanes, those of lanes j and j + 8 in of[j], t by t. */
INLINE void transpose(__m256i of[8])
{
    __m256i a[8], b[8];
#pragma GCC unroll 4
    for (size_t i = 0; i < 4; i++) {
        a[2 * i] = _mm256_unpacklo_epi16(of[2 * i], of[2 * i + 1]);
        a[2 * i + 1] = _mm256_unpackhi_epi16(of[2 * i], of[2 * i + 1]);
    }
#pragma GCC unroll 4
    for (size_t i = 0; i < 4; i++) {
        const size_t at = i / 2 * 4 + i % 2;
        b[2 * i] = _mm256_unpacklo_epi32(a[at], a[at + 2]);
        b[2 * i + 1] = _mm256_unpackhi_epi32(a[at], a[at + 2]);
    }
#pragma GCC unroll 4
    for (size_t i = 0; i < 4; i++) {
        of[2 * i] = _mm256_unpacklo_epi64(b[i], b[i + 4]);
        of[2 * i + 1] = _mm256_unpackhi_epi64(b[i], b[i + 4]);
    }
}

INLINE void put_numbers(float *out, __m128i sums)
{
    const __m256 x = _mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(sums));
    _mm256_storeu_ps(out, _mm256_fmadd_ps(x, _mm256_set1_ps(PITH_TRELLIS_TIMES_MUL2),
                                          _mm256_set1_ps(PITH_TRELLIS_PLUS_MUL2)));
}

void pith_lanes_decode_avx2(unsigned bits, const uint8_t *tile, float *out, size_t ld)
{
    opened words;
    open_tile(bits, tile, 0, &words);
    for (unsigned first = 0; first < PITH_TRELLIS_TILE; first += 8) {
        __m256i of[8];
        for (unsigned t = 0; t < 8; t++)
            of[t] = number_of(bits, windows(bits, &words, first + t));
        transpose(of);
        for (size_t j = 0; j < 8; j++) {
            float *row = out + (first + j / 2) * ld + j % 2 * 8;
            put_numbers(row, _mm256_castsi256_si128(of[j]));
            put_numbers(row + 4 * ld, _mm256_extracti128_si256(of[j], 1));
        }
    }
}
