/* kern/vnni/words_vnni.h: products of up to six words of x, bytes of six vectors or three digits of
 * two, with two panels: twelve sums in registers, with the halves of two lines of codes and one
 * word of x. A step of four columns is twelve integer dot products on eight loads. Panels are read
 * as they are stored, or unpacked to bytes: codes in planes always, others of 4 bits for many
 * tiles. Such codes are two to a byte, which costs as many operations as two columns have. */
#include "kern/vnni/digits_vnni.h"

enum { WORDS = 6, COLS = 32 };
#define EACH(X) X(0) X(1) X(2) X(3) X(4) X(5)

INLINE size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* The sums of two panels for the words of a step. Of fewer than WORDS the first are used. */
struct whole {
#define FIELD(i) __m512i a##i, b##i;
    EACH(FIELD)
#undef FIELD
};

/* A block begins: what is taken off its sums. */
INLINE void block_open(struct whole *d, const int32_t *less, const int32_t *zero, size_t panel)
{
    if (!zero) {
#define START(i) d->a##i = d->b##i = _mm512_set1_epi32(less[i]);
        EACH(START)
#undef START
        return;
    }
    const __m512i a = _mm512_loadu_si512(zero), b = _mm512_loadu_si512(zero + panel);
#define START(i)                                                                                   \
    d->a##i = _mm512_mullo_epi32(_mm512_set1_epi32(less[i]), a);                                   \
    d->b##i = _mm512_mullo_epi32(_mm512_set1_epi32(less[i]), b);
    EACH(START)
#undef START
}

/* The line of each panel where its next columns are, and how far ahead lines are prefetched. */
struct lines {
    const uint8_t *a, *b;
    size_t ahead;
};

INLINE size_t columns_of_line(enum width kind)
{
    return kind == EIGHT ? 4 : 8;
}

/* The lines at the first column of a call. */
INLINE struct lines lines_open(const struct pith_byte_tile *a, enum width kind)
{
    const size_t width = columns_of_line(kind);
    return (struct lines){a->w[0], a->w[1],
                          pith_panel_ahead(a->adjacent, a->cols / width * PITH_PANEL_LINE,
                                           a->col / width * PITH_PANEL_LINE, PITH_AHEAD_BYTES)};
}

/* Four columns of both panels: the first `count` words, x. */
INLINE void four_columns(struct whole *d, size_t count, __m512i a, __m512i b, const uint32_t *x)
{
#define STEP(i)                                                                                    \
    if ((i) < count) {                                                                             \
        const __m512i e = _mm512_set1_epi32((int)x[i]);                                            \
        d->a##i = _mm512_dpbusd_epi32(d->a##i, a, e);                                              \
        d->b##i = _mm512_dpbusd_epi32(d->b##i, b, e);                                              \
        __asm__("" : "+v"(d->a##i), "+v"(d->b##i)); /* or they are moved about */                  \
    }
    EACH(STEP)
#undef STEP
}

/* The codes in a line of two to a byte: columns 0 to 3 and 4 to 7, by the table where they are
 * factors. */
struct halves {
    __m512i first, second;
};
INLINE struct halves halves_of(__m512i line, enum width kind, __m512i table)
{
    const __m512i low = _mm512_set1_epi8(15), a = _mm512_and_si512(line, low),
                  b = _mm512_and_si512(_mm512_srli_epi16(line, 4), low);
    if (kind != FACTORS) return (struct halves){a, b};
    return (struct halves){_mm512_shuffle_epi8(table, a), _mm512_shuffle_epi8(table, b)};
}

/* `cols` columns, a multiple of columns_of_line(), and on to the lines behind them. */
INLINE void multiply(struct whole *d, enum width kind, size_t count, size_t cols, struct lines *w,
                     const uint32_t *x, __m512i table)
{
    const size_t width = columns_of_line(kind), ahead = w->ahead;
    const uint8_t *at = w->a, *other = w->b;
    for (size_t c = 0; c < cols; c += width) {
        const __m512i a = _mm512_loadu_si512(at), b = _mm512_loadu_si512(other);
        __builtin_prefetch(at + ahead);
        __builtin_prefetch(other + ahead);
        at += PITH_PANEL_LINE;
        other += PITH_PANEL_LINE;
        if (kind == EIGHT) {
            four_columns(d, count, a, b, x);
            x += WORDS;
            continue;
        }
        const struct halves v = halves_of(a, kind, table), u = halves_of(b, kind, table);
        four_columns(d, count, v.first, u.first, x);
        four_columns(d, count, v.second, u.second, x + WORDS);
        x += (size_t)2 * WORDS;
    }
    w->a = at;
    w->b = other;
}

INLINE enum width kind_of(const struct pith_byte_tile *a)
{
    if (!a->stored) return EIGHT;
    return a->factors ? FACTORS : a->form == PITH_PANEL_LEVEL4 ? FOUR : EIGHT;
}

INLINE __m512i table_of(const struct pith_byte_tile *a, enum width kind)
{
    if (kind != FACTORS) return _mm512_setzero_si512();
    return _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(const void *)a->factor));
}

/* Calls tile(a, kind, zeros, words) with the latter as constants. */
#define TILE_OF(tile, a, words)                                                                    \
    {                                                                                              \
        const enum width kind_ = kind_of(a);                                                       \
        if (kind_ == FACTORS) tile(a, FACTORS, false, words);                                      \
        else if (kind_ == FOUR && (a)->zero) tile(a, FOUR, true, words);                           \
        else if (kind_ == FOUR) tile(a, FOUR, false, words);                                       \
        else if ((a)->zero) tile(a, EIGHT, true, words);                                           \
        else tile(a, EIGHT, false, words);                                                         \
    }
