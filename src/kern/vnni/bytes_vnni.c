/* The tile of the fast product: 6 vectors by 32 rows. Twelve sums of a block and twelve of a group
 * stay in registers; the end of a block costs each sum a conversion and a multiply-add, usually
 * once in 16 steps. Where fewer vectors are wanted, two, four or six are summed. */
#include "kern/vnni/words_vnni.h"

enum { ROWS = WORDS };

struct parts {
#define FIELD(i) __m512 a##i, b##i;
    EACH(FIELD)
#undef FIELD
};

INLINE void parts_zero(struct parts *t)
{
#define ZERO(i) t->a##i = t->b##i = _mm512_setzero_ps();
    EACH(ZERO)
#undef ZERO
}

INLINE void parts_load(struct parts *t, const float *from)
{
#define LOAD(i)                                                                                    \
    t->a##i = _mm512_loadu_ps(from + i * COLS);                                                    \
    t->b##i = _mm512_loadu_ps(from + i * COLS + 16);
    EACH(LOAD)
#undef LOAD
}

INLINE void parts_store(const struct parts *t, float *to)
{
#define STORE(i)                                                                                   \
    _mm512_storeu_ps(to + i * COLS, t->a##i);                                                      \
    _mm512_storeu_ps(to + i * COLS + 16, t->b##i);
    EACH(STORE)
#undef STORE
}

INLINE void whole_load(struct whole *d, const int32_t *from)
{
#define LOAD(i)                                                                                    \
    d->a##i = _mm512_loadu_si512(from + i * COLS);                                                 \
    d->b##i = _mm512_loadu_si512(from + i * COLS + 16);
    EACH(LOAD)
#undef LOAD
}

INLINE void whole_store(const struct whole *d, int32_t *to)
{
#define STORE(i)                                                                                   \
    _mm512_storeu_si512(to + i * COLS, d->a##i);                                                   \
    _mm512_storeu_si512(to + i * COLS + 16, d->b##i);
    EACH(STORE)
#undef STORE
}

INLINE void block_close(struct parts *t, const struct whole *d, const float *scale){
#define CLOSE(i)                                                                                   \
    {                                                                                              \
        const __m512 f = _mm512_set1_ps(scale[i]);                                                 \
        t->a##i = _mm512_fmadd_ps(_mm512_cvtepi32_ps(d->a##i), f, t->a##i);                        \
        t->b##i = _mm512_fmadd_ps(_mm512_cvtepi32_ps(d->b##i), f, t->b##i);                        \
    }
    EACH(CLOSE)
#undef CLOSE
}

INLINE
    void group_close(const struct parts *t, const float *scale, size_t panel, bool fresh, float *y)
{
    const __m512 a = _mm512_loadu_ps(scale), b = _mm512_loadu_ps(scale + panel);
    struct parts s;
    if (fresh) parts_zero(&s);
    else parts_load(&s, y);
#define ADD(i)                                                                                     \
    s.a##i = _mm512_fmadd_ps(a, t->a##i, s.a##i);                                                  \
    s.b##i = _mm512_fmadd_ps(b, t->b##i, s.b##i);
    EACH(ADD)
#undef ADD
    parts_store(&s, y);
}

/* A group that is one block: y = fma(scale, (float)d * x's scale, y), y in registers. */
INLINE void whole_close(struct parts *y, const struct whole *d, const float *x_scale,
                        const float *scale, size_t panel)
{
    const __m512 a = _mm512_loadu_ps(scale), b = _mm512_loadu_ps(scale + panel);
    const __m512 none = _mm512_setzero_ps();
#define CLOSE(i)                                                                                   \
    {                                                                                              \
        const __m512 f = _mm512_set1_ps(x_scale[i]);                                               \
        const __m512 t = _mm512_fmadd_ps(_mm512_cvtepi32_ps(d->a##i), f, none);                    \
        const __m512 u = _mm512_fmadd_ps(_mm512_cvtepi32_ps(d->b##i), f, none);                    \
        y->a##i = _mm512_fmadd_ps(a, t, y->a##i);                                                  \
        y->b##i = _mm512_fmadd_ps(b, u, y->b##i);                                                  \
    }
    EACH(CLOSE)
#undef CLOSE
}

/* Where groups are one block each. */
INLINE void tile_of_blocks(const struct pith_byte_tile *a, enum width kind, bool zeros,
                           size_t count)
{
    const size_t end = a->col + a->n, first = a->col / a->group;
    const __m512i table = table_of(a, kind);
    struct lines w = lines_open(a, kind);
    struct whole d;
    struct parts y;
    size_t c = a->col;
    if (c == 0) parts_zero(&y);
    else parts_load(&y, a->y);
    for (size_t block = first; c < end; block++) {
        const size_t at = (block - first) * PITH_PANEL_ROWS;
        const size_t block_end = least((block + 1) * a->block, a->cols),
                     stop = least(block_end, end);
        if (c == block * a->block)
            block_open(&d, a->x_less + block * ROWS, zeros ? a->zero + at : NULL, a->scale_panel);
        else whole_load(&d, a->d);
        multiply(&d, kind, count, stop - c, &w, a->x + c / 4 * ROWS, table);
        c = stop;
        if (stop < block_end) whole_store(&d, a->d);
        else whole_close(&y, &d, a->x_scale + block * ROWS, a->scale + at, a->scale_panel);
    }
    parts_store(&y, a->y);
}

INLINE void tile(const struct pith_byte_tile *a, enum width kind, bool zeros, size_t count)
{
    const size_t end = a->col + a->n, first = a->col / a->group;
    const __m512i table = table_of(a, kind);
    struct whole d;
    struct parts t;
    size_t c = a->col, group = first, block = c / a->block;
    size_t group_end = least((group + 1) * a->group, a->cols);
    struct lines w = lines_open(a, kind);
    if (c % a->group == 0) parts_zero(&t);
    else parts_load(&t, a->t);
    while (c < end) {
        const size_t at = (group - first) * PITH_PANEL_ROWS, done = (block + 1) * a->block;
        const size_t block_end = least(done, group_end), stop = least(block_end, end);
        if (c == block * a->block)
            block_open(&d, a->x_less + block * ROWS, zeros ? a->zero + at : NULL, a->scale_panel);
        else whole_load(&d, a->d);
        multiply(&d, kind, count, stop - c, &w, a->x + c / 4 * ROWS, table);
        c = stop;
        if (stop < block_end) {
            whole_store(&d, a->d);
            break;
        }
        block_close(&t, &d, a->x_scale + block * ROWS);
        block++;
        if (c < group_end) continue;
        group_close(&t, a->scale + at, a->scale_panel, group == 0, a->y);
        parts_zero(&t);
        group++;
        group_end = least(group_end + a->group, a->cols);
    }
    if (c < group_end && c > group * a->group) parts_store(&t, a->t);
}

void pith_bytes_tile_vnni(const struct pith_byte_tile *a)
{
    if (a->block == a->group) {
        if (a->count <= 2) TILE_OF(tile_of_blocks, a, 2)
        else if (a->count <= 4) TILE_OF(tile_of_blocks, a, 4)
        else TILE_OF(tile_of_blocks, a, WORDS)
        return;
    }
    if (a->count <= 2) TILE_OF(tile, a, 2)
    else if (a->count <= 4) TILE_OF(tile, a, 4)
    else TILE_OF(tile, a, WORDS)
}

/* Codes, or their factors, a byte each. */
INLINE void unpack_as(const struct pith_panels *m, unsigned bits, const uint8_t *at, size_t n,
                      uint8_t *dst)
{
    const size_t step = pith_panel_step(bits);
    const __m512i table = factor_table(m);
    for (size_t c = 0; c < n; c += step, at += pith_panel_span(bits, step))
        for (size_t k = 0; k < step / 4; k++, dst += PITH_PANEL_LINE) {
            __m512i v = planes_word(bits, at, (int)k);
            if (m->factors) v = _mm512_shuffle_epi8(table, v);
            _mm512_storeu_si512(dst, v);
        }
}

const uint8_t *pith_bytes_unpack_vnni(const struct pith_panels *m, size_t panel, size_t col,
                                      size_t n, bool few, uint8_t *dst)
{
    const uint8_t *at = pith_panel_at(m, panel, col);
    if (few && !pith_panel_has_planes(m->bits)) return at;
    switch (m->bits) {
#define CASE(bits_)                                                                                \
    case bits_: unpack_as(m, bits_, at, n, dst); return dst;
        PITH_PANEL_PLANES(CASE)
        CASE(4)
#undef CASE
    default: return at;
    }
}

/* Words are moved as floats, which changes no bit. */
void pith_bytes_words_vnni(size_t words, size_t first, size_t count, const int8_t *q, uint32_t *x)
{
    pith_transpose_avx512(count, words, (const float *)(const void *)q, words,
                          (float *)(void *)(x + first), ROWS);
}
