/* Whole rows of a weight matrix by the kernels, for whoever reads each row once. */
#include "backend/parts.h"

/* n codes from column `first` on, all with one scale. */
static void decode_part(const struct pith_kern *k, const struct pith_qmat *q, uint32_t row,
                        size_t first, size_t n, float *out)
{
    enum { CHUNK = 512 };
    const unsigned bits = q->format->bits;
    const uint8_t *stream = q->codes + row * q->stride;
    const size_t index = pith_qmat_scale_index(q, row, (uint32_t)(first / q->group));
    const float zero = pith_qmat_zero(q, index), scale = q->scales[index];
    if (bits == 8) {
        k->dequant_u8(n, stream + first, zero, scale, out);
        return;
    }
    if (bits == 4 && first % 2 == 0) {
        k->dequant_u4(n, stream + first / 2, zero, scale, out);
        return;
    }
    uint8_t codes[CHUNK];
    for (size_t done = 0; done < n; done += CHUNK) {
        const size_t m = pith_min(CHUNK, n - done);
        pith_bits_get(stream, first + done, bits, m, codes);
        k->dequant_u8(m, codes, zero, scale, out + done);
    }
}

static void decode_ints(const struct pith_kern *k, const struct pith_qmat *q, uint32_t row,
                        float *out)
{
    for (size_t first = 0; first < q->cols; first += q->group)
        decode_part(k, q, row, first, pith_min(q->group, q->cols - first), out + first);
}

void pith_decode_rows(const struct pith_backend *b, const struct pith_weight *w, uint32_t row,
                      uint32_t n, float *out)
{
    const struct pith_qmat *q = w->quant;
    const size_t at = (size_t)row * w->cols, count = (size_t)n * w->cols;
    if (!q && w->dtype == PITH_BF16) {
        b->kern.widen_bf16(count, (const char *)w->dense + at * 2, out);
    } else if (!q && w->dtype == PITH_F16) {
        b->kern.widen_f16(count, (const char *)w->dense + at * 2, out);
    } else if (q && q->format->kind == PITH_KIND_INT && !q->g_idx && pith_qmat_is_plain(q)) {
        for (uint32_t r = 0; r < n; r++, out += w->cols) decode_ints(&b->kern, q, row + r, out);
    } else {
        pith_weight_decode(w, row, n, out);
    }
}
