/* Rounding to the codes of a trellis.
 *
 * The matrix that is coded is V = T (W / (s f)) T / 128 (num/trellis.h), a scale s a row and f a
 * column with random signs, T the Hadamard matrix in blocks of 128: whatever W is, V is normally
 * distributed, nearly, and so are its errors, whichever inputs they meet. f takes up what columns
 * differ in, s what rows do.
 *
 * With H' the inputs' Hessian as V meets it, T f H f T, and H' = R R^T, R upper triangular, the
 * error is |(V - Q) R|^2. It is a sum over blocks B of sixteen columns of |(u - q) R[B,B]|^2 with
 *
 *     u = v + sum over earlier blocks A of (v - q)[A] R[A,B] R[B,B]^-1,
 *
 * so the blocks, one after the other, take the walks nearest to their u, a tile of sixteen rows
 * each: GPTQ's sweep (quant/round/gptq.c) with blocks in the place of columns, which is QTIP's and
 * EXL3's. Blocks go by the decreasing diagonal of H'. With coupled outputs (trellis_rows.h) a
 * block's tiles go one after the other too, and u receives the error of each.
 *
 *     wt    [cols][ld]   V in solving order; once a block is solved, its error v - q
 *     u     [16][ld]     of the present block
 *
 * Inputs that have drifted change what is coded: W is then the matrix that makes up for that
 * (quant/round/drifted.h), until the errors are counted. */
#include "quant/round/trellis.h"

#include "base/arena.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/rng.h"
#include "quant/round/column_order.h"
#include "quant/round/drifted.h"
#include "quant/round/hessian.h"
#include "quant/round/trellis_rows.h"
#include "quant/round/viterbi.h"
#include "quant/tables.h"

#include <math.h>
#include <string.h>

enum { TILE = PITH_TRELLIS_TILE, BLOCK = PITH_TRELLIS_BLOCK, SIGNS = 0x7e115, STRIPE = 64 };
static const double DAMP_FIRST = 1e-6, DAMP_LIMIT = 1.0;

struct solver {
    const struct pith_round_job *job;
    struct pith_qmat *q;
    struct pith_pool *pool;
    struct pith_viterbi viterbi;
    bool feedback;
    struct pith_drifted drifted;
    struct pith_trellis_rows pairs;
    struct pith_outputs outputs; /* the same as W meets them, in the same memory: for the loss */
    uint32_t rows, cols;
    size_t ld;
    float *wt, *u;
    float *r;         /* [cols][cols] */
    float *rows_of;   /* [TILE][cols]: of r, while they change places */
    float *line;      /* [threads][cols] */
    uint32_t *perm;   /* column solved at step k; sixteen stay together */
    float *table;
    double *squares;  /* [rows / TILE] of u - q */
    uint8_t *scratch; /* [threads][scratch_size] */
    size_t scratch_size;
    uint32_t first;   /* step of the present block */
    double lambda;    /* added to the diagonal */
    void *memory;
};

/* ---- memory ---- */

static void layout_walks(struct pith_arena *a, struct solver *s)
{
    const size_t cols = s->cols, threads = pith_pool_threads(s->pool);
    s->scratch_size = pith_viterbi_bytes(s->viterbi.bits);
    s->wt = pith_arena_take_rows(a, cols, s->ld, sizeof *s->wt);
    s->u = pith_arena_take_rows(a, TILE, s->ld, sizeof *s->u);
    s->r = pith_arena_take_rows(a, s->feedback ? cols : 0, cols, sizeof *s->r);
    s->rows_of = pith_arena_take_rows(a, s->feedback ? TILE : 0, cols, sizeof *s->rows_of);
    s->line = pith_arena_take_rows(a, s->feedback ? threads : 0, cols, sizeof *s->line);
    s->perm = pith_arena_take(a, cols, sizeof *s->perm);
    s->table = pith_arena_take(a, PITH_TRELLIS_STATES, sizeof *s->table);
    s->squares = pith_arena_take_zeros(a, s->rows / TILE, 1, sizeof *s->squares);
    s->scratch = pith_arena_take_rows(a, threads, s->scratch_size, 1);
    pith_drifted_layout(a, &s->drifted);
    const size_t pairs = pith_outputs_at(s->pairs.rows, s->pairs.block, s->pairs.rows);
    s->outputs.s = s->pairs.s = pith_arena_take(a, s->pairs.rows ? pairs : 0, sizeof *s->pairs.s);
    s->outputs.diagonal = pith_arena_take(a, s->outputs.rows, sizeof *s->outputs.diagonal);
}

