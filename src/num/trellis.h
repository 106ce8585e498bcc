/* num/trellis.h: matrices whose codes are walks through a trellis (QTIP: Tseng et al. 2024), as
 * EXL3 stores them, and as pith does with another code.
 *
 * A tile of 16 x 16 weights is a closed bit stream of 256 b bits, b = 1..8. Weight i of the tile
 * is what a window of 16 bits of it says, the one that ends with bits [i b, i b + b), so
 * neighbours share 16 - b of their bits; the stream's end goes on at its beginning. A window
 * becomes a number by arithmetic alone. EXL3's, in half precision, are
 *
 *     3inst   x = 89226354 s + 64248484       the two halves of (x & 0x8fff8fff) ^ 0x3b603b60,
 *     mcg     x = 0xcbac1fed s                as half floats, added (Lipman; QTIP's 3INST)
 *     mul1    x = 0x83dcd12d s                fma(1024 + sum of x's bytes, 0x1eee, 0xc931)
 *
 * modulo 2^32, so that they are normally distributed, nearly. pith's own does without products of
 * 32 bits, which vectors have few of: with two odd factors for each b, pith_trellis_factors,
 *
 *     mul2    (sum of both bytes of factor[0] s and of factor[1] s, modulo 2^16, - 510) / 128
 *
 * Tiles of 16 rows lie side by side, in as many bytes as 16 rows of codes of b bits have:
 * pith_trellis_tile_at(). Of EXL3's codes a tile is 8 b words of 32 bits, the stream's first bit
 * the highest of the first word. Of weight i of a tile, with t = i / 8 and j = i % 8,
 *
 *     row     t / 4 + 8 (j / 4)       column   2 (t % 4) + j % 2 + 8 (j / 2 % 2)
 *
 * which is the order of tensor cores. Of mul2 it is sixteen lanes of b words of 16 bits, each a
 * sixteenth of the stream, sixteen weights, first bits highest: word w of lane j is the tile's word
 * 16 w + j, so that the same shift finds the windows of all lanes. Of weight i, with t = i % 16 and
 * j = i / 16,
 *
 *     row     j / 2 + 8 (t / 8)       column   8 (j % 2) + t % 8
 *
 * so that sums of neighbouring lanes are those of rows. The weights stand between two Hadamard
 * matrices T of order 128 (Sylvester's, of ones), along rows and along columns:
 *
 *     value(r, c) = (T V T)[r][c] * f[c] / 128      V: what the windows say
 *
 * with f the matrix's `levels`, one number a column, and a scale a row (num/qmat.h). Both
 * products add pair by pair, over halves, quarters and so on, first along columns, then along rows.
 *
 * Source: exllamav3's codebook.cuh, exl3_dq.cuh, pack.cu and exl3_lib/quantize.py; read for what
 * they compute. */
#ifndef PITH_NUM_TRELLIS_H
#define PITH_NUM_TRELLIS_H

#include "num/qmat.h"

enum pith_trellis_code {
    PITH_TRELLIS_3INST,
    PITH_TRELLIS_MCG,
    PITH_TRELLIS_MUL1,
    PITH_TRELLIS_MUL2,
    PITH_TRELLIS_CODES
};

enum {
    PITH_TRELLIS_STATES = 1 << 16,
    PITH_TRELLIS_TILE = 16,     /* rows and columns of a tile */
    PITH_TRELLIS_WEIGHTS = 256, /* of a tile */
    PITH_TRELLIS_BLOCK = 128    /* the order of T */
};

/* What windows are multiplied by, and 3inst adds. */
#define PITH_TRELLIS_BY_3INST 89226354u
#define PITH_TRELLIS_AND_3INST 64248484u
#define PITH_TRELLIS_BY_MCG 0xcbac1fedu
#define PITH_TRELLIS_BY_MUL1 0x83dcd12du

/* mul2's by bits, from 1 on: what came out best at that width, on normally distributed numbers, of
 * changing bits of the best of 120 random pairs, some times over. */
