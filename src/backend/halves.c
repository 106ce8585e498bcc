/* Operands of a product rounded to bfloat16, in the words that bf16_tile reads: rows that lie
 * straight on are rounded in place; what should lie across is turned over as words, two elements
 * at a time. */
#include "backend/parts.h"

#include <string.h>

enum { WORDS = PITH_TILE_WORDS };

static size_t steps_of(size_t k)
{
    return (k + PITH_BF16_STEP - 1) / PITH_BF16_STEP;
}

size_t pith_halves_size(size_t kc, size_t width)
{
    return steps_of(kc) * WORDS * width;
}

/* Words are moved as floats, which changes no bit. */
static void turn(const struct pith_step *t, size_t rows, size_t cols, const uint32_t *src,
                 size_t ld_src, uint32_t *dst, size_t ld_dst)
{
    t->k->transpose(rows, cols, (const float *)(const void *)src, ld_src, (float *)(void *)dst,
                    ld_dst);
}

/* Room for the words of a panel, beside the panel itself. */
static uint32_t *spare(const struct pith_step *t)
{
    _Static_assert(2 * PITH_TILE_COLS_MAX <= PITH_NC, "two panels of B fit");
    return (uint32_t *)(void *)(t->s->b + PITH_KC * PITH_TILE_COLS_MAX);
}

/* The same for columns of A: their words, turned over panel by panel. */
static void columns_of_a(const struct pith_step *t, const float *src, size_t count, uint32_t *dst)
{
    const size_t steps = steps_of(t->kc);
    uint32_t *words = spare(t);
    t->k->bf16_pairs(t->kc, count, src, t->mul->a_cs, count, words);
    for (size_t i = 0; i < count; i += t->rows, dst += pith_halves_size(t->kc, t->rows))
        for (size_t s = 0; s < steps; s++)
            turn(t, WORDS, pith_min(t->rows, count - i), words + s * WORDS * count + i, count,
                 dst + s * WORDS * t->rows, WORDS);
}

void pith_halves_a(const struct pith_step *t, size_t i, size_t count, uint32_t *dst)
{
    enum { TOGETHER = 96 /* columns: few panels of a tile would use little of a vector */ };
    _Static_assert(TOGETHER * PITH_KC / 2 + PITH_KC * PITH_TILE_COLS_MAX <= PITH_KC * PITH_NC,
                   "their words fit");
    const struct pith_mul *mul = t->mul;
    const size_t rows = t->rows, size = pith_halves_size(t->kc, rows);
    const float *src = mul->a + i * mul->a_rs + t->p * mul->a_cs;
    if (count % rows != 0) memset(dst + count / rows * size, 0, size * sizeof *dst);
    const size_t step = mul->a_cs == 1 ? rows : TOGETHER / rows * rows;
    for (size_t r = 0; r < count; r += step, src += step * mul->a_rs, dst += step / rows * size) {
        const size_t n = pith_min(step, count - r);
        if (mul->a_cs == 1) t->k->bf16_round(n, t->kc, src, mul->a_rs, rows, dst);
        else columns_of_a(t, src, n, dst);
    }
}

/* Rows [j, j + count) of W, as words row by row. */
static void source_words(const struct pith_step *t, size_t j, size_t count, uint32_t *words)
{
    const struct pith_source *source = t->mul->source;
    const struct pith_weight *w = source->w;
    if (!w->quant && w->dtype == PITH_BF16) {
        const char *dense = (const char *)w->dense + 2 * (j * w->cols + t->p);
        t->k->bf16_words(count, t->kc, dense, w->cols, count, words);
        return;
    }
    for (size_t r = 0; r < count; r++)
        pith_source_segment(source, t->k, t->s->codes, j + r, t->p, t->kc, t->s->rows + r * t->kc);
    t->k->bf16_round(count, t->kc, t->s->rows, t->kc, count, words);
}

void pith_halves_b(const struct pith_step *t, size_t j, size_t count, uint32_t *dst)
{
    const struct pith_mul *mul = t->mul;
    const size_t width = t->cols;
    if (count < width) memset(dst, 0, pith_halves_size(t->kc, width) * sizeof *dst);
    if (mul->b) {
        const float *src = mul->b + t->p * mul->b_rs + j;
        t->k->bf16_pairs(t->kc, count, src, mul->b_rs, width, dst);
        return;
    }
    uint32_t *words = spare(t);
    if (mul->source->w->pack) {
        float *wide = (float *)(void *)words;
        pith_step_unpack(t, j, count, wide);
        t->k->bf16_pairs(t->kc, width, wide, width, width, dst);
        return;
    }
    source_words(t, j, count, words);
    for (size_t s = 0; s < steps_of(t->kc); s++)
        turn(t, count, WORDS, words + s * WORDS * count, WORDS, dst + s * WORDS * width, width);
}
