/* quant/round/gptq.c: GPTQ (Frantar, Ashkboos, Hoefler, Alistarh 2022), without inverting H.
 *
 * With H = R R^T, R upper triangular, the layer's error is |(W - Q) R|_F^2, a sum over columns k of
 * R[k,k]^2 (u_k - q_k)^2 with
 *
 *     u_k = w_k + sum over j < k of (w_j - q_j) R[j,k] / R[k,k],
 *
 * so the columns, one after the other, take the grid points nearest to u_k. That is the choice that
 * GPTQ
 * makes through the upper Cholesky factor U of H^-1, since U = R^-1, at a third of the cost and
 * without its rounding error (Chee et al. 2023 show the equivalence with LDLQ).
 *
 * Matrices are stored transposed, [column][row], so that a column step runs over consecutive rows:
 *
 *     wt    [cols][ld]   the weights in solving order; once a column is solved, its error w - q
 *     u     [width][ld]  of the present block, updated by one product with all errors before it
 *     codes [cols][ld]
 *
 * A block's columns are solved SUB at a time on tiles of rows, each followed by a product that
 * updates the rest of the block. Blocks and sub-blocks end where groups end, so u is up to date for
 * a whole group when that is fitted on the way. Rows are independent and products have a fixed
 * order of summing, so the result does not depend on the number of threads.
 *
 * Weights that a split drops are grid points 0 like any other, and those that it stores off the
 * grid take u itself: no error. Where the solver chooses zeros (SparseGPT: Frantar, Alistarh 2023),
 * a four of inputs is looked at when its first column is reached: dropping a weight, as it has
 * moved by then, costs its square times R[k,k]^2. */
#include "quant/round/gptq.h"

#include "base/arena.h"
#include "base/file.h"
#include "base/mem.h"
#include "num/gguf/kmat.h"
#include "quant/round/gptq_solver.h"
#include "quant/round/hessian.h"
#include "quant/round/trellis.h"

#include <math.h>
#include <string.h>

enum { BLOCK = 128, SUB = 32, TILE = PITH_GPTQ_TILE, PACK = 16, FOUR = 4 };

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static size_t leading(uint32_t rows)
{
    return ((size_t)rows + TILE - 1) / TILE * TILE + 16;
}

/* ---- memory ---- */

/* Columns of u: a block, or a whole group when groups are larger and fitted on the way. */
static uint32_t block_width(const struct pith_gptq_solver *s)
{
    return least(s->dynamic && s->segment > BLOCK ? s->segment : BLOCK, s->cols);
}

/* What the solver takes; with masks of zeros, and with weights off the grid. */
static void layout(struct pith_arena *a, struct pith_gptq_solver *s, bool masks, bool off)
{
    const size_t cols = s->cols, threads = pith_pool_threads(s->pool);
    const size_t scales = s->groups * s->ld;
    s->moved_size = s->dynamic ? (size_t)least(s->segment, s->cols) * TILE : 0;
    if (!s->lent) pith_factor_layout(a, &s->f);
    s->wt = pith_arena_take_rows(a, cols, s->ld, sizeof *s->wt);
    s->packing = pith_arena_take(a, threads * PACK, cols);
    s->step = pith_arena_take(a, off ? cols : 0, sizeof *s->step);
    const bool felt = s->dynamic && pith_hessian_searches(s->job);
    s->felt = pith_arena_take(a, felt ? cols : 0, sizeof *s->felt);
    s->off = pith_arena_take_zeros(a, off ? cols : 0, s->tiles, sizeof *s->off);
    s->zeros = pith_arena_take_zeros(a, masks ? cols : 0, s->tiles, sizeof *s->zeros);
    s->moved = pith_arena_take_rows(a, threads, s->moved_size, sizeof *s->moved);
    s->u = pith_arena_take_rows(a, block_width(s), s->ld, sizeof *s->u);
    s->scale = pith_arena_take(a, scales, sizeof *s->scale);
    s->zero = pith_arena_take(a, scales, sizeof *s->zero);
    s->offset = pith_arena_take(a, s->offsets ? scales : 0, sizeof *s->offset);
    s->drift = pith_arena_take_rows(a, s->form ? cols : 0, cols, sizeof *s->drift);
    s->correction = pith_arena_take_rows(a, s->form ? cols : 0, s->ld, sizeof *s->correction);
    s->codes = pith_arena_take_rows(a, s->gridder ? cols : 0, s->ld, sizeof *s->codes);
    struct pith_outputs *o = &s->outputs;
    o->s = pith_arena_take(a, pith_outputs_at(o->rows, o->block, o->rows), sizeof *o->s);
    o->diagonal = pith_arena_take(a, o->rows, sizeof *o->diagonal);
    s->swept = pith_arena_take_rows(a, threads, o->block, sizeof *s->swept);
}

