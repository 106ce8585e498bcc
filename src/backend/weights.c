/* Decoding parts of weight rows in any form of storage. */
#include "backend/parts.h"

void pith_source_init(struct pith_source *s, const struct pith_weight *w)
{
    const struct pith_qmat *q = w->quant;
    s->w = w;
    s->levels = q && pith_levels_fit(q);
    s->trellis = q && pith_trellis_fits(q);
    s->ints = q && q->format->kind == PITH_KIND_INT && !pith_qmat_parts(q);
    if (q) pith_reader_open(&s->reader, q);
}

/* Integers from column `col` of a row on, which share a scale. Codes of four and eight bits are
 * read in place, others are unpacked to a byte each first. */
static void decode_run(const struct pith_kern *k, const struct pith_qmat *q, size_t row, size_t col,
                       size_t n, float *out)
{
    enum { CHUNK = 512 };
    const unsigned bits = q->format->bits;
    const uint8_t *stream = q->codes + row * q->stride;
    const size_t index = pith_qmat_scale_index(q, (uint32_t)row, (uint32_t)(col / q->group));
    const float zero = pith_qmat_zero(q, index), scale = q->scales[index];
    uint8_t codes[CHUNK];
    if (bits == 8) {
        k->dequant_u8(n, stream + col, zero, scale, out);
        return;
    }
    if (bits == 4 && col % 2 == 0) {
        k->dequant_u4(n, stream + col / 2, zero, scale, out);
        return;
    }
    for (size_t done = 0; done < n; done += CHUNK) {
        const size_t m = pith_min(CHUNK, n - done);
        pith_bits_get(stream, col + done, bits, m, codes);
        k->dequant_u8(m, codes, zero, scale, out + done);
    }
}

/* W[row][col .. col + n) as float32; the same bits as pith_weight_decode(). */
static void source_segment(const struct pith_source *s, const struct pith_kern *k, size_t row,
                           size_t col, size_t n, float *out)
{
    const struct pith_weight *w = s->w;
    const struct pith_qmat *q = w->quant;
    if (s->ints) {
        for (size_t end = col + n, m; col < end; col += m, out += m) {
            m = pith_min(end, (col / q->group + 1) * q->group) - col;
            decode_run(k, q, row, col, m, out);
        }
    } else if (s->levels && col % 8 == 0) {
        pith_levels_segment(k, q, row, col, n, out);
    } else if (q) {
        pith_reader_get(&s->reader, (uint32_t)row, (uint32_t)col, (uint32_t)n, out);
    } else {
        const size_t at = row * w->cols + col;
        const char *dense = w->dense;
        if (w->dtype == PITH_BF16) k->widen_bf16(n, dense + at * 2, out);
        else if (w->dtype == PITH_F16) k->widen_f16(n, dense + at * 2, out);
        else pith_dtype_decode(w->dtype, dense + at * 4, n, out);
    }
}

void pith_source_region(const struct pith_source *s, const struct pith_kern *k,
                        const struct pith_region *at, float *out)
{
    if (s->trellis) pith_trellis_region(k, s->w->quant, at, out);
    for (size_t r = 0; !s->trellis && r < at->rows; r++)
        source_segment(s, k, at->row + r, at->col, at->cols, out + r * at->cols);
}

void pith_decode_rows(const struct pith_backend *b, const struct pith_weight *w, uint32_t row,
                      uint32_t n, float *out)
{
    struct pith_source s;
    pith_source_init(&s, w);
    if (s.trellis) {
        pith_trellis_rows(&b->kern, w->quant, row, n, out);
        return;
    }
    for (uint32_t r = 0; r < n; r++, out += w->cols)
        source_segment(&s, &b->kern, row + r, 0, w->cols, out);
}
