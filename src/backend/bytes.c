/* Products of many rows of x with packed integers, in tiles: x as bytes (the fast mode, and inputs
 * that are rounded anyway) or as three digits of bytes (the exact mode).
 *
 * A slab of rows is rounded and laid out in the tiles' order for all threads. Then each task takes
 * up to BAND panels of W, unpacks CHUNK columns of them at a time (where the kernel does not read
 * them as they are stored), and runs the kernel over all tiles of x; the sums of its rows wait in
 * the thread's scratch from chunk to chunk.
 *
 *     x: [tiles][what bytes_words or digits_words makes of a tile's rows] words
 *     its scales: [tiles][blocks][rows of a tile]   its sums: the same, of each digit
 *     y, t, d: [tiles][BAND / tile][rows of a tile][cols of a tile]
 *
 * So W is unpacked once for a slab. x is read once for a tile's panels that were unpacked, once for
 * BAND panels that were not. */
#include "backend/parts.h"
#include "base/arena.h"
#include "base/mem.h"
#include "num/input.h"

#include <math.h>

#include <string.h>

enum {
    BAND = 6,
    CHUNK = 640,
    GROUPS = CHUNK / 4 + 1, /* that a chunk may touch */
    ROWS = 512,             /* of x in a slab, at most */
    NEAR = 128,             /* rows of a band that are stored, and then gone on with */
    FEW = 24,               /* that stay in the nearest memory */
    FEW_TILES = 3,          /* unpacking W for them takes longer than reading it as it is stored */
    WORDS = 2048 * 1024,    /* of x in a slab */
    SCALES = WORDS / 8,     /* blocks in a slab: of PITH_BYTES_BLOCK columns, 8 words */
    BATCH = 8,              /* rows of bytes that are rounded, and laid out, at a time */
    SCALES_OF_BAND = BAND * GROUPS * PITH_PANEL_ROWS,
    SUMS = (ROWS + PITH_BYTES_ROWS_MAX) * BAND * PITH_PANEL_ROWS
};
_Static_assert(2 * SUMS <= PITH_SLAB * PITH_KC, "the sums of a band fit where packed A is");
_Static_assert(BATCH *PITH_BYTES_COLS <= PITH_SLAB * PITH_KC * 4, "as do the bytes of a batch");
_Static_assert(BAND *CHUNK / 4 * PITH_BYTES_LINE <= PITH_KC * PITH_NC * 4,
               "the codes of a chunk fit where a panel of B is");
_Static_assert(2 * SCALES_OF_BAND + SUMS <= PITH_SCORES, "its scales and zeros fit, and the rest");
_Static_assert(2 * BATCH * PITH_BYTES_SCALES <= PITH_SCORES, "and those of a batch of x");
_Static_assert(PITH_BYTES_ROWS_MAX *PITH_BYTES_COLS / 4 * PITH_DIGITS_WORDS <= WORDS,
               "a slab has a whole tile");

struct pith_byte_slab {
    uint32_t x[WORDS];
    float scale[SCALES];
    int32_t less[SCALES];
    float shift[ROWS]; /* scale times zero point of a row */
};

/* Pages are whole from its start on: what lies behind x is in the last ones. */
size_t pith_bytes_slab_bytes(enum pith_mode mode, size_t rows, size_t cols)
{
    const size_t all = sizeof(struct pith_byte_slab), each = mode == PITH_MODE_FAST ? 1 : 3;
    const uint64_t x = pith_huge_bytes(pith_times_bytes(rows, cols * each));
    const uint64_t rest = pith_huge_bytes(all) - PITH_HUGE_PAGE * (WORDS * 4 / PITH_HUGE_PAGE);
    if (rows <= PITH_VECTORS) return 0;
    return (size_t)(x < WORDS * 4 ? x : WORDS * 4) + (size_t)rest;
}

