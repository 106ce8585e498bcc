#include "kern/ops.h"

#include <math.h>

void pith_trellis_decode_scalar(enum pith_trellis_code code, unsigned bits, const uint8_t *tile,
                                float *out, size_t ld)
{
    pith_trellis_decode(code, bits, tile, out, ld);
}

void pith_trellis_step_scalar(unsigned bits, const float *in, const float *table, float x,
                              float *out, uint8_t *from)
{
    const uint32_t nodes = PITH_TRELLIS_STATES >> bits, ways = 1u << bits, apart = nodes >> bits;
    for (uint32_t o = 0; o < nodes; o++) {
        const float *value = table + (size_t)(o / 16) * ways * 16 + o % 16;
        float best = INFINITY;
        uint32_t first = 0;
        for (uint32_t k = 0; k < ways; k++) {
            const float d = value[(size_t)k * 16] - x;
            const float cost = fmaf(d, d, in[k * apart + (o >> bits)]);
            if (cost >= best) continue;
            best = cost;
            first = k;
        }
        out[o] = best;
        from[o] = (uint8_t)first;
    }
}
