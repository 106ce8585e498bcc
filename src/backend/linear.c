/* pith_linear_as_packed: many rows of x go through the blocked multiplication, a few are multiplied
 * one by one with W as it is read. */
#include "backend/parts.h"
#include "num/input.h"

#include <math.h>
#include <string.h>

enum { WEIGHT_ROWS = PITH_TILE_COLS_MAX /* decoded together: chains enough for matvec_f32 */ };

struct few {
    struct pith_backend *b;
    const struct pith_source *source;
    const float *bias, *x;
    size_t n;
    float *y;
    size_t rows; /* of W a task */
};

/* Rows of W as they are stored, against all rows of x. */
static void dense_rows(const struct few *f, size_t row, size_t count)
{
    const struct pith_weight *w = f->source->w;
    const struct pith_kern *k = &f->b->kern;
    const size_t bytes = w->dtype == PITH_F32 ? 4 : 2;
    pith_matvec_f32_fn *matvec = w->dtype == PITH_F32    ? k->matvec_f32
                                 : w->dtype == PITH_BF16 ? k->matvec_bf16
                                                         : k->matvec_f16;
    const char *dense = (const char *)w->dense + row * w->cols * bytes;
    for (size_t i = 0; i < f->n; i++)
        matvec(count, w->cols, dense, w->cols, f->x + i * w->cols, f->y + i * w->rows + row);
}

/* At most WEIGHT_ROWS rows of W, decoded a step of columns at a time. */
static void quant_rows(const struct few *f, const struct pith_thread_memory *s, size_t row,
                       size_t count)
{
    const struct pith_weight *w = f->source->w;
    const struct pith_kern *k = &f->b->kern;
    for (size_t col = 0; col < w->cols; col += PITH_KC) {
        const size_t n = pith_min(PITH_KC, w->cols - col);
        pith_source_region(f->source, k, &(struct pith_region){row, count, col, n}, s->rows);
        for (size_t i = 0; i < f->n; i++)
            k->matvec_f32(count, n, s->rows, n, f->x + i * w->cols + col, f->y + i * w->rows + row);
    }
}

static void few_task(void *ctx, size_t task, unsigned thread)
{
    const struct few *f = ctx;
    const struct pith_weight *w = f->source->w;
    const size_t first = task * f->rows, count = pith_min(f->rows, w->rows - first);
    for (size_t i = 0; i < f->n; i++) memset(f->y + i * w->rows + first, 0, count * sizeof *f->y);
    if (!w->quant) dense_rows(f, first, count);
    for (size_t r = 0; w->quant && r < count; r += WEIGHT_ROWS)
        quant_rows(f, &f->b->scratch[thread], first + r, pith_min(WEIGHT_ROWS, count - r));
    if (!f->bias) return;
    for (size_t i = 0; i < f->n; i++)
        for (size_t r = first; r < first + count; r++) f->y[i * w->rows + r] += f->bias[r];
}

/* Each start leaves memory idle for a moment, so not below a megabyte, except to give every thread
 * one; more than that lets other threads do the work of one that was preempted. */
size_t pith_reading_tasks(const struct pith_backend *b, size_t bytes)
{
    enum { TASK_BYTES = 1 << 20, TASKS = 8 /* a thread at most */ };
    const size_t tasks = pith_min(bytes / TASK_BYTES, (size_t)TASKS * b->threads);
    return tasks < b->threads ? b->threads : tasks / b->threads * b->threads;
}

static void linear_few(struct pith_backend *b, const struct pith_source *source, const float *bias,
                       const float *x, size_t n, float *y)
{
    const struct pith_weight *w = source->w;
    const size_t parts = pith_reading_tasks(b, (size_t)w->rows * w->cols * 2);
    const size_t rows = ((w->rows + parts - 1) / parts + WEIGHT_ROWS - 1) / WEIGHT_ROWS *
                        WEIGHT_ROWS;
    struct few f = {.b = b, .source = source, .bias = bias, .x = x, .n = n, .y = y, .rows = rows};
    pith_pool_run(b->pool, (w->rows + rows - 1) / rows, few_task, &f);
}

/* --- packed ----------------------------------------------------------------------------------- */

