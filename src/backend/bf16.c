/* Products of operands rounded to bfloat16. What many threads read is rounded once, into memory of
 * the backend, as the panels that bf16_tile reads:
 *
 *     a: [rows / tile rows][steps of k][tile rows][16] words of two elements
 *     b: [columns / tile columns][steps of k][16][tile columns]
 *
 * In pith_syrk both operands are x. In pith_linear W is the left operand, since its rows lie in
 * memory as those of a do and need no transposing: each task rounds a block of them, a step of k
 * at a time, for all rows of x. Its sums, too, come with W's rows across: they stay in a block of
 * the thread's, which the second cache holds, until they are transposed into y. */
#include "backend/parts.h"
#include "base/mem.h"

#include <string.h>

enum {
    WORDS = PITH_TILE_WORDS,
    TOTAL = 16 << 20, /* words: 64 MiB */
    ROWS = 512,
    COLS = 544, /* of a block of sums: rows of W and of x */
    SUMS = (ROWS + PITH_TILE_ROWS_MAX) * COLS,
    TOGETHER = 112 /* columns transposed at once: one panel would use little of a vector */
};
_Static_assert(COLS % PITH_TILE_COLS_MAX == 0, "blocks of whole tiles are no wider");
_Static_assert(TOGETHER *PITH_KC / 2 <= PITH_SLAB * PITH_KC, "their words fit where packed A is");
_Static_assert(TOGETHER *PITH_KC * 3 / 2 <= PITH_SCORES, "or with what they are made of in scores");

struct pith_bf16_operands {
    uint32_t *words; /* [TOTAL] */
    float *sums;     /* [threads][SUMS] */
};

enum pith_status pith_bf16_open(unsigned threads, struct pith_bf16_operands **out,
                                struct pith_error *err)
{
    struct pith_bf16_operands *h = pith_zalloc(1, sizeof *h);
    *out = NULL;
    if (!h) return pith_fail_nomem(err, "operands in bfloat16");
    h->words = pith_alloc_huge(TOTAL + (size_t)threads * SUMS, sizeof *h->words);
    if (!h->words) {
        pith_free(h);
        return pith_fail_nomem(err, "operands in bfloat16");
    }
    h->sums = (float *)(void *)(h->words + TOTAL);
    *out = h;
    return PITH_OK;
}

void pith_bf16_close(struct pith_bf16_operands *h)
{
    if (h) pith_free(h->words);
    pith_free(h);
}

static size_t steps_of(size_t k)
{
    return (k + PITH_BF16_STEP - 1) / PITH_BF16_STEP;
}

size_t pith_bf16_size(size_t kc, size_t width)
{
    return steps_of(kc) * WORDS * width;
}

size_t pith_backend_bf16_bytes(unsigned threads)
{
    return (TOTAL + (size_t)threads * SUMS) * sizeof(uint32_t);
}

/* Words are moved as floats, which changes no bit. */
static void transpose(const struct pith_kern *k, size_t rows, size_t cols, const uint32_t *src,
                      size_t ld_src, uint32_t *dst, size_t ld_dst)
{
    k->transpose(rows, cols, (const float *)(const void *)src, ld_src, (float *)(void *)dst,
                 ld_dst);
}

static size_t whole(size_t n, size_t panel)
{
    return (n + panel - 1) / panel;
}

/* An operand being rounded: `count` vectors of k elements, element p of vector i in
 * x[i * ld + p], or in x[p * ld + i] when they are columns, in panels of `width`. */
struct rounding {
    const struct pith_backend *b;
    const float *x;
    size_t ld, k, count, width;
    uint32_t *words;
};

static uint32_t *panel_at(const struct rounding *r, size_t panel)
{
    return r->words + panel * pith_bf16_size(r->k, r->width);
}

/* Where a panel is not full it has zeros. */
static size_t begin_panel(const struct rounding *r, size_t panel)
{
    const size_t count = pith_min(r->width, r->count - panel * r->width);
    if (count < r->width)
        memset(panel_at(r, panel), 0, pith_bf16_size(r->k, r->width) * sizeof *r->words);
    return count;
}

