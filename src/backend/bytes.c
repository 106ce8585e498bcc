/* The fast mode's product for many rows of x: integers in tiles.
 *
 * A slab of rows is rounded to bytes and laid out in the tiles' order for all threads. Then each
 * task takes BAND panels of W, unpacks CHUNK columns at a time into the first cache, and runs the
 * kernel over all tiles of x; the sums of its rows wait in the thread's scratch from chunk to
 * chunk.
 *
 *     x: [tiles][cols / 4][rows of a tile] words of four bytes
 *     its scales and sums: [tiles][blocks][rows of a tile]
 *     y, t, d: [tiles][BAND / tile][rows of a tile][cols of a tile]
 *
 * So x is read once for BAND panels, and W unpacked once for a slab. */
#include "backend/parts.h"
#include "base/mem.h"

#include <string.h>

enum {
    BAND = 4,
    CHUNK = 512,
    GROUPS = CHUNK / 4 + 1, /* that a chunk may touch */
    ROWS = 512,             /* of x in a slab, at most */
    WORDS = 512 * 1024,     /* of x in a slab */
    SCALES = WORDS / 8,     /* blocks in a slab: of PITH_BYTES_BLOCK columns, 8 words */
    SUMS = (ROWS + PITH_BYTES_ROWS_MAX) * BAND * PITH_PANEL_ROWS
};
_Static_assert(3 * SUMS <= PITH_SLAB * PITH_KC, "the sums of a band fit where packed A is");
_Static_assert(PITH_BYTES_ROWS_MAX * PITH_BYTES_COLS <= PITH_SLAB * PITH_KC * 4,
               "as do the bytes of a tile");
_Static_assert(BAND * CHUNK / 4 * PITH_BYTES_LINE <= PITH_KC * PITH_NC * 4,
               "the codes of a chunk fit where a panel of B is");
_Static_assert(2 * BAND * GROUPS * PITH_PANEL_ROWS <= PITH_SCORES, "its scales and zeros fit");

struct pith_byte_slab {
    uint32_t x[WORDS];
    float scale[SCALES];
    int32_t less[SCALES];
};

enum pith_status pith_bytes_open(struct pith_byte_slab **out, struct pith_error *err)
{
    *out = pith_alloc_huge(1, sizeof **out);
    return *out ? PITH_OK : pith_fail_nomem(err, "the fast mode's activations");
}

struct job {
    struct pith_backend *b;
    const struct pith_pack *pack;
    const float *bias, *x;
    float *y;
    size_t rows;          /* of the slab */
    size_t height;        /* of a tile */
    size_t words, blocks; /* of a row of x */
};

bool pith_bytes_fits(const struct pith_backend *b, const struct pith_pack *pack)
{
    if (b->mode != PITH_MODE_FAST || pack->block == 0 || pack->cols > PITH_BYTES_COLS)
        return false;
    const size_t blocks = (pack->cols + pack->block - 1) / pack->block;
    return blocks <= SCALES / PITH_BYTES_ROWS_MAX;
}

/* --- x -------------------------------------------------------------------------------------- */

/* Words, scales or sums of a tile of rows, row by row, to the order of the tile. Moved as floats,
 * which changes no bit. */
static void turn(const struct job *j, size_t n, const void *from, void *to)
{
    j->b->kern.transpose(j->height, n, from, n, to, j->height);
}

static void round_task(void *ctx, size_t task, unsigned thread)
{
    const struct job *j = ctx;
    const struct pith_scratch *s = &j->b->scratch[thread];
    const struct pith_panels *m = &j->pack->m;
    const size_t first = task * j->height, cols = j->pack->cols, block = j->pack->block;
    int8_t *q = (int8_t *)s->a;
    float *scale = s->scores;
    int32_t *sum = (int32_t *)(void *)(scale + j->height * j->blocks);
    const int32_t factor = m->zeros ? 1 : (int32_t)m->zero;
    for (size_t r = 0; r < j->height; r++) {
        int8_t *row = q + r * cols;
        if (first + r < j->rows) {
            j->b->kern.to_bytes(cols, block, j->x + (first + r) * cols, row, scale + r * j->blocks,
                                sum + r * j->blocks);
            continue;
        }
        memset(row, 0, cols);
        memset(scale + r * j->blocks, 0, j->blocks * sizeof *scale);
        memset(sum + r * j->blocks, 0, j->blocks * sizeof *sum);
    }
    for (size_t i = 0; i < j->height * j->blocks; i++) sum[i] *= -factor;
    struct pith_byte_slab *slab = j->b->slab;
    turn(j, j->words, q, slab->x + first * j->words);
    turn(j, j->blocks, scale, slab->scale + first * j->blocks);
    turn(j, j->blocks, sum, slab->less + first * j->blocks);
}

/* --- the product ---------------------------------------------------------------------------- */

/* One task's share: panels [first, first + count) of W, and its thread's scratch. */
struct band {
    const struct job *j;
    size_t first, count;
    uint8_t *codes; /* [BAND][chunk / 4][PITH_BYTES_LINE] */
    float *scale;   /* [BAND][GROUPS][16] */
    int32_t *zero;
    float *y, *t;
    int32_t *d;
};