static struct solver walks_of(const struct pith_round_job *job, unsigned form)
{
    const uint32_t paired = form & PITH_TRELLIS_OUTPUTS ? job->rows : 0;
    const uint32_t outputs = pith_output_block(job->options.output_block);
    const size_t ld = (size_t)job->rows + TILE; /* no power of two */
    return (struct solver){
        .job = job,
        .pool = pith_backend_pool(job->backend),
        .viterbi = {pith_backend_kern(job->backend), job->grid.format->bits, NULL},
        .feedback = form != PITH_TRELLIS_NEAREST,
        .drifted = form & PITH_TRELLIS_DRIFT ? pith_drifted_of(job, ld) : (struct pith_drifted){0},
        .pairs = {.rows = paired, .block = pith_trellis_rows_block(outputs)},
        .outputs = {.rows = paired, .block = outputs},
        .rows = job->rows,
        .cols = job->cols,
        .ld = ld,
    };
}

uint64_t pith_trellis_scratch(const struct pith_round_job *job, unsigned form)
{
    struct pith_arena a = {0};
    if (!pith_trellis_is(job->grid.format)) return 0;
    struct solver s = walks_of(job, form);
    layout_walks(&a, &s);
    return pith_sum_bytes(pith_arena_bytes(&a), pith_round_loss_scratch(job->rows));
}

static enum pith_status take_walk_memory(struct solver *s, struct pith_error *err)
{
    struct pith_arena a = {0};
    layout_walks(&a, s);
    if (!pith_arena_open(&a)) return pith_fail_nomem(err, "trellis codes");
    layout_walks(&a, s);
    s->memory = a.base;
    return PITH_OK;
}

/* ---- the factors, and V ---- */

/* What V's deviation has to be for the least error, by code and bits, measured on normally
 * distributed numbers: a code's own numbers have one of 1.0 (mul1), 1.15 (mul2) or 1.24. */
static float deviation(enum pith_trellis_code code, unsigned bits)
{
    static const float mul1[] = {1.14f, 0.99f, 0.94f, 0.9f, 0.86f, 0.84f, 0.8f, 0.75f};
    static const float mul2[] = {1.27f, 1.12f, 1.08f, 1.04f, 0.99f, 0.92f, 0.9f, 0.89f};
    if (code == PITH_TRELLIS_MUL2) return mul2[bits - 1];
    return code == PITH_TRELLIS_MUL1 ? mul1[bits - 1] : 1.24371088f * mul1[bits - 1];
}

static float random_sign(struct pith_rng *rng, float x)
{
    return pith_rng_next(rng) & 1 ? -x : x;
}

static double deviation_of(const float *x, size_t n)
{
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
    return sqrt(sum / (double)n);
}

/* s: a row's deviation over the mean one, times a power of two that lets f keep its bits; 0 for
 * rows of zeros. */
static void set_scales(struct solver *s)
{
    struct pith_rng rng;
    double mean = 0.0, power = 1.0;
    pith_rng_seed(&rng, SIGNS);
    for (uint32_t r = 0; r < s->rows; r++) {
        const double own = deviation_of(s->job->w + (size_t)r * s->cols, s->cols);
        s->q->scales[r] = (float)own;
        mean += own / s->rows;
    }
    while (mean > 0.0 && mean * power < 0x1p-8) power *= 2.0;
    while (isfinite(mean) && mean * power > 0x1p4) power /= 2.0;
    for (uint32_t r = 0; r < s->rows; r++) {
        const double own = mean > 0.0 ? (double)s->q->scales[r] / (mean * power) : 0.0;
        s->q->scales[r] = random_sign(&rng, pith_round_to(PITH_F16, (float)own));
    }
}

/* Rows [BLOCK task, ...) of W / s, transposed, times T. */
static void load_rows(void *ctx, size_t task, unsigned thread)
{
    const struct solver *s = ctx;
    (void)thread;
    const size_t row = task * BLOCK;
    for (size_t r = row; r < row + BLOCK; r++) {
        const float scale = s->q->scales[r], inverse = scale != 0.0f ? 1.0f / scale : 0.0f;
        const float *w = s->job->w + r * s->cols;
        for (size_t c = 0; c < s->cols; c++) s->wt[c * s->ld + r] = w[c] * inverse;
    }
    pith_trellis_across(s->wt + row, s->ld, s->cols);
}