static enum pith_status take_memory(struct pith_gptq_solver *s, struct pith_error *err)
{
    const struct pith_off_grid *off_grid = s->job->off_grid;
    const bool masks = off_grid && (off_grid->zeros || off_grid->choose),
               off = off_grid && off_grid->sparse;
    struct pith_arena a = {0};
    layout(&a, s, masks, off);
    if (!pith_arena_open(&a)) return pith_fail_nomem(err, "GPTQ");
    layout(&a, s, masks, off);
    s->memory = a.base;
    return PITH_OK;
}

/* ---- scales ---- */

static uint32_t group_of(const struct pith_gptq_solver *s, uint32_t step)
{
    return (s->dynamic && !s->q->gguf ? step : s->f.perm[step]) / s->q->group;
}

/* q's scales of groups [first, end) and rows [row, last) into the solver's layout. */
static void spread_scales(const struct pith_gptq_solver *s, uint32_t first, uint32_t end,
                          size_t row, size_t last)
{
    const struct pith_qmat *q = s->q;
    for (uint32_t g = first; g < end; g++)
        for (size_t r = row; r < last; r++) {
            const size_t i = r < s->rows ? pith_qmat_scale_index(q, (uint32_t)r, g) : 0;
            s->scale[g * s->ld + r] = r < s->rows ? q->scales[i] : 1.0f;
            s->zero[g * s->ld + r] = r < s->rows ? pith_qmat_zero(q, i) : 0.0f;
            if (s->offset) s->offset[g * s->ld + r] = r < s->rows ? q->offsets[i] : 0.0f;
        }
}

/* The reverse, for scales fitted on the way. */
static void collect_scales(struct pith_gptq_solver *s)
{
    struct pith_qmat *q = s->q;
    for (uint32_t r = 0; r < s->rows; r++)
        for (uint32_t g = 0; g < q->groups; g++) {
            const size_t i = pith_qmat_scale_index(q, r, g);
            q->scales[i] = s->scale[g * s->ld + r];
            if (q->zeros) q->zeros[i] = (uint8_t)s->zero[g * s->ld + r];
            if (q->offsets) q->offsets[i] = s->offset[g * s->ld + r];
        }
}

/* ---- solving ---- */

static void axpy_tile(float *restrict y, const float *restrict x, float a)
{
    for (int i = 0; i < TILE; i++) y[i] += a * x[i];
}

static void subtract_tile(float *restrict y, const float *restrict x)
{
    for (int i = 0; i < TILE; i++) y[i] -= x[i];
}

/* The weights of n columns from step k on, for one tile of rows, as GPTQ holds them at this
 * point: moved to make up best for the errors so far, with all later columns still free to move.
 * These minimise |d R| over the later part of d, so their moves x solve x R = (errors so far) R,
 * and with R triangular the group's columns need nothing of the columns behind the group. (u is
 * another thing: it supposes that the columns between have not moved.) */
static void move_group(const struct pith_gptq_solver *s, uint32_t k, size_t n, size_t row, float *x)
{
    for (size_t c = 0; c < n; c++) {
        const float *u = s->u + (k - s->first + c) * s->ld + row,
                    *w = s->wt + (k + c) * s->ld + row;
        for (int i = 0; i < TILE; i++) x[c * TILE + (size_t)i] = u[i] - w[i];
    }
    for (size_t c = 0; (k > 0 || s->drift) && c < n; c++) {
        const float *r = s->f.r + (k + c) * s->cols + k;
        for (size_t j = c + 1; j < n; j++) axpy_tile(x + j * TILE, x + c * TILE, -r[j]);
    }
    for (size_t c = 0; c < n; c++) axpy_tile(x + c * TILE, s->wt + (k + c) * s->ld + row, 1.0f);
}

static struct pith_pivots pivots_of(const struct pith_gptq_solver *s)
{
    return (struct pith_pivots){s->f.diagonal, s->f.perm, s->f.dead};
}

