/* Parts of rows that have separate levels (SqueezeLLM), by the kernels, with the weights off the
 * grid. */
#include "backend/parts.h"

bool pith_levels_fit(const struct pith_qmat *q)
{
    const bool bits = q->format->bits == 3 || q->format->bits == 4;
    return q->format->codec == &pith_codec_levels && bits && q->groups == 1 && !q->g_idx &&
           !q->offsets;
}

/* The sixteen levels of a row, those of 3 bits twice: where they are, or in `to`. */
static const float *levels_of(const struct pith_qmat *q, size_t row, float to[16])
{
    const unsigned bits = q->format->bits;
    const float scale = q->scales[pith_qmat_scale_index(q, (uint32_t)row, 0)];
    const float *from = q->levels + (row << bits);
    if (bits == 4 && scale == 1.0f) return from;
    for (size_t i = 0; i < 16; i++) to[i] = from[i & ((1u << bits) - 1)] * scale;
    return to;
}

void pith_levels_segment(const struct pith_kern *k, const struct pith_qmat *q, size_t row,
                         size_t col, size_t n, float *out)
{
    float level[16];
    const unsigned bits = q->format->bits;
    const uint8_t *codes = q->codes + row * q->stride + col * bits / 8;
    k->levels_unpack(bits, n, codes, levels_of(q, row, level), out);
    const struct pith_sparse *p = q->sparse;
    for (uint32_t i = p ? p->start[row] : 0; p && i < p->start[row + 1]; i++)
        if (p->col[i] >= col && p->col[i] - col < n) out[p->col[i] - col] += p->value[i];
}