static enum pith_status set_factors(struct solver *s, struct pith_error *err)
{
    const double want = (double)deviation(pith_trellis_code_of(s->q->format), s->viterbi.bits);
    struct pith_rng rng;
    pith_rng_seed(&rng, SIGNS + 1);
    for (uint32_t c = 0; c < s->cols; c++) {
        const double own = deviation_of(s->wt + c * s->ld, s->rows) / sqrt((double)BLOCK);
        const float f = pith_round_to(PITH_F16, (float)(own / want));
        if (!isfinite(f))
            return pith_fail(err, PITH_NUMERIC,
                             "the weights of column %u are too large for a factor in F16", c);
        s->q->levels[c] = random_sign(&rng, f < 0x1p-14f ? 0x1p-14f : f);
    }
    return PITH_OK;
}

static void multiply_row(float *restrict x, size_t n, float factor)
{
    for (size_t i = 0; i < n; i++) x[i] *= factor;
}

/* Rows [STRIPE task % .., ...) of columns [BLOCK .., ...): divided by f, times T / 128. */
static void rotate_columns(void *ctx, size_t task, unsigned thread)
{
    const struct solver *s = ctx;
    (void)thread;
    const size_t stripes = s->rows / STRIPE, col = task / stripes * BLOCK;
    float *x = s->wt + col * s->ld + task % stripes * STRIPE;
    for (size_t c = 0; c < BLOCK; c++)
        multiply_row(x + c * s->ld, STRIPE, 1.0f / (s->q->levels[col + c] * BLOCK));
    pith_trellis_down(x, s->ld, STRIPE);
}

static enum pith_status load(struct solver *s, struct pith_error *err)
{
    set_scales(s);
    pith_pool_run(s->pool, s->rows / BLOCK, load_rows, s);
    PITH_TRY(set_factors(s, err));
    pith_pool_run(s->pool, s->cols / BLOCK * (s->rows / STRIPE), rotate_columns, s);
    return PITH_OK;
}

/* ---- the Hessian ---- */

static void hessian_row(void *ctx, size_t i, unsigned thread)
{
    const struct solver *s = ctx;
    (void)thread;
    const float *h = s->job->stats->hessian + i * s->cols, *f = s->q->levels;
    float *r = s->r + i * s->cols;
    for (size_t j = 0; j < s->cols; j++) r[j] = h[j] * f[i] * f[j];
    for (size_t j = 0; j < s->cols; j += BLOCK) pith_trellis_across(r + j, 0, 1);
}

static void hessian_columns(void *ctx, size_t task, unsigned thread)
{
    const struct solver *s = ctx;
    (void)thread;
    const size_t stripes = s->cols / STRIPE;
    float *x = s->r + task / stripes * BLOCK * s->cols + task % stripes * STRIPE;
    pith_trellis_down(x, s->cols, STRIPE);
    for (size_t i = 0; i < BLOCK; i++) multiply_row(x + i * s->cols, STRIPE, 1.0f / BLOCK);
}

/* One row's columns into solving order. */
static void order_row(void *ctx, size_t i, unsigned thread)
{
    const struct solver *s = ctx;
    float *r = s->r + i * s->cols, *line = s->line + thread * s->cols;
    memcpy(line, r, s->cols * sizeof *r);
    for (size_t k = 0; k < s->cols; k++) r[k] = line[s->perm[k]];
}

/* x[cols][ld] into solving order, sixteen rows at a time, cycle by cycle; `from` marks those done
 * with its highest bit. */
static void order_rows(const struct solver *s, float *x, size_t ld, float *spare)
{
    const size_t bytes = TILE * ld * sizeof *x;
    const uint32_t done = 1u << 31;
    for (uint32_t first = 0; first < s->cols; first += TILE) {
        if (s->perm[first] & done) continue;
        memcpy(spare, x + first * ld, bytes);
        for (uint32_t at = first, from;; at = from) {
            from = s->perm[at];
            s->perm[at] |= done;
            memcpy(x + at * ld, from == first ? spare : x + from * ld, bytes);
            if (from == first) break;
        }
    }
    for (uint32_t k = 0; k < s->cols; k++) s->perm[k] &= ~done;
}