/* Fits the block of GGUF's whose columns are solved from step k on. */
static void fit_block(const struct pith_gptq_solver *s, uint32_t k, size_t row, unsigned thread)
{
    const struct pith_kquant *t = s->q->gguf;
    const uint32_t block = s->f.perm[k] / t->elements, first = block * t->elements;
    float *x = s->moved + thread * s->moved_size, w[PITH_KBLOCK], h[PITH_KBLOCK];
    const struct pith_pivots pivots = pivots_of(s);
    move_group(s, k, t->elements, row, x);
    for (uint32_t c = k; c < k + t->elements; c++)
        h[s->f.perm[c] - first] = pith_pivot_square(&pivots, c);
    for (size_t i = 0; i < TILE && row + i < s->rows; i++) {
        struct pith_kblock b;
        for (uint32_t c = 0; c < t->elements; c++) w[s->f.perm[k + c] - first] = x[c * TILE + i];
        s->gridder->fit_block(&s->rule, w, h, &b);
        pith_kmat_set_scales(s->q, (uint32_t)(row + i), block, &b);
    }
    spread_scales(s, first / t->sub, (first + t->elements) / t->sub, row, row + TILE);
}

/* Fits the group that begins at step k for one tile of rows. */
static void fit_group(const struct pith_gptq_solver *s, uint32_t k, size_t row, unsigned thread)
{
    const uint32_t g = k / s->q->group;
    const size_t n = least(s->q->group, s->cols - k);
    float *x = s->moved + thread * s->moved_size;
    struct pith_grid_rule rule = s->rule;
    rule.weight = s->felt ? s->felt + k : NULL;
    move_group(s, k, n, row, x);
    for (size_t i = 0; i < TILE; i++) {
        float *scale = s->scale + g * s->ld + row + i, *zero = s->zero + g * s->ld + row + i;
        *scale = 1.0f;
        *zero = 0.0f;
        const struct pith_weights w = {x + i, n, TILE};
        if (row + i < s->rows) pith_grid_fit(s->gridder, &rule, &w, scale, zero);
        if (s->offset) s->offset[g * s->ld + row + i] = -(*zero * *scale), *zero = 0.0f;
    }
}

/* Of the four columns from step k on, for one tile of rows: the two that cost least to drop; of
 * equal ones the first. */
static void choose_zeros(const struct pith_gptq_solver *s, uint32_t k, size_t tile)
{
    float cost[FOUR * TILE];
    move_group(s, k, FOUR, tile * TILE, cost);
    for (uint32_t c = 0; c < FOUR; c++)
        for (int i = 0; i < TILE; i++) {
            float *x = &cost[c * TILE + (uint32_t)i];
            *x *= *x * s->f.diagonal[k + c] * s->f.diagonal[k + c];
        }
    for (uint32_t i = 0; i < TILE; i++)
        for (uint32_t n = 0, taken = FOUR, at; n < FOUR / 2; n++, taken = at) {
            at = taken == 0; /* costs may all be infinite */
            for (uint32_t c = at + 1; c < FOUR; c++)
                if (c != taken && cost[c * TILE + i] < cost[at * TILE + i]) at = c;
            s->zeros[(k + at) * s->tiles + tile] |= (uint64_t)1 << i;
        }
}

/* What column k takes for u in n rows, at most a tile: grid points, or 16 bits; and codes. */
static void round_column(const struct pith_gptq_solver *s, uint32_t k, size_t row, uint32_t n,
                         const float *u, float *values)
{
    const size_t table = group_of(s, k) * s->ld + row, at = k * s->ld + row;
    struct pith_grid_line line = {.kern = s->kern,
                                  .n = n,
                                  .w = u,
                                  .scale = s->scale + table,
                                  .zero = s->zero + table,
                                  .offset = s->offset ? s->offset + table : NULL,
                                  .step = 1,
                                  .codes = s->codes + at,
                                  .values = values};
    if (!s->gridder) {
        for (uint32_t i = 0; i < n; i++) values[i] = pith_round_to(s->job->scale_dtype, u[i]);
        return;
    }
    if (s->q->levels) { /* rows behind the last have none */
        line.n = least(n, s->rows - (uint32_t)row);
        line.levels = s->q->levels + (row << s->q->format->bits);
        line.level_step = (size_t)1 << s->q->format->bits;
        memset(values, 0, n * sizeof *values);
        memset(line.codes, 0, n);
    }
    s->gridder->quantize(s->q->format, &line);
}

