#include "backend/input.h"

#include "backend/parts.h"
#include "num/hadamard.h"
#include "num/input.h"

#include <string.h>

struct treat {
    const struct pith_input *in;
    struct pith_input_call call;
    const float *x;
    size_t n, cols, rows; /* rows a task */
    float *y;
};

static size_t first_row(const struct treat *t, size_t task, size_t *count)
{
    const size_t first = task * t->rows;
    *count = pith_min(t->rows, t->n - first);
    return first;
}

static void hadamard_task(void *ctx, size_t task, unsigned thread)
{
    (void)thread;
    const struct treat *t = ctx;
    size_t count;
    const size_t at = first_row(t, task, &count) * t->cols;
    if (t->y != t->x) memcpy(t->y + at, t->x + at, count * t->cols * sizeof *t->y);
    pith_hadamard_rows(t->y + at, count, t->cols, t->in->hadamard);
}

static void round_task(void *ctx, size_t task, unsigned thread)
{
    (void)thread;
    const struct treat *t = ctx;
    size_t count;
    const size_t first = first_row(t, task, &count);
    for (size_t i = first; i < first + count; i++)
        pith_input_row(t->in, &t->call, t->x + i * t->cols, t->cols, t->y + i * t->cols);
}

void pith_input_apply(struct pith_backend *b, const struct pith_input *in, const float *x, size_t n,
                      size_t cols, float *y)
{
    struct treat t = {.in = in, .x = x, .n = n, .cols = cols, .y = y};
    t.rows = pith_rows_a_task(cols);
    const size_t tasks = (n + t.rows - 1) / t.rows;
    if (in->hadamard > 1) {
        pith_pool_run(b->pool, tasks, hadamard_task, &t);
        t.x = y;
    }
    if (!in->grid.format) {
        if (t.x != y) memcpy(y, x, n * cols * sizeof *y);
        return;
    }
    if (pith_input_surveys(in)) {
        /* A byte a column, in the scratch of the calling thread, which rounding does not use. */
        uint8_t *outlier = (uint8_t *)b->scratch[0].scores;
        _Static_assert(PITH_SCORES * sizeof(float) >= PITH_INPUT_COLS, "a byte a column fits");
        if (in->threshold > 0.0f) memset(outlier, 0, cols);
        pith_input_survey(in, t.x, n, cols, &t.call, outlier);
    }
    pith_pool_run(b->pool, tasks, round_task, &t);
}

struct pith_input pith_weight_input(const struct pith_weight *w)
{
    return w->pack ? w->pack->input : w->quant ? w->quant->input : (struct pith_input){0};
}

/* x as `in` makes it: itself, or in the work space. */
static const float *treated(struct pith_backend *b, struct pith_site_input *s,
                            const struct pith_input *in)
{
    if (!in->grid.format && in->hadamard <= 1) return s->x;
    if (s->treated && pith_input_equal(&s->done, in)) return s->work;
    pith_input_apply(b, in, s->x, s->n, s->cols, s->work);
    s->done = *in;
    s->made = (struct pith_site_made){0};
    s->treated = true;
    return s->work;
}

void pith_linear_site(struct pith_backend *b, const struct pith_weight *w, const float *bias,
                      struct pith_site_input *s, float *y)
{
    struct pith_input in = pith_weight_input(w);
    if (s->hadamard_done) in.hadamard = 0;
    if (!w->pack || !in.grid.format || !pith_bytes_takes_input(w->pack)) {
        const float *x = treated(b, s, &in);
        if (s->made.x != x) s->made = (struct pith_site_made){.x = x};
        b->made = &s->made;
        pith_linear(b, w, bias, x, s->n, y);
        b->made = NULL;
        return;
    }
    /* As integers: only the Hadamard matrix is applied beforehand. */
    const struct pith_input hadamard = {.hadamard = in.hadamard};
    const struct pith_bytes_call c = {w->pack, &in, bias, treated(b, s, &hadamard), s->n, y, NULL};
    if (s->n <= PITH_VECTORS) pith_bytes_linear_few(b, &c);
    else pith_bytes_linear(b, &c);
}

void pith_linear_site_products(struct pith_backend *b, struct pith_product *products, size_t count,
                               struct pith_site_input *s)
{
    size_t plain = 0;
    for (size_t i = 0; i < count; i++) {
        struct pith_product p = products[i];
        const struct pith_input in = pith_weight_input(p.w);
        p.x = s->x;
        if (s->n == 1 && !in.grid.format && (s->hadamard_done || in.hadamard <= 1))
            products[plain++] = p;
        else pith_linear_site(b, p.w, p.bias, s, p.y);
    }
    pith_linear_products(b, products, plain);
}