extern const uint16_t pith_trellis_factors[9][2];

/* The number that a window says, of `bits` a weight. */
float pith_trellis_value(enum pith_trellis_code code, unsigned bits, uint32_t window);
/* mul1 and mul2 before anything is rounded: sum TIMES + PLUS. mul1's sum begins at 1024. */
#define PITH_TRELLIS_TIMES 0x1.bb8p-8f
#define PITH_TRELLIS_PLUS (-0x1.4c4p3f)
#define PITH_TRELLIS_TIMES_MUL2 0x1p-7f
#define PITH_TRELLIS_PLUS_MUL2 (-510 * PITH_TRELLIS_TIMES_MUL2)
/* The sums of bytes alone, 0 to 1020. */
uint32_t pith_trellis_sum(enum pith_trellis_code code, unsigned bits, uint32_t window);
/* The other codes' sum of halves before it is rounded, which float32 has exactly. */
float pith_trellis_halves(enum pith_trellis_code code, uint32_t window);

/* Row and column in its tile of weight i. */
static inline unsigned pith_trellis_row(enum pith_trellis_code code, unsigned i)
{
    return code == PITH_TRELLIS_MUL2 ? i / 32 + i % 16 / 8 * 8 : i / 32 + i % 8 / 4 * 8;
}
static inline unsigned pith_trellis_col(enum pith_trellis_code code, unsigned i)
{
    return code == PITH_TRELLIS_MUL2 ? i / 16 % 2 * 8 + i % 8
                                     : i / 8 % 4 * 2 + i % 2 + i / 2 % 2 * 8;
}

/* A tile, at any address. */
struct pith_trellis_tile {
    enum pith_trellis_code code;
    unsigned bits;
    const uint8_t *at;
};
/* The window of its weight i. */
uint32_t pith_trellis_window(const struct pith_trellis_tile *t, unsigned i);
/* Writes the tile whose windows' lowest bits are those of window[i]. */
void pith_trellis_pack(enum pith_trellis_code code, const uint16_t window[PITH_TRELLIS_WEIGHTS],
                       unsigned bits, uint8_t *tile);
/* out[row * ld + column] of all weights of a tile. */
void pith_trellis_decode(enum pith_trellis_code code, unsigned bits, const uint8_t *tile,
                         float *out, size_t ld);

/* Whether a matrix's, or a format's, codes are of this kind. */
bool pith_trellis_is(const struct pith_format *f);
/* Which; f is of this kind. */
enum pith_trellis_code pith_trellis_code_of(const struct pith_format *f);
/* By the name that it has in grids: "3inst", "mcg", "mul1", "mul2". False: there is none. */
bool pith_trellis_code_find(const char *name, enum pith_trellis_code *out);
/* The format of that code and so many bits, 1 to 8. */
const struct pith_format *pith_trellis_format(enum pith_trellis_code code, unsigned bits);
/* Bytes of a tile. */
static inline size_t pith_trellis_bytes(unsigned bits)
{
    return (size_t)PITH_TRELLIS_WEIGHTS / 8 * bits;
}
/* Where in q's codes the tile of rows [16 row, ...) and columns [16 col, ...) is. */
static inline size_t pith_trellis_tile_at(const struct pith_qmat *q, size_t row, size_t col)
{
    return row * PITH_TRELLIS_TILE * q->stride + col * pith_trellis_bytes(q->format->bits);
}

/* x[BLOCK][ld] = T x, of `n` columns, in place / n rows of x[ld] times T. Not divided. */
void pith_trellis_down(float *x, size_t ld, size_t n);
/* Row `row` alone of T x[BLOCK][BLOCK], to x[0 .. BLOCK); the rest is lost. */
void pith_trellis_down_row(float *x, size_t row);
void pith_trellis_across(float *x, size_t ld, size_t n);

/* value() of rows [128 row, ...) and columns [128 col, ...), out[128][128]. */
void pith_trellis_block(const struct pith_qmat *q, uint32_t row, uint32_t col, float *out);

#endif