/* The same where some weights are dropped or off the grid. */
static void round_off_grid(const struct pith_gptq_solver *s, uint32_t k, size_t tile,
                           const float *u, float values[TILE])
{
    const uint64_t zeros = s->zeros ? s->zeros[k * s->tiles + tile] : 0,
                   off = s->off ? s->off[k * s->tiles + tile] : 0;
    float on[TILE];
    for (int i = 0; i < TILE; i++) on[i] = (zeros | off) >> i & 1 ? 0.0f : u[i];
    round_column(s, k, tile * TILE, TILE, on, values);
    for (int i = 0; off && i < TILE; i++)
        if (off >> i & 1) values[i] = u[i];
}

/* GPTAQ: the correction for column k's drift in the columns after it, by the weight as it has
 * moved. */
static void feed_moved(const struct pith_gptq_solver *s, uint32_t k, size_t row, const float *u)
{
    const float *y = s->drift + (size_t)k * s->cols;
    memcpy(s->correction + k * s->ld + row, u, TILE * sizeof *u);
    for (uint32_t j = k + 1; j < s->sub_end; j++)
        axpy_tile(s->u + (j - s->first) * s->ld + row, u, y[j]);
}

/* What can be settled of one tile before column k is rounded. */
static void ready_tile(const struct pith_gptq_solver *s, uint32_t k, size_t tile, unsigned thread)
{
    if (s->dynamic && k % s->segment == 0)
        (s->q->gguf ? fit_block : fit_group)(s, k, tile * TILE, thread);
    if (s->choose && k % FOUR == 0) choose_zeros(s, k, tile);
}

/* Column k of one tile has been rounded: its error, to the columns of the sub-block after it. */
static void feed_tile(const struct pith_gptq_solver *s, uint32_t k, size_t row, const float *values)
{
    float *d = s->wt + k * s->ld + row;
    subtract_tile(d, values);
    const float *r = s->f.r + (size_t)k * s->cols;
    for (uint32_t j = k + 1; j < s->sub_end; j++)
        axpy_tile(s->u + (j - s->first) * s->ld + row, d, r[j]);
    if (s->form == PITH_SWEEP_GPTAQ) feed_moved(s, k, row, s->u + (k - s->first) * s->ld + row);
}

static void solve_tile(void *ctx, size_t tile, unsigned thread)
{
    const struct pith_gptq_solver *s = ctx;
    const size_t row = tile * TILE;
    float values[TILE];
    for (uint32_t k = s->sub; k < s->sub_end; k++) {
        ready_tile(s, k, tile, thread);
        const float *u = s->u + (k - s->first) * s->ld + row;
        if (s->zeros || s->off) round_off_grid(s, k, tile, u, values);
        else round_column(s, k, row, TILE, u, values);
        feed_tile(s, k, row, values);
    }
}

struct one_column {
    const struct pith_gptq_solver *s;
    uint32_t k;
};

static float round_weight(void *ctx, uint32_t row, float u)
{
    const struct one_column *c = ctx;
    const struct pith_gptq_solver *s = c->s;
    const float on =
        pith_gptq_is_set(s, s->zeros, c->k, row) || pith_gptq_is_set(s, s->off, c->k, row) ? 0.0f
                                                                                           : u;
    float value;
    round_column(s, c->k, row, 1, &on, &value);
    return pith_gptq_is_set(s, s->off, c->k, row) ? u : value;
}

/* The same for all rows of a block of outputs, which ask things of each other. */
static void solve_outputs(void *ctx, size_t block, unsigned thread)
{
    const struct pith_gptq_solver *s = ctx;
    const uint32_t first = (uint32_t)block * s->outputs.block,
                   end = least(first + s->outputs.block, s->rows);
    float *values = s->swept + (size_t)thread * s->outputs.block;
    memset(values, 0, s->outputs.block * sizeof *values); /* of rows behind the last */
    for (uint32_t k = s->sub; k < s->sub_end; k++) {
        for (uint32_t row = first; row < end; row += TILE) ready_tile(s, k, row / TILE, thread);
        struct one_column column = {s, k};
        pith_outputs_sweep(&s->outputs, first, s->u + (k - s->first) * s->ld + first, values,
                           round_weight, &column);
        for (uint32_t row = first; row < end; row += TILE)
            feed_tile(s, k, row, values + (row - first));
    }
}

