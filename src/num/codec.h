/* num/codec.h: how the codes of a matrix become values. A codec is a row of the table in codec.c; a
 * format names it, and everything that holds, sizes, compares, checks or reads a quantized matrix
 * goes by that row:
 *
 *     values    a code is one weight, the format's decode() its value: small floats, codebooks
 *     integers  likewise, the unsigned code itself
 *     levels    likewise, the row's own level of that number
 *     trellis   weights stand in blocks, and any depends on all codes of its block: num/trellis.h
 *
 * Zero points, scales, offsets and weights off the grid are not its business: num/qmat.h. */
#ifndef PITH_NUM_CODEC_H
#define PITH_NUM_CODEC_H

#include <stddef.h>
#include <stdint.h>

struct pith_qmat;

/* A matrix being read, and what the codec wants at hand. */
struct pith_reader {
    const struct pith_qmat *q;
    float value[256]; /* of each code */
};

/* Numbers of a matrix's own that its codes are looked up in: [2^bits][span] floats, once or for
 * every row; or that values are multiplied by, one a column. */
enum pith_codec_table {
    PITH_TABLE_NONE,
    PITH_TABLE_MATRIX,
    PITH_TABLE_ROWS,
    PITH_TABLE_COLUMNS
};

struct pith_codec {
    const char *name;
    unsigned span; /* weights that a code stands for, side by side in a row */
    unsigned side; /* rows and columns of a block, where there are some, which divides a matrix's;
                      else 0 */
    enum pith_codec_table table;
    void (*open)(struct pith_reader *in); /* fills in->value; NULL: not used */
    /* Values of columns [col, col + n) of a row, none past the last. */
    void (*read)(const struct pith_reader *in, uint32_t row, uint32_t col, uint32_t n, float *out);
    /* With side: the values of block (row, col), out[side][side], those of read(): many rows are
     * read at far less cost. */
    void (*block)(const struct pith_qmat *q, uint32_t row, uint32_t col, float *out);
};

/* Codes of a row of so many columns; floats of the table of a matrix of so many rows and columns,
 * whose codes have so many bits. */
static inline uint64_t pith_codec_codes(const struct pith_codec *c, uint32_t cols)
{
    return ((uint64_t)cols + c->span - 1) / c->span;
}
static inline uint64_t pith_codec_floats(const struct pith_codec *c, unsigned bits, uint32_t rows,
                                         uint32_t cols)
{
    if (c->table == PITH_TABLE_COLUMNS) return cols;
    const uint64_t tables = c->table == PITH_TABLE_ROWS ? rows : c->table == PITH_TABLE_MATRIX;
    return tables * c->span << bits;
}

extern const struct pith_codec pith_codec_values, pith_codec_integers, pith_codec_levels,
    pith_codec_trellis;

#endif
