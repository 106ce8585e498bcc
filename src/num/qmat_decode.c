/* What the codes of a matrix stand for. */
#include "num/qmat.h"

#include <string.h>

enum { CHUNK = 512 };

/* Values of all codes of a format; for integers the unsigned code itself. */
static void fill_values(const struct pith_format *f, float values[256])
{
    const uint32_t n = (uint32_t)1 << f->bits;
    for (uint32_t c = 0; c < n; c++)
        values[c] = f->kind == PITH_KIND_INT ? (float)(int32_t)c : f->decode(c);
}

/* A matrix being read: values NULL for integers. */
struct reader {
    const struct pith_qmat *q;
    const float *values;
};

static void decode_ints(const uint8_t *codes, size_t n, float zero, float scale, float *out)
{
    enum { STEP = 16 };
    for (; n >= STEP; n -= STEP, codes += STEP, out += STEP)
        for (size_t i = 0; i < STEP; i++) out[i] = ((float)(int32_t)codes[i] - zero) * scale;
    for (size_t i = 0; i < n; i++) out[i] = ((float)(int32_t)codes[i] - zero) * scale;
}

static void decode_values(const uint8_t *codes, size_t n, const float *values, float scale,
                          float *out)
{
    for (size_t i = 0; i < n; i++) out[i] = values[codes[i]] * scale;
}

/* Columns [c, c + n) of a row, whose codes are unpacked. */
static void decode_run(const struct reader *in, uint32_t row, uint32_t c, size_t n,
                       const uint8_t *codes, float *out)
{
    const struct pith_qmat *q = in->q;
    while (n) {
        const uint32_t g = c / q->group;
        const uint64_t left = (uint64_t)(g + 1) * q->group - c;
        const size_t m = left < n ? (size_t)left : n;
        const size_t index = pith_qmat_scale_index(q, row, g);
        if (in->values) decode_values(codes, m, in->values, q->scales[index], out);
        else decode_ints(codes, m, pith_qmat_zero(q, index), q->scales[index], out);
        for (size_t i = 0; q->offsets && i < m; i++) out[i] += q->offsets[index];
        codes += m;
        out += m;
        n -= m;
        c += (uint32_t)m;
    }
}

static void decode_scattered(const struct reader *in, uint32_t row, uint32_t c, size_t n,
                             const uint8_t *codes, float *out)
{
    const struct pith_qmat *q = in->q;
    for (size_t i = 0; i < n; i++) {
        const size_t index = pith_qmat_scale_index(q, row, q->g_idx[c + i]);
        const float v = in->values ? in->values[codes[i]]
                                   : (float)(int32_t)codes[i] - pith_qmat_zero(q, index);
        out[i] = v * q->scales[index];
        if (q->offsets) out[i] += q->offsets[index];
    }
}

static void add_sparse(const struct pith_sparse *s, uint32_t row, uint32_t col, uint32_t n,
                       float *out)
{
    for (uint32_t i = s->start[row]; i < s->start[row + 1]; i++)
        if (s->col[i] >= col && s->col[i] - col < n) out[s->col[i] - col] += s->value[i];
}

static void decode_part(struct reader in, uint32_t row, uint32_t col, uint32_t n, float *out)
{
    const struct pith_qmat *q = in.q;
    uint8_t codes[CHUNK];
    if (q->levels) in.values = q->levels + ((size_t)row << q->format->bits);
    for (uint32_t done = 0; done < n;) {
        const uint32_t m = n - done < CHUNK ? n - done : CHUNK;
        pith_bits_get(q->codes + row * q->stride, col + done, q->format->bits, m, codes);
        if (q->g_idx) decode_scattered(&in, row, col + done, m, codes, out + done);
        else decode_run(&in, row, col + done, m, codes, out + done);
        done += m;
    }
    if (q->sparse) add_sparse(q->sparse, row, col, n, out);
}

/* `table` is for the values of the format. */
static struct reader reader_of(const struct pith_qmat *q, float table[256])
{
    struct reader in = {.q = q};
    if (q->levels || q->format->kind == PITH_KIND_INT) return in;
    fill_values(q->format, table);
    in.values = table;
    return in;
}

void pith_qmat_decode_part(const struct pith_qmat *q, uint32_t row, uint32_t col, uint32_t n,
                           float *out)
{
    float table[256];
    decode_part(reader_of(q, table), row, col, n, out);
}

void pith_qmat_decode(const struct pith_qmat *q, uint32_t row, uint32_t n, float *out)
{
    float table[256];
    const struct reader in = reader_of(q, table);
    for (uint32_t r = row; r < row + n; r++, out += q->cols) decode_part(in, r, 0, q->cols, out);
}

void pith_weight_decode(const struct pith_weight *w, uint32_t row, uint32_t n, float *out)
{
    if (w->quant) {
        pith_qmat_decode(w->quant, row, n, out);
        return;
    }
    const size_t bytes = pith_dtype_bits(w->dtype) / 8;
    const unsigned char *src = w->dense;
    pith_dtype_decode(w->dtype, src + (size_t)row * w->cols * bytes, (size_t)n * w->cols, out);
}