/* u of columns from..to of the block += the errors of steps first..last through R. */
static void feed_back(const struct pith_gptq_solver *s, uint32_t first, uint32_t last,
                      uint32_t from, uint32_t to)
{
    if (first == last || from == to) return;
    const struct pith_gemm g = {.m = to - from,
                                .n = s->rows,
                                .k = last - first,
                                .a = s->f.r + (size_t)first * s->cols + from,
                                .a_rs = 1,
                                .a_cs = s->cols,
                                .b = s->wt + first * s->ld,
                                .b_rs = s->ld,
                                .b_cs = 1,
                                .c = s->u + (from - s->first) * s->ld,
                                .ldc = s->ld,
                                .accumulate = true};
    pith_gemm(s->job->backend, &g);
    if (s->form != PITH_SWEEP_GPTAQ) return;
    struct pith_gemm moved = g;
    moved.a = s->drift + (size_t)first * s->cols + from;
    moved.b = s->correction + first * s->ld;
    pith_gemm(s->job->backend, &moved);
}

/* Adds the correction of the drift to one column of the block. */
static void add_correction(void *ctx, size_t k, unsigned thread)
{
    const struct pith_gptq_solver *s = ctx;
    (void)thread;
    float *u = s->u + k * s->ld;
    const float *correction = s->correction + (s->first + k) * s->ld;
    for (size_t r = 0; r < s->ld; r++) u[r] += correction[r];
}

/* Where a run of at most `limit` steps from k ends so that no group begins inside whose columns lie
 * partly behind the run (limit < group: the run ends where the next group begins). */
static uint32_t run_end(const struct pith_gptq_solver *s, uint32_t k, uint32_t limit)
{
    uint32_t end = k + limit;
    if (s->dynamic) {
        const uint32_t g = s->segment, next = (k / g + 1) * g;
        end = g <= limit ? k + limit / g * g : least(end, next);
    }
    return least(end, s->cols);
}

static void solve(struct pith_gptq_solver *s)
{
    const struct pith_outputs *o = &s->outputs;
    const size_t tasks = o->rows ? (o->rows + o->block - 1) / o->block : s->tiles;
    for (s->first = 0; s->first < s->cols; s->first = s->end) {
        s->end = run_end(s, s->first, block_width(s));
        memcpy(s->u, s->wt + s->first * s->ld, (s->end - s->first) * s->ld * sizeof *s->u);
        feed_back(s, 0, s->first, s->first, s->end);
        if (s->form == PITH_SWEEP_QEP) pith_pool_run(s->pool, s->end - s->first, add_correction, s);
        for (s->sub = s->first; s->sub < s->end; s->sub = s->sub_end) {
            s->sub_end = least(run_end(s, s->sub, SUB), s->end);
            pith_pool_run(s->pool, tasks, o->rows ? solve_outputs : solve_tile, s);
            feed_back(s, s->sub, s->sub_end, s->sub_end, s->end);
        }
    }
}

/* ---- in and out ---- */

/* One tile of rows of W into the solver's layout; rows behind the last are 0. */
static void load_tile(void *ctx, size_t tile, unsigned thread)
{
    const struct pith_gptq_solver *s = ctx;
    (void)thread;
    const size_t row = tile * TILE, end = row + TILE;
    for (uint32_t k = 0; k < s->cols; k++) {
        float *out = s->wt + k * s->ld;
        const float *w = s->job->w + s->f.perm[k];
        for (size_t r = row; r < end; r++) out[r] = r < s->rows ? w[r * s->cols] : 0.0f;
    }
}

/* One tile's bits of what the split drops and keeps. */
static void load_masks(void *ctx, size_t tile, unsigned thread)
{
    const struct pith_gptq_solver *s = ctx;
    const struct pith_off_grid *off_grid = s->job->off_grid;
    (void)thread;
    const uint32_t first = (uint32_t)tile * TILE, end = least(first + TILE, s->rows);
    for (uint32_t k = 0; off_grid->zeros && k < s->cols; k++)
        for (uint32_t r = first; r < end; r++)
            s->zeros[k * s->tiles + tile] |=
                (uint64_t)pith_off_grid_zero(off_grid, s->cols, r, s->f.perm[k]) << (r - first);
    for (uint32_t r = first; off_grid->sparse && r < end; r++)
        for (uint32_t i = off_grid->sparse->start[r]; i < off_grid->sparse->start[r + 1]; i++)
            s->off[s->step[off_grid->sparse->col[i]] * s->tiles + tile] |= (uint64_t)1
                                                                           << (r - first);
}

