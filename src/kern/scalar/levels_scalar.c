/* The definition of reading codes by levels: see kern/ops.h. */
#include "kern/ops.h"

/* Code i: nothing past its last byte is read. */
static unsigned code_at(unsigned bits, const uint8_t *codes, size_t i)
{
    const uint8_t *stream = codes + i * bits / 8;
    const unsigned shift = (unsigned)(i * bits % 8), mask = (1u << bits) - 1;
    unsigned v = (unsigned)stream[0] >> shift;
    if (shift + bits > 8) v |= (unsigned)stream[1] << (8 - shift);
    return v & mask;
}

void pith_levels_unpack_scalar(unsigned bits, size_t n, const uint8_t *codes, const float level[16],
                               float *dst)
{
    for (size_t i = 0; i < n; i++) dst[i] = level[code_at(bits, codes, i)];
}
