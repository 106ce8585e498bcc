/* kern/template/levels_template.h: products with rows that have levels of their own, written once
 * in sixteen-lane vectors; included after panel_template.h, of which it takes v16i and the lookup.
 * The including file defines besides:
 *
 *     v16i_spread(p, bytes, shift)   eight bytes at p, which may have any address: field i has byte
 *                                    (bytes[i] & 255) as its lowest, the next as its second,
 *                                    shifted right by shift[i]; upper bits are anything
 *
 * A field's low half looks up its level, whatever is above; the fourth bit of a code of three is
 * the next code's, which is why there are two copies of eight levels. Four rows at a time share x
 * and hide the latency of the multiply-add. */
#include <string.h>

/* Where sixteen codes of 3 and 4 bits begin: the byte and the one after it, the bit within. */
#define LEVEL_AT(i, bits) ((i) * (bits) / 8 | ((i) * (bits) / 8 + 1) << 8)
#define LEVEL_ALL(F, b)                                                                            \
    {F(0, b), F(1, b), F(2, b),  F(3, b),  F(4, b),  F(5, b),  F(6, b),  F(7, b),                  \
     F(8, b), F(9, b), F(10, b), F(11, b), F(12, b), F(13, b), F(14, b), F(15, b)}
#define LEVEL_SHIFT(i, bits) (i) * (bits) % 8
static const int32_t level_bytes[2][16] = {LEVEL_ALL(LEVEL_AT, 3), LEVEL_ALL(LEVEL_AT, 4)};
static const int32_t level_shifts[2][16] = {LEVEL_ALL(LEVEL_SHIFT, 3), LEVEL_ALL(LEVEL_SHIFT, 4)};

struct level_row {
    const uint8_t *codes;
    v16_table table;
    v16 sum;
};

INLINE void level_open(const struct pith_levels *m, size_t row, struct level_row *r)
{
    r->codes = m->codes + row * m->stride;
    r->table = v16_table_load(m->level + row * 16);
    r->sum = v16_zero();
}

INLINE v16 level_values(unsigned bits, const void *codes, const struct level_row *r)
{
    return v16_lookup(v16i_spread(codes, level_bytes[bits - 3], level_shifts[bits - 3]), r->table);
}

INLINE void level_step(unsigned bits, size_t at, v16 x, struct level_row *r)
{
    r->sum = v16_fma(level_values(bits, r->codes + at, r), x, r->sum);
}

/* n <= 16 columns of the last bytes of a row. */
INLINE void level_last(unsigned bits, size_t at, size_t bytes, const float *x, size_t n,
                       struct level_row *r)
{
    uint8_t codes[8] = {0};
    memcpy(codes, r->codes + at, bytes - at < 8 ? bytes - at : 8);
    const v16 t = v16_fma(level_values(bits, codes, r), v16_load_part(x, n), r->sum);
    r->sum = v16_blend(t, r->sum, n);
}

INLINE void level_rows(unsigned bits, const struct pith_levels *m, size_t row, bool four,
                       const float *x, float *y)
{
    enum { STEP = 8, AHEAD = 2048 /* bytes, as measured */ };
    const size_t bytes = (m->cols * bits + 7) / 8, each = 2 * (size_t)bits;
    const size_t fits = bytes < 8 ? 0 : (bytes - 8) / each + 1;
    const size_t whole = fits < m->cols / 16 ? fits : m->cols / 16;
    const size_t next = 4 * m->stride - bytes; /* past a row's end, the fourth after it is read */
    struct level_row a, b, c, d;
    level_open(m, row, &a);
    level_open(m, row + (four ? 1 : 0), &b);
    level_open(m, row + (four ? 2 : 0), &c);
    level_open(m, row + (four ? 3 : 0), &d);
    size_t i = 0;
    while (i < whole) {
        const size_t stop = i + STEP < whole ? i + STEP : whole;
        const size_t ahead = i * each + AHEAD + (i * each + AHEAD < bytes ? 0 : next);
        __builtin_prefetch(a.codes + ahead);
        if (four) __builtin_prefetch(b.codes + ahead);
        if (four) __builtin_prefetch(c.codes + ahead);
        if (four) __builtin_prefetch(d.codes + ahead);
        for (; i < stop; i++) {
            const v16 v = v16_load(x + i * 16);
            level_step(bits, i * each, v, &a);
            if (four) level_step(bits, i * each, v, &b);
            if (four) level_step(bits, i * each, v, &c);
            if (four) level_step(bits, i * each, v, &d);
        }
    }
    for (; i * 16 < m->cols; i++) {
        const size_t left = m->cols - i * 16, n = left < 16 ? left : 16;
        level_last(bits, i * each, bytes, x + i * 16, n, &a);
        if (four) level_last(bits, i * each, bytes, x + i * 16, n, &b);
        if (four) level_last(bits, i * each, bytes, x + i * 16, n, &c);
        if (four) level_last(bits, i * each, bytes, x + i * 16, n, &d);
    }
    y[0] = v16_sum(a.sum);
    if (!four) return;
    y[1] = v16_sum(b.sum);
    y[2] = v16_sum(c.sum);
    y[3] = v16_sum(d.sum);
}

INLINE void levels_as(unsigned bits, const struct pith_levels *m, size_t rows, const float *x,
                      float *y)
{
    size_t r = 0;
    for (; r + 4 <= rows; r += 4) level_rows(bits, m, r, true, x, y + r);
    for (; r < rows; r++) level_rows(bits, m, r, false, x, y + r);
}

static inline void levels_dot(const struct pith_levels *m, size_t rows, const float *x, float *y)
{
    if (m->bits == 4) levels_as(4, m, rows, x, y);
    else levels_as(3, m, rows, x, y);
}
