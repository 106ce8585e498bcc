/* Products with the lanes of mul2, two rows of tiles a register. */
#include "kern/ops.h"
#include "kern/vnni/lanes_vnni.h"

typedef __m512i reg;
typedef uint16_t words16 __attribute__((vector_size(64)));

#include "kern/template/lanes_windows.h"

#include "kern/template/lanes_template.h"

INLINE reg load(const uint8_t *tile, size_t ld)
{
    const __m256i first = _mm256_loadu_si256((const __m256i *)(const void *)tile),
                  second = _mm256_loadu_si256((const __m256i *)(const void *)(tile + ld));
    return _mm512_inserti64x4(_mm512_castsi256_si512(first), second, 1);
}

INLINE reg rotate_word(reg x)
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

void pith_trellis_lanes_vnni(const struct pith_trellis_strip *m)
{
    lanes_all(m);
}