/* H' in r, as stored; its mean diagonal, the dead inputs being of no size. */
static void form_hessian(struct solver *s)
{
    pith_pool_run(s->pool, s->cols, hessian_row, s);
    pith_pool_run(s->pool, s->cols / BLOCK * (s->cols / STRIPE), hessian_columns, s);
}

static double mean_diagonal(const struct solver *s)
{
    double sum = 0.0;
    for (size_t i = 0; i < s->cols; i++) sum += (double)s->r[i * s->cols + i];
    return sum / s->cols;
}

static enum pith_status order(struct solver *s, struct pith_error *err)
{
    if (s->job->options.act_order == PITH_ORDER_NONE) return PITH_OK;
    return pith_column_order(s->r, s->cols, TILE, s->cols, s->perm, err);
}

/* Row i of R[A,B] R[B,B]^-1, for all blocks B behind it. */
static void normalise_tiles(void *ctx, size_t i, unsigned thread)
{
    const struct solver *s = ctx;
    float *x = s->r + i * s->cols;
    (void)thread;
    for (size_t first = (i / TILE + 1) * TILE; first < s->cols; first += TILE)
        for (size_t j = first; j < first + TILE; j++) {
            float sum = x[j];
            for (size_t k = first; k < j; k++) sum -= x[k] * s->r[k * s->cols + j];
            x[j] = sum / s->r[j * s->cols + j];
        }
}

static enum pith_status factor(struct solver *s, struct pith_round_report *report,
                               struct pith_error *err)
{
    double damp = pith_round_damp(s->job);
    if (!(damp >= 0.0 && damp <= DAMP_LIMIT))
        return pith_fail(err, PITH_ARG, "a damping of %g is outside 0..1", damp);
    for (bool again = false;; again = true) {
        size_t pivot = 0;
        form_hessian(s);
        const double mean = mean_diagonal(s);
        if (!again) PITH_TRY(order(s, err));
        pith_pool_run(s->pool, s->cols, order_row, s);
        order_rows(s, s->r, s->cols, s->rows_of);
        for (size_t k = 0; k < s->cols; k++) s->r[k * s->cols + k] += (float)(damp * mean);
        const enum pith_status st =
            pith_cholesky_upper(s->job->backend, s->r, s->cols, &pivot, NULL);
        report->damp = damp;
        if (st == PITH_OK) return PITH_OK;
        if (st != PITH_NUMERIC) return pith_fail(err, st, "cannot factor the Hessian");
        damp = damp > 0.0 ? damp * 10.0 : DAMP_FIRST;
        if (damp > DAMP_LIMIT * (1 + 1e-9))
            return pith_fail(err, PITH_NUMERIC,
                             "the Hessian stays singular with %g of its mean diagonal added",
                             report->damp);
        report->damp_retries++;
    }
}

/* Rows of R are normalised from the last block up: each reads the diagonal blocks alone, which no
 * row's own part behind its block touches. */
static enum pith_status prepare_hessian(struct solver *s, struct pith_round_report *report,
                                        struct pith_error *err)
{
    const float *h = s->job->stats->hessian;
    for (size_t i = 0; i < s->cols; i++)
        report->dead_columns += !(h[i * s->cols + i] > 0.0f);
    if (report->dead_columns == s->cols)
        return pith_fail(err, PITH_NUMERIC,
                         "no input was ever non-zero: nothing to calibrate with");
    const double start = pith_clock();
    PITH_TRY(factor(s, report, err));
    pith_pool_run(s->pool, s->cols, normalise_tiles, s);
    report->factor_seconds = pith_clock() - start;
    return PITH_OK;
}

static enum pith_status prepare_pairs(struct solver *s, struct pith_error *err)
{
    const struct pith_round_job *job = s->job;
    const struct pith_trellis_felt felt = {.of = {job->stats->outputs, job->stats->outputs_by},
                                           .outputs = s->outputs.block,
                                           .scales = s->q->scales};
    return pith_trellis_rows_make(&s->pairs, job->backend, &felt, job->options.output_damp, err);
}

/* ---- solving ---- */

/* What a tile is to be, in the order of its walk. */
static void take_tile(const struct solver *s, size_t row, float x[PITH_TRELLIS_WEIGHTS])
{
    float correction[TILE][TILE];
    const enum pith_trellis_code code = pith_trellis_code_of(s->q->format);
    for (unsigned i = 0; i < PITH_TRELLIS_WEIGHTS; i++)
        x[i] = s->u[pith_trellis_col(code, i) * s->ld + row + pith_trellis_row(code, i)];
    if (!s->pairs.rows) return;
    pith_trellis_rows_correct(&s->pairs, s->u, s->ld, (uint32_t)row, correction);
    for (unsigned i = 0; i < PITH_TRELLIS_WEIGHTS; i++)
        x[i] += correction[pith_trellis_col(code, i)][pith_trellis_row(code, i)];
}

