/* Products of bytes with trellises of mul1: a window is 16 bits, and what it is
 * multiplied to is two such, whose bytes are added up as they are multiplied. */
#include "kern/avx512/spans_avx512.h"
#include "kern/ops.h"
#include "kern/vnni/lanes_vnni.h"

enum { STEP = PITH_TRELLIS_STEP / 2, TILE = PITH_TRELLIS_WORDS / 2 };
typedef struct spans opened;

#include "kern/template/lanes_template.h"

INLINE void open_tile(unsigned bits, const uint8_t *at, size_t ld, opened *to)
{
    spans_open(bits, at, ld, to);
}

/* Where the spans of two tiles fit in the registers with all else. */
INLINE bool early(unsigned bits, size_t n)
{
    return n == 1 && bits <= 4;
}

/* Weights 0 to 3 of each eight are row r's, the others row r + 8's. */
INLINE unsigned word_at(unsigned t)
{
    return t % 8 / 2 * 4 + t / 8 * 2 + t % 2;
}

INLINE number number_at(unsigned bits, const opened *of, unsigned t)
{
    const __m512i s = spans_windows(bits, of, word_at(t)),
                  low = _mm512_set1_epi16((short)(PITH_TRELLIS_BY_MUL1 & 0xffff)),
                  high = _mm512_set1_epi16((short)(PITH_TRELLIS_BY_MUL1 >> 16));
    return (number){{_mm512_mullo_epi16(s, low),
                     _mm512_add_epi16(_mm512_mulhi_epu16(s, low), _mm512_mullo_epi16(s, high))}};
}

void pith_trellis_bytes_vnni(const struct pith_trellis_strip *m)
{
    if (m->count <= VECTORS) lanes_all(m);
    else pith_trellis_walk_vnni(m);
}
