/* kern/template/walk_template.h: products with trellises (kern/trellis.h), a block of columns at a
 * time: what is made of the windows of PAIRS pairs of rows, r and r + 8 of a tile, serves all
 * vectors, VECTORS of them in registers. A file that includes this has before it
 *
 *     INLINE, PAIRS (divides 8), VECTORS (1 to 4)
 *     word              what a vector's words are
 *     struct walk       where windows are: from[4], and what its registers want
 *     struct numbers    what is made of the windows of PAIRS pairs of rows
 *     struct walk_sums  of a vector, with eight pairs of rows
 *
 * and what is declared below behind it. `kind` is the file's own, and it and n are known where
 * these are inlined. */
#include "kern/panel.h"
#include "kern/trellis.h"

/* A block of m, and its tiles. */
struct walking {
    const struct pith_trellis_strip *m;
    struct walk w;
    size_t block;
    struct pith_trellis_block tiles;
};

/* The sixteen bytes that hold the windows of t of rows r and r + 8 of tile c. */
INLINE const uint8_t *walk_at(const struct walking *b, size_t c, size_t r, size_t t)
{
    return pith_trellis_at(&b->tiles, c, r, b->w.from[t]);
}

/* Of pairs [r, r + PAIRS). */
INLINE void decode(const struct walking *b, unsigned kind, size_t r, struct numbers *to);
/* Their sums with n vectors, to sums[v] from pair r on. */
INLINE void multiply(unsigned kind, const struct numbers *from, size_t n, const word *x, size_t r,
                     struct walk_sums *sums);
/* Both, of one vector, without a place between. */
INLINE void multiply_one(const struct walking *b, unsigned kind, size_t r, const word *x,
                         struct walk_sums *sums);
/* y[16] with the sums of a block; scale is 1 where there is none. */
INLINE void finish(unsigned kind, const struct walk_sums *sums, float scale, float *y);

/* Pairs [r, r + PAIRS) with all vectors. */
INLINE void walk_pairs(const struct walking *b, unsigned kind, size_t r, struct walk_sums *sums)
{
    const size_t count = b->m->count;
    const word *x = (const word *)b->m->x + b->block * count * PITH_TRELLIS_STEP;
    struct numbers w;
    if (count == 1) {
        multiply_one(b, kind, r, x, sums);
        return;
    }
    decode(b, kind, r, &w);
    for (size_t v = 0; v < count; v += VECTORS, x += VECTORS * PITH_TRELLIS_STEP) {
        const size_t left = count - v;
        if (left >= VECTORS) multiply(kind, &w, VECTORS, x, r, sums + v);
        else if (left == 3) multiply(kind, &w, 3, x, r, sums + v);
        else if (left == 2) multiply(kind, &w, 2, x, r, sums + v);
        else multiply(kind, &w, 1, x, r, sums + v);
    }
}

/* A row of tiles, the first of m's. */
INLINE void walk_row(const struct pith_trellis_strip *m, const struct walk *w, unsigned kind)
{
    struct walking b = {.m = m, .w = *w};
    const size_t bytes = PITH_TRELLIS_SIDE * pith_trellis_bytes(m->bits);
    struct walk_sums sums[PITH_TRELLIS_VECTORS];
    for (; b.block < m->blocks; b.block++) {
        const uint8_t *tiles = m->tiles + b.block * bytes;
        for (size_t i = 0; i < bytes; i += PITH_PANEL_LINE)
            __builtin_prefetch(tiles + PITH_AHEAD_BYTES + i);
        pith_trellis_open(&b.tiles, tiles, m->bits);
        /* Downwards: what row 0 reads was just written. */
#pragma GCC unroll 4
        for (size_t group = 8 / PAIRS; group-- > 0;) walk_pairs(&b, kind, group * PAIRS, sums);
        for (size_t i = 0; i < m->count; i++)
            finish(kind, &sums[i], m->scale ? m->scale[b.block * m->count + i] : 1.0f,
                   m->y + i * m->ldy);
    }
}

INLINE void walk(const struct pith_trellis_strip *m, const struct walk *w, unsigned kind)
{
    struct pith_trellis_strip part = *m;
    for (size_t row = 0; row < PITH_TRELLIS_ROWS; row++) {
        walk_row(&part, w, kind);
        part.tiles += m->ld;
        part.y += PITH_TRELLIS_TILE;
    }
}