enum pith_status pith_bytes_open(struct pith_byte_slab **out, struct pith_error *err)
{
    *out = pith_alloc_huge(1, sizeof **out);
    return *out ? PITH_OK : pith_fail_nomem(err, "activations as integers");
}

/* The kernels of bytes, or of digits. */
struct kernels {
    pith_bytes_tile_fn *tile;
    pith_bytes_words_fn *words;
    pith_bytes_unpack_fn *unpack;
    size_t rows, cols; /* of a tile */
};

struct job {
    struct pith_backend *b;
    const struct pith_pack *pack;
    const struct pith_input *input; /* NULL: the mode's own grid */
    struct pith_input_call call;
    struct kernels k;
    size_t band;   /* panels that are read side by side */
    size_t panels; /* of a task */
    const float *bias, *x, *sums;
    float *y;
    size_t rows;   /* of the slab */
    size_t ones;   /* 1: a row of ones follows, for zero points; else 0 */
    size_t digits; /* 1: bytes */
    size_t block;
    size_t words, blocks; /* of a row of x as bytes */
    size_t size;          /* words in the slab for a row */
    float byte[256];      /* what scales of one byte stand for */
};

_Static_assert(PITH_BYTES_SCALES <= SCALES / PITH_BYTES_ROWS_MAX / PITH_DIGITS,
               "scales and sums of a tile fit");

bool pith_bytes_fits(const struct pith_backend *b, const struct pith_pack *pack)
{
    if (pack->block == 0 || pack->cols > PITH_BYTES_COLS) return false;
    if (b->mode == PITH_MODE_EXACT) return pack->digits > 0;
    return b->mode == PITH_MODE_FAST;
}

bool pith_bytes_takes_input(const struct pith_pack *pack)
{
    return pack->input_block > 0;
}

/* --- x ---------------------------------------------------------------------------------------- */

/* A row of equal bytes, for what is no row of x; of digits all are zeros. */
static void fill_row(const struct job *j, int8_t value, const struct pith_input_codes *to)
{
    const size_t cols = j->pack->cols;
    memset(to->q, value, j->digits * cols);
    memset(to->sum, 0, j->digits * j->blocks * sizeof *to->sum);
    for (size_t c = 0, i = 0; c < cols; c += to->block, i++) {
        to->scale[i] = value;
        to->sum[i] = (int32_t)pith_min(to->block, cols - c) * value;
    }
    *to->zero = 0.0f;
}

static void round_row(const struct job *j, size_t row, const struct pith_input_codes *to)
{
    const struct pith_kern *k = &j->b->kern;
    const size_t cols = j->pack->cols;
    const float *x = j->x + row * cols;
    if (row >= j->rows) fill_row(j, row == j->rows && j->ones ? 1 : 0, to);
    else if (j->input) pith_input_encode(j->input, &j->call, x, cols, to);
    else if (j->digits == 1) k->to_bytes(cols, j->block, x, to->q, to->scale, to->sum);
    else k->to_digits(cols, j->block, x, to->q, cols, to->scale, to->sum, j->blocks);
}

/* What sums of a block are multiplied by, beforehand. */
static int32_t sums_factor(const struct pith_panels *m)
{
    return m->zeros ? 1 : (int32_t)m->zero;
}

/* Rows [row, row + count) of a tile whose first row in the slab is `first`. Scales and sums are
 * moved as floats, which changes no bit. */
