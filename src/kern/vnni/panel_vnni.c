/* Products with packed panels of integers: four columns of sixteen rows in one instruction, exact
 * in 32 bits. */
#include "kern/vnni/digits_vnni.h"
#include "kern/avx512/vec_avx512.h"

#include <string.h>

INLINE __m512i four_bytes(const int8_t *q)
{
    int32_t v;
    memcpy(&v, q, sizeof v);
    return _mm512_set1_epi32(v);
}

/* Powers of two: 2^-127 is a subnormal float. */
INLINE __m512 powers(__m128i e)
{
    const __m512i bits = _mm512_slli_epi32(_mm512_cvtepu8_epi32(e), 23);
    return _mm512_max_ps(_mm512_castsi512_ps(bits), _mm512_set1_ps(0x1p-127f));
}

/* FP8 E4M3, moved to where a float has exponent and mantissa, 2^120 too small. */
INLINE __m512 eights(__m128i e, float global)
{
    const __m512i top = _mm512_slli_epi32(_mm512_cvtepi8_epi32(e), 20);
    const __m512i bits = _mm512_and_si512(top, _mm512_set1_epi32((int)0x87f00000));
    const __m512 v = _mm512_mul_ps(_mm512_castsi512_ps(bits), _mm512_set1_ps(0x1p120f));
    return _mm512_mul_ps(v, _mm512_set1_ps(global));
}

INLINE __m512 scales_at(const struct pith_panels *m, size_t group)
{
    const char *at = m->scales;
    if (m->scale == PITH_SCALE_BF16) return v16_load_bf16(at + group * 32);
    if (m->scale == PITH_SCALE_F16) return v16_load_f16(at + group * 32);
    if (m->scale == PITH_SCALE_PRODUCT) {
        const __m128i inner = _mm_loadu_si128((const __m128i *)(const void *)(at + group * 16));
        const char *outer = (const char *)m->outer + (group >> m->outer_shift) * 32;
        return _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(inner)), v16_load_f16(outer));
    }
    if (m->scale == PITH_SCALE_F32) return _mm512_loadu_ps(at + group * 64);
    const __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)(at + group * 16));
    return m->scale == PITH_SCALE_E8M0 ? powers(bytes) : eights(bytes, m->global);
}

struct panel {
    const uint8_t *codes;
    size_t group;
    __m512i zero;
    __m512 y, t;
};

INLINE void panel_open(const struct pith_panels *m, size_t index, struct panel *p)
{
    p->codes = pith_panel_at(m, index, 0);
    p->group = index * m->groups;
    p->zero = _mm512_set1_epi32((int)m->zero);
    p->y = _mm512_setzero_ps();
}

INLINE void group_open(const struct pith_panels *m, size_t g, struct panel *p)
{
    p->t = _mm512_setzero_ps();
    if (!m->zeros) return;
    const uint8_t *zeros = m->zeros + (p->group + g) * PITH_PANEL_ROWS;
    p->zero = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)zeros));
}

/* The sums of a block in one panel, a digit each. */
struct sums {
    __m512i d0, d1, d2;
};

INLINE __m512 block_close(const struct pith_bytes *x, int digits, size_t block, struct sums s,
                          const struct panel *p)
{
    const __m512i z = p->zero;
    const int32_t *sum = x->sum + block;
#define LESS(d, n) _mm512_sub_epi32(d, _mm512_mullo_epi32(z, _mm512_set1_epi32(n)))
    const __m512i d0 = LESS(s.d0, sum[0]);
    const __m512 d = digits == 1 ? _mm512_cvtepi32_ps(d0)
                                 : digits_together(d0, LESS(s.d1, sum[x->sum_digit]),
                                                   LESS(s.d2, sum[2 * x->sum_digit]));
#undef LESS
    return _mm512_fmadd_ps(d, _mm512_set1_ps(x->scale[block]), p->t);
}

/* Columns [0, cols) of a panel from `at` on times those of q. Sums are locals, and the digits are
 * spelled out: arrays of vectors, and vectors behind pointers, end up in memory. Even and odd words
 * have separate sums: twice the chains, for the latency of the dot product. */
