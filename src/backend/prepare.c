/* pith_linear: what some packed matrices need done before their products, and added after, in slabs
 * of rows of which the backend's own memory holds what is needed: x in the order of the panels, or
 * its sums over the groups, for offsets. A matrix has one of both at most. */
#include "backend/parts.h"
#include "base/mem.h"

enum pith_status pith_backend_take_prepared(struct pith_backend *b, struct pith_error *err)
{
    if (!b->prepared) b->prepared = pith_alloc_huge(PITH_PREPARED_FLOATS, sizeof *b->prepared);
    return b->prepared ? PITH_OK : pith_fail_nomem(err, "what pith_linear makes of activations");
}

struct preparing {
    const struct pith_pack *pack;
    const float *x;
    size_t rows; /* of x */
    size_t tasks;
    float *out;
};

static void order_task(void *ctx, size_t task, unsigned thread)
{
    (void)thread;
    const struct preparing *a = ctx;
    const size_t cols = a->pack->cols, end = (task + 1) * a->rows / a->tasks;
    for (size_t i = task * a->rows / a->tasks; i < end; i++)
        pith_order_row(a->pack->order, cols, a->x + i * cols, a->out + i * cols);
}

/* Few rows are sooner done than handed out. */
static void run_prepare(struct pith_backend *b, struct preparing *a, pith_task_fn *task)
{
    b->prepared_fills++;
    a->tasks = a->rows <= PITH_VECTORS ? 1 : pith_min(a->rows, (size_t)4 * b->threads);
    if (a->tasks == 1) task(a, 0, 0);
    else pith_pool_run(b->pool, a->tasks, task, a);
}

static void sum_task(void *ctx, size_t task, unsigned thread)
{
    (void)thread;
    const struct preparing *a = ctx;
    const size_t cols = a->pack->cols, groups = a->pack->offsets->cols;
    const size_t end = (task + 1) * a->rows / a->tasks;
    for (size_t i = task * a->rows / a->tasks; i < end; i++)
        pith_offsets_sums(a->x + i * cols, cols, a->pack->m.group, a->out + i * groups);
}

/* What the offsets add to n rows of y after floats, as pith_offsets_add() defines it. */
static void add_offsets(struct pith_backend *b, const struct pith_pack *pack, const float *bias,
                        size_t n, float *y)
{
    const struct pith_weight *o = pack->offsets;
    struct pith_source source;
    pith_source_init(&source, o);
    const struct pith_mul mul = {.m = n,
                                 .n = o->rows,
                                 .k = o->cols,
                                 .a = b->prepared,
                                 .a_rs = o->cols,
                                 .a_cs = 1,
                                 .source = &source,
                                 .c = y,
                                 .ldc = o->rows,
                                 .accumulate = true,
                                 .bias = bias};
    pith_mul_run(b, &mul);
}

/* The sums of x, unless they are there since another product of the site. */
static void prepare_sums(struct pith_backend *b, struct preparing *a)
{
    struct pith_site_made *made = b->made && b->made->x == a->x ? b->made : NULL;
    const size_t group = a->pack->m.group;
    if (made && made->sums > 0 && made->sums == b->prepared_fills && made->sums_rows == a->rows &&
        made->group == group)
        return;
    run_prepare(b, a, sum_task);
    if (!made) return;
    made->sums = b->prepared_fills;
    made->sums_rows = a->rows;
    made->group = group;
}

/* Slabs are of about equal size. */
static void linear_prepared(struct pith_backend *b, const struct pith_weight *w, const float *bias,
                            const float *x, size_t n, float *y)
{
    const struct pith_weight *o = w->pack->offsets;
    const size_t width = o ? o->cols : w->cols, most = PITH_PREPARED_FLOATS / width;
    const size_t slabs = (n + most - 1) / most;
    for (size_t i = 0; i < slabs; i++) {
        const size_t first = i * n / slabs, count = (i + 1) * n / slabs - first;
        const bool later = o && (count > PITH_VECTORS || pith_bf16_fits(b, w->cols));
        const float *from = x + first * w->cols;
        float *to = y + first * w->rows;
        struct preparing a = {.pack = w->pack, .x = from, .rows = count, .out = b->prepared};
        if (o) prepare_sums(b, &a);
        else run_prepare(b, &a, order_task);
        if (o && count > PITH_VECTORS && pith_bytes_fits(b, w->pack)) {
            pith_bytes_linear(
                b, &(struct pith_bytes_call){w->pack, NULL, bias, from, count, to, b->prepared});
            continue;
        }
        pith_linear_as_packed(b, w, later ? NULL : bias, o ? from : b->prepared, count, to);
        if (later) add_offsets(b, w->pack, bias, count, to);
    }
}

void pith_linear(struct pith_backend *b, const struct pith_weight *w, const float *bias,
                 const float *x, size_t n, float *y)
{
    if (w->quant && pith_trellis_fits(w->quant)) {
        b->prepared_fills++; /* which has the same memory */
        pith_trellis_linear(b, w, bias, x, n, y);
    } else if (w->pack && pith_pack_prepares(w->pack)) linear_prepared(b, w, bias, x, n, y);
    else pith_linear_as_packed(b, w, bias, x, n, y);
}