static void round_batch(const struct job *j, const struct pith_thread_memory *s, size_t first,
                        size_t row, size_t count)
{
    const struct pith_kern *k = &j->b->kern;
    const struct pith_panels *m = &j->pack->m;
    struct pith_byte_slab *slab = j->b->slab;
    int8_t *q = (int8_t *)s->a;
    float *scale = s->scores;
    int32_t *sum = (int32_t *)(void *)(scale + count * j->blocks);
    const int32_t factor = sums_factor(m);
    const size_t height = j->k.rows, at = first * j->blocks + row, n = j->digits * j->blocks;
    for (size_t r = 0; r < count; r++) {
        float zero = 0.0f;
        const struct pith_input_codes to = {.block = j->block,
                                            .q = q + r * j->digits * j->pack->cols,
                                            .scale = scale + r * j->blocks,
                                            .sum = sum + r * n,
                                            .zero = &zero};
        const size_t i = first + row + r;
        round_row(j, i, &to);
        if (j->ones && i < j->rows) slab->shift[i] = zero * to.scale[0];
    }
    for (size_t i = 0; i < count * n; i++) sum[i] *= -factor;
    j->k.words(j->words, row, count, q, slab->x + first * j->size);
    k->transpose(count, j->blocks, scale, j->blocks, slab->scale + at, height);
    k->transpose(j->digits * count, j->blocks, (const float *)(void *)sum, j->blocks,
                 (float *)(void *)(slab->less + j->digits * at), j->digits * height);
}

/* A tile's rows, and what fills the last batch: sums of those behind it are not wanted. */
static void round_bytes_task(void *ctx, size_t task, unsigned thread)
{
    const struct job *j = ctx;
    const size_t batch = BATCH / j->digits, first = task * j->k.rows;
    const size_t rows = pith_min(j->k.rows, j->rows + j->ones - first);
    for (size_t row = 0; row < rows; row += batch)
        round_batch(j, &j->b->scratch[thread], first, row, pith_min(batch, j->k.rows - row));
}

/* --- the product ------------------------------------------------------------------------------ */

/* One task's share: panels [first, first + count) of W, and its thread's scratch. */
struct band {
    const struct job *j;
    unsigned thread;
    size_t first, count;
    uint8_t *codes;         /* [BAND][chunk / 4][PITH_BYTES_LINE], of tiers that unpack them */
    const uint8_t *w[BAND]; /* where those of a panel are */
    float *scale;           /* [BAND][GROUPS][16] */
    int32_t *zero;
    float *y, *t;
    int32_t *d;
};

/* Those of `count` groups from scale `at` on, each a byte times a half. */
static void multiply_scales(const struct pith_panels *m, const struct pith_kern *k, size_t at,
                            size_t count, float *to)
{
    const int8_t *inner = (const int8_t *)m->scales;
    for (size_t g = 0; g < count; g++, at += PITH_PANEL_ROWS, to += PITH_PANEL_ROWS) {
        k->widen_f16(PITH_PANEL_ROWS, (const char *)m->outer + pith_panel_outer(m, at) * 2, to);
        for (size_t r = 0; r < PITH_PANEL_ROWS; r++) to[r] *= (float)inner[at + r];
    }
}

/* Whether scales are names of 256 numbers. */
static bool are_bytes(enum pith_panel_scale s)
{
    return s == PITH_SCALE_E8M0 || s == PITH_SCALE_E4M3;
}

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
    else if (are_bytes(m->scale))
        for (size_t e = 0; e < n; e++) to[e] = b->j->byte[(uint8_t)from[e]];
    else if (m->scale == PITH_SCALE_PRODUCT) multiply_scales(m, k, at, count, to);
    else memcpy(to, from, n * sizeof *to);
    for (size_t e = 0; m->factors && e < n; e++) to[e] *= m->unit;
    if (!m->zeros) return;
    int32_t *zero = b->zero + i * GROUPS * PITH_PANEL_ROWS;
    for (size_t e = 0; e < n; e++) zero[e] = m->zeros[at + e];
}

/* Columns [col, col + n) of the band. Behind the last panel it is once more: its rows are dropped.
 */
static void unpack(struct band *b, size_t col, size_t n, bool few)
{
    const struct pith_panels *m = &b->j->pack->m;
    const size_t group = col / m->group, last = (col + n - 1) / m->group;
    for (size_t i = 0; i < b->count; i++) {
        uint8_t *to = b->codes + i * (CHUNK / 4) * PITH_BYTES_LINE;
        b->w[i] = b->j->k.unpack(m, b->first + i, col, n, few, to);
        unpack_scales(b, i, group, last - group + 1);
    }
    if (b->count < BAND) b->w[b->count] = b->w[b->count - 1];
}

