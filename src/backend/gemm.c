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
    *rows = mul->bf16 ? k->bf16_rows : k->tile_rows;
    *cols = mul->bf16 ? k->bf16_cols : k->tile_cols;
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

/* Elements of a packed panel. */
static size_t panel_size(const struct pith_step *t, size_t width)
{
    return t->mul->bf16 ? pith_halves_size(t->kc, width) : t->kc * width;
}

static void pack_a(const struct pith_step *t, const struct pith_block *at)
{
    const struct pith_mul *mul = t->mul;
    const size_t width = t->rows;
    float *dst = t->s->a;
    if (mul->bf16) {
        pith_halves_a(t, at->i, at->m, (uint32_t *)(void *)dst);
        return;
    }
    for (size_t i = 0; i < at->m; i += width, dst += width * t->kc) {
        const size_t count = pith_min(width, at->m - i);
        const float *src = mul->a + (at->i + i) * mul->a_rs + t->p * mul->a_cs;
        pack_panel(t->k, src, mul->a_rs, mul->a_cs, count, width, t->kc, dst);
        for (size_t e = 0; mul->negate_a && e < width * t->kc; e++) dst[e] = -dst[e];
    }
}

void pith_step_unpack(const struct pith_step *t, size_t row, size_t count, float *dst)
{
    const struct pith_kern *k = t->k;
    const struct pith_panels *m = &t->mul->source->w->pack->m;
    const size_t width = t->cols, kc = t->kc;
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
    if (mul->bf16) {
        pith_halves_b(t, j, count, (uint32_t *)(void *)dst);
        return;
    }
    if (mul->b) {
        const float *src = mul->b + t->p * mul->b_rs + j * mul->b_cs;
        pack_panel(t->k, src, mul->b_cs, mul->b_rs, count, width, kc, dst);
        return;
    }
    if (mul->source->w->pack) {
        pith_step_unpack(t, j, count, dst);
        return;
    }
    float *rows = t->s->rows;
    for (size_t r = 0; r < count; r++)
        pith_source_segment(mul->source, t->k, t->s->codes, j + r, t->p, kc, rows + r * kc);
    pack_panel(t->k, rows, kc, 1, count, width, kc, dst);
}

/* One tile at (i, j) of C, m x n of it wanted: in place where the whole tile is, else by way of
 * s->tile. */
struct tile {
    size_t i, j, m, n;
};

static void copy_tile(const struct pith_mul *mul, const struct tile *t, float *tile, size_t ld,
                      bool out)
{
    for (size_t i = 0; i < t->m; i++) {
        const size_t row = t->i + i;
        const size_t skip = mul->upper && row > t->j ? row - t->j : 0;
        if (skip >= t->n) continue;
        float *c = mul->c + row * mul->ldc + t->j + skip, *x = tile + i * ld + skip;
        if (out) memcpy(c, x, (t->n - skip) * sizeof *c);
        else memcpy(x, c, (t->n - skip) * sizeof *c);
    }
}

static void multiply(const struct pith_step *t, const float *a, float *c, size_t ldc)
{
    const float *b = t->s->b, alpha = t->mul->alpha;
    if (t->mul->bf16)
        t->k->bf16_tile(pith_halves_size(t->kc, 1) / PITH_TILE_WORDS,
                        (const uint32_t *)(const void *)a, (const uint32_t *)(const void *)b, c,
                        ldc, t->mode, alpha);
    else t->k->gemm_tile(t->kc, a, b, t->cols, c, ldc, t->mode, alpha);
}

static void run_tile(const struct pith_step *at, const struct tile *t, const float *a)
{
    const struct pith_mul *mul = at->mul;
    const size_t rows = at->rows, cols = at->cols;
    float *tile = at->s->tile;
    const bool below = mul->upper && t->i + t->m > t->j + 1; /* some of it is below the diagonal */
    if (t->m == rows && t->n == cols && !below) {
        multiply(at, a, mul->c + t->i * mul->ldc + t->j, mul->ldc);
        return;
    }
    memset(tile, 0, rows * cols * sizeof *tile);
    if (at->mode != PITH_TILE_SET) copy_tile(mul, t, tile, cols, false);
    multiply(at, a, tile, cols);
    copy_tile(mul, t, tile, cols, true);
}

/* Asks for the lines of a tile of C. A tile that continues sums waits for them at its start, which
 * costs a fifth of the speed when C is not in the cache. */
static void prefetch_tile(const struct pith_mul *mul, const struct tile *t)
{
    for (size_t i = 0; i < t->m; i++) {
        const float *c = mul->c + (t->i + i) * mul->ldc + t->j;
        __builtin_prefetch(c, 1);
        __builtin_prefetch(c + t->n - 1, 1);
    }
}

/* The tiles of one column: the packed block of A against the packed panel of B, which is columns
 * [at->j, at->j + at->n). */
