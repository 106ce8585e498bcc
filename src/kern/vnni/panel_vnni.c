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
    p->codes = m->codes + index * pith_panel_lines(m) * PITH_PANEL_LINE;
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

/* `lines` lines of a panel times their columns of q. Sums are locals, and the digits are spelled
 * out: arrays of vectors, and vectors behind pointers, end up in memory. High halves have sums of
 * their own: twice the chains, for the latency of the dot product. */
INLINE struct sums block_sums(enum codes kind, __m512i table, int digits, size_t lines,
                              const uint8_t *line, const int8_t *q, size_t q_digit)
{
    const __m512i low = _mm512_set1_epi8(15), none = _mm512_setzero_si512();
    const size_t step = kind == EIGHT ? 4 : 8;
    __m512i a0 = none, a1 = none, a2 = none, b0 = none, b1 = none, b2 = none;
#pragma GCC unroll 4
    for (size_t i = 0; i < lines; i++, q += step, line += PITH_PANEL_LINE) {
        const int8_t *q1 = q + q_digit, *q2 = q1 + q_digit;
        const __m512i w = _mm512_load_si512(line);
        __m512i v = kind == EIGHT ? w : _mm512_and_si512(w, low);
        if (kind == FACTORS) v = _mm512_shuffle_epi8(table, v);
        __builtin_prefetch(line + PITH_AHEAD_BYTES);
        a0 = _mm512_dpbusd_epi32(a0, v, four_bytes(q));
        if (digits == PITH_DIGITS) {
            a1 = _mm512_dpbusd_epi32(a1, v, four_bytes(q1));
            a2 = _mm512_dpbusd_epi32(a2, v, four_bytes(q2));
        }
        if (kind == EIGHT) continue;
        __m512i high = _mm512_and_si512(_mm512_srli_epi16(w, 4), low);
        if (kind == FACTORS) high = _mm512_shuffle_epi8(table, high);
        b0 = _mm512_dpbusd_epi32(b0, high, four_bytes(q + 4));
        if (digits == PITH_DIGITS) {
            b1 = _mm512_dpbusd_epi32(b1, high, four_bytes(q1 + 4));
            b2 = _mm512_dpbusd_epi32(b2, high, four_bytes(q2 + 4));
        }
    }
    return (struct sums){_mm512_add_epi32(a0, b0), _mm512_add_epi32(a1, b1),
                         _mm512_add_epi32(a2, b2)};
}

/* One panel at a time: two would be two streams of each thread, which memory serves less well. */
INLINE void dot_panel(const struct pith_panels *m, enum codes kind, int digits, size_t index,
                      const struct pith_bytes *x, float *y)
{
    const size_t width = kind == EIGHT ? 4 : 8, full = x->block / width;
    const __m512i table = factor_table(m);
    struct panel p;
    panel_open(m, index, &p);
    size_t c = 0, block = 0;
    for (size_t g = 0; g < m->groups; g++) {
        const size_t stop = c + m->group < m->cols ? c + m->group : m->cols;
        group_open(m, g, &p);
        for (; c < stop; block++) {
            const size_t left = (stop - c) / width, n = left < full ? left : full;
            const int8_t *q = x->q + c;
            /* Blocks of that many columns are the rule: their lines are known here. */
            const size_t usual = (digits == 1 ? 64 : 128) / width;
            const struct sums s =
                n == usual ? block_sums(kind, table, digits, usual, p.codes, q, x->q_digit)
                           : block_sums(kind, table, digits, n, p.codes, q, x->q_digit);
            c += n * width;
            p.codes += n * PITH_PANEL_LINE;
            p.t = block_close(x, digits, block, s, &p);
        }
        __m512 scale = scales_at(m, p.group + g);
        if (kind == FACTORS) scale = _mm512_mul_ps(scale, _mm512_set1_ps(m->unit));
        p.y = _mm512_fmadd_ps(scale, p.t, p.y);
    }
    _mm512_storeu_ps(y, p.y);
}

INLINE void dot_as(const struct pith_panels *m, enum codes kind, int digits, size_t first,
                   size_t count, const struct pith_bytes *x, float *y)
{
    for (size_t i = 0; i < count; i++)
        dot_panel(m, kind, digits, first + i, x, y + i * PITH_PANEL_ROWS);
}

void pith_panel_dot_bytes_vnni(const struct pith_panels *m, size_t first, size_t count,
                               const struct pith_bytes *x, float *y)
{
    if (m->factors) dot_as(m, FACTORS, 1, first, count, x, y);
    else if (m->form == PITH_PANEL_LEVEL4) dot_as(m, FOUR, 1, first, count, x, y);
    else dot_as(m, EIGHT, 1, first, count, x, y);
}

void pith_panel_dot_digits_vnni(const struct pith_panels *m, size_t first, size_t count,
                                const struct pith_bytes *x, float *y)
{
    if (m->form == PITH_PANEL_LEVEL4) dot_as(m, FOUR, PITH_DIGITS, first, count, x, y);
    else dot_as(m, EIGHT, PITH_DIGITS, first, count, x, y);
}