/* Tile number `tile` of x times the chunk at col of a tile's panels, from `panel` on. */
static void run_tile(const struct band *b, size_t tile, size_t panel, size_t col, size_t n)
{
    const struct job *j = b->j;
    const struct pith_byte_slab *slab = j->b->slab;
    const size_t first = tile * j->k.rows, panels = j->k.cols / PITH_PANEL_ROWS;
    const size_t at = (first * BAND + panel * j->k.rows) * PITH_PANEL_ROWS;
    struct pith_byte_tile a = {.form = pith_panel_tile_form(&j->pack->m),
                               .factors = j->pack->m.factors,
                               .cols = j->pack->cols,
                               .group = j->pack->m.group,
                               .block = j->block,
                               .col = col,
                               .n = n,
                               .count = pith_min(j->k.rows, j->rows + j->ones - first),
                               .factor = j->pack->m.factor,
                               .middle = (int32_t)j->pack->m.zero,
                               .adjacent = j->band,
                               .stored = b->w[0] != b->codes,
                               .scale = b->scale + panel * GROUPS * PITH_PANEL_ROWS,
                               .scale_panel = GROUPS * PITH_PANEL_ROWS,
                               .x = slab->x + first * j->size,
                               .x_scale = slab->scale + first * j->blocks,
                               .x_less = slab->less + first * j->blocks * j->digits,
                               .y = b->y + at,
                               .t = b->t + at,
                               .d = b->d + at};
    for (size_t p = 0; p < panels; p++) a.w[p] = b->w[panel + p];
    if (j->pack->m.zeros) a.zero = b->zero + panel * GROUPS * PITH_PANEL_ROWS;
    j->k.tile(&a);
}

/* What was unpacked stays in the first cache for all tiles of x; what is read as it is stored is
 * read for one after the other. */
static void run_chunk(const struct band *b, size_t tiles, size_t col, size_t n)
{
    const size_t width = b->j->k.cols / PITH_PANEL_ROWS, parts = (b->count + width - 1) / width;
    const bool unpacked = b->w[0] == b->codes;
    for (size_t i = 0; i < tiles * parts; i++) {
        const size_t tile = unpacked ? i % tiles : i / parts;
        const size_t part = unpacked ? i / tiles : i % parts;
        run_tile(b, tile, part * width, col, n);
    }
}

/* The sums of row r of the slab and the first columns of the band; those of column c are c times a
 * tile's rows behind them. */
static const float *sums_of(const struct band *b, size_t r)
{
    const struct kernels *k = &b->j->k;
    const size_t tile = r / k->rows, i = r % k->rows;
    return b->y + tile * k->rows * BAND * PITH_PANEL_ROWS + i * k->cols;
}

/* Of panels mostly, which is so few bytes that a call takes as long. */
static void copy_sums(size_t n, const float *from, float *to)
{
    if (n == 2 * PITH_PANEL_ROWS) memcpy(to, from, 2 * PITH_PANEL_ROWS * sizeof *to);
    else if (n == PITH_PANEL_ROWS) memcpy(to, from, PITH_PANEL_ROWS * sizeof *to);
    else memcpy(to, from, n * sizeof *to);
}

/* Row r of the slab, `count` columns from `row` on. Rows of y lie far apart, so that the processor
 * does not prefetch the next ones in time. */
