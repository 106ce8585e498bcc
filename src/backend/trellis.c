/* Products with the codes of a trellis (num/trellis.h). With W = s (T V T) f / 128,
 *
 *     y = s T (V x'),   x' = T (f x) / 128,
 *
 * so V alone is decoded, a tile of sixteen rows at a time, and x and y meet T: fourteen additions a
 * number, whatever the other side of the matrix. x' lies in the backend's own memory: where
 * pith_backend_take_prepared() was not called it has few rows at a time.
 *
 * In the fast mode codes are not decoded to memory: kern/trellis.h. Of mul1 and mul2, where a
 * number is times sum + plus, x' is bytes with a scale for each 128 columns, q scale, and
 *
 *     y = sum of (times scale) (sums q) + plus scale (sum of q)
 *
 * in the order of the columns, the second part before the first. */
#include "backend/parts.h"
#include "kern/trellis.h"

#include <string.h>

enum { TILE = PITH_TRELLIS_TILE, BLOCK = PITH_TRELLIS_BLOCK };

bool pith_trellis_fits(const struct pith_qmat *q)
{
    return pith_trellis_is(q->format) && !q->sparse && !q->g_idx && !q->offsets;
}

/* A region of V in one row of tiles. */
static void tile_rows(const struct pith_kern *k, const struct pith_qmat *q,
                      const struct pith_region *part, float *out)
{
    float tile[TILE * TILE];
    const enum pith_trellis_code code = pith_trellis_code_of(q->format);
    const unsigned bits = q->format->bits;
    const size_t row = part->row / TILE, first = part->row % TILE;
    for (size_t c = 0; c < part->cols; c += TILE) {
        const uint8_t *at = q->codes + pith_trellis_tile_at(q, row, (part->col + c) / TILE);
        if (part->rows == TILE) {
            k->trellis_decode(code, bits, at, out + c, part->cols);
            continue;
        }
        k->trellis_decode(code, bits, at, tile, TILE);
        for (size_t r = 0; r < part->rows; r++)
            memcpy(out + r * part->cols + c, tile + (first + r) * TILE, sizeof *tile * TILE);
    }
}

void pith_trellis_region(const struct pith_kern *k, const struct pith_qmat *q,
                         const struct pith_region *at, float *out)
{
    struct pith_region part = *at;
    for (size_t done = 0; done < at->rows; done += part.rows) {
        part.row = at->row + done;
        part.rows = pith_min(at->rows - done, TILE - part.row % TILE);
        tile_rows(k, q, &part, out + done * at->cols);
    }
}

/* ---- rows of W ---- */

/* All rows of a block of V times T on both sides, or one row of it, in x[0 .. BLOCK). */
static void rotate_block(float *x, size_t row, bool all)
{
    if (all) {
        pith_trellis_down(x, BLOCK, BLOCK);
        pith_trellis_across(x, BLOCK, BLOCK);
        return;
    }
    pith_trellis_down_row(x, row);
    pith_trellis_across(x, BLOCK, 1);
}

void pith_trellis_rows(const struct pith_kern *k, const struct pith_qmat *q, size_t row, size_t n,
                       float *out)
{
    float x[BLOCK * BLOCK];
    for (size_t done = 0, m; done < n; done += m, out += m * q->cols) {
        const size_t at = (row + done) % BLOCK, first = row + done - at;
        m = pith_min(n - done, BLOCK - at);
        for (size_t c = 0; c < q->cols; c += BLOCK) {
            pith_trellis_region(k, q, &(struct pith_region){first, BLOCK, c, BLOCK}, x);
            rotate_block(x, at, m > 1);
            for (size_t r = 0; r < m; r++) {
                const float scale = q->scales[row + done + r];
                const float *from = x + (m > 1 ? at + r : 0) * BLOCK, *f = q->levels + c;
                for (size_t i = 0; i < BLOCK; i++)
                    out[r * q->cols + c + i] = from[i] * (f[i] * (1.0f / BLOCK)) * scale;
            }
        }
    }
}

/* ---- products ---- */

struct rotating {
    const struct pith_qmat *q;
    const float *x, *bias;
    size_t rows, tasks; /* of x */
    float *out;
};

static void input_task(void *ctx, size_t task, unsigned thread)
{
    (void)thread;
    const struct rotating *t = ctx;
    const size_t cols = t->q->cols, end = (task + 1) * t->rows / t->tasks;
    for (size_t i = task * t->rows / t->tasks; i < end; i++) {
        float *restrict to = t->out + i * cols;
        const float *restrict x = t->x + i * cols, *restrict f = t->q->levels;
        for (size_t c = 0; c < cols; c++) to[c] = x[c] * (f[c] * (1.0f / BLOCK));
        pith_trellis_across(to, BLOCK, cols / BLOCK);
    }
}