static void unpack_scales(const struct band *b, size_t i, size_t group, size_t count)
{
    const struct pith_panels *m = &b->j->pack->m;
    const struct pith_kern *k = &b->j->b->kern;
    const size_t n = count * PITH_PANEL_ROWS;
    const size_t at = ((b->first + i) * m->groups + group) * PITH_PANEL_ROWS;
    const char *from = (const char *)m->scales + at * pith_panel_scale_bytes(m->scale);
    float *to = b->scale + i * GROUPS * PITH_PANEL_ROWS;
    if (m->scale == PITH_SCALE_BF16) k->widen_bf16(n, from, to);
    else if (m->scale == PITH_SCALE_F16) k->widen_f16(n, from, to);
    else memcpy(to, from, n * sizeof *to);
    if (!m->zeros) return;
    int32_t *zero = b->zero + i * GROUPS * PITH_PANEL_ROWS;
    for (size_t e = 0; e < n; e++) zero[e] = m->zeros[at + e];
}

/* Columns [col, col + n) of the band. Panels past the last stay as they are: their rows are
 * dropped. */
static void unpack(const struct band *b, size_t col, size_t n)
{
    const struct pith_panels *m = &b->j->pack->m;
    const size_t group = col / m->group, last = (col + n - 1) / m->group;
    for (size_t i = 0; i < b->count; i++) {
        uint8_t *to = b->codes + i * (CHUNK / 4) * PITH_BYTES_LINE;
        b->j->b->kern.bytes_unpack(m, b->first + i, col, n, to);
        unpack_scales(b, i, group, last - group + 1);
    }
}

/* Tile number `tile` of x times the chunk at col. */
static void run_tiles(const struct band *b, size_t tile, size_t col, size_t n)
{
    const struct job *j = b->j;
    const struct pith_byte_slab *slab = j->b->slab;
    const size_t first = tile * j->height, panels = j->b->kern.bytes_cols / PITH_PANEL_ROWS;
    struct pith_byte_tile a = {.form = j->pack->m.form,
                               .cols = j->pack->cols,
                               .group = j->pack->m.group,
                               .block = j->pack->block,
                               .col = col,
                               .n = n,
                               .w_panel = (size_t)(CHUNK / 4) * PITH_BYTES_LINE,
                               .scale_panel = GROUPS * PITH_PANEL_ROWS,
                               .x = slab->x + first * j->words,
                               .x_scale = slab->scale + first * j->blocks,
                               .x_less = slab->less + first * j->blocks};
    for (size_t i = 0; i < b->count; i += panels) {
        const size_t at = (first * BAND + i * j->height) * PITH_PANEL_ROWS;
        a.w = b->codes + i * a.w_panel;
        a.scale = b->scale + i * a.scale_panel;
        a.zero = j->pack->m.zeros ? b->zero + i * a.scale_panel : NULL;
        a.y = b->y + at;
        a.t = b->t + at;
        a.d = b->d + at;
        j->b->kern.bytes_tile(&a);
    }
}

static void store(const struct band *b)
{
    const struct job *j = b->j;
    const size_t width = j->b->kern.bytes_cols, row = b->first * PITH_PANEL_ROWS;
    const size_t count = pith_min(b->count * PITH_PANEL_ROWS, j->pack->rows - row);
    for (size_t r = 0; r < j->rows; r++) {
        const size_t tile = r / j->height, i = r % j->height;
        const float *from = b->y + tile * j->height * BAND * PITH_PANEL_ROWS + i * width;
        float *to = j->y + r * j->pack->rows + row;
        for (size_t c = 0; c < count; c += width, from += j->height * width)
            memcpy(to + c, from, pith_min(width, count - c) * sizeof *to);
        for (size_t c = 0; j->bias && c < count; c++) to[c] += j->bias[row + c];
    }
}

static void band_task(void *ctx, size_t task, unsigned thread)
{
    const struct job *j = ctx;
    const struct pith_scratch *s = &j->b->scratch[thread];
    const size_t tiles = (j->rows + j->height - 1) / j->height, cols = j->pack->cols;
    const struct band b = {.j = j,
                           .first = task * BAND,
                           .count = pith_min(BAND, j->pack->panels - task * BAND),
                           .codes = (uint8_t *)s->b,
                           .scale = s->scores,
                           .zero = (int32_t *)(void *)(s->scores + BAND * GROUPS * PITH_PANEL_ROWS),
                           .y = s->a,
                           .t = s->a + SUMS,
                           .d = (int32_t *)(void *)(s->a + 2 * SUMS)};
    for (size_t col = 0; col < cols; col += CHUNK) {
        const size_t n = pith_min(CHUNK, cols - col);
        unpack(&b, col, n);
        for (size_t i = 0; i < tiles; i++) run_tiles(&b, i, col, n);
    }
    store(&b);
}

void pith_bytes_linear(struct pith_backend *b, const struct pith_pack *pack, const float *bias,
                       const float *x, size_t n, float *y)
{
    const size_t height = b->kern.bytes_rows, words = pack->cols / 4;
    const size_t blocks = (pack->cols + pack->block - 1) / pack->block;
    const size_t most = pith_min(pith_min(WORDS / words, SCALES / blocks), ROWS);
    const size_t rows = most - most % height;
    for (size_t i = 0; i < n; i += rows) {
        const size_t count = pith_min(rows, n - i);
        struct job j = {.b = b,
                        .pack = pack,
                        .bias = bias,
                        .x = x + i * pack->cols,
                        .y = y + i * pack->rows,
                        .rows = count,
                        .height = height,
                        .words = words,
                        .blocks = blocks};
        pith_pool_run(b->pool, (count + height - 1) / height, round_task, &j);
        pith_pool_run(b->pool, (pack->panels + BAND - 1) / BAND, band_task, &j);
    }
}