static void store_row(const struct band *b, size_t r, size_t row, size_t count)
{
    enum { AHEAD = 8 /* rows */ };
    const struct job *j = b->j;
    const size_t width = j->k.cols, height = j->k.rows;
    const size_t ahead = r + AHEAD < j->rows ? AHEAD * j->pack->rows : 0;
    const float *sums = sums_of(b, r), *ones = j->ones ? sums_of(b, j->rows) : NULL;
    float *to = j->y + r * j->pack->rows + row;
    for (size_t c = 0; c < count; c += width) {
        const size_t n = pith_min(width, count - c);
        __builtin_prefetch(to + c + ahead, 1);
        __builtin_prefetch(to + c + ahead + n - 1, 1);
        copy_sums(n, sums + c * height, to + c);
        const float shift = j->b->slab->shift[r];
        for (size_t e = 0; ones && e < n; e++)
            to[c + e] = fmaf(-shift, ones[c * height + e], to[c + e]);
    }
}

/* Offsets are added to rows that are still near. */
static void store_bytes(const struct band *b)
{
    const struct job *j = b->j;
    const size_t row = b->first * PITH_PANEL_ROWS;
    const size_t count = pith_min(b->count * PITH_PANEL_ROWS, j->pack->rows - row);
    for (size_t r = 0; r < j->rows; r += NEAR) {
        const size_t end = pith_min(r + NEAR, j->rows);
        float *y = j->y + r * j->pack->rows + row;
        for (size_t i = r; i < end; i++) store_row(b, i, row, count);
        if (j->sums)
            pith_offsets_add_rows(
                j->b, b->thread,
                &(struct pith_offsets_call){j->pack, row, count, end - r,
                                            j->sums + r * j->pack->offsets->cols, y});
        for (size_t i = r; j->bias && i < end; i++, y += j->pack->rows)
            for (size_t c = 0; c < count; c++) y[c] += j->bias[row + c];
    }
}

static void run_band(struct band *b)
{
    const struct job *j = b->j;
    const size_t tiles = (j->rows + j->ones + j->k.rows - 1) / j->k.rows, cols = j->pack->cols;
    for (size_t col = 0; col < cols; col += CHUNK) {
        const size_t n = pith_min(CHUNK, cols - col);
        unpack(b, col, n, tiles <= FEW_TILES);
        run_chunk(b, tiles, col, n);
    }
    store_bytes(b);
}

static void band_task(void *ctx, size_t task, unsigned thread)
{
    const struct job *j = ctx;
    const struct pith_thread_memory *s = &j->b->scratch[thread];
    const size_t end = pith_min((task + 1) * j->panels, j->pack->panels);
    struct band b = {.j = j,
                     .thread = thread,
                     .codes = (uint8_t *)s->b,
                     .scale = s->scores,
                     .zero = (int32_t *)(void *)(s->scores + SCALES_OF_BAND),
                     .y = s->a,
                     .t = s->a + SUMS,
                     .d = (int32_t *)(void *)(s->scores + 2 * SCALES_OF_BAND)};
    j->b->kern.tiles_open(pith_bytes_step(j->block));
    for (b.first = task * j->panels; b.first < end; b.first += b.count) {
        b.count = pith_min(j->band, end - b.first);
        run_band(&b);
    }
    j->b->kern.tiles_close();
}

/* The panels of the thread that has most where tasks have `band` each. */
static size_t most_panels(size_t panels, size_t band, size_t threads)
{
    const size_t tasks = (panels + band - 1) / band, rest = panels % band;
    const size_t rounds = (tasks + threads - 1) / threads;
    const bool alone = rest > 0 && tasks % threads == 1 % threads; /* in the last round */
    return alone ? (rounds - 1) * band + rest : rounds * band;
}

/* Many rows: at most BAND panels, so many that threads end together. Few: they stay near for all
 * panels, and what counts is that memory is read in long lines. */