struct packed {
    struct pith_backend *b;
    const struct pith_pack *pack;
    const struct pith_input *input; /* as bytes on its grid; NULL: the modes' own */
    const float *bias, *x;
    size_t n;
    float *y;
    struct pith_byte_rows rows; /* of x as bytes or digits */
    const float *sums;          /* [n][groups] of x, for offsets */
    size_t panels;              /* a task */
    size_t block;               /* of x as bytes or digits */
    bool bytes, fast;           /* x as bytes or digits; as bytes */
    bool ones;                  /* row PITH_VECTORS of x is of ones, for zero points */
    float shift[PITH_VECTORS];  /* scale times zero point of a row */
};

/* Where row i of x is as bytes or digits. */
static struct pith_byte_rows row_at(const struct pith_byte_rows *rows, size_t i)
{
    return (struct pith_byte_rows){.q = rows->q + i * PITH_DIGITS * PITH_BYTES_COLS,
                                   .scale = rows->scale + i * PITH_BYTES_SCALES,
                                   .sum = rows->sum + i * PITH_DIGITS * PITH_BYTES_SCALES};
}

/* Rows of x on the grid of an input, and a row of ones when they have zero points. */
static void make_input_rows(struct packed *p)
{
    const size_t cols = p->pack->cols;
    struct pith_input_call call = {0};
    pith_input_survey(p->input, p->x, p->n, cols, &call, NULL);
    for (size_t i = 0; i < p->n; i++) {
        const struct pith_byte_rows to = row_at(&p->rows, i);
        float zero;
        const struct pith_input_codes codes = {p->block, to.q, to.scale, to.sum, &zero};
        pith_input_encode(p->input, &call, p->x + i * cols, cols, &codes);
        p->shift[i] = zero * to.scale[0];
    }
    if (!p->ones) return;
    const struct pith_byte_rows to = row_at(&p->rows, PITH_VECTORS);
    memset(to.q, 1, cols);
    for (size_t c = 0, i = 0; c < cols; c += p->block, i++) {
        to.scale[i] = 1.0f;
        to.sum[i] = (int32_t)pith_min(p->block, cols - c);
    }
}

static void make_byte_rows(const struct packed *p)
{
    const struct pith_kern *k = &p->b->kern;
    const size_t cols = p->pack->cols, block = p->block;
    for (size_t i = 0; i < p->n; i++) {
        const struct pith_byte_rows to = row_at(&p->rows, i);
        const float *x = p->x + i * cols;
        if (p->fast) k->to_bytes(cols, block, x, to.q, to.scale, to.sum);
        else
            k->to_digits(cols, block, x, to.q, PITH_BYTES_COLS, to.scale, to.sum,
                         PITH_BYTES_SCALES);
    }
}

/* y[16 * count] = panels [first, first + count) times row i of x. */
static void panels_dot(const struct packed *p, size_t i, size_t first, size_t count, float *y)
{
    const struct pith_kern *k = &p->b->kern;
    if (!p->bytes) {
        memset(y, 0, count * PITH_PANEL_ROWS * sizeof *y);
        k->panel_dot(&p->pack->m, first, count, p->x + i * p->pack->cols, y);
        return;
    }
    const struct pith_byte_rows row = row_at(&p->rows, i);
    const struct pith_bytes x = {.block = p->block,
                                 .q = row.q,
                                 .scale = row.scale,
                                 .sum = row.sum,
                                 .q_digit = PITH_BYTES_COLS,
                                 .sum_digit = PITH_BYTES_SCALES};
    if (p->fast) k->panel_dot_bytes(&p->pack->m, first, count, &x, y);
    else k->panel_dot_digits(&p->pack->m, first, count, &x, y);
}

/* Takes the zero points of x's rows off the sums of W's rows [first, first + count). */
static void take_shifts(const struct packed *p, size_t first, size_t count)
{
    float ones[PITH_PANEL_ROWS];
    for (size_t r = 0; r < count; r += PITH_PANEL_ROWS) {
        panels_dot(p, PITH_VECTORS, (first + r) / PITH_PANEL_ROWS, 1, ones);
        for (size_t i = 0; i < p->n; i++) {
            float *y = p->y + i * p->pack->rows + first + r;
            for (size_t e = 0; e < pith_min(PITH_PANEL_ROWS, count - r); e++)
                y[e] = fmaf(-p->shift[i], ones[e], y[e]);
        }
    }
}