/* PACK rows of codes, back in the matrix's column order. */
static void store_rows(void *ctx, size_t task, unsigned thread)
{
    const struct pith_gptq_solver *s = ctx;
    const uint32_t row = (uint32_t)task * PACK, n = least(PACK, s->rows - row);
    uint8_t *rows = s->packing + (size_t)thread * PACK * s->cols;
    for (uint32_t k = 0; k < s->cols; k++) {
        const uint8_t *codes = s->codes + k * s->ld + row;
        for (uint32_t i = 0; i < n; i++) rows[(size_t)i * s->cols + s->f.perm[k]] = codes[i];
    }
    for (uint32_t i = 0; i < n; i++) pith_qmat_set_codes(s->q, row + i, rows + (size_t)i * s->cols);
}

static void clear_dead_columns(void *ctx, size_t row, unsigned thread)
{
    const struct pith_gptq_solver *s = ctx;
    (void)thread;
    float *w = s->job->w + row * s->cols;
    for (uint32_t c = 0; c < s->cols; c++)
        if (s->f.dead[c]) w[c] = 0.0f;
}

static enum pith_status store_groups(struct pith_gptq_solver *s, struct pith_error *err)
{
    if (s->dynamic && !s->q->gguf) collect_scales(s);
    if (s->dynamic && s->job->options.act_order == PITH_ORDER_GROUP) {
        s->q->g_idx = pith_alloc(s->cols, sizeof *s->q->g_idx);
        if (!s->q->g_idx) return pith_fail_nomem(err, "group indices");
        for (uint32_t k = 0; k < s->cols; k++) s->q->g_idx[s->f.perm[k]] = k / s->q->group;
    }
    return pith_check_scales(s->q, err);
}

/* ---- the whole ---- */

/* The one that is lent, or its own. */
static enum pith_status take_factor(struct pith_gptq_solver *s, struct pith_round_report *report,
                                    struct pith_error *err)
{
    const double start = pith_clock();
    enum pith_status status = PITH_OK;
    if (s->lent) s->f = *s->job->factor;
    else status = pith_factor_make(&s->f, err);
    report->factor_seconds = pith_clock() - start;
    report->damp = s->f.damp;
    report->damp_retries = s->f.retries;
    report->dead_columns = s->f.dead_count;
    return status;
}

/* Everything up to the scales: the factored Hessian, the weights in solving order. */
static enum pith_status prepare(struct pith_gptq_solver *s, struct pith_round_report *report,
                                struct pith_error *err)
{
    PITH_TRY(take_memory(s, err));
    PITH_TRY(take_factor(s, report, err));
    const struct pith_pivots pivots = pivots_of(s);
    for (uint32_t k = 0; s->step && k < s->cols; k++) s->step[s->f.perm[k]] = k;
    for (uint32_t k = 0; s->felt && k < s->cols; k++) s->felt[k] = pith_pivot_square(&pivots, k);
    pith_pool_run(s->pool, s->rows, clear_dead_columns, s);
    pith_pool_run(s->pool, s->tiles, load_tile, s);
    if (s->zeros || s->off) pith_pool_run(s->pool, s->tiles, load_masks, s);
    const struct pith_stats *stats = s->job->stats;
    const struct pith_outputs_felt felt = {stats->outputs, stats->outputs_by};
    if (s->outputs.rows)
        PITH_TRY(pith_outputs_make(&s->outputs, s->job->backend, &felt, s->job->options.output_damp,
                                   err));
    if (!s->form) return PITH_OK;
    pith_factor_drift(&s->f, stats->drift, s->job->options.drift, s->drift);
    s->fixed_loss = pith_factor_correct(&s->f, s->drift, s->wt, s->rows, s->ld, s->correction) /
                    s->rows;
    if (!s->outputs.rows) return PITH_OK;
    s->fixed_loss = 0;
    for (uint32_t k = 0; k < s->cols; k++)
        s->fixed_loss += pith_outputs_square(&s->outputs, s->correction + k * s->ld) *
                         (double)s->f.diagonal[k] * (double)s->f.diagonal[k] / s->rows;
    return PITH_OK;
}

