/* The tile of the exact product: three digits of 2 vectors by 32 rows, whose sums are converted to
 * float32 block by block. */
#include "kern/vnni/words_vnni.h"

enum { ROWS = 2 };
_Static_assert((int)ROWS *(int)PITH_DIGITS == (int)WORDS, "the words of a step");

/* Two panels for two vectors. */
struct parts {
    __m512 a0, b0, a1, b1;
};

INLINE struct parts parts_load(bool zero, const float *from)
{
    const __m512 none = _mm512_setzero_ps();
    if (zero) return (struct parts){none, none, none, none};
    return (struct parts){_mm512_loadu_ps(from), _mm512_loadu_ps(from + 16),
                          _mm512_loadu_ps(from + COLS), _mm512_loadu_ps(from + COLS + 16)};
}

INLINE void parts_store(const struct parts *t, float *to)
{
    _mm512_storeu_ps(to, t->a0);
    _mm512_storeu_ps(to + 16, t->b0);
    _mm512_storeu_ps(to + COLS, t->a1);
    _mm512_storeu_ps(to + COLS + 16, t->b1);
}

INLINE void block_close(struct parts *t, const struct whole *d, const float *scale)
{
    const __m512 e = _mm512_set1_ps(scale[0]), f = _mm512_set1_ps(scale[1]);
    t->a0 = _mm512_fmadd_ps(digits_together(d->a0, d->a1, d->a2), e, t->a0);
    t->b0 = _mm512_fmadd_ps(digits_together(d->b0, d->b1, d->b2), e, t->b0);
    t->a1 = _mm512_fmadd_ps(digits_together(d->a3, d->a4, d->a5), f, t->a1);
    t->b1 = _mm512_fmadd_ps(digits_together(d->b3, d->b4, d->b5), f, t->b1);
}

INLINE void group_close(struct parts *y, const struct parts *t, const float *scale, size_t panel)
{
    const __m512 a = _mm512_loadu_ps(scale), b = _mm512_loadu_ps(scale + panel);
    y->a0 = _mm512_fmadd_ps(a, t->a0, y->a0);
    y->b0 = _mm512_fmadd_ps(b, t->b0, y->b0);
    y->a1 = _mm512_fmadd_ps(a, t->a1, y->a1);
    y->b1 = _mm512_fmadd_ps(b, t->b1, y->b1);
}

INLINE void tile(const struct pith_byte_tile *a, enum width kind, bool zeros, size_t count)
{
    const size_t end = a->col + a->n, first = a->col / a->group;
    const __m512i table = table_of(a, kind);
    size_t c = a->col, group = first, block = c / a->block;
    size_t group_end = least((group + 1) * a->group, a->cols);
    struct lines w = lines_open(a, kind);
    struct whole d;
    struct parts t = parts_load(c % a->group == 0, a->t), y = parts_load(c == 0, a->y);
    for (; c < end; block++) {
        const size_t at = (group - first) * PITH_PANEL_ROWS;
        const size_t stop = least((block + 1) * a->block, group_end);
        block_open(&d, a->x_less + block * WORDS, zeros ? a->zero + at : NULL, a->scale_panel);
        multiply(&d, kind, count, stop - c, &w, a->x + c / 4 * WORDS, table);
        block_close(&t, &d, a->x_scale + block * ROWS);
        c = stop;
        if (c < group_end) continue;
        group_close(&y, &t, a->scale + at, a->scale_panel);
        t = parts_load(true, NULL);
        group++;
        group_end = least(group_end + a->group, a->cols);
    }
    parts_store(&y, a->y);
    parts_store(&t, a->t);
}

void pith_digits_tile_vnni(const struct pith_byte_tile *a)
{
    if (a->count == 1) TILE_OF(tile, a, PITH_DIGITS)
    else TILE_OF(tile, a, WORDS)
}

/* Words are moved as floats, which changes no bit. */
void pith_digits_words_vnni(size_t words, size_t first, size_t count, const int8_t *q, uint32_t *x)
{
    pith_transpose_avx512(PITH_DIGITS * count, words, (const float *)(const void *)q, words,
                          (float *)(void *)(x + PITH_DIGITS * first), WORDS);
}