static void packed_task(void *ctx, size_t task, unsigned thread)
{
    (void)thread;
    const struct packed *p = ctx;
    const size_t first = task * p->panels, row = first * PITH_PANEL_ROWS;
    const size_t rows = pith_min(p->panels * PITH_PANEL_ROWS, p->pack->rows - row);
    const size_t whole = rows / PITH_PANEL_ROWS, rest = rows % PITH_PANEL_ROWS;
    for (size_t i = 0; i < p->n; i++) {
        float last[PITH_PANEL_ROWS], *y = p->y + i * p->pack->rows + row;
        panels_dot(p, i, first, whole, y);
        if (rest > 0) {
            panels_dot(p, i, first + whole, 1, last);
            memcpy(y + rows - rest, last, rest * sizeof *y);
        }
    }
    if (p->ones) take_shifts(p, row, rows);
    const struct pith_weight *o = p->pack->offsets;
    for (size_t i = 0; o && i < p->n; i++)
        pith_offsets_add(p->b, p->pack, row, rows, p->sums + i * o->cols,
                         p->y + i * p->pack->rows + row);
    for (size_t i = 0; p->bias && i < p->n; i++)
        for (size_t r = 0; r < rows; r++) p->y[i * p->pack->rows + row + r] += p->bias[row + r];
}

/* Cuts p into about so many tasks; returns how many. */
static size_t cut(struct packed *p, size_t parts)
{
    enum { TOGETHER = 4 /* panels that float kernels take */ };
    p->panels = ((p->pack->panels + parts - 1) / parts + TOGETHER - 1) / TOGETHER * TOGETHER;
    return (p->pack->panels + p->panels - 1) / p->panels;
}

static void run_packed(struct packed *p)
{
    pith_pool_run(p->b->pool, cut(p, pith_reading_tasks(p->b, p->pack->bytes)), packed_task, p);
}

/* In the backend's mode: how x is read. */
static void set_reading(struct packed *p)
{
    p->bytes = pith_bytes_fits(p->b, p->pack);
    p->fast = p->bytes && p->b->mode == PITH_MODE_FAST;
    p->block = p->fast ? p->pack->block : p->pack->digits;
    p->rows = p->b->bytes;
}

static void linear_packed(struct pith_backend *b, const struct pith_pack *pack, const float *bias,
                          const float *x, size_t n, float *y)
{
    struct packed p = {
        .b = b, .pack = pack, .bias = bias, .x = x, .n = n, .y = y, .sums = b->prepared};
    set_reading(&p);
    if (p.bytes) make_byte_rows(&p);
    run_packed(&p);
}

void pith_bytes_linear_few(struct pith_backend *b, const struct pith_bytes_call *c)
{
    struct packed p = {.b = b,
                       .pack = c->pack,
                       .input = c->input,
                       .bias = c->bias,
                       .x = c->x,
                       .n = c->n,
                       .y = c->y,
                       .rows = b->bytes,
                       .block = c->pack->input_block,
                       .bytes = true,
                       .fast = true,
                       .ones = c->input->grid.asym};
    make_input_rows(&p);
    run_packed(&p);
}

/* --- products side by side -------------------------------------------------------------------- */

struct together {
    struct packed p[PITH_PRODUCTS];
    size_t count, end[PITH_PRODUCTS]; /* the tasks of p[i] end there */
    size_t cols, scales;              /* of the backend's bytes that are taken */
    size_t sums;                      /* of its prepared floats */
};

static void together_task(void *ctx, size_t task, unsigned thread)
{
    struct together *t = ctx;
    size_t i = 0;
    while (task >= t->end[i]) i++;
    packed_task(&t->p[i], task - (i > 0 ? t->end[i - 1] : 0), thread);
}

static void run_together(struct pith_backend *b, struct together *t)
{
    size_t bytes = 0, tasks = 0;
    for (size_t i = 0; i < t->count; i++) bytes += t->p[i].pack->bytes;
    const size_t parts = pith_reading_tasks(b, bytes);
    for (size_t i = 0; i < t->count; i++) {
        const size_t own = (parts * t->p[i].pack->bytes + bytes - 1) / bytes;
        t->end[i] = tasks += cut(&t->p[i], own);
    }
    pith_pool_run(b->pool, tasks, together_task, t);
    t->count = t->cols = t->scales = t->sums = 0;
}

