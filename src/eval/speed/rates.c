#include "eval/speed/rates.h"

#include "backend/pack.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/rng.h"
#include "eval/speed/regrid.h"
#include "model/kv/kv.h"
#include "quant/scale.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROWS = 1024, /* of a matrix, as small ones have: rounding what they meet counts */
    COLS = 2048,
    COPIES = 128, /* of it, at most */
    PAGE_BYTES = 4096,
    LAYERS = 16, /* of a cache */
    PAGE = 32,
    HEADS = 32,
    KV_HEADS = 8,
    HEAD_DIM = 64,
    DEPTH = 1024
};
static const size_t BYTES = (size_t)128 << 20; /* that all copies take, where COPIES allow it */
static const double ENOUGH = 0.3;              /* seconds that one figure is measured for */

static double now(const struct pith_backend *be)
{
    return pith_pool_threads(pith_backend_pool(be)) == 1 ? pith_processor_clock() : pith_clock();
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Something that is called again and again, each time on the next copy. */
struct timed {
    const struct pith_backend *be;
    void (*call)(void *ctx, size_t copy, size_t rows);
    void *ctx;
    size_t copies;
};

/* The median of as many calls as there are copies, or as ENOUGH allows; at least five. */
static double time_calls(const struct timed *t, size_t rows)
{
    enum { LEAST = 5 };
    double took[COPIES], all = 0;
    size_t n = 0;
    t->call(t->ctx, 0, rows);
    for (size_t i = 0; i < t->copies && i < COPIES && (n < LEAST || all < ENOUGH); i++) {
        const double start = now(t->be);
        t->call(t->ctx, (i + 1) % t->copies, rows);
        took[n] = now(t->be) - start;
        all += took[n++];
    }
    qsort(took, n, sizeof *took, by_value);
    return took[n / 2];
}

static float *randoms(size_t n)
{
    float *x = pith_alloc_aligned(n, sizeof *x);
    struct pith_rng r;
    pith_rng_seed(&r, n);
    for (size_t i = 0; x && i < n; i++) x[i] = (float)pith_rng_unit(&r) - 0.5f;
    return x;
}

static size_t most_of(const size_t *rows, size_t count)
{
    size_t most = 0;
    for (size_t i = 0; i < count; i++)
        if (rows[i] > most) most = rows[i];
    return most;
}

/* --- matrices --------------------------------------------------------------------------------- */

struct matrices {
    struct pith_backend *be;
    struct pith_pack pack[COPIES];
    struct pith_qmat q; /* where there is no packed form */
    void *memory[COPIES];
    float *x, *y;
    bool packed, dense;
};

static void multiply(void *ctx, size_t copy, size_t rows)
{
    const struct matrices *m = ctx;
    struct pith_weight w = {.rows = ROWS, .cols = COLS};
    if (m->packed) w.pack = &m->pack[copy];
    else if (m->dense) {
        w.dtype = PITH_BF16;
        w.dense = m->memory[copy];
    } else w.quant = &m->q;
    pith_linear(m->be, &w, NULL, m->x, rows, m->y);
}

/* As many as do not fit into a processor's cache. Packed matrices lie in large pages together, as a
 * layer's do. */
static size_t copies_of(size_t bytes)
{
    const size_t n = BYTES / bytes + 1;
    return n < COPIES ? n : COPIES;
}

/* In pieces too small for large pages: a mapped file lies in small ones. */
static enum pith_status open_dense(struct matrices *m, const float *w, size_t *copies,
                                   struct pith_error *err)
{
    const size_t numbers = (size_t)ROWS * COLS;
    m->dense = true;
    *copies = copies_of(2 * numbers);
    for (size_t i = 0; i < *copies; i++) {
        m->memory[i] = pith_alloc(numbers, 2);
        if (!m->memory[i]) return pith_fail_nomem(err, "matrices");
        pith_dtype_encode(PITH_BF16, w, numbers, m->memory[i]);
    }
    return PITH_OK;
}

static enum pith_status open_coded(struct matrices *m, const float *w, const struct pith_grid *grid,
                                   size_t *copies, struct pith_error *err)
{
    const struct pith_weight from = {.rows = ROWS, .cols = COLS, .dtype = PITH_F32, .dense = w};
    struct pith_pool *pool = pith_backend_pool(m->be);
    PITH_TRY(pith_regrid(pool, &from, grid, PITH_F16, &m->q, err));
    const size_t bytes = pith_pack_bytes(&m->q);
    *copies = 1;
    if (bytes == 0) return PITH_OK;
    *copies = copies_of(bytes);
    m->packed = true;
    PITH_TRY(pith_backend_take_prepared(m->be, err));
    const size_t each = (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    char *all = m->memory[0] = pith_alloc_huge(*copies * each, 1);
    if (!all) return pith_fail_nomem(err, "matrices");
    for (size_t i = 0; i < *copies; i++) pith_pack_init(m->be, &m->q, all + i * each, &m->pack[i]);
    return PITH_OK;
}

static enum pith_status open_matrices(struct matrices *m, const struct pith_grid *grid, size_t rows,
                                      size_t *copies, struct pith_error *err)
{
    float *w = randoms((size_t)ROWS * COLS);
    m->x = randoms(rows * COLS);
    m->y = pith_alloc_aligned(rows * ROWS, sizeof *m->y);
    enum pith_status s = w && m->x && m->y ? PITH_OK : pith_fail_nomem(err, "matrices");
    if (s == PITH_OK)
        s = grid->format ? open_coded(m, w, grid, copies, err) : open_dense(m, w, copies, err);
    pith_free(w);
    return s;
}

enum pith_status pith_rate_matrix(struct pith_backend *be, const struct pith_grid *grid,
                                  const size_t *rows, size_t count, double *seconds,
                                  struct pith_error *err)
{
    const struct pith_gridder *gridder = grid->format ? pith_gridder_for(grid) : NULL;
    char text[PITH_GRID_TEXT];
    pith_grid_format(grid, text);
    if (grid->format && (!gridder || gridder->whole))
        return pith_fail(err, PITH_UNSUPPORTED, "weights cannot be put on the grid %s here", text);
    struct matrices *m = pith_zalloc(1, sizeof *m);
    if (!m) return pith_fail_nomem(err, "matrices");
    struct timed t = {.be = be, .call = multiply, .ctx = m};
    m->be = be;
    enum pith_status s = open_matrices(m, grid, most_of(rows, count), &t.copies, err);
    for (size_t i = 0; i < count && s == PITH_OK; i++)
        seconds[i] = time_calls(&t, rows[i]) / ROWS / COLS;
    pith_qmat_free(&m->q);
    for (size_t i = 0; i < COPIES; i++) pith_free(m->memory[i]);
    pith_free(m->x);
    pith_free(m->y);
    pith_free(m);
    return s;
}

/* --- caches ----------------------------------------------------------------------------------- */

struct caches {
    struct pith_backend *be;
    struct pith_kv_format format;
    struct pith_row_code code[2]; /* of k and v, where they are on a grid */
    float level[2][PITH_ROW_LEVELS];
    struct pith_cache cache[LAYERS];
    char *memory;
    float *q, *work;
    size_t work_floats;
};

static void attend(void *ctx, size_t copy, size_t rows)
{
    const struct caches *c = ctx;
    const struct pith_cache_span span = {.n = rows, .start = DEPTH - 1};
    pith_attention(c->be, &(struct pith_attention){.span = &span,
                                                   .spans = 1,
                                                   .heads = HEADS,
                                                   .scale = 0.1f,
                                                   .cache = &c->cache[copy],
                                                   .q = c->q,
                                                   .out = c->q,
                                                   .work = c->work,
                                                   .work_floats = c->work_floats});
}

static enum pith_status open_side(struct caches *c, int which, struct pith_cache_side *out,
                                  struct pith_error *err)
{
    const struct pith_kv_part *p = which ? &c->format.v : &c->format.k;
    *out = (struct pith_cache_side){.dtype = pith_kv_dtype(p), .dim = HEAD_DIM};
    if (!pith_kv_coded(p)) return PITH_OK;
    PITH_TRY(pith_kv_code(p, which == 0, HEAD_DIM, c->level[which], &c->code[which], err));
    out->code = &c->code[which];
    return PITH_OK;
}

/* Keys by channel become codes from a page in floats. */
static enum pith_status close_page(struct caches *c, const struct pith_cache *to, const float *rows,
                                   struct pith_error *err)
{
    struct pith_cache floats = {
        .kv_heads = KV_HEADS, .k = {.dim = HEAD_DIM}, .v = {.dim = HEAD_DIM}};
    const struct pith_cache_span page = {.n = PAGE};
    if (!pith_cache_layout(&floats) || !(floats.memory = pith_alloc(floats.page_bytes, 1)))
        return pith_fail_nomem(err, "a page");
    pith_cache_store(c->be, &floats, &page, rows, rows);
    pith_cache_close(c->be, to, &floats, &page);
    pith_free(floats.memory);
    return PITH_OK;
}

/* Every page holds the same random numbers. */
static enum pith_status fill(struct caches *c, struct pith_cache *one, size_t bytes,
                             struct pith_error *err)
{
    float *rows = randoms((size_t)PAGE * KV_HEADS * HEAD_DIM);
    if (!rows) return pith_fail_nomem(err, "a page");
    one->memory = c->memory;
    pith_cache_store(c->be, one, &(struct pith_cache_span){.n = PAGE}, rows, rows);
    const enum pith_status s = close_page(c, one, rows, err);
    pith_free(rows);
    for (size_t at = one->page_bytes; at < bytes; at += one->page_bytes)
        memcpy(c->memory + at, c->memory, one->page_bytes);
    return s;
}

static enum pith_status open_caches(struct caches *c, const char *name, size_t rows,
                                    struct pith_error *err)
{
    struct pith_cache one = {.kv_heads = KV_HEADS};
    PITH_TRY(pith_kv_parse(name, PITH_BF16, NULL, &c->format, err));
    PITH_TRY(open_side(c, 0, &one.k, err));
    PITH_TRY(open_side(c, 1, &one.v, err));
    if (!pith_cache_layout(&one)) return pith_fail_nomem(err, "caches");
    const size_t layer = pith_cache_pages(DEPTH + rows) * one.page_bytes;
    c->memory = pith_alloc_huge(LAYERS * layer, 1);
    c->work_floats = pith_attention_work(HEADS, HEAD_DIM, DEPTH + rows);
    c->work = pith_alloc_aligned(c->work_floats, sizeof *c->work);
    c->q = randoms(rows * HEADS * HEAD_DIM);
    if (!c->memory || !c->work || !c->q) return pith_fail_nomem(err, "caches");
    PITH_TRY(fill(c, &one, LAYERS * layer, err));
    for (size_t i = 0; i < LAYERS; i++) {
        c->cache[i] = one;
        c->cache[i].memory = c->memory + i * layer;
    }
    return PITH_OK;
}

enum pith_status pith_rate_cache(struct pith_backend *be, const char *name, const size_t *rows,
                                 size_t count, double *seconds, struct pith_error *err)
{
    struct caches *c = pith_zalloc(1, sizeof *c);
    if (!c) return pith_fail_nomem(err, "caches");
    const struct timed t = {.be = be, .call = attend, .ctx = c, .copies = LAYERS};
    c->be = be;
    enum pith_status s = open_caches(c, name, most_of(rows, count), err);
    for (size_t i = 0; i < count && s == PITH_OK; i++) {
        const double seen = DEPTH - 1 + ((double)rows[i] + 1) / 2;
        seconds[i] = time_calls(&t, rows[i]) / ((double)rows[i] * HEADS * seen * 2 * HEAD_DIM);
    }
    pith_kv_format_free(&c->format);
    pith_free(c->memory);
    pith_free(c->work);
    pith_free(c->q);
    pith_free(c);
    return s;
}

/* --- the rest of a layer ---------------------------------------------------------------------- */

enum { WIDTH = 2048, GATE = WIDTH * 8 / 3 };

struct rest {
    struct pith_backend *be;
    float *x, *y, *w;
    float *gate; /* zeros, which stay so: that takes as long as other numbers */
};

static void pass_layer(void *ctx, size_t copy, size_t rows)
{
    const struct rest *r = ctx;
    (void)copy;
    for (int i = 0; i < 2; i++) {
        pith_rmsnorm(r->be, r->x, rows, WIDTH, r->w, 1e-5, r->y);
        pith_add(r->be, r->x, r->y, rows * WIDTH);
    }
    pith_rope(r->be, r->y, rows, WIDTH, WIDTH / HEAD_DIM, HEAD_DIM, r->w, r->w);
    pith_silu_mul(r->be, r->gate, r->x, rows * GATE);
}

enum pith_status pith_rate_rest(struct pith_backend *be, const size_t *rows, size_t count,
                                double *seconds, struct pith_error *err)
{
    const size_t most = most_of(rows, count);
    struct rest r = {.be = be,
                     .x = randoms(most * GATE),
                     .y = randoms(most * WIDTH),
                     .w = randoms(most * HEAD_DIM + WIDTH),
                     .gate = pith_zalloc(most * GATE, sizeof *r.gate)};
    const struct timed t = {.be = be, .call = pass_layer, .ctx = &r, .copies = COPIES};
    const bool there = r.x && r.y && r.w && r.gate;
    for (size_t i = 0; i < count && there; i++)
        seconds[i] = time_calls(&t, rows[i]) / ((double)rows[i] * WIDTH);
    pith_free(r.x);
    pith_free(r.y);
    pith_free(r.w);
    pith_free(r.gate);
    return there ? PITH_OK : pith_fail_nomem(err, "rows");
}