static void run_column(const struct pith_step *step, const struct pith_block *at)
{
    const size_t rows = step->rows, size = panel_size(step, rows);
    const float *a = step->s->a;
    for (size_t i = 0; i < at->m; i += rows, a += size) {
        const size_t m = pith_min(rows, at->m - i), below = at->m - i - m;
        const struct tile t = {.i = at->i + i, .j = at->j, .m = m, .n = at->n};
        if (step->mul->upper && t.i >= at->j + at->n) break;
        prefetch_tile(step->mul, &(struct tile){t.i + rows, at->j, pith_min(rows, below), at->n});
        run_tile(step, &t, a);
    }
}

static void fill_zero(const struct pith_mul *mul, const struct pith_block *at)
{
    for (size_t i = 0; i < at->m; i++)
        memset(mul->c + (at->i + i) * mul->ldc + at->j, 0, at->n * sizeof *mul->c);
}

static void add_bias(const struct pith_mul *mul, const struct pith_block *at)
{
    for (size_t i = 0; i < at->m; i++) {
        float *c = mul->c + (at->i + i) * mul->ldc + at->j;
        for (size_t j = 0; j < at->n; j++) c[j] += mul->bias[at->j + j];
    }
}

/* Copies what the block has above the diagonal to below it, in squares that stay in the cache. */
static void mirror(const struct pith_kern *k, const struct pith_mul *mul,
                   const struct pith_block *at)
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
static void run_step(const struct pith_step *t, const struct pith_block *block)
{
    const size_t rows = PITH_SLAB - PITH_SLAB % t->rows, cols = t->cols;
    const size_t right = block->j + block->n;
    for (size_t i = 0; i < block->m; i += rows) {
        struct pith_block at = {.i = block->i + i, .m = pith_min(rows, block->m - i)};
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

void pith_mul_block(const struct pith_kern *k, const struct pith_scratch *s,
                    const struct pith_mul *mul, const struct pith_block *block)
{
    if (mul->upper && block->i >= block->j + block->n) return;
    const bool fresh = !mul->accumulate && !mul->scaled;
    if (mul->k == 0 && fresh) fill_zero(mul, block);
    struct pith_step t = {.k = k, .s = s, .mul = mul};
    tile_size(k, mul, &t.rows, &t.cols);
    if (mul->bf16) k->tiles_open(PITH_TILE_WORDS);
    for (; t.p < mul->k; t.p += PITH_KC) {
        t.kc = pith_min(PITH_KC, mul->k - t.p);
        t.mode = mul->scaled ? PITH_TILE_SCALE : fresh && t.p == 0 ? PITH_TILE_SET : PITH_TILE_ADD;
        run_step(&t, block);
    }
    if (mul->bf16) k->tiles_close();
    if (mul->bias) add_bias(mul, block);
    if (mul->mirror) mirror(k, mul, block);
}

struct run {
    struct pith_backend *b;
    const struct pith_mul *mul;
    size_t rows, cols; /* of a block */
    size_t across;     /* blocks in a row of blocks */
};

static void run_task(void *ctx, size_t task, unsigned thread)
{
    const struct run *r = ctx;
    const struct pith_mul *mul = r->mul;
    const size_t i = task / r->across * r->rows, j = task % r->across * r->cols;
    const struct pith_block block = {
        .i = i, .j = j, .m = pith_min(r->rows, mul->m - i), .n = pith_min(r->cols, mul->n - j)};
    pith_mul_block(&r->b->kern, &r->b->scratch[thread], mul, &block);
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

/* Sets the block size. Big blocks pack least; more and smaller ones keep every thread busy to the
 * end, unless the whole product is so small that waking a thread costs more than it does. */
static void plan(struct run *r, size_t threads)
{
    enum { LEAST = 64, TASKS = 4, TASK_STEPS = 1 << 19, ROWS = 2 * PITH_SLAB, COLS = 1536 };
    const struct pith_mul *mul = r->mul;
    const double steps = (double)mul->m * (double)mul->n * (double)mul->k;
    size_t down = blocks(mul->m, ROWS), across = blocks(mul->n, COLS);
    while (threads > 1 && down * across < threads * TASKS &&
           steps > (double)TASK_STEPS * (double)(down * across)) {
        const size_t rows = mul->m / down, cols = mul->n / across;
        if (rows <= LEAST && cols <= LEAST) break;
        if (cols >= rows) across *= 2;
        else down *= 2;
    }
    size_t rows, cols;
    tile_size(&r->b->kern, mul, &rows, &cols);
    r->rows = part(mul->m, down, rows);
    r->cols = part(mul->n, across, cols);
    r->across = blocks(mul->n, r->cols);
}

void pith_mul_run(struct pith_backend *b, const struct pith_mul *mul)
{
    if (mul->m == 0 || mul->n == 0) return;
    struct run r = {.b = b, .mul = mul};
    plan(&r, b->threads);
    pith_pool_run(b->pool, blocks(mul->m, r.rows) * r.across, run_task, &r);
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
                                 .bf16 = b->mode == PITH_MODE_BF16,
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
    pith_mul_run(b, &mul);
}
