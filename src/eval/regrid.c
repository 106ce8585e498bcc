#include "eval/regrid.h"

#include "base/mem.h"
#include "num/block.h"
#include "quant/scale.h"

#include <math.h>
#include <string.h>

enum { PANEL_FLOATS = 1 << 22 };

/* A panel of rows on its way to the grid; q is the part of the result that holds just these. */
struct panel {
    struct pith_kern kern; /* the CPU's: any tier gives the same bits */
    struct pith_grid_rule rule;
    const struct pith_weight *w;
    const struct pith_gridder *gridder; /* NULL: by the format's own encoder */
    const struct pith_format *block;    /* a block format, or NULL */
    float *most;                        /* [rows of the matrix]: largest magnitudes, or NULL */
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
    const float *w = p->rows + row * p->q.cols;
    if (!pith_qmat_per_tensor(&p->q)) pith_fit_row(&p->rule, w, &p->q, (uint32_t)row);
    pith_quantize_row(&p->kern, &p->q, (uint32_t)row, w, codes, NULL);
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
        if (!pith_qmat_per_tensor(q))
            *scale = pith_round_to(q->scale_dtype, largest(w + at, n) / q->format->max);
        const float by = *scale > 0 ? *scale : 1;
        for (size_t i = 0; i < n; i++) codes[at + i] = (uint8_t)q->format->encode(w[at + i] / by);
    }
    pith_qmat_set_codes(&p->q, (uint32_t)row, codes);
}

/* MX and NVFP4: the scale and the codes as num/block.h defines them. */
static void encode_block_row(void *ctx, size_t row, unsigned thread)
{
    struct panel *p = ctx;
    const struct pith_qmat *q = &p->q;
    const float *w = p->rows + row * q->cols;
    uint8_t *codes = p->codes + (size_t)thread * q->cols;
    const bool nvfp4 = q->scale_dtype == PITH_F8_E4M3;
    const struct pith_format *scales = pith_format_find(p->block->scale);
    for (uint32_t g = 0; g < q->groups; g++) {
        const size_t at = (size_t)g * q->group,
                     n = q->cols - at < q->group ? q->cols - at : q->group;
        const uint8_t scale = nvfp4 ? pith_nvfp4_scale(w + at, n, q->global)
                                    : pith_mx_scale(p->block, w + at, n);
        if (nvfp4) pith_nvfp4_encode(w + at, n, q->global, scale, codes + at);
        else pith_mx_encode(p->block, w + at, n, scale, codes + at);
        q->scales[(size_t)row * q->groups + g] = scales->decode(scale) * q->global;
    }
    pith_qmat_set_codes(&p->q, (uint32_t)row, codes);
}

static void measure_row(void *ctx, size_t row, unsigned thread)
{
    const struct panel *p = ctx;
    const size_t cols = p->q.cols;
    float *w = p->rows + thread * cols;
    pith_weight_decode(p->w, (uint32_t)row, 1, w);
    p->most[row] = largest(w, cols);
}

/* NVFP4's scale of the whole matrix. */
static enum pith_status find_global(struct pith_pool *pool, struct panel *p, struct pith_qmat *q,
                                    struct pith_error *err)
{
    if (q->scale_dtype != PITH_F8_E4M3) return PITH_OK;
    p->most = pith_alloc(q->rows, sizeof *p->most);
    if (!p->most) return pith_fail_nomem(err, "rounding");
    p->q = *q;
    pith_pool_run(pool, q->rows, measure_row, p);
    q->global = pith_nvfp4_global(largest(p->most, q->rows));
    pith_free(p->most);
    return PITH_OK;
}

/* The part of q that holds `rows` rows from `first` on. */
static struct pith_qmat part_of(const struct pith_qmat *q, uint32_t first, uint32_t rows)
{
    struct pith_qmat part = *q;
    part.rows = rows;
    part.codes += (size_t)first * q->stride;
    if (pith_qmat_per_tensor(q)) return part;
    part.scales += (size_t)first * q->groups;
    if (q->zeros) part.zeros += (size_t)first * q->groups;
    return part;
}

static enum pith_status round_panel(struct pith_pool *pool, struct panel *p, struct pith_error *err)
{
    pith_pool_run(pool, p->q.rows, decode_row, p);
    if (p->gridder) {
        if (pith_qmat_per_tensor(&p->q))
            PITH_TRY(pith_fit_scales(NULL, p->rule.grid, p->rows, &p->q, err));
        pith_pool_run(pool, p->q.rows, encode_row, p);
        return pith_check_scales(&p->q, err);
    }
    if (p->block) {
        pith_pool_run(pool, p->q.rows, encode_block_row, p);
        return pith_check_scales(&p->q, err);
    }
    if (pith_qmat_per_tensor(&p->q))
        p->q.scales[0] = largest(p->rows, (size_t)p->q.rows * p->q.cols) / p->q.format->max;
    pith_pool_run(pool, p->q.rows, encode_plain_row, p);
    return pith_check_scales(&p->q, err);
}

/* A block format is held as its elements in groups, with scales of its own type. */
static struct pith_grid element_grid(const struct pith_grid *grid, enum pith_dtype *scale_dtype)
{
    const struct pith_format *f = grid->format;
    if (f->kind != PITH_KIND_BLOCK) return *grid;
    *scale_dtype = strcmp(f->scale, "e8m0") == 0 ? PITH_F8_E8M0 : PITH_F8_E4M3;
    return (struct pith_grid){.format = pith_format_find(f->element),
                              .granularity = PITH_PER_GROUP,
                              .group = f->block};
}

enum pith_status pith_regrid(struct pith_pool *pool, const struct pith_weight *w,
                             const struct pith_grid *grid, enum pith_dtype scale_dtype,
                             struct pith_qmat *out, struct pith_error *err)
{
    const struct pith_grid elements = element_grid(grid, &scale_dtype);
    PITH_TRY(pith_qmat_init(out, w->rows, w->cols, &elements, scale_dtype, err));
    const uint32_t threads = pith_pool_threads(pool);
    uint32_t step = PANEL_FLOATS / w->cols;
    if (step < threads) step = threads;
    if (pith_qmat_per_tensor(out) || step > w->rows) step = w->rows; /* one scale needs all */
    struct panel p = {.w = w,
                      .gridder = pith_gridder_for(&elements),
                      .block = grid->format->kind == PITH_KIND_BLOCK ? grid->format : NULL};
    p.rows = pith_alloc(step < threads ? threads : step, (size_t)w->cols * sizeof *p.rows);
    p.codes = pith_alloc(threads, w->cols);
    pith_kern_select(pith_cpu_detect(), &p.kern);
    p.rule = (struct pith_grid_rule){&p.kern, &elements, scale_dtype, 1.0f};
    enum pith_status s = p.rows && p.codes ? PITH_OK : pith_fail_nomem(err, "rounding");
    if (s == PITH_OK && !p.gridder && !out->format->encode)
        s = pith_fail(err, PITH_UNSUPPORTED, "weights cannot be rounded to %s", out->format->name);
    if (s == PITH_OK) s = find_global(pool, &p, out, err);
    for (; s == PITH_OK && p.first < w->rows; p.first += step) {
        p.q = part_of(out, p.first, w->rows - p.first < step ? w->rows - p.first : step);
        s = round_panel(pool, &p, err);
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
    if (m->shape.tied && !m->head_store.w.quant) m->head_store.w = m->embed; /* has none yet */
    PITH_TRY(regrid_linear(&m->head_store, pool, head, dtype, err));
    m->head = m->head_store.w;
    return PITH_OK;
}
