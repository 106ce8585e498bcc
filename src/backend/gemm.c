/* The blocked multiplication: C is cut into blocks, one a task; a task walks k in steps of PITH_KC.
 * In a step it packs A, up to PITH_SLAB rows at a time, then takes B a panel at a time, as wide as
 * the kernel's tile, and runs the kernel down the panel.
 *
 *       packed A: panels of `tile_rows` rows           packed B: one panel of `tile_cols` columns
 *       +------+ p = 0: a00 a10 a20 ...                +--------+ p = 0: b00 b01 b02 ...
 *       |  kc  | p = 1: a01 a11 a21 ...                |   kc   | p = 1: b10 b11 b12 ...
 *
 * A stays in the second cache for all panels of B; a panel of B is made in the first cache and used
 * there for all rows of A, so it costs little to unpack it from fewer bits.
 *
 * Every element of C is one chain of fused multiply-adds in the order of p, continued through C
 * from step to step, so neither blocks nor tiles nor threads show in the result. */
#include "backend/parts.h"

#include <string.h>

static void tile_size(const struct pith_kern *k, const struct pith_mul *mul, size_t *rows,
                      size_t *cols)
{
    *rows = mul->b_words ? k->bf16_rows : k->tile_rows;
    *cols = mul->b_words ? k->bf16_cols : k->tile_cols;
}

/* Strided elements into panels of `width`: dst[p * width + i] = src[i * rs + p * cs]. Rows past
 * `count` become zeros: the tile there is computed and dropped. */
static void pack_panel(const struct pith_kern *k, const float *src, size_t rs, size_t cs,
                       size_t count, size_t width, size_t kc, float *dst)
{
    if (count < width) memset(dst, 0, width * kc * sizeof *dst);
    if (cs == 1) {
        k->transpose(count, kc, src, rs, dst, width);
    } else if (rs == 1) {
        k->copy_rows(kc, count, src, cs, dst, width);
    } else {
        for (size_t p = 0; p < kc; p++)
            for (size_t i = 0; i < count; i++) dst[p * width + i] = src[i * rs + p * cs];
    }
}

static void pack_a(const struct pith_step *t, const struct pith_tile_block *at)
{
    const struct pith_mul *mul = t->mul;
    const size_t width = t->rows;
    float *dst = t->s->a;
    if (mul->a_words) return;
    if (mul->b_words) {
        pith_bf16_source(t, at->i, at->m, (uint32_t *)(void *)dst);
        return;
    }
    for (size_t i = 0; i < at->m; i += width, dst += width * t->kc) {
        const size_t count = pith_min(width, at->m - i);
        const float *src = mul->a + (at->i + i) * mul->a_rs + t->p * mul->a_cs;
        pack_panel(t->k, src, mul->a_rs, mul->a_cs, count, width, t->kc, dst);
        for (size_t e = 0; mul->negate_a && e < width * t->kc; e++) dst[e] = -dst[e];
    }
}

void pith_step_unpack(const struct pith_step *t, size_t row, size_t count, size_t width, float *dst)
{
    const struct pith_kern *k = t->k;
    const struct pith_panels *m = &t->mul->source->w->pack->m;
    const size_t kc = t->kc;
    float *rows = t->s->rows;
    if (width % PITH_PANEL_ROWS == 0 && row % PITH_PANEL_ROWS == 0) {
        if (count < width) memset(dst, 0, width * kc * sizeof *dst);
        for (size_t i = 0; i < count; i += PITH_PANEL_ROWS)
            k->panel_unpack(m, (row + i) / PITH_PANEL_ROWS, t->p, kc, dst + i, width);
        return;
    }
    for (size_t i = 0; i < width; i++) {
        const size_t at = row + i, r = at % PITH_PANEL_ROWS;
        if (i == 0 || (r == 0 && i < count))
            k->panel_unpack(m, at / PITH_PANEL_ROWS, t->p, kc, rows, PITH_PANEL_ROWS);
        for (size_t e = 0; e < kc; e++)
            dst[e * width + i] = i < count ? rows[e * PITH_PANEL_ROWS + r] : 0.0f;
    }
}