/* The weights off the grid, moved as the solver moved them, into q and back into w. */
static enum pith_status store_off_grid(struct pith_gptq_solver *s, struct pith_error *err)
{
    const struct pith_sparse *off_grid = s->job->off_grid->sparse;
    float *total = pith_alloc(off_grid->start[s->rows], sizeof *total);
    if (!total) return pith_fail_nomem(err, "the weights off the grid");
    for (uint32_t r = 0; r < s->rows; r++)
        for (uint32_t i = off_grid->start[r]; i < off_grid->start[r + 1]; i++)
            total[i] = off_grid->value[i] - s->wt[s->step[off_grid->col[i]] * s->ld + r];
    const enum pith_status st = pith_round_attach(s->q, off_grid, total, err);
    for (uint32_t r = 0; r < s->rows; r++)
        for (uint32_t i = off_grid->start[r]; i < off_grid->start[r + 1]; i++)
            s->job->w[(size_t)r * s->cols + off_grid->col[i]] = off_grid->value[i];
    pith_free(total);
    return st;
}

static enum pith_status run_solver(struct pith_gptq_solver *s, struct pith_round_report *report,
                                   struct pith_error *err)
{
    PITH_TRY(prepare(s, report, err));
    if (!s->dynamic) {
        const struct pith_pivots pivots = pivots_of(s);
        PITH_TRY(pith_hessian_fit(s->job, &pivots, (float *)(void *)s->codes, s->q, err));
        spread_scales(s, 0, s->q->groups, 0, s->ld);
    }
    solve(s);
    pith_pool_run(s->pool, (s->rows + PACK - 1) / PACK, store_rows, s);
    PITH_TRY(store_groups(s, err));
    if (s->off) PITH_TRY(store_off_grid(s, err));
    PITH_TRY(pith_gptq_measure(s, report, err));
    return PITH_OK;
}

static enum pith_status check_job(const struct pith_gptq_solver *s, struct pith_error *err)
{
    const struct pith_round_job *job = s->job;
    if (!job->stats || !job->stats->hessian)
        return pith_fail(err, PITH_ARG, "GPTQ needs the Hessian");
    const uint32_t block = s->outputs.block;
    if (s->outputs.rows && (!job->stats->outputs || !block || job->stats->output_block != block))
        return pith_fail(err, PITH_ARG, "this GPTQ needs the Hessian of outputs");
    if (s->form && !job->stats->drift)
        return pith_fail(err, PITH_ARG, "GPTAQ needs what the inputs have drifted by");
    if (job->grid.double_quant && job->options.act_order == PITH_ORDER_GROUP)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "scales that are quantized again do not go with groups in another order");
    if (s->q->gguf && job->options.act_order == PITH_ORDER_GROUP)
        return pith_fail(err, PITH_UNSUPPORTED, "the groups of %s cannot be in another order",
                         s->q->gguf->name);
    if (s->choose && (s->cols % FOUR || (s->dynamic && s->q->group % FOUR)))
        return pith_fail(err, PITH_UNSUPPORTED, "zeros are chosen in fours: groups of %u have none",
                         s->q->group);
    return PITH_OK;
}

static bool chooses(const struct pith_round_job *job)
{
    return job->off_grid && job->off_grid->choose;
}

static const struct pith_kquant *gguf_of(const struct pith_round_job *job)
{
    const struct pith_format *f = job->grid.format;
    return f && f->kind == PITH_KIND_GGUF ? pith_kquant_find(f->name) : NULL;
}

/* What the columns' order depends on: where zeros are chosen, fours stay together; blocks of GGUF's
 * keep their places and are ordered inside. */
static struct pith_factor factor_of(const struct pith_round_job *job)
{
    const struct pith_kquant *gguf = gguf_of(job);
    return (struct pith_factor){.backend = job->backend,
                                .h = job->stats ? job->stats->hessian : NULL,
                                .cols = job->cols,
                                .by = {.order = job->options.act_order,
                                       .width = chooses(job) ? FOUR : 1,
                                       .block = gguf ? gguf->elements : job->cols,
                                       .damp = pith_round_damp(job)}};
}