static void output_task(void *ctx, size_t task, unsigned thread)
{
    (void)thread;
    const struct rotating *t = ctx;
    const size_t rows = t->q->rows, end = (task + 1) * t->rows / t->tasks;
    for (size_t i = task * t->rows / t->tasks; i < end; i++) {
        float *restrict y = t->out + i * rows;
        const float *restrict s = t->q->scales;
        pith_trellis_across(y, BLOCK, rows / BLOCK);
        for (size_t r = 0; r < rows; r++) y[r] *= s[r];
        for (size_t r = 0; t->bias && r < rows; r++) y[r] += t->bias[r];
    }
}

/* Few rows are sooner done than handed out. */
static void run(struct pith_backend *b, struct rotating *t, pith_task_fn *task)
{
    t->tasks = t->rows <= PITH_VECTORS ? 1 : pith_min(t->rows, (size_t)4 * b->threads);
    if (t->tasks == 1) task(t, 0, 0);
    else pith_pool_run(b->pool, t->tasks, task, t);
}

static void exact(struct pith_backend *b, const struct pith_weight *w, const float *bias,
                  const float *x, size_t n, float *y)
{
    const size_t most = (b->prepared ? PITH_PREPARED_FLOATS : PITH_SCORES) / w->cols;
    const size_t slabs = (n + most - 1) / most;
    float *rotated = b->prepared ? b->prepared : b->scratch[0].scores;
    for (size_t i = 0; i < slabs; i++) {
        const size_t first = i * n / slabs, count = (i + 1) * n / slabs - first;
        float *to = y + first * w->rows;
        struct rotating in = {w->quant, x + first * w->cols, NULL, count, 0, rotated};
        struct rotating out = {w->quant, NULL, bias, count, 0, to};
        run(b, &in, input_task);
        pith_linear_as_packed(b, w, NULL, rotated, count, to);
        run(b, &out, output_task);
    }
}

/* ---- the fast mode's ---- */

/* How products go with a code. */
struct way {
    size_t step, word; /* words for a block, bytes of one */
    float times, plus; /* of numbers, where x' is bytes; else times is 0 */
};
static const struct way ways[] = {
    [PITH_TRELLIS_3INST] = {PITH_TRELLIS_STEP, sizeof(float), 0, 0},
    [PITH_TRELLIS_MCG] = {PITH_TRELLIS_STEP, sizeof(float), 0, 0},
    [PITH_TRELLIS_MUL1] = {PITH_TRELLIS_STEP, sizeof(uint16_t), PITH_TRELLIS_TIMES,
                           1024 * PITH_TRELLIS_TIMES + PITH_TRELLIS_PLUS},
    [PITH_TRELLIS_MUL2] = {PITH_LANES_STEP, sizeof(uint32_t), PITH_TRELLIS_TIMES_MUL2,
                           PITH_TRELLIS_PLUS_MUL2},
};

/* A slab of n vectors, in groups of PITH_TRELLIS_VECTORS: words, then scales, then of each vector
 * what its sums begin with. */
struct walking {
    const struct pith_kern *k;
    const struct pith_qmat *q;
    enum pith_trellis_code code;
    struct way way;
    size_t n, blocks, tasks;
    const float *x;
    char *words;
    float *scale, *start, *y;
};

/* Floats of memory that a vector takes, at most. */
static size_t walking_floats(const struct pith_qmat *q)
{
    const size_t blocks = q->cols / BLOCK;
    return blocks * PITH_TRELLIS_STEP + blocks + 1;
}

/* Bytes of words for a block of a vector. */
static size_t step_bytes(const struct walking *w)
{
    return w->way.step * w->way.word;
}

/* Where block `block` of vector i is, in blocks. */
static size_t block_at(const struct walking *w, size_t i, size_t block)
{
    const size_t first = i / PITH_TRELLIS_VECTORS * PITH_TRELLIS_VECTORS;
    const size_t count = pith_min((size_t)PITH_TRELLIS_VECTORS, w->n - first);
    return first * w->blocks + block * count + (i - first);
}

/* x' of a block as the words that the weights of tiles meet. */
static size_t word_col(size_t i)
{
    const unsigned weight = (unsigned)(i % PITH_TRELLIS_WORDS);
    return i / PITH_TRELLIS_WORDS * TILE + pith_trellis_col(PITH_TRELLIS_MUL1, weight);
}
static void put_floats(const float *x, float *words)
{
    for (size_t i = 0; i < PITH_TRELLIS_STEP; i++) words[i] = x[word_col(i)];
}
static void put_bytes(const int8_t *q, uint16_t *words)
{
    for (size_t i = 0; i < PITH_TRELLIS_STEP; i++)
        words[i] = (uint16_t)(0x101 * (uint8_t)q[word_col(i)]);
}
static void put_lanes(const int8_t *q, uint32_t *words)
{
    for (size_t i = 0; i < PITH_LANES_STEP; i++) {
        const int8_t *own = q + i / 8 * TILE + i % 8;
        words[i] = 0x101 * (uint32_t)(uint8_t)own[0] + 0x1010000 * (uint32_t)(uint8_t)own[8];
    }
}

