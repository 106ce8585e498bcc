/* kern/trellis.h: the fast mode's products with what trellises hold, V of num/trellis.h, two rows
 * of tiles at a time: a window becomes a number in a register and meets the activations there.
 *
 * Of a tile, weight i's column meets word i % 32 of a vector's; a block is eight tiles, 128
 * columns. `bytes`, for mul1: a word is 16 bits, twice the same signed byte q above -128, so that
 * dot products of bytes are both the sum of a window's bytes and the product. Of a row, for all
 * blocks in order,
 *
 *     y = fma((float)D, scale[block], y),   D = sum over the block of sum of bytes * q, exactly
 *
 * since D stays below 2^24. `floats`, for the other codes: words are float32, and a weight is the
 * sum of its halves, not rounded. With t = i / 8 and e = i % 4 of weight i, eight chains for each
 * row and block,
 *
 *     s[t % 2][e] = fma(weight, word, s[t % 2][e])   tile by tile, t in order, from 0
 *     u[e] = s[0][e] + s[1][e]
 *     y = y + ((u[0] + u[2]) + (u[1] + u[3]))
 *
 * `lanes`, for mul2: what `bytes` computes, over words of 32 bits. Word
 * 8 c + t of a block is the signed bytes of columns 16 c + t, 16 c + t, 16 c + 8 + t, 16 c + 8 + t:
 * what any two neighbouring lanes of tile c meet there. */
#ifndef PITH_KERN_TRELLIS_H
#define PITH_KERN_TRELLIS_H

#include "num/trellis.h"

#include <string.h>

enum {
    PITH_TRELLIS_WORDS = 32, /* of a vector's for a tile */
    PITH_TRELLIS_SIDE = PITH_TRELLIS_BLOCK / PITH_TRELLIS_TILE,
    PITH_TRELLIS_STEP = PITH_TRELLIS_WORDS * PITH_TRELLIS_SIDE, /* words for a block */
    PITH_TRELLIS_VECTORS = 16,                                  /* at a time, at most */
    PITH_TRELLIS_ROWS = 2,                                      /* of tiles, at a time */
    PITH_LANES_STEP = 64                                        /* words of `lanes` for a block */
};

struct pith_trellis_strip {
    enum pith_trellis_code code;
    unsigned bits;
    const uint8_t *tiles; /* the first row of them */
    size_t ld;            /* bytes from there to the second row's */
    size_t blocks, count; /* of columns; of vectors */
    const void *x;        /* words [blocks][count][STEP], aligned to 64 bytes */
    const float *scale;   /* [blocks][count]; not of floats */
    float *y;             /* [count][ldy]: 32 each, gone on with */
    size_t ldy;
};

/* What vector kernels read, sixteen bytes at a time, which may begin BEFORE words before a tile: of
 * the tiles of a block the first eight words, with the tile's last before them, and all else where
 * it lies. */
enum { PITH_TRELLIS_BEFORE = 4, PITH_TRELLIS_HEAD = PITH_TRELLIS_BEFORE + 8 };
struct pith_trellis_block {
    const uint8_t *tiles;
    unsigned bits;
    uint32_t head[PITH_TRELLIS_SIDE][PITH_TRELLIS_HEAD];
};
static inline void pith_trellis_open(struct pith_trellis_block *b, const uint8_t *tiles,
                                     unsigned bits)
{
    const size_t bytes = pith_trellis_bytes(bits);
    b->tiles = tiles;
    b->bits = bits;
    for (size_t c = 0; c < PITH_TRELLIS_SIDE; c++, tiles += bytes) {
        memcpy(b->head[c] + PITH_TRELLIS_BEFORE - 1, tiles + bytes - 4, 4);
        memcpy(b->head[c] + PITH_TRELLIS_BEFORE, tiles, PITH_TRELLIS_WEIGHTS / 8);
    }
}
/* The sixteen bytes of rows r and r + 8 of tile c that begin BEFORE words before their word `from`.
 * Where the row's own bits begin less than BEFORE words into the tile, these may begin before it,
 * and are taken from the head, which ends with what is read at 8 bits. */