/* The panel of columns [j, j + count) of B. */
static void pack_b(const struct pith_step *t, size_t j, size_t count)
{
    const struct pith_mul *mul = t->mul;
    const size_t width = t->cols, kc = t->kc;
    float *dst = t->s->b;
    if (mul->b_words) return;
    if (mul->b) {
        const float *src = mul->b + t->p * mul->b_rs + j * mul->b_cs;
        pack_panel(t->k, src, mul->b_cs, mul->b_rs, count, width, kc, dst);
        return;
    }
    if (mul->source->w->pack) {
        pith_step_unpack(t, j, count, width, dst);
        return;
    }
    float *rows = t->s->rows;
    pith_source_region(mul->source, t->k, &(struct pith_region){j, count, t->p, kc}, rows);
    pack_panel(t->k, rows, kc, 1, count, width, kc, dst);
}

/* One tile at (i, j) of C, m x n of it wanted: in place where the whole tile is, else by way of
 * s->tile. */
struct tile {
    size_t i, j, m, n;
};

static float *c_at(const struct pith_mul *mul, size_t i, size_t j)
{
    return mul->c + (i - mul->i0) * mul->ldc + (j - mul->j0);
}

static void copy_tile(const struct pith_mul *mul, const struct tile *t, float *tile, size_t ld,
                      bool out)
{
    for (size_t i = 0; i < t->m; i++) {
        const size_t row = t->i + i;
        const size_t skip = mul->upper && row > t->j ? row - t->j : 0;
        if (skip >= t->n) continue;
        float *c = c_at(mul, row, t->j + skip), *x = tile + i * ld + skip;
        if (out) memcpy(c, x, (t->n - skip) * sizeof *c);
        else memcpy(x, c, (t->n - skip) * sizeof *c);
    }
}

/* The step's part of the panel with that row (column) of an operand that is words. */
static const uint32_t *words_at(const struct pith_step *t, const uint32_t *words, size_t row,
                                size_t panel)
{
    return words + row / panel * pith_bf16_size(t->mul->k, panel) + t->p / 2 * panel;
}

static void multiply(const struct pith_step *t, const struct tile *at, const float *a, float *c,
                     size_t ldc)
{
    const struct pith_mul *mul = t->mul;
    if (!mul->b_words) {
        t->k->gemm_tile(t->kc, a, t->s->b, t->cols, c, ldc, t->mode, mul->alpha);
        return;
    }
    const uint32_t *left = mul->a_words ? words_at(t, mul->a_words, at->i, t->rows)
                                        : (const uint32_t *)(const void *)a;
    t->k->bf16_tile(pith_bf16_size(t->kc, 1) / PITH_TILE_WORDS, left,
                    words_at(t, mul->b_words, at->j, t->cols), c, ldc, t->mode, mul->alpha);
}

static void run_tile(const struct pith_step *at, const struct tile *t, const float *a)
{
    const struct pith_mul *mul = at->mul;
    const size_t rows = at->rows, cols = at->cols;
    float *tile = at->s->tile;
    const bool below = mul->upper && t->i + t->m > t->j + 1; /* some of it is below the diagonal */
    if (t->m == rows && t->n == cols && !below) {
        multiply(at, t, a, c_at(mul, t->i, t->j), mul->ldc);
        return;
    }
    memset(tile, 0, rows * cols * sizeof *tile);
    if (at->mode != PITH_TILE_SET) copy_tile(mul, t, tile, cols, false);
    multiply(at, t, a, tile, cols);
    copy_tile(mul, t, tile, cols, true);
}

/* Prefetches the lines of a tile of C. A tile that continues sums waits for them at its start,
 * which costs a fifth of the speed when C is not in the cache. */
static void prefetch_tile(const struct pith_mul *mul, const struct tile *t)
{
    for (size_t i = 0; i < t->m; i++) {
        const float *c = c_at(mul, t->i + i, t->j);
        __builtin_prefetch(c, 1);
        __builtin_prefetch(c + t->n - 1, 1);
    }
}

/* The tiles of one column: the packed block of A against the packed panel of B, which is columns
 * [at->j, at->j + at->n). */
static void run_column(const struct pith_step *step, const struct pith_tile_block *at)
{
    const size_t rows = step->rows;
    const size_t size = step->mul->b_words ? pith_bf16_size(step->kc, rows) : rows * step->kc;
    const float *a = step->s->a;
    for (size_t i = 0; i < at->m; i += rows, a += size) {
        const size_t m = pith_min(rows, at->m - i), below = at->m - i - m;
        const struct tile t = {.i = at->i + i, .j = at->j, .m = m, .n = at->n};
        if (step->mul->upper && t.i >= at->j + at->n) break;
        prefetch_tile(step->mul, &(struct tile){t.i + rows, at->j, pith_min(rows, below), at->n});
        run_tile(step, &t, a);
    }
}