/* Makes x of the product as bytes, unless another's can serve; false where there is no place. */
static bool place_bytes(struct together *t, struct packed *p)
{
    enum { LINE = 64 };
    const size_t cols = (p->pack->cols + LINE - 1) / LINE * LINE;
    const size_t scales = (p->pack->cols + p->block - 1) / p->block;
    for (size_t i = 0; i < t->count; i++) {
        const struct packed *o = &t->p[i];
        if (!o->bytes || o->x != p->x || o->block != p->block || o->pack->cols != p->pack->cols)
            continue;
        p->rows = o->rows;
        return true;
    }
    if (t->cols + cols > PITH_BYTES_COLS || t->scales + scales > PITH_BYTES_SCALES) return false;
    p->rows.q += t->cols;
    p->rows.scale += t->scales;
    p->rows.sum += t->scales;
    t->cols += cols;
    t->scales += scales;
    make_byte_rows(p);
    return true;
}

/* Makes the sums of x that the product's offsets need, unless another's can serve; false likewise.
 */
static bool place_sums(struct together *t, struct packed *p)
{
    const size_t groups = p->pack->offsets->cols, group = p->pack->m.group;
    for (size_t i = 0; i < t->count; i++) {
        const struct packed *o = &t->p[i];
        if (!o->sums || o->x != p->x || o->pack->m.group != group || o->pack->cols != p->pack->cols)
            continue;
        p->sums = o->sums;
        return true;
    }
    if (t->sums + groups > PITH_PREPARED_FLOATS) return false;
    float *to = p->b->prepared + t->sums;
    p->b->prepared_fills++;
    pith_offsets_sums(p->x, p->pack->cols, group, to);
    p->sums = to;
    t->sums += groups;
    return true;
}

static bool place(struct together *t, struct packed *p)
{
    if (t->count == PITH_PRODUCTS) return false;
    if (p->pack->offsets && !place_sums(t, p)) return false;
    return !p->bytes || place_bytes(t, p);
}

/* Whether products of a row with it go into a run with others. */
static bool goes_together(const struct pith_backend *b, const struct pith_pack *pack)
{
    return pack && !pack->order && (pith_bytes_fits(b, pack) || !pith_bf16_fits(b, pack->cols));
}

void pith_linear_products(struct pith_backend *b, const struct pith_product *products, size_t count)
{
    struct together t = {0};
    for (size_t i = 0; i < count; i++) {
        const struct pith_product *a = &products[i];
        const struct pith_pack *pack = a->w->pack;
        if (!goes_together(b, pack)) {
            if (t.count > 0) run_together(b, &t); /* which has its bytes in the same memory */
            pith_linear(b, a->w, a->bias, a->x, 1, a->y);
            continue;
        }
        struct packed p = {.b = b, .pack = pack, .bias = a->bias, .x = a->x, .n = 1, .y = a->y};
        set_reading(&p);
        if (!place(&t, &p)) {
            run_together(b, &t);
            (void)place(&t, &p);
        }
        t.p[t.count++] = p;
    }
    if (t.count > 0) run_together(b, &t);
}

void pith_linear_as_packed(struct pith_backend *b, const struct pith_weight *w, const float *bias,
                           const float *x, size_t n, float *y)
{
    struct pith_source source;
    const bool bytes = w->pack && pith_bytes_fits(b, w->pack);
    if (!bytes && pith_bf16_fits(b, w->cols)) {
        pith_source_init(&source, w);
        pith_bf16_linear(b, &source, bias, x, n, y);
        return;
    }
    if (w->pack && n <= PITH_VECTORS) {
        linear_packed(b, w->pack, bias, x, n, y);
        return;
    }
    if (bytes) {
        pith_bytes_linear(b, &(struct pith_bytes_call){w->pack, NULL, bias, x, n, y, NULL});
        return;
    }
    pith_source_init(&source, w);
    if (n <= PITH_VECTORS) {
        linear_few(b, &source, bias, x, n, y);
        return;
    }
    const struct pith_mul mul = {.m = n,
                                 .n = w->rows,
                                 .k = w->cols,
                                 .a = x,
                                 .a_rs = w->cols,
                                 .a_cs = 1,
                                 .source = &source,
                                 .c = y,
                                 .ldc = w->rows,
                                 .bias = bias};
    pith_mul_run(b, &mul);
}
