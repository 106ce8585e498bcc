/* kern/template/lanes_template.h: products with tiles whose numbers lie in lanes, eight rows and
 * then eight rows of a tile, sixteen numbers of each (kern/trellis.h). What is made of windows
 * serves up to VECTORS vectors, whose sums stay in registers. A file that includes this has before
 * it
 *
 *     INLINE, VECTORS (1, 2, 4 or 8), ROWS (of tiles that a register has, 1 or 2)
 *     AHEAD         how many numbers of one vector's are made before they are multiplied
 *     STEP, TILE    words of 32 bits of a vector's for a block, and for a tile
 *     opened        what open_tile() makes of ROWS tiles, ld apart
 *     number        what is made of windows
 *     sum           sums of eight rows a row of tiles
 *
 * and what is declared below behind it. Bits and n are known where these are inlined. */
#include "kern/panel.h"
#include "kern/trellis.h"

INLINE void open_tile(unsigned bits, const uint8_t *at, size_t ld, opened *to);
/* Number t of the upper eight rows, number t - 8 of the lower ones. */
INLINE number number_at(unsigned bits, const opened *of, unsigned t);
/* Where its word is among a tile's. */
INLINE unsigned word_at(unsigned t);
/* Whether a tile is opened while the one before it is multiplied. */
INLINE bool early(unsigned bits, size_t n);
INLINE sum none(void);
/* Sums of two neighbouring lanes with a word. */
INLINE sum add(sum s, number w, uint32_t word);
/* Says that s stays in its registers from tile to tile. */
INLINE void keep(sum *s);
/* y[16 ROWS] with the sums of rows 0 to 7, and of rows 8 to 15, of its tiles. */
INLINE void finish(sum upper, sum lower, float scale, float *y);

struct lanes {
    const struct pith_trellis_strip *m;
    size_t vector, row; /* the first of them */
};

/* A tile of each row, n vectors. */
INLINE void tile_sums(unsigned bits, size_t n, const opened *of, const uint32_t *x, sum acc[][2])
{
    const unsigned ahead = n == 1 ? AHEAD : 0;
    number upper[8], lower[8];
#pragma GCC unroll 16
    for (unsigned i = 0; i < 8 + ahead; i++) {
        const unsigned t = i - ahead;
        if (i < 8) {
            upper[i] = number_at(bits, of, i);
            lower[i] = number_at(bits, of, i + 8);
        }
        if (t >= 8) continue; /* not yet */
#pragma GCC unroll 8
        for (size_t v = 0; v < n; v++) {
            acc[v][0] = add(acc[v][0], upper[t], x[v * STEP + word_at(t)]);
            acc[v][1] = add(acc[v][1], lower[t], x[v * STEP + word_at(t + 8)]);
        }
    }
}

INLINE void prefetch(const uint8_t *tile, size_t bytes, size_t ld)
{
#pragma GCC unroll 8
    for (size_t i = 0; i < ROWS * bytes; i += PITH_PANEL_LINE)
        __builtin_prefetch(tile + i / bytes * ld + i % bytes + PITH_AHEAD_BYTES);
}

INLINE void block_sums(const struct lanes *l, unsigned bits, size_t n, size_t block)
{
    const struct pith_trellis_strip *m = l->m;
    const size_t bytes = pith_trellis_bytes(bits), at = block * m->count + l->vector;
    const uint8_t *tile = m->tiles + l->row * m->ld + block * PITH_TRELLIS_SIDE * bytes;
    const uint8_t *const last = tile + (PITH_TRELLIS_SIDE - 1) * bytes;
    const uint32_t *x = (const uint32_t *)m->x + at * STEP;
    sum acc[VECTORS][2];
    opened of[2];
#pragma GCC unroll 8
    for (size_t v = 0; v < n; v++) acc[v][0] = acc[v][1] = none();
    if (early(bits, n)) open_tile(bits, tile, m->ld, &of[0]);
    for (size_t c = 0; c < PITH_TRELLIS_SIDE; c += 2)
#pragma GCC unroll 2
        for (size_t i = 0; i < 2; i++, tile += bytes, x += TILE) {
            prefetch(tile, bytes, m->ld);
            if (early(bits, n))
                open_tile(bits, tile < last ? tile + bytes : last, m->ld, &of[1 - i]);
            else open_tile(bits, tile, m->ld, &of[i]);
            tile_sums(bits, n, &of[i], x, acc);
#pragma GCC unroll 8
            for (size_t v = 0; v < 2 * n; v++) keep(&acc[v / 2][v % 2]);
        }
#pragma GCC unroll 8
    for (size_t v = 0; v < n; v++)
        finish(acc[v][0], acc[v][1], m->scale[at + v],
               m->y + (l->vector + v) * m->ldy + l->row * PITH_TRELLIS_TILE);
}

/* All vectors, a few at a time. */
INLINE void lanes_of(const struct pith_trellis_strip *m, unsigned bits)
{
    struct lanes l = {.m = m};
    for (l.row = 0; l.row < PITH_TRELLIS_ROWS; l.row += ROWS)
        for (size_t block = 0; block < m->blocks; block++)
            for (size_t n = l.vector = 0; l.vector < m->count; l.vector += n) {
                const size_t left = m->count - l.vector;
                n = left >= VECTORS ? VECTORS : left >= 4 ? 4 : left >= 2 ? 2 : 1;
                if (n == VECTORS) block_sums(&l, bits, VECTORS, block);
                else if (n == 4) block_sums(&l, bits, VECTORS < 4 ? VECTORS : 4, block);
                else if (n == 2) block_sums(&l, bits, VECTORS < 2 ? VECTORS : 2, block);
                else block_sums(&l, bits, 1, block);
            }
}

INLINE void lanes_all(const struct pith_trellis_strip *m)
{
    switch (m->bits) {
    case 1: lanes_of(m, 1); break;
    case 2: lanes_of(m, 2); break;
    case 3: lanes_of(m, 3); break;
    case 4: lanes_of(m, 4); break;
    case 5: lanes_of(m, 5); break;
    case 6: lanes_of(m, 6); break;
    case 7: lanes_of(m, 7); break;
    default: lanes_of(m, 8);
    }
}