static void walk_tile(void *ctx, size_t tile, unsigned thread)
{
    const struct solver *s = ctx;
    float x[PITH_TRELLIS_WEIGHTS];
    uint16_t window[PITH_TRELLIS_WEIGHTS];
    const size_t row = tile * TILE;
    const enum pith_trellis_code code = pith_trellis_code_of(s->q->format);
    const unsigned bits = s->viterbi.bits;
    take_tile(s, row, x);
    pith_viterbi_walk(&s->viterbi, x, s->scratch + thread * s->scratch_size, window);
    pith_trellis_pack(code, window, bits,
                      s->q->codes + pith_trellis_tile_at(s->q, tile, s->perm[s->first] / TILE));
    for (unsigned i = 0; i < PITH_TRELLIS_WEIGHTS; i++) {
        const float value = pith_trellis_value(code, bits, window[i]);
        const size_t at = pith_trellis_col(code, i) * s->ld + row + pith_trellis_row(code, i);
        s->wt[s->first * s->ld + at] -= value;
        s->u[at] -= value;
        s->squares[tile] += (double)(x[i] - value) * (double)(x[i] - value);
    }
}

/* The tiles of a block of rows, each of which asks things of those after it. */
static void solve_tiles(void *ctx, size_t block, unsigned thread)
{
    const struct solver *s = ctx;
    const size_t first = block * s->pairs.block, end = first + s->pairs.block;
    for (size_t row = first; row < end && row < s->rows; row += TILE)
        walk_tile(ctx, row / TILE, thread);
}

/* u of the present block += the errors of the blocks before it. */
static void feed_tiles(const struct solver *s)
{
    const struct pith_gemm g = {.m = TILE,
                                .n = s->rows,
                                .k = s->first,
                                .a = s->r + s->first,
                                .a_rs = 1,
                                .a_cs = s->cols,
                                .b = s->wt,
                                .b_rs = s->ld,
                                .b_cs = 1,
                                .c = s->u,
                                .ldc = s->ld,
                                .accumulate = true};
    if (s->feedback && s->first > 0) pith_gemm(s->job->backend, &g);
}

static void solve_blocks(struct solver *s)
{
    const struct pith_trellis_rows *t = &s->pairs;
    for (s->first = 0; s->first < s->cols; s->first += TILE) {
        memcpy(s->u, s->wt + s->first * s->ld, TILE * s->ld * sizeof *s->u);
        feed_tiles(s);
        if (t->rows)
            pith_pool_run(s->pool, (t->rows + t->block - 1) / t->block, solve_tiles, s);
        else pith_pool_run(s->pool, s->rows / TILE, walk_tile, s);
    }
}

/* ---- the report ---- */

/* Leaves the errors of a block's rows in w. */
static void leave_block_error(void *ctx, size_t task, unsigned thread)
{
    const struct solver *s = ctx;
    (void)thread;
    const size_t at = task * BLOCK * s->cols;
    float *w = s->job->w + at, *q = s->wt + at; /* which is free by now */
    pith_qmat_decode(s->q, (uint32_t)(task * BLOCK), BLOCK, q);
    for (size_t i = 0; i < (size_t)BLOCK * s->cols; i++) w[i] -= q[i];
}

/* What errors of the size that the walks have leave of the loss when they know nothing of each
 * other: each weight's counts s^2 f^2 times its input's mean square. */
static double expected_loss(const struct solver *s)
{
    const float *h = s->job->stats->hessian;
    double squares = 0.0, scales = 0.0, inputs = 0.0;
    for (size_t t = 0; t < s->rows / TILE; t++) squares += s->squares[t];
    for (size_t r = 0; r < s->rows; r++)
        scales += (double)s->q->scales[r] * (double)s->q->scales[r];
    for (size_t c = 0; c < s->cols; c++)
        inputs += (double)h[c * s->cols + c] * (double)s->q->levels[c] * (double)s->q->levels[c];
    return squares / s->rows / s->cols * (scales / s->rows) * inputs;
}