static inline const uint8_t *pith_trellis_at(const struct pith_trellis_block *b, size_t c, size_t r,
                                             unsigned from)
{
    const size_t at = r * b->bits + from;
    if (r < PITH_TRELLIS_BEFORE && r * b->bits < PITH_TRELLIS_BEFORE) /* the first, for compilers */
        return (const uint8_t *)(b->head[c] + at);
    return b->tiles + c * pith_trellis_bytes(b->bits) + 4 * (at - PITH_TRELLIS_BEFORE);
}

/* Where the windows of 32 weights lie, `bits` words on for the next 32; of weights 8 t .. 8 t + 7
 * all in the sixteen bytes of word from[t], pith_trellis_at(). As words of 32 bits: their bytes,
 * the last first, and how far above the lowest bit the window is then. */
struct pith_trellis_windows {
    unsigned from[4];
    _Alignas(64) uint8_t pick[4][8][4];
    _Alignas(64) uint32_t right[4][8];
};
/* As words of 16 bits: a window is the first two of its three bytes shifted left, or the last two
 * shifted right by the rest of 8 bits. */
struct pith_trellis_pairs {
    unsigned from[4];
    _Alignas(64) uint8_t first[4][8][2];
    _Alignas(64) uint8_t last[4][8][2];
    _Alignas(64) uint16_t left[4][8];
};

/* In sixteen bytes, where byte i of the stream is; or none, where it is beyond them. */
static inline uint8_t pith_trellis_byte(unsigned i)
{
    return i < 16 ? (uint8_t)(i / 4 * 4 + 3 - i % 4) : 0x80;
}

/* From where on the sixteen bytes of t are when they are those of its neighbours too, `together` of
 * them: 1, 2 for bits up to 6, 4 for bits up to 3. */
static inline unsigned pith_trellis_from(unsigned bits, unsigned together, unsigned t)
{
    return ((t / together + 1) * together * bits + 3) / 4;
}

/* The bit after the window of weight i, in the sixteen bytes of word `from`. */
static inline unsigned pith_trellis_end(unsigned bits, unsigned i, unsigned from)
{
    return (i + 1) * bits + 32 * PITH_TRELLIS_BEFORE - 32 * from;
}

static inline void pith_trellis_find(unsigned bits, unsigned together,
                                     struct pith_trellis_windows *w)
{
    for (unsigned i = 0; i < PITH_TRELLIS_WORDS; i++) {
        const unsigned t = i / 8, j = i % 8;
        w->from[t] = pith_trellis_from(bits, together, t);
        const unsigned end = pith_trellis_end(bits, i, w->from[t]), last = (end - 1) / 8;
        for (unsigned k = 0; k < 3; k++) w->pick[t][j][k] = pith_trellis_byte(last - k);
        w->pick[t][j][3] = pith_trellis_byte(16);
        w->right[t][j] = 8 * (last + 1) - end;
    }
}

static inline void pith_trellis_find_pairs(unsigned bits, unsigned together,
                                           struct pith_trellis_pairs *w)
{
    for (unsigned i = 0; i < PITH_TRELLIS_WORDS; i++) {
        const unsigned t = i / 8, j = i % 8;
        w->from[t] = pith_trellis_from(bits, together, t);
        const unsigned at = pith_trellis_end(bits, i, w->from[t]) - 16;
        for (unsigned k = 0; k < 2; k++) {
            w->first[t][j][k] = pith_trellis_byte(at / 8 + 1 - k);
            w->last[t][j][k] = pith_trellis_byte(at / 8 + 2 - k);
        }
        w->left[t][j] = (uint16_t)(at % 8);
    }
}

/* pith_trellis_decode() of mul2 with AVX2, which what has AVX-512 goes by too. */
void pith_lanes_decode_avx2(unsigned bits, const uint8_t *tile, float *out, size_t ld);
/* `bytes` with VNNI, and `floats` with AVX-512: numbers are made for all vectors, and lie in memory
 * between. */
void pith_trellis_walk_vnni(const struct pith_trellis_strip *m);
void pith_trellis_walk_avx512(const struct pith_trellis_strip *m);

#endif
