/* pith_linear: what is done to x before a packed matrix is multiplied, in slabs of rows that fit
 * the backend's own memory. */
#include "backend/parts.h"
#include "base/mem.h"

enum pith_status pith_backend_take_around(struct pith_backend *b, struct pith_error *err)
{
    if (!b->around) b->around = pith_alloc_huge(PITH_AROUND_FLOATS, sizeof *b->around);
    return b->around ? PITH_OK : pith_fail_nomem(err, "activations in another order");
}

struct around {
    const struct pith_pack *pack;
    const float *x;
    size_t rows; /* of x */
    size_t tasks;
    float *out;
};

static void order_task(void *ctx, size_t task, unsigned thread)
{
    (void)thread;
    const struct around *a = ctx;
    const size_t cols = a->pack->cols, end = (task + 1) * a->rows / a->tasks;
    for (size_t i = task * a->rows / a->tasks; i < end; i++)
        pith_order_row(a->pack->order, cols, a->x + i * cols, a->out + i * cols);
}

/* Few rows are sooner done than handed out. */
static void run_around(struct pith_backend *b, struct around *a, pith_task_fn *task)
{
    a->tasks = a->rows < PITH_LINEAR_FEW ? 1 : pith_min(a->rows, (size_t)4 * b->threads);
    if (a->tasks == 1) task(a, 0, 0);
    else pith_pool_run(b->pool, a->tasks, task, a);
}

/* Slabs are of about equal size: none has less than PITH_LINEAR_FEW rows, unless x has. */
static void linear_ordered(struct pith_backend *b, const struct pith_weight *w, const float *bias,
                           const float *x, size_t n, float *y)
{
    const size_t cols = w->cols, most = PITH_AROUND_FLOATS / cols, slabs = (n + most - 1) / most;
    for (size_t i = 0; i < slabs; i++) {
        const size_t first = i * n / slabs, count = (i + 1) * n / slabs - first;
        struct around a = {.pack = w->pack, .x = x + first * cols, .rows = count, .out = b->around};
        run_around(b, &a, order_task);
        pith_linear_as_packed(b, w, bias, b->around, count, y + first * w->rows);
    }
}

void pith_linear(struct pith_backend *b, const struct pith_weight *w, const float *bias,
                 const float *x, size_t n, float *y)
{
    if (w->pack && w->pack->order) linear_ordered(b, w, bias, x, n, y);
    else pith_linear_as_packed(b, w, bias, x, n, y);
}