INLINE struct sums block_sums(enum width kind, __m512i table, int digits, size_t cols,
                              const uint8_t *at, const int8_t *q, size_t q_digit)
{
    const unsigned bits = bits_of(kind);
    const size_t step = pith_panel_step(bits), bytes = pith_panel_span(bits, step);
    const __m512i none = _mm512_setzero_si512();
    __m512i a0 = none, a1 = none, a2 = none, b0 = none, b1 = none, b2 = none;
#define WORD(sum, k)                                                                               \
    if (4 * (k) < step) {                                                                          \
        const int8_t *const x = q + 4 * (k);                                                       \
        __m512i v = planes_word(bits, at, k);                                                      \
        if (kind == FACTORS) v = _mm512_shuffle_epi8(table, v);                                    \
        sum##0 = _mm512_dpbusd_epi32(sum##0, v, four_bytes(x));                                    \
        if (digits == PITH_DIGITS) {                                                               \
            sum##1 = _mm512_dpbusd_epi32(sum##1, v, four_bytes(x + q_digit));                      \
            sum##2 = _mm512_dpbusd_epi32(sum##2, v, four_bytes(x + 2 * q_digit));                  \
        }                                                                                          \
    }
#pragma GCC unroll 4
    for (size_t c = 0; c < cols; c += step, q += step, at += bytes) {
        for (size_t i = 0; i < bytes; i += PITH_PANEL_LINE)
            __builtin_prefetch(at + i + PITH_AHEAD_BYTES);
        WORD(a, 0)
        WORD(b, 1)
        WORD(a, 2)
        WORD(b, 3)
    }
#undef WORD
    return (struct sums){_mm512_add_epi32(a0, b0), _mm512_add_epi32(a1, b1),
                         _mm512_add_epi32(a2, b2)};
}

/* One panel at a time: two would be two streams of each thread, which memory serves less well. */
INLINE void dot_panel(const struct pith_panels *m, enum width kind, int digits, size_t index,
                      const struct pith_bytes *x, float *y)
{
    const __m512i table = factor_table(m);
    struct panel p;
    panel_open(m, index, &p);
    size_t c = 0, block = 0;
    for (size_t g = 0; g < m->groups; g++) {
        const size_t stop = c + m->group < m->cols ? c + m->group : m->cols;
        group_open(m, g, &p);
        for (; c < stop; block++) {
            const size_t left = stop - c, n = left < x->block ? left : x->block;
            const int8_t *q = x->q + c;
            /* Blocks of that many columns are the rule: their lines are known here. */
            const size_t usual = digits == 1 ? 64 : 128;
            const struct sums s =
                n == usual ? block_sums(kind, table, digits, usual, p.codes, q, x->q_digit)
                           : block_sums(kind, table, digits, n, p.codes, q, x->q_digit);
            c += n;
            p.codes += pith_panel_span(bits_of(kind), n);
            p.t = block_close(x, digits, block, s, &p);
        }
        __m512 scale = scales_at(m, p.group + g);
        if (kind == FACTORS) scale = _mm512_mul_ps(scale, _mm512_set1_ps(m->unit));
        p.y = _mm512_fmadd_ps(scale, p.t, p.y);
    }
    _mm512_storeu_ps(y, p.y);
}

INLINE void dot_as(const struct pith_panels *m, enum width kind, int digits, size_t first,
                   size_t count, const struct pith_bytes *x, float *y)
{
    for (size_t i = 0; i < count; i++)
        dot_panel(m, kind, digits, first + i, x, y + i * PITH_PANEL_ROWS);
}

#define DOT_CASE(bits_)                                                                            \
    case bits_: dot_as(m, (enum width)(bits_), DIGITS, first, count, x, y); break;

void pith_panel_dot_bytes_vnni(const struct pith_panels *m, size_t first, size_t count,
                               const struct pith_bytes *x, float *y)
{
#define DIGITS 1
    switch (m->factors ? FACTORS : m->bits) {
        PITH_PANEL_PLANES(DOT_CASE)
        DOT_CASE(4)
        DOT_CASE(8)
    default: dot_as(m, FACTORS, DIGITS, first, count, x, y);
    }
#undef DIGITS
}

void pith_panel_dot_digits_vnni(const struct pith_panels *m, size_t first, size_t count,
                                const struct pith_bytes *x, float *y)
{
#define DIGITS PITH_DIGITS
    switch (m->bits) {
        PITH_PANEL_PLANES(DOT_CASE)
        DOT_CASE(4)
    default: dot_as(m, EIGHT, DIGITS, first, count, x, y);
    }
#undef DIGITS
}
