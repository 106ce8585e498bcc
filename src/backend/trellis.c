/* Products with the codes of a trellis (num/trellis.h). With W = s (T V T) f / 128,
 *
 *     y = s T (V x'),   x' = T (f x) / 128,
 *
 * so V alone is decoded, a tile of sixteen rows at a time, and x and y meet T: fourteen additions a
 * number, whatever the other side of the matrix. x' lies in the backend's own memory: where
 * pith_backend_take_prepared() was not called it has few rows at a time. */
#include "backend/parts.h"

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
static void turn_block(float *x, size_t row, bool all)
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
            turn_block(x, at, m > 1);
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

struct turning {
    const struct pith_qmat *q;
    const float *x, *bias;
    size_t rows, tasks; /* of x */
    float *out;
};

static void input_task(void *ctx, size_t task, unsigned thread)
{
    (void)thread;
    const struct turning *t = ctx;
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
    const struct turning *t = ctx;
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
static void run(struct pith_backend *b, struct turning *t, pith_task_fn *task)
{
    t->tasks = t->rows <= PITH_VECTORS ? 1 : pith_min(t->rows, (size_t)4 * b->threads);
    if (t->tasks == 1) task(t, 0, 0);
    else pith_pool_run(b->pool, t->tasks, task, t);
}

void pith_trellis_linear(struct pith_backend *b, const struct pith_weight *w, const float *bias,
                         const float *x, size_t n, float *y)
{
    const size_t most = (b->prepared ? PITH_PREPARED_FLOATS : PITH_SCORES) / w->cols;
    const size_t slabs = (n + most - 1) / most;
    float *turned = b->prepared ? b->prepared : b->scratch[0].scores;
    for (size_t i = 0; i < slabs; i++) {
        const size_t first = i * n / slabs, count = (i + 1) * n / slabs - first;
        float *to = y + first * w->rows;
        struct turning in = {w->quant, x + first * w->cols, NULL, count, 0, turned};
        struct turning out = {w->quant, NULL, bias, count, 0, to};
        run(b, &in, input_task);
        pith_linear_as_packed(b, w, NULL, turned, count, to);
        run(b, &out, output_task);
    }
}
