#include "eval/speed/regrid.h"

#include "base/arena.h"
#include "base/mem.h"
#include "quant/round.h"
#include "quant/scale.h"

#include <math.h>
#include <string.h>

enum { PANEL_FLOATS = 1 << 22 };

/* A panel of rows on its way to the grid. */
struct panel {
    struct pith_kern kern; /* the CPU's: any tier gives the same bits */
    struct pith_pool *pool;
    struct pith_grid_rule rule;
    const struct pith_weight *w;
    struct pith_qmat *q; /* the whole matrix */
    uint32_t first, count, step;
    float *rows;    /* [step][cols] */
    uint8_t *codes; /* [threads][cols] */
    float *tiles;   /* [threads][pith_fit_tile()], for scales by block */
    void *memory;   /* of these three */
    float *ends;    /* [rows of the matrix][2]: least and largest weight */
};

static void decode_row(void *ctx, size_t row, unsigned thread)
{
    const struct panel *p = ctx;
    (void)thread;
    pith_weight_decode(p->w, p->first + (uint32_t)row, 1, p->rows + row * p->q->cols);
}

static void measure_row(void *ctx, size_t row, unsigned thread)
{
    const struct panel *p = ctx;
    float *ends = p->ends + 2 * (p->first + row);
    decode_row(ctx, row, thread);
    p->kern.range(p->q->cols, p->rows + row * p->q->cols, &ends[0], &ends[1]);
}

/* Scales of one band of rows that share them; a row where each has its own. */
static void fit_band(void *ctx, size_t band, unsigned thread)
{
    const struct panel *p = ctx;
    const size_t row = band * p->q->row_group;
    const float *w = p->rows + row * p->q->cols;
    if (p->tiles)
        pith_fit_band(&p->rule, w, p->q, p->first + (uint32_t)row,
                      p->tiles + thread * pith_fit_tile(p->q));
    else pith_fit_row(&p->rule, w, p->q, p->first + (uint32_t)row);
}

static void fit_panel(struct panel *p)
{
    pith_pool_run(p->pool, (p->count - 1) / p->q->row_group + 1, fit_band, p);
}

static void encode_row(void *ctx, size_t row, unsigned thread)
{
    const struct panel *p = ctx;
    uint8_t *codes = p->codes + (size_t)thread * p->q->cols;
    pith_quantize_row(&p->kern, p->q, p->first + (uint32_t)row, p->rows + row * p->q->cols, codes,
                      NULL);
    pith_qmat_set_codes(p->q, p->first + (uint32_t)row, codes);
}

/* Calls a function for the rows of each panel, on all threads; then one for the panel. */
static void each_panel(struct panel *p, void (*row)(void *ctx, size_t row, unsigned thread),
                       void (*panel)(struct panel *p))
{
    for (p->first = 0; p->first < p->q->rows; p->first += p->count) {
        const uint32_t left = p->q->rows - p->first;
        p->count = left < p->step ? left : p->step;
        pith_pool_run(p->pool, p->count, row, p);
        if (panel) panel(p);
    }
}

/* What the range of the whole matrix decides: NVFP4's scale of the tensor, or the only scale. */
static enum pith_status fit_by_range(struct panel *p, struct pith_error *err)
{
    struct pith_qmat *q = p->q;
    float lo = 0.0f, hi = 0.0f;
    p->ends = pith_alloc(q->rows, 2 * sizeof *p->ends);
    if (!p->ends) return pith_fail_nomem(err, "rounding");
    each_panel(p, measure_row, NULL);
    for (size_t r = 0; r < q->rows; r++) {
        lo = isnan(lo) || lo < p->ends[2 * r] ? lo : p->ends[2 * r];
        hi = isnan(hi) || hi > p->ends[2 * r + 1] ? hi : p->ends[2 * r + 1];
    }
    pith_free(p->ends);
    q->global = p->rule.global = pith_round_global(p->rule.grid, hi > -lo ? hi : -lo);
    if (pith_qmat_per_tensor(q)) pith_fit_range(&p->rule, lo, hi, q);
    return PITH_OK;
}

static enum pith_status fit_before(struct panel *p, struct pith_error *err)
{
    switch (pith_fit_scope(p->rule.grid)) {
    case PITH_FIT_ROWS: break;
    case PITH_FIT_RANGE: return fit_by_range(p, err);
    case PITH_FIT_ALL:
        each_panel(p, decode_row, fit_panel);
        PITH_TRY(pith_check_scales(p->q, err));
        return pith_qmat_nest_scales(p->q, err);
    case PITH_FIT_MATRIX: /* the panel is all of it */
        p->count = p->q->rows;
        pith_pool_run(p->pool, p->count, decode_row, p);
        return pith_fit_scales(NULL, p->rule.grid, p->rows, p->q, err);
    }
    return PITH_OK;
}