static void fill_zero(const struct pith_mul *mul, const struct pith_tile_block *at)
{
    for (size_t i = 0; i < at->m; i++)
        memset(c_at(mul, at->i + i, at->j), 0, at->n * sizeof *mul->c);
}

static void add_bias(const struct pith_mul *mul, const struct pith_tile_block *at)
{
    for (size_t i = 0; i < at->m; i++) {
        float *c = c_at(mul, at->i + i, at->j);
        for (size_t j = 0; j < at->n; j++) c[j] += mul->bias[at->j + j];
    }
}

/* Copies what the block has above the diagonal to below it, in squares that stay in the cache. */
static void mirror(const struct pith_kern *k, const struct pith_mul *mul,
                   const struct pith_tile_block *at)
{
    enum { SIDE = 64 };
    float *c = mul->c;
    const size_t ld = mul->ldc, bottom = at->i + at->m, right = at->j + at->n;
    for (size_t i = at->i; i < bottom; i += SIDE) {
        const size_t m = pith_min(SIDE, bottom - i);
        for (size_t j = at->j; j < right; j += SIDE) {
            const size_t n = pith_min(SIDE, right - j);
            if (i + m <= j) {
                k->transpose(m, n, c + i * ld + j, ld, c + j * ld + i, ld);
                continue;
            }
            for (size_t r = i; r < i + m; r++)
                for (size_t e = j > r ? j : r + 1; e < j + n; e++) c[e * ld + r] = c[r * ld + e];
        }
    }
}

/* Every panel of B against a block of A at a time. */
static void run_step(const struct pith_step *t, const struct pith_tile_block *block)
{
    const size_t slab = t->mul->a_words ? 2 * PITH_SLAB : PITH_SLAB; /* of half the size */
    const size_t rows = slab - slab % t->rows, cols = t->cols;
    const size_t right = block->j + block->n;
    for (size_t i = 0; i < block->m; i += rows) {
        struct pith_tile_block at = {.i = block->i + i, .m = pith_min(rows, block->m - i)};
        if (t->mul->upper && at.i >= right) break;
        pack_a(t, &at);
        for (at.j = block->j; at.j < right; at.j += cols) {
            at.n = pith_min(cols, right - at.j);
            if (t->mul->upper && at.i >= at.j + at.n) continue;
            pack_b(t, at.j, at.n);
            run_column(t, &at);
        }
    }
}

void pith_mul_block(const struct pith_kern *k, const struct pith_thread_memory *s,
                    const struct pith_mul *mul, const struct pith_tile_block *block)
{
    if (mul->upper && block->i >= block->j + block->n) return;
    const bool fresh = !mul->accumulate && !mul->scaled;
    if (mul->k == 0 && fresh) fill_zero(mul, block);
    struct pith_step t = {.k = k, .s = s, .mul = mul};
    tile_size(k, mul, &t.rows, &t.cols);
    if (mul->b_words) k->tiles_open(PITH_TILE_WORDS);
    for (; t.p < mul->k; t.p += PITH_KC) {
        t.kc = pith_min(PITH_KC, mul->k - t.p);
        t.mode = mul->scaled ? PITH_TILE_SCALE : fresh && t.p == 0 ? PITH_TILE_SET : PITH_TILE_ADD;
        run_step(&t, block);
    }
    if (mul->b_words) k->tiles_close();
    if (mul->bias) add_bias(mul, block);
    if (mul->mirror) mirror(k, mul, block);
}

static size_t blocks(size_t n, size_t size)
{
    return (n + size - 1) / size;
}

/* The size of `parts` equal parts of n, in whole tiles. */
static size_t part(size_t n, size_t parts, size_t tile)
{
    return blocks(blocks(n, parts), tile) * tile;
}

/* Big blocks pack least; more and smaller ones keep every thread busy to the end, unless the whole
 * product is so small that waking a thread costs more than it does. */