/* By the job's grid and shape alone. */
static struct pith_gptq_solver solver_of(const struct pith_rounder *rounder,
                                         const struct pith_round_job *job)
{
    const struct pith_format *f = job->grid.format;
    const struct pith_kquant *gguf = gguf_of(job);
    const uint32_t group = f ? pith_grid_group(&job->grid, job->cols) : job->cols;
    const bool outputs = rounder->needs & PITH_NEED_OUTPUTS;
    const struct pith_factor factor = factor_of(job);
    return (struct pith_gptq_solver){
        .job = job,
        .form = rounder->form,
        .outputs = {.rows = outputs ? job->rows : 0,
                    .block = outputs ? pith_output_block(job->options.output_block) : 0},
        .gridder = f ? pith_gridder_for(&job->grid) : NULL,
        .pool = pith_backend_pool(job->backend),
        .kern = pith_backend_kern(job->backend),
        .rows = job->rows,
        .cols = job->cols,
        .ld = leading(job->rows),
        .f = factor,
        .lent = job->factor && pith_factor_is(job->factor, &factor),
        .segment = gguf ? gguf->elements : group,
        .groups = ((size_t)job->cols + group - 1) / group,
        .offsets = job->grid.hqq || (gguf && gguf->minimums),
        /* Scales that are quantized again are known only when all of them are. */
        .dynamic = job->grid.granularity == PITH_PER_GROUP && !job->grid.double_quant &&
                   (job->options.act_order != PITH_ORDER_STATIC || gguf),
        .choose = chooses(job),
        .tiles = ((size_t)job->rows + TILE - 1) / TILE,
    };
}

/* The solver that makes q. */
static struct pith_gptq_solver solver_for(const struct pith_rounder *rounder,
                                          const struct pith_round_job *job, struct pith_qmat *q)
{
    struct pith_gptq_solver s = solver_of(rounder, job);
    s.q = q;
    s.rule = (struct pith_grid_rule){s.kern, &job->grid, q->scale_dtype, q->global, NULL};
    return s;
}

enum pith_status pith_gptq_factor(const struct pith_round_job *job, struct pith_ranks *ranks,
                                  struct pith_factor **out, struct pith_error *err)
{
    struct pith_factor f = factor_of(job);
    if (!f.h || pith_trellis_is(job->grid.format)) return PITH_OK;
    f.ranks = ranks;
    return pith_factor_keep(&f, out, err);
}

uint64_t pith_gptq_scratch(const struct pith_rounder *rounder, const struct pith_round_job *job,
                           const struct pith_split *split)
{
    struct pith_arena a = {0};
    struct pith_gptq_solver s = solver_of(rounder, job);
    layout(&a, &s, split->two_four, split->sparse);
    if (!s.gridder) (void)pith_arena_take_rows(&a, s.rows, s.cols, sizeof *s.values);
    return pith_sum_bytes(pith_arena_bytes(&a), pith_round_loss_scratch(job->rows));
}

enum pith_status pith_gptq_solve(const struct pith_rounder *rounder,
                                 const struct pith_round_job *job, struct pith_qmat *q,
                                 struct pith_round_report *report, struct pith_error *err)
{
    struct pith_gptq_solver s = solver_for(rounder, job, q);
    enum pith_status st = check_job(&s, err);
    if (st == PITH_OK) st = run_solver(&s, report, err);
    pith_free(s.memory);
    return st;
}

/* ---- without a grid ---- */

/* What becomes of one tile's weights, from the solver's errors. */
static void take_values(void *ctx, size_t tile, unsigned thread)
{
    const struct pith_gptq_solver *s = ctx;
    (void)thread;
    const size_t first = tile * TILE, end = first + TILE < s->rows ? first + TILE : s->rows;
    for (uint32_t k = 0; k < s->cols; k++)
        for (size_t r = first; r < end; r++) {
            const size_t i = r * s->cols + s->f.perm[k];
            const float value = s->job->w[i] - s->wt[k * s->ld + r];
            s->values[i] = pith_round_to(s->job->scale_dtype, value);
        }
}

enum pith_status pith_gptq_prune(const struct pith_rounder *rounder,
                                 const struct pith_round_job *job, struct pith_round_report *report,
                                 struct pith_error *err)
{
    struct pith_qmat none = {.rows = job->rows, .cols = job->cols, .group = job->cols, .groups = 1};
    const size_t bytes = (size_t)job->rows * job->cols * sizeof(float);
    struct pith_gptq_solver s = solver_for(rounder, job, &none);
    enum pith_status st = check_job(&s, err);
    if (st == PITH_OK) st = prepare(&s, report, err);
    if (st == PITH_OK) {
        solve(&s);
        s.values = pith_alloc(bytes, 1);
        if (!s.values) st = pith_fail_nomem(err, "the weights that stay");
    }
    if (st == PITH_OK) {
        pith_pool_run(s.pool, s.tiles, take_values, &s);
        st = pith_gptq_measure_values(&s, report, err);
        memcpy(job->w, s.values, bytes);
    }
    pith_free(s.values);
    pith_free(s.memory);
    return st;
}
