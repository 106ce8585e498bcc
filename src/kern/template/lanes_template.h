/* kern/template/lanes_template.h: products with the lanes of mul2 (kern/trellis.h). A window is the
 * end of one word and the beginning of the next of its lane, or of the lane before, the same for
 * all lanes, so that two shifts by a constant find those of a register; what is made of them serves
 * up to VECTORS vectors, whose sums stay in registers. A file that includes this has before it
 *
 *     INLINE, VECTORS (1, 2, 4 or 8), ROWS (of tiles that a register has, 1 or 2)
 *     reg       sixteen lanes a row of tiles, words of 16 bits
 *     number    what is made of windows
 *     sum       sums of eight rows a row of tiles
 *
 * and what is declared below behind it. Bits and n are known where these are inlined. */
#include "kern/panel.h"
#include "kern/trellis.h"

INLINE reg load(const uint8_t *tile, size_t ld);
/* Lane j's number to lane j + 1, the last's to the first, of each row of tiles. */
INLINE reg turn(reg x);
/* (before << left) | (last >> right), of sixteen bits. */
INLINE reg join(reg before, reg last, int left, int right);
INLINE number number_of(unsigned bits, reg windows);
INLINE sum none(void);
/* Sums of two neighbouring lanes with a word. */
INLINE sum add(sum s, number w, uint32_t word);
/* y[16 ROWS] with the sums of rows 0 to 7, and of rows 8 to 15, of its tiles. */
INLINE void finish(sum upper, sum lower, float scale, float *y);

struct lanes {
    const struct pith_trellis_strip *m;
    size_t vector, row; /* the first of them */
};

/* The windows of weight t of each lane; words[0] is the last one of the lane before. */
INLINE reg windows(unsigned bits, const reg *words, unsigned t)
{
    const unsigned end = (t + 1) * bits, last = (end - 1) / 16, right = 16 * (last + 1) - end;
    if (right == 0) return words[last + 1];
    return join(words[last], words[last + 1], (int)(16 - right), (int)right);
}

/* The words of a tile of each row, as windows() wants them. */
INLINE void words_of(unsigned bits, const uint8_t *tile, size_t ld, reg words[9])
{
    words[0] = turn(load(tile + (bits - 1) * 32, ld));
#pragma GCC unroll 8
    for (unsigned i = 0; i < bits; i++) words[i + 1] = load(tile + i * 32, ld);
}

/* A tile of each row, n vectors. */
INLINE void tile_sums(unsigned bits, size_t n, const uint8_t *tile, size_t ld, const uint32_t *x,
                      sum acc[][2])
{
    reg words[9];
    words_of(bits, tile, ld, words);
#pragma GCC unroll 8
    for (unsigned t = 0; t < 8; t++) {
        const number upper = number_of(bits, windows(bits, words, t)),
                     lower = number_of(bits, windows(bits, words, t + 8));
#pragma GCC unroll 8
        for (size_t v = 0; v < n; v++) {
            acc[v][0] = add(acc[v][0], upper, x[v * PITH_LANES_STEP + t]);
            acc[v][1] = add(acc[v][1], lower, x[v * PITH_LANES_STEP + t]);
        }
    }
}

INLINE void block_sums(const struct lanes *l, unsigned bits, size_t n, size_t block)
{
    const struct pith_trellis_strip *m = l->m;
    const size_t bytes = pith_trellis_bytes(bits), at = block * m->count + l->vector;
    const uint8_t *tile = m->tiles + l->row * m->ld + block * PITH_TRELLIS_SIDE * bytes;
    const uint32_t *x = (const uint32_t *)m->x + at * PITH_LANES_STEP;
    sum acc[VECTORS][2];
#pragma GCC unroll 8
    for (size_t v = 0; v < n; v++) acc[v][0] = acc[v][1] = none();
    for (size_t c = 0; c < PITH_TRELLIS_SIDE; c++, tile += bytes, x += PITH_TRELLIS_TILE / 2) {
        for (size_t i = 0; i < ROWS * bytes; i += PITH_PANEL_LINE)
            __builtin_prefetch(tile + i / bytes * m->ld + i % bytes + PITH_AHEAD_BYTES);
        tile_sums(bits, n, tile, m->ld, x, acc);
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
    for (l.row = 0; l.row < PITH_LANES_ROWS; l.row += ROWS)
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