static void set_band(struct job *j, size_t rows)
{
    const size_t panels = j->pack->panels, threads = j->b->threads;
    j->band = rows <= FEW ? PITH_TILE_PANELS : BAND;
    for (size_t band = j->band; band >= PITH_TILE_PANELS; band -= PITH_TILE_PANELS)
        if (most_panels(panels, band, threads) < most_panels(panels, j->band, threads))
            j->band = band;
    j->panels = j->band;
    if (rows > FEW) return;
    const size_t parts = pith_reading_tasks(j->b, j->pack->bytes);
    j->panels = (panels + parts - 1) / parts;
    j->panels += j->panels % PITH_TILE_PANELS;
}

static void name_bytes(const struct pith_panels *m, float to[256])
{
    uint8_t all[256];
    struct pith_panels one = {.scale = m->scale, .global = m->global, .scales = all};
    for (size_t i = 0; i < 256; i++) all[i] = (uint8_t)i;
    for (size_t i = 0; i < 256; i++) to[i] = pith_panel_scale_at(&one, i);
}

static struct kernels kernels_of(const struct pith_kern *k, size_t digits)
{
    if (digits == 1)
        return (struct kernels){k->bytes_tile, k->bytes_words, k->bytes_unpack, k->bytes_rows,
                                k->bytes_cols};
    return (struct kernels){k->digits_tile, k->digits_words, k->digits_unpack, k->digits_rows,
                            k->digits_cols};
}

/* Whether the slab holds all rows of x as the product wants them, made for another of the site. */
static bool is_made(const struct job *j)
{
    const struct pith_site_made *made = j->b->made;
    return made && made->x == j->x && made->bytes == j->b->slab_fills && made->bytes > 0 &&
           made->rows == j->rows && made->block == j->block && made->digits == j->digits &&
           made->factor == sums_factor(&j->pack->m);
}

static void keep_made(const struct job *j)
{
    struct pith_site_made *made = j->b->made;
    if (!made || made->x != j->x) return;
    made->bytes = j->b->slab_fills;
    made->rows = j->rows;
    made->block = j->block;
    made->digits = j->digits;
    made->factor = sums_factor(&j->pack->m);
}

void pith_bytes_linear(struct pith_backend *b, const struct pith_bytes_call *c)
{
    const struct pith_pack *pack = c->pack;
    const bool bytes = c->input || b->mode == PITH_MODE_FAST;
    const size_t digits = bytes ? 1 : PITH_DIGITS, words = pack->cols / 4;
    struct job j = {.b = b,
                    .pack = pack,
                    .input = c->input,
                    .k = kernels_of(&b->kern, digits),
                    .bias = c->bias,
                    .ones = c->input && c->input->grid.asym,
                    .digits = digits,
                    .block = c->input ? pack->input_block
                             : bytes  ? pack->block
                                      : pack->digits,
                    .words = words,
                    .size = words * (bytes ? 1 : PITH_DIGITS_WORDS)};
    j.blocks = (pack->cols + j.block - 1) / j.block;
    /* Whole tiles have their place; of the last one only some rows may be there. */
    const size_t height = j.k.rows, most = pith_min(WORDS / j.size, SCALES / (j.blocks * digits));
    const size_t rows = pith_min(most - most % height, ROWS) - j.ones;
    set_band(&j, pith_min(c->n, rows));
    if (are_bytes(pack->m.scale)) name_bytes(&pack->m, j.byte);
    if (c->input) pith_input_survey(c->input, c->x, c->n, pack->cols, &j.call, NULL);
    const bool whole = c->n <= rows && !c->input;
    for (size_t i = 0; i < c->n; i += rows) {
        j.rows = pith_min(rows, c->n - i);
        j.x = c->x + i * pack->cols;
        j.y = c->y + i * pack->rows;
        j.sums = c->sums ? c->sums + i * pack->offsets->cols : NULL;
        if (!whole || !is_made(&j)) {
            pith_pool_run(b->pool, (j.rows + j.ones + height - 1) / height, round_bytes_task, &j);
            b->slab_fills++;
            if (whole) keep_made(&j);
        }
        pith_pool_run(b->pool, (pack->panels + j.panels - 1) / j.panels, band_task, &j);
    }
}