/* A block of vector i, and what it adds to the vector's start. */
static void put_block(const struct walking *w, size_t i, size_t block, float *start)
{
    const size_t at = block_at(w, i, block);
    void *words = w->words + at * step_bytes(w);
    const float *from = w->x + i * w->q->cols + block * BLOCK, *f = w->q->levels + block * BLOCK;
    float x[BLOCK];
    for (size_t c = 0; c < BLOCK; c++) x[c] = from[c] * (f[c] * (1.0f / BLOCK));
    pith_trellis_across(x, BLOCK, 1);
    if (w->way.times == 0) {
        put_floats(x, words);
        return;
    }
    int8_t q[BLOCK];
    int32_t sum;
    float scale;
    w->k->to_bytes(BLOCK, BLOCK, x, q, &scale, &sum);
    if (w->code == PITH_TRELLIS_MUL2) put_lanes(q, words);
    else put_bytes(q, words);
    w->scale[at] = scale * w->way.times;
    *start = fmaf((float)sum, scale * w->way.plus, *start);
}

static void words_task(void *ctx, size_t task, unsigned thread)
{
    (void)thread;
    const struct walking *w = ctx;
    for (size_t i = task * w->n / w->tasks; i < (task + 1) * w->n / w->tasks; i++) {
        w->start[i] = 0;
        for (size_t block = 0; block < w->blocks; block++) put_block(w, i, block, &w->start[i]);
    }
}

/* What a kernel takes at a time, from row `row` of tiles on, with a group of vectors. */
static void walk_rows(const struct walking *w, size_t row, size_t first, size_t count)
{
    const size_t at = block_at(w, first, 0), n = PITH_TRELLIS_ROWS * TILE;
    float *y = w->y + first * w->q->rows + row * TILE;
    for (size_t i = 0; i < count * n; i++) y[i / n * w->q->rows + i % n] = w->start[first + i / n];
    const struct pith_trellis_strip m = {.code = w->code,
                                        .bits = w->q->format->bits,
                                        .tiles = w->q->codes + pith_trellis_tile_at(w->q, row, 0),
                                        .ld = TILE * w->q->stride,
                                        .blocks = w->blocks,
                                        .count = count,
                                        .x = w->words + at * step_bytes(w),
                                        .scale = w->way.times != 0 ? w->scale + at : NULL,
                                        .y = y,
                                        .ldy = w->q->rows};
    if (w->code == PITH_TRELLIS_MUL2) w->k->trellis_lanes(&m);
    else if (w->code == PITH_TRELLIS_MUL1) w->k->trellis_bytes(&m);
    else w->k->trellis_floats(&m);
}

/* A group stays in the second cache while the codes go by. */
static void trellis_rows_task(void *ctx, size_t task, unsigned thread)
{
    (void)thread;
    const struct walking *w = ctx;
    const size_t n = PITH_TRELLIS_ROWS, rows = w->q->rows / TILE / n;
    const size_t end = (task + 1) * rows / w->tasks;
    for (size_t first = 0, count; first < w->n; first += count) {
        count = pith_min((size_t)PITH_TRELLIS_VECTORS, w->n - first);
        for (size_t row = task * rows / w->tasks; row < end; row++)
            walk_rows(w, row * n, first, count);
    }
}

static void walk(struct pith_backend *b, struct walking *w)
{
    w->tasks = w->n <= PITH_VECTORS ? 1 : pith_min(w->n, (size_t)4 * b->threads);
    pith_pool_run(b->pool, w->tasks, words_task, w);
    w->tasks = pith_min(pith_reading_tasks(b, (size_t)w->q->rows * w->q->stride),
                        w->q->rows / TILE / PITH_TRELLIS_ROWS);
    pith_pool_run(b->pool, w->tasks, trellis_rows_task, w);
}

static void fast(struct pith_backend *b, const struct pith_weight *w, const float *bias,
                 const float *x, size_t n, float *y)
{
    float *memory = b->prepared ? b->prepared : b->scratch[0].scores;
    const size_t most = (b->prepared ? PITH_PREPARED_FLOATS : PITH_SCORES) /
                        walking_floats(w->quant);
    const enum pith_trellis_code code = pith_trellis_code_of(w->quant->format);
    struct walking a = {.k = &b->kern,
                        .q = w->quant,
                        .code = code,
                        .way = ways[code],
                        .blocks = w->cols / BLOCK,
                        .words = (char *)memory};
    for (size_t first = 0; first < n; first += a.n) {
        a.n = pith_min(most, n - first);
        a.scale = memory + a.n * a.blocks * PITH_TRELLIS_STEP;
        a.start = a.scale + a.n * a.blocks;
        a.x = x + first * w->cols;
        a.y = y + first * w->rows;
        walk(b, &a);
        struct rotating out = {w->quant, NULL, bias, a.n, 0, a.y};
        run(b, &out, output_task);
    }
}

void pith_trellis_linear(struct pith_backend *b, const struct pith_weight *w, const float *bias,
                         const float *x, size_t n, float *y)
{
    if (b->mode == PITH_MODE_FAST && walking_floats(w->quant) <= PITH_SCORES)
        fast(b, w, bias, x, n, y);
    else exact(b, w, bias, x, n, y);
}