struct pith_cut pith_mul_cut(const struct pith_backend *b, const struct pith_mul *mul, size_t rows,
                             size_t cols)
{
    enum { LEAST = 64, TASKS = 4, TASK_STEPS = 1 << 19 };
    const double steps = (double)mul->m * (double)mul->n * (double)mul->k;
    const size_t threads = b->threads;
    size_t down = blocks(mul->m, rows), across = blocks(mul->n, cols), height, width;
    while (threads > 1 && down * across < threads * TASKS &&
           steps > (double)TASK_STEPS * (double)(down * across)) {
        const size_t m = mul->m / down, n = mul->n / across;
        if (m <= LEAST && n <= LEAST) break;
        if (n >= m) across *= 2;
        else down *= 2;
    }
    tile_size(&b->kern, mul, &height, &width);
    struct pith_cut cut = {.rows = part(mul->m, down, height), .cols = part(mul->n, across, width)};
    cut.across = blocks(mul->n, cut.cols);
    cut.count = blocks(mul->m, cut.rows) * cut.across;
    return cut;
}

struct pith_tile_block pith_cut_block(const struct pith_cut *cut, const struct pith_mul *mul,
                                      size_t i)
{
    const size_t row = i / cut->across * cut->rows, col = i % cut->across * cut->cols;
    return (struct pith_tile_block){.i = row,
                                    .j = col,
                                    .m = pith_min(cut->rows, mul->m - row),
                                    .n = pith_min(cut->cols, mul->n - col)};
}

struct run {
    struct pith_backend *b;
    const struct pith_mul *mul;
    struct pith_cut cut;
};

static void run_task(void *ctx, size_t task, unsigned thread)
{
    const struct run *r = ctx;
    const struct pith_tile_block block = pith_cut_block(&r->cut, r->mul, task);
    pith_mul_block(&r->b->kern, &r->b->scratch[thread], r->mul, &block);
}

void pith_mul_run(struct pith_backend *b, const struct pith_mul *mul)
{
    /* Products of bfloat16 may be so fast that C must stay in the second cache from step to step.
     */
    enum { ROWS = 2 * PITH_SLAB, COLS = 1536, HALVES_ROWS = PITH_SLAB, HALVES_COLS = 544 };
    if (mul->m == 0 || mul->n == 0) return;
    const size_t rows = mul->b_words ? HALVES_ROWS : ROWS, cols = mul->b_words ? HALVES_COLS : COLS;
    struct run r = {b, mul, pith_mul_cut(b, mul, rows, cols)};
    pith_pool_run(b->pool, r.cut.count, run_task, &r);
}

void pith_gemm(struct pith_backend *b, const struct pith_gemm *g)
{
    const struct pith_mul mul = {.m = g->m,
                                 .n = g->n,
                                 .k = g->k,
                                 .a = g->a,
                                 .a_rs = g->a_rs,
                                 .a_cs = g->a_cs,
                                 .negate_a = g->negate,
                                 .b = g->b,
                                 .b_rs = g->b_rs,
                                 .b_cs = g->b_cs,
                                 .c = g->c,
                                 .ldc = g->ldc,
                                 .accumulate = g->accumulate};
    pith_mul_run(b, &mul);
}

void pith_syrk(struct pith_backend *b, float *h, size_t d, const float *x, size_t n, float alpha)
{
    _Static_assert((int)PITH_SYRK_ROWS == (int)PITH_KC, "a step of k is what syrk adds at a time");
    const struct pith_mul mul = {.m = d,
                                 .n = d,
                                 .k = n,
                                 .a = x,
                                 .a_rs = 1,
                                 .a_cs = d,
                                 .b = x,
                                 .b_rs = d,
                                 .b_cs = 1,
                                 .c = h,
                                 .ldc = d,
                                 .scaled = true,
                                 .alpha = alpha,
                                 .upper = true,
                                 .mirror = true};
    if (b->mode == PITH_MODE_BF16 && n > 0 && pith_bf16_syrk(b, &mul)) return;
    pith_mul_run(b, &mul);
}

void pith_syrk_rows(struct pith_backend *b, const struct pith_syrk_part *part, const float *x,
                    size_t n, float alpha)
{
    const size_t d = part->d, first = part->first;
    const struct pith_mul mul = {.m = part->rows,
                                 .n = d - first,
                                 .k = n,
                                 .a = x + first,
                                 .a_rs = 1,
                                 .a_cs = d,
                                 .b = x + first,
                                 .b_rs = d,
                                 .b_cs = 1,
                                 .c = part->h + first * d + first,
                                 .ldc = d,
                                 .scaled = true,
                                 .alpha = alpha,
                                 .upper = true};
    pith_mul_run(b, &mul);
}