/* Panels of b, from rows: their words, transposed. */
static void rows_task(void *ctx, size_t panel, unsigned thread)
{
    const struct rounding *r = ctx;
    const struct pith_kern *k = &r->b->kern;
    const size_t count = begin_panel(r, panel);
    uint32_t *words = (uint32_t *)(void *)r->b->scratch[thread].a, *to = panel_at(r, panel);
    for (size_t p = 0; p < r->k; p += PITH_KC, to += pith_bf16_size(PITH_KC, r->width)) {
        const size_t kc = pith_min(PITH_KC, r->k - p);
        k->bf16_round(count, kc, r->x + panel * r->width * r->ld + p, r->ld, count, words);
        for (size_t s = 0; s < steps_of(kc); s++)
            transpose(k, count, WORDS, words + s * WORDS * count, WORDS, to + s * WORDS * r->width,
                      r->width);
    }
}

/* Panels of b, from columns. */
static void across_task(void *ctx, size_t panel, unsigned thread)
{
    const struct rounding *r = ctx;
    (void)thread;
    const size_t count = begin_panel(r, panel);
    const float *x = r->x + panel * r->width;
    r->b->kern.bf16_pairs(r->k, count, x, r->ld, r->width, panel_at(r, panel));
}

/* Vectors of b's words [steps][16][count], to panels of a, each `stride` words after the other. */
static void transpose_panels(const struct pith_kern *k, const uint32_t *words, size_t steps,
                             size_t count, uint32_t *to, size_t stride)
{
    const size_t height = k->bf16_rows;
    for (size_t i = 0; i < count; i += height, to += stride)
        for (size_t s = 0; s < steps; s++)
            transpose(k, WORDS, pith_min(height, count - i), words + s * WORDS * count + i, count,
                      to + s * WORDS * height, WORDS);
}

/* Panels of a, from columns, as many as there are in TOGETHER. */
static void transposed_task(void *ctx, size_t task, unsigned thread)
{
    const struct rounding *r = ctx;
    const struct pith_kern *k = &r->b->kern;
    uint32_t *words = (uint32_t *)(void *)r->b->scratch[thread].a;
    const size_t panels = TOGETHER / r->width, first = task * panels, at = first * r->width;
    const size_t n = pith_min(panels * r->width, r->count - at);
    for (size_t i = 0; i < n; i += r->width) (void)begin_panel(r, first + i / r->width);
    for (size_t p = 0; p < r->k; p += PITH_KC) {
        const size_t kc = pith_min(PITH_KC, r->k - p);
        k->bf16_pairs(kc, n, r->x + p * r->ld + at, r->ld, n, words);
        transpose_panels(k, words, steps_of(kc), n, panel_at(r, first) + p / 2 * r->width,
                         pith_bf16_size(r->k, r->width));
    }
}

/* --- the left operand from weights ------------------------------------------------------------ */

/* Rows of a packed W lie across. */
static void unpacked(const struct pith_step *t, size_t i, size_t count, uint32_t *dst)
{
    const size_t most = TOGETHER / t->rows * t->rows, size = pith_bf16_size(t->kc, t->rows);
    float *wide = t->s->scores;
    uint32_t *words = (uint32_t *)(void *)(wide + TOGETHER * PITH_KC);
    for (size_t r = 0; r < count; r += most, dst += most / t->rows * size) {
        const size_t n = pith_min(most, count - r);
        pith_step_unpack(t, i + r, n, most, wide);
        t->k->bf16_pairs(t->kc, n, wide, most, n, words);
        transpose_panels(t->k, words, steps_of(t->kc), n, dst, size);
    }
}

static void decoded(const struct pith_step *t, size_t i, size_t count, uint32_t *dst)
{
    const struct pith_region at = {i, count, t->p, t->kc};
    pith_source_region(t->mul->source, t->k, &at, t->s->rows);
    t->k->bf16_round(count, t->kc, t->s->rows, t->kc, t->rows, dst);
}

