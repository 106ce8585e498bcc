/* Decoding parts of weight rows, whatever form they are held in. */
#include "backend/parts.h"

void pith_source_init(struct pith_source *s, const struct pith_weight *w)
{
    s->w = w;
    s->bits = 0;
    s->symmetric_zero = 0.0f;
    s->integer = false;
    if (!w->quant) return;
    const struct pith_format *f = w->quant->format;
    s->bits = f->bits;
    s->integer = f->kind == PITH_KIND_INT;
    s->symmetric_zero = (float)pith_format_middle(f);
    for (uint32_t code = 0; code < 1u << f->bits; code++)
        s->level[code] = s->integer ? (float)code : f->decode(code);
}

static float zero_at(const struct pith_source *s, size_t index)
{
    return s->w->quant->zeros ? (float)s->w->quant->zeros[index] : s->symmetric_zero;
}

/* Columns [at->j, at->j + n) of row at->i, which share scale `index`. Codes of four and eight
 * bits are read in place, others are unpacked to a byte each first. */
static void decode_run(const struct pith_source *s, const struct pith_kern *k, uint8_t *codes,
                       const struct pith_tile_block *at, size_t index, float *out)
{
    const struct pith_qmat *q = s->w->quant;
    const uint8_t *stream = q->codes + at->i * q->stride, *bytes = codes;
    const float zero = zero_at(s, index), scale = q->scales[index];
    if (s->integer && s->bits == 4 && at->j % 2 == 0) {
        k->dequant_u4(at->n, stream + at->j / 2, zero, scale, out);
        return;
    }
    if (s->bits == 8) bytes = stream + at->j;
    else pith_bits_get(stream, at->j, s->bits, at->n, codes);
    if (s->integer) k->dequant_u8(at->n, bytes, zero, scale, out);
    else
        for (size_t i = 0; i < at->n; i++) out[i] = s->level[bytes[i]] * scale;
}

/* A scale a column, as act-order leaves it. */
static void decode_indexed(const struct pith_source *s, uint8_t *codes,
                           const struct pith_tile_block *at, float *out)
{
    const struct pith_qmat *q = s->w->quant;
    pith_bits_get(q->codes + at->i * q->stride, at->j, s->bits, at->n, codes);
    const size_t first = pith_qmat_scale_index(q, (uint32_t)at->i, 0);
    const float *scales = q->scales + first;
    const uint32_t *group = q->g_idx + at->j;
    if (q->zeros) {
        const uint8_t *zeros = q->zeros + first;
        for (size_t i = 0; i < at->n; i++)
            out[i] = ((float)codes[i] - (float)zeros[group[i]]) * scales[group[i]];
    } else {
        /* Formats without zero points have symmetric_zero = 0, which changes no level. */
        for (size_t i = 0; i < at->n; i++)
            out[i] = (s->level[codes[i]] - s->symmetric_zero) * scales[group[i]];
    }
}

static void quant_segment(const struct pith_source *s, const struct pith_kern *k, uint8_t *codes,
                          const struct pith_tile_block *at, float *out)
{
    const struct pith_qmat *q = s->w->quant;
    if (pith_levels_fit(q) && at->j % 8 == 0) {
        pith_levels_segment(k, q, at->i, at->j, at->n, out);
        return;
    }
    if (!pith_qmat_is_plain(q)) {
        pith_qmat_decode_part(q, (uint32_t)at->i, (uint32_t)at->j, (uint32_t)at->n, out);
        return;
    }
    if (q->g_idx) {
        decode_indexed(s, codes, at, out);
        return;
    }
    for (size_t done = 0; done < at->n;) {
        struct pith_tile_block run = {.i = at->i, .j = at->j + done, .m = 1};
        const size_t group = run.j / q->group;
        run.n = pith_min(at->n - done, (group + 1) * q->group - run.j);
        const size_t index = pith_qmat_scale_index(q, (uint32_t)at->i, (uint32_t)group);
        decode_run(s, k, codes, &run, index, out + done);
        done += run.n;
    }
}

void pith_source_segment(const struct pith_source *s, const struct pith_kern *k, uint8_t *codes,
                         size_t row, size_t col, size_t n, float *out)
{
    const struct pith_weight *w = s->w;
    if (w->quant) {
        quant_segment(s, k, codes, &(struct pith_tile_block){.i = row, .j = col, .m = 1, .n = n},
                      out);
        return;
    }
    const size_t at = row * w->cols + col;
    const char *dense = w->dense;
    if (w->dtype == PITH_BF16) k->widen_bf16(n, dense + at * 2, out);
    else if (w->dtype == PITH_F16) k->widen_f16(n, dense + at * 2, out);
    else pith_dtype_decode(w->dtype, dense + at * 4, n, out);
}
