#include "num/codec.h"

#include "num/qmat.h"

enum { CHUNK = 512 };

static void open_values(struct pith_reader *in)
{
    const struct pith_format *f = in->q->format;
    for (uint32_t c = 0; c < (uint32_t)1 << f->bits; c++) in->value[c] = f->decode(c);
}

/* Codes of four and eight bits, which most matrices have, are read in place. */
static void look_up(const struct pith_qmat *q, const float *restrict value, uint32_t row,
                    uint32_t col, uint32_t n, float *restrict out)
{
    const unsigned bits = q->format->bits;
    const uint8_t *restrict stream = q->codes + row * q->stride;
    uint8_t codes[CHUNK];
    if (bits == 8) {
        stream += col;
        for (size_t i = 0; i < n; i++) out[i] = value[stream[i]];
        return;
    }
    if (bits == 4 && col % 2 == 0 && n % 2 == 0) {
        stream += col / 2;
        for (size_t i = 0; i < n / 2; i++) {
            out[2 * i] = value[stream[i] & 15];
            out[2 * i + 1] = value[stream[i] >> 4];
        }
        return;
    }
    for (uint32_t done = 0; done < n; done += CHUNK) {
        const uint32_t m = n - done < CHUNK ? n - done : CHUNK;
        pith_bits_get(stream, (size_t)col + done, bits, m, codes);
        for (uint32_t i = 0; i < m; i++) out[done + i] = value[codes[i]];
    }
}

static void read_values(const struct pith_reader *in, uint32_t row, uint32_t col, uint32_t n,
                        float *out)
{
    look_up(in->q, in->value, row, col, n, out);
}

static void read_levels(const struct pith_reader *in, uint32_t row, uint32_t col, uint32_t n,
                        float *out)
{
    const struct pith_qmat *q = in->q;
    look_up(q, q->levels + ((size_t)row << q->format->bits), row, col, n, out);
}

/* A multiple of 16 at a time, which compilers vectorize. */
static void read_integers(const struct pith_reader *in, uint32_t row, uint32_t col, uint32_t n,
                          float *out)
{
    enum { STEP = 16 };
    const struct pith_qmat *q = in->q;
    uint8_t codes[CHUNK] = {0};
    for (uint32_t done = 0; done < n; done += CHUNK) {
        const uint32_t m = n - done < CHUNK ? n - done : CHUNK;
        float *to = out + done;
        uint32_t i = 0;
        pith_bits_get(q->codes + row * q->stride, (size_t)col + done, q->format->bits, m, codes);
        for (; i + STEP <= m; i += STEP)
            for (uint32_t l = 0; l < STEP; l++) to[i + l] = (float)(int32_t)codes[i + l];
        for (; i < m; i++) to[i] = (float)(int32_t)codes[i];
    }
}

const struct pith_codec pith_codec_values = {
    .name = "values", .span = 1, .open = open_values, .read = read_values};
const struct pith_codec pith_codec_integers = {
    .name = "integers", .span = 1, .read = read_integers};
const struct pith_codec pith_codec_levels = {
    .name = "levels", .span = 1, .table = PITH_TABLE_ROWS, .read = read_levels};