void pith_bf16_source(const struct pith_step *t, size_t i, size_t count, uint32_t *dst)
{
    const struct pith_weight *w = t->mul->source->w;
    const size_t size = pith_bf16_size(t->kc, t->rows);
    const bool bf16 = !w->quant && !w->pack && w->dtype == PITH_BF16;
    if (count % t->rows != 0) memset(dst + count / t->rows * size, 0, size * sizeof *dst);
    if (w->pack) {
        unpacked(t, i, count, dst);
        return;
    }
    for (size_t r = 0; r < count; r += t->rows, dst += size) {
        const size_t n = pith_min(t->rows, count - r);
        const char *dense = bf16 ? (const char *)w->dense + 2 * ((i + r) * w->cols + t->p) : NULL;
        if (bf16) t->k->bf16_words(n, t->kc, dense, w->cols, t->rows, dst);
        else decoded(t, i + r, n, dst);
    }
}

/* --- whole products --------------------------------------------------------------------------- */

bool pith_bf16_fits(const struct pith_backend *b, size_t k)
{
    return b->mode == PITH_MODE_BF16 && pith_bf16_size(k, b->kern.bf16_cols) <= TOTAL;
}

struct linear {
    struct pith_backend *b;
    const struct pith_mul *mul; /* C is y transposed */
    struct pith_cut cut;
    float *y;
};

static void linear_task(void *ctx, size_t task, unsigned thread)
{
    const struct linear *l = ctx;
    const struct pith_kern *k = &l->b->kern;
    const struct pith_tile_block at = pith_cut_block(&l->cut, l->mul, task);
    struct pith_mul mul = *l->mul;
    float *y = l->y + at.j * mul.m + at.i;
    mul.c = l->b->bf16->sums + (size_t)thread * SUMS;
    mul.bias = NULL;
    mul.i0 = at.i;
    mul.j0 = at.j;
    pith_mul_block(k, &l->b->scratch[thread], &mul, &at);
    k->transpose(at.m, at.n, mul.c, mul.ldc, y, mul.m);
    for (size_t j = 0; l->mul->bias && j < at.n; j++)
        for (size_t i = 0; i < at.m; i++) y[j * mul.m + i] += l->mul->bias[at.i + i];
}

/* As many rows of x at a time as there is memory for. */
void pith_bf16_linear(struct pith_backend *b, const struct pith_source *source, const float *bias,
                      const float *x, size_t n, float *y)
{
    const size_t width = b->kern.bf16_cols, k = source->w->cols, rows = source->w->rows;
    const size_t most = TOTAL / pith_bf16_size(k, width) * width;
    for (size_t i = 0; i < n; i += most) {
        const struct pith_mul mul = {.m = rows,
                                     .n = pith_min(most, n - i),
                                     .k = k,
                                     .b_words = b->bf16->words,
                                     .source = source,
                                     .ldc = COLS,
                                     .bias = bias};
        struct rounding r = {b, x + i * k, k, k, mul.n, width, b->bf16->words};
        pith_pool_run(b->pool, whole(mul.n, width), rows_task, &r);
        struct linear l = {b, &mul, pith_mul_cut(b, &mul, ROWS, COLS), y + i * rows};
        pith_pool_run(b->pool, l.cut.count, linear_task, &l);
    }
}

/* Both operands are x: as many of its rows at a time as there is memory for, in whole steps of k
 * until the last. */
bool pith_bf16_syrk(struct pith_backend *b, const struct pith_mul *whole_mul)
{
    const size_t d = whole_mul->m, height = b->kern.bf16_rows, width = b->kern.bf16_cols;
    const size_t a_panels = whole(d, height), b_panels = whole(d, width);
    const size_t step = pith_bf16_size(PITH_KC, a_panels * height + b_panels * width);
    if (step > TOTAL) return false;
    const size_t most = TOTAL / step * PITH_KC;
    for (size_t p = 0; p < whole_mul->k; p += most) {
        struct pith_mul mul = *whole_mul;
        mul.k = pith_min(most, whole_mul->k - p);
        mul.mirror = p + mul.k == whole_mul->k;
        uint32_t *words = b->bf16->words,
                 *second = words + pith_bf16_size(mul.k, a_panels * height);
        mul.a_words = words;
        mul.b_words = second;
        const float *x = mul.b + p * d;
        struct rounding left = {b, x, d, mul.k, d, height, words};
        struct rounding right = {b, x, d, mul.k, d, width, second};
        pith_pool_run(b->pool, whole(a_panels, TOGETHER / height), transposed_task, &left);
        pith_pool_run(b->pool, b_panels, across_task, &right);
        pith_mul_run(b, &mul);
    }
    return true;
}
