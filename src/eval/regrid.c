#include "eval/regrid.h"

#include "base/mem.h"
#include "quant/scale.h"

#include <math.h>

enum { PANEL_FLOATS = 1 << 22 };

/* A panel of rows on its way to the grid; q is the part of the result that holds just these. */
struct panel {
    const struct pith_weight *w;
    const struct pith_gridder *gridder; /* NULL: by the format's own encoder */
    struct pith_qmat q;
    uint32_t first;
    float *rows;    /* [q.rows][cols] */
    uint8_t *codes; /* [threads][cols] */
};

static void decode_row(void *ctx, size_t row, unsigned thread)
{
    const struct panel *p = ctx;
    (void)thread;
    pith_weight_decode(p->w, p->first + (uint32_t)row, 1, p->rows + row * p->q.cols);
}

static void encode_row(void *ctx, size_t row, unsigned thread)
{
    struct panel *p = ctx;
    uint8_t *codes = p->codes + (size_t)thread * p->q.cols;
    pith_quantize_row(p->gridder, &p->q, (uint32_t)row, p->rows + row * p->q.cols, codes, NULL);
    pith_qmat_set_codes(&p->q, (uint32_t)row, codes);
}

static float largest(const float *w, size_t n)
{
    float m = 0;
    for (size_t i = 0; i < n; i++) m = fmaxf(m, fabsf(w[i]));
    return m;
}

/* A row of a format without a gridder: the largest magnitude of a group becomes the format's. */
static void encode_plain_row(void *ctx, size_t row, unsigned thread)
{
    struct panel *p = ctx;
    const struct pith_qmat *q = &p->q;
    const float *w = p->rows + row * q->cols;
    uint8_t *codes = p->codes + (size_t)thread * q->cols;
    for (uint32_t g = 0; g < q->groups; g++) {
        const size_t at = (size_t)g * q->group,
                     n = q->cols - at < q->group ? q->cols - at : q->group;
        float *scale = &q->scales[pith_qmat_scale_index(q, (uint32_t)row, g)];
        if (!q->per_tensor)
            *scale = pith_round_to(q->scale_dtype, largest(w + at, n) / q->format->max);
        const float by = *scale > 0 ? *scale : 1;
        for (size_t i = 0; i < n; i++) codes[at + i] = (uint8_t)q->format->encode(w[at + i] / by);
    }
    pith_qmat_set_codes(&p->q, (uint32_t)row, codes);
}

/* The part of q that holds `rows` rows from `first` on. */
static struct pith_qmat part_of(const struct pith_qmat *q, uint32_t first, uint32_t rows)
{
    struct pith_qmat part = *q;
    part.rows = rows;
    part.codes += (size_t)first * q->stride;
    if (q->per_tensor) return part;
    part.scales += (size_t)first * q->groups;
    if (q->zeros) part.zeros += (size_t)first * q->groups;
    return part;
}

static enum pith_status round_panel(struct pith_pool *pool, struct panel *p,
                                    const struct pith_grid *grid, struct pith_error *err)
{
    pith_pool_run(pool, p->q.rows, decode_row, p);
    if (p->gridder) {
        PITH_TRY(pith_fit_scales(pool, grid, p->rows, &p->q, err));
        pith_pool_run(pool, p->q.rows, encode_row, p);
        return PITH_OK;
    }
    if (p->q.per_tensor)
        p->q.scales[0] = largest(p->rows, (size_t)p->q.rows * p->q.cols) / p->q.format->max;
    pith_pool_run(pool, p->q.rows, encode_plain_row, p);
    return pith_check_scales(&p->q, err);
}

enum pith_status pith_regrid(struct pith_pool *pool, const struct pith_weight *w,
                             const struct pith_grid *grid, enum pith_dtype scale_dtype,
                             struct pith_qmat *out, struct pith_error *err)
{
    PITH_TRY(pith_qmat_init(out, w->rows, w->cols, grid, scale_dtype, err));
    uint32_t step = PANEL_FLOATS / w->cols;
    if (step == 0) step = 1;
    if (out->per_tensor || step > w->rows) step = w->rows; /* one scale needs all */
    struct panel p = {.w = w, .gridder = pith_gridder_for(grid)};
    p.rows = pith_alloc(step, (size_t)w->cols * sizeof *p.rows);
    p.codes = pith_alloc(pith_pool_threads(pool), w->cols);
    enum pith_status s = p.rows && p.codes ? PITH_OK : pith_fail_nomem(err, "rounding");
    if (s == PITH_OK && !p.gridder && !out->format->encode)
        s = pith_fail(err, PITH_UNSUPPORTED, "weights cannot be rounded to %s", out->format->name);
    for (; s == PITH_OK && p.first < w->rows; p.first += step) {
        p.q = part_of(out, p.first, w->rows - p.first < step ? w->rows - p.first : step);
        s = round_panel(pool, &p, grid, err);
    }
    pith_free(p.codes);
    pith_free(p.rows);
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
        for (int role = 0; role < PITH_ROLE_COUNT; role++)
            PITH_TRY(regrid_linear(&m->blocks[i].linear[role], pool, linears, dtype, err));
    if (!head) return PITH_OK;
    struct pith_linear_weights *store = m->shape.tied ? &m->embed_store : &m->head_store;
    PITH_TRY(regrid_linear(store, pool, head, dtype, err));
    m->head = store->w;
    if (m->shape.tied) m->embed = store->w;
    return PITH_OK;
}