/* The errors in w, as the loss feels pairs of them, in memory that is free by now. */
static enum pith_status weigh(struct solver *s, float *d, struct pith_error *err)
{
    const struct pith_round_job *job = s->job;
    const struct pith_outputs_felt felt = {job->stats->outputs, job->stats->outputs_by};
    PITH_TRY(
        pith_outputs_make(&s->outputs, job->backend, &felt, job->options.output_damp, err));
    memcpy(d, job->w, (size_t)s->rows * s->cols * sizeof *d);
    pith_outputs_weigh(&s->outputs, job->backend, d, s->cols);
    return PITH_OK;
}

static enum pith_status measure_walks(struct solver *s, struct pith_round_report *report,
                                      struct pith_error *err)
{
    const struct pith_round_job *job = s->job;
    const struct pith_kern *k = pith_backend_kern(job->backend);
    pith_pool_run(s->pool, s->rows / BLOCK, leave_block_error, s);
    if (job->stats && job->stats->hessian) {
        float *d = s->pairs.rows ? s->wt : job->w;
        if (s->pairs.rows) PITH_TRY(weigh(s, d, err));
        PITH_TRY(pith_round_loss(job->backend, d, s->rows, s->cols, job->stats->hessian,
                                 &report->loss, err));
    } else {
        for (size_t r = 0; r < s->rows; r++)
            report->loss += k->sumsq(s->cols, job->w + r * s->cols) / s->rows;
    }
    report->nearest_loss = s->feedback ? expected_loss(s) : report->loss;
    if (s->drifted.rows) {
        pith_drifted_undo(&s->drifted, job->w);
        pith_pool_run(s->pool, s->rows / BLOCK, leave_block_error, s);
    }
    if (isfinite(report->loss)) return PITH_OK;
    return pith_fail(err, PITH_NUMERIC, "the error of the rounded matrix is %g", report->loss);
}

/* ---- the whole ---- */

static enum pith_status run_walks(struct solver *s, struct pith_round_report *report,
                                  struct pith_error *err)
{
    PITH_TRY(take_walk_memory(s, err));
    for (uint32_t k = 0; k < s->cols; k++) s->perm[k] = k;
    pith_viterbi_table(pith_trellis_code_of(s->q->format), s->viterbi.bits, s->table);
    s->viterbi.table = s->table;
    if (s->drifted.rows) PITH_TRY(pith_drifted_make(&s->drifted, s->job, s->wt, err));
    PITH_TRY(load(s, err));
    if (s->pairs.rows) PITH_TRY(prepare_pairs(s, err));
    if (s->feedback) {
        PITH_TRY(prepare_hessian(s, report, err));
        order_rows(s, s->wt, s->ld, s->u);
    }
    solve_blocks(s);
    return measure_walks(s, report, err);
}

static enum pith_status check_trellis_job(const struct solver *s, struct pith_error *err)
{
    const struct pith_round_job *job = s->job;
    const struct pith_off_grid *off_grid = job->off_grid;
    const uint32_t outputs = s->outputs.block;
    if (off_grid && (off_grid->zeros || off_grid->choose || off_grid->sparse))
        return pith_fail(err, PITH_UNSUPPORTED,
                         "%s cannot drop or keep single weights: each is in all of its block",
                         job->grid.format->name);
    if (!s->feedback) return PITH_OK;
    if (s->pairs.rows && s->pairs.block == 0)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "an output_block of %u does not go with %s: 64 and multiples of %d do",
                         outputs, job->grid.format->name, BLOCK);
    if (!job->stats || !job->stats->hessian)
        return pith_fail(err, PITH_ARG, "GPTQ needs the Hessian");
    if (s->pairs.rows && (!job->stats->outputs || job->stats->output_block != outputs))
        return pith_fail(err, PITH_ARG, "this GPTQ needs the Hessian of outputs");
    return pith_hessian_check(job->stats->hessian, job->cols, err);
}

enum pith_status pith_trellis_round(const struct pith_round_job *job, unsigned form,
                                    struct pith_qmat *q, struct pith_round_report *report,
                                    struct pith_error *err)
{
    *report = (struct pith_round_report){0};
    PITH_TRY(pith_round_begin(job, q, err));
    struct solver s = walks_of(job, form);
    s.q = q;
    enum pith_status st = check_trellis_job(&s, err);
    if (st == PITH_OK) st = run_walks(&s, report, err);
    pith_free(s.memory);
    if (st != PITH_OK) pith_qmat_free(q);
    return st;
}
