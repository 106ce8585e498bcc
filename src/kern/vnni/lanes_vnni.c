/* Products with the lanes of mul2, two rows of tiles a register. */
#include "kern/ops.h"
#include "kern/trellis.h"

#include <immintrin.h>

#define INLINE static inline __attribute__((always_inline))

enum { VECTORS = 4, ROWS = 2 };
typedef __m512i reg;
typedef uint16_t words16 __attribute__((vector_size(64)));
/* Both products, whose bytes are added up as they are multiplied. */
typedef struct {
    __m512i of[2];
} number;
typedef number sum; /* of either product: one would wait for itself */

#include "kern/template/lanes_template.h"

INLINE reg load(const uint8_t *tile, size_t ld)
{
    const __m256i first = _mm256_loadu_si256((const __m256i *)(const void *)tile),
                  second = _mm256_loadu_si256((const __m256i *)(const void *)(tile + ld));
    return _mm512_inserti64x4(_mm512_castsi256_si512(first), second, 1);
}

INLINE reg turn(reg x)
{
    return _mm512_alignr_epi8(x, _mm512_shuffle_i64x2(x, x, 0xb1), 14);
}

INLINE reg join(reg before, reg last, int left, int right)
{
    return (__m512i)(((words16)before << left) | ((words16)last >> right));
}

INLINE number number_of(unsigned bits, reg windows)
{
    const uint16_t *f = pith_trellis_factors[bits];
    return (number){{_mm512_mullo_epi16(windows, _mm512_set1_epi16((short)f[0])),
                     _mm512_mullo_epi16(windows, _mm512_set1_epi16((short)f[1]))}};
}

INLINE sum none(void)
{
    return (sum){{_mm512_setzero_si512(), _mm512_setzero_si512()}};
}

INLINE sum add(sum s, number w, uint32_t word)
{
    const __m512i x = _mm512_set1_epi32((int)word);
    return (sum){{_mm512_dpbusd_epi32(s.of[0], w.of[0], x),
                  _mm512_dpbusd_epi32(s.of[1], w.of[1], x)}};
}

INLINE void put(float *y, __m512i d, float scale)
{
    _mm512_storeu_ps(
        y, _mm512_fmadd_ps(_mm512_cvtepi32_ps(d), _mm512_set1_ps(scale), _mm512_loadu_ps(y)));
}

INLINE void finish(sum upper, sum lower, float scale, float *y)
{
    const __m512i u = _mm512_add_epi32(upper.of[0], upper.of[1]),
                  l = _mm512_add_epi32(lower.of[0], lower.of[1]);
    put(y, _mm512_shuffle_i64x2(u, l, 0x44), scale);
    put(y + PITH_TRELLIS_TILE, _mm512_shuffle_i64x2(u, l, 0xee), scale);
}

void pith_trellis_lanes_vnni(const struct pith_trellis_strip *m)
{
    lanes_all(m);
}