static void round_panel(struct panel *p)
{
    const bool fitted = pith_qmat_per_tensor(p->q) || p->q->nested || p->q->levels;
    if (!fitted) fit_panel(p);
    pith_pool_run(p->pool, p->count, encode_row, p);
}

/* Rows of a panel: whole bands, and for a grid that has to see all, all. */
static uint32_t panel_rows(const struct panel *p, uint32_t threads)
{
    const uint32_t band = p->q->row_group;
    uint32_t step = PANEL_FLOATS / p->q->cols;
    if (pith_fit_scope(p->rule.grid) == PITH_FIT_MATRIX) return p->q->rows;
    if (step < threads) step = threads;
    if (!pith_qmat_per_tensor(p->q)) step = step < band ? band : step / band * band;
    return step < p->q->rows ? step : p->q->rows;
}

static void layout(struct pith_arena *a, struct panel *p, uint32_t threads)
{
    const size_t cols = p->q->cols;
    const bool tiled = p->q->row_group > 1 && !pith_qmat_per_tensor(p->q);
    p->step = panel_rows(p, threads);
    p->rows = pith_arena_take_rows(a, p->step, cols, sizeof *p->rows);
    p->codes = pith_arena_take_rows(a, threads, cols, sizeof *p->codes);
    p->tiles = pith_arena_take_rows(a, tiled ? threads : 0, pith_fit_tile(p->q), sizeof *p->tiles);
}

uint64_t pith_regrid_bytes(const struct pith_qspec *made, unsigned threads)
{
    struct pith_qform form;
    struct pith_arena a = {0};
    if (!pith_qspec_form(made, &form)) return 0;
    struct panel p = {.q = &form.q, .rule.grid = &made->grid};
    layout(&a, &p, threads);
    const uint64_t fitting = pith_fit_scope(&made->grid) == PITH_FIT_MATRIX
                                 ? pith_fit_levels_scratch(&made->grid, made->cols, threads)
                                 : 0;
    return pith_sum_bytes(pith_arena_bytes(&a), fitting);
}

static enum pith_status take_memory(struct panel *p, struct pith_error *err)
{
    const uint32_t threads = pith_pool_threads(p->pool);
    struct pith_arena a = {0};
    layout(&a, p, threads);
    if (!pith_arena_open(&a)) return pith_fail_nomem(err, "rounding");
    layout(&a, p, threads);
    p->memory = a.base;
    return PITH_OK;
}

enum pith_status pith_regrid(struct pith_pool *pool, const struct pith_weight *w,
                             const struct pith_grid *grid, enum pith_dtype scale_dtype,
                             struct pith_qmat *out, struct pith_error *err)
{
    struct panel p = {.pool = pool, .w = w, .q = out};
    PITH_TRY(pith_qmat_init(out, w->rows, w->cols, grid, scale_dtype, err));
    pith_kern_select(pith_kern_usable(), &p.kern);
    p.rule = (struct pith_grid_rule){&p.kern, grid, out->scale_dtype, out->global, NULL};
    enum pith_status s = PITH_OK;
    if (!pith_gridder_for(grid))
        s = pith_fail(err, PITH_UNSUPPORTED, "weights cannot be rounded to %s", grid->format->name);
    if (s == PITH_OK) s = take_memory(&p, err);
    if (s == PITH_OK) s = fit_before(&p, err);
    if (s == PITH_OK) {
        each_panel(&p, decode_row, round_panel);
        s = pith_check_scales(out, err);
    }
    pith_free(p.memory);
    if (s != PITH_OK) pith_qmat_free(out);
    return s;
}

static enum pith_status regrid_linear(struct pith_linear_weights *l, struct pith_pool *pool,
                                      const struct pith_grid *grid, enum pith_dtype scale_dtype,
                                      struct pith_error *err)
{
    struct pith_qmat q;
    PITH_TRY(pith_regrid(pool, &l->w, grid, scale_dtype, &q, err));
    if (l->w.quant == &l->q) pith_qmat_free(&l->q);
    pith_free(l->dense);
    l->dense = NULL;
    l->q = q;
    l->w.dense = NULL;
    l->w.quant = &l->q;
    return PITH_OK;
}

enum pith_status pith_model_regrid(struct pith_model *m, struct pith_pool *pool,
                                   const struct pith_grid *linears, const struct pith_grid *head,
                                   struct pith_error *err)
{
    const enum pith_dtype dtype = m->shape.dtype == PITH_BF16 ? PITH_BF16 : PITH_F16;
    for (uint32_t i = 0; linears && i < m->shape.layers; i++)
        for (uint32_t j = 0; j < m->blocks[i].plan->linears; j++)
            PITH_TRY(regrid_linear(&m->blocks[i].linear[j], pool, linears, dtype, err));
    if (!head) return PITH_OK;
    if (m->shape.ends.tied && !m->head_store.w.quant) m->head_store.w = m->embed; /* has none yet */
    PITH_TRY(regrid_linear(&m->head_store, pool, head, dtype, err));
    m->head = m->head_store.w;
    return PITH_OK;
}
