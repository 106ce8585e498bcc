/* The tile of the exact product: 3 vectors by 16 rows, two columns of eight rows in an instruction
 * that multiplies and adds 16-bit numbers. Of the three digits of x the upper two are one number
 * there, so two sums make an element:
 *
 *     W:  line [column / 2][16 rows] of two codes in 16 bits
 *     x:  [column / 2][vector][D[0] of two columns, D[1] + 256 D[2] of two columns]
 *
 * |D[1] + 256 D[2]| <= 32640, and 256 columns of it stay below 256 * 255 * 32640 < 2^31. */
#include "kern/avx2/planes_avx2.h"
#include "kern/avx2/whole_avx2.h"
#include "kern/ops.h"

#include <string.h>

enum { ROWS = 3, COLS = PITH_PANEL_ROWS, LANES = 8, PAIR = ROWS * 2 /* words of x */ };
_Static_assert((int)PITH_DIGITS_WORDS >= 2 * PAIR / ROWS, "room for x");
#define EACH(X) X(0) X(1) X(2)

/* The sums of a block: of the lowest digit, of the two others; rows 0 to 7, and 8 to 15. */
struct whole {
#define FIELD(i) __m256i low_a##i, low_b##i, high_a##i, high_b##i;
    EACH(FIELD)
#undef FIELD
};

/* A vector's sums stay where they are, and the second line is read again for each: else the
 * compiler makes all products of a step first, for which there are no registers. */
INLINE void multiply(struct whole *d, size_t pairs, const uint8_t *w, const uint32_t *x)
{
    struct whole s = *d;
    for (size_t p = 0; p < pairs; p++, w += PITH_PANEL_LINE, x += PAIR) {
        const __m256i a = load(w);
        const uint8_t *b = w + 32;
#define ADD(to, codes, e)                                                                          \
    to = _mm256_add_epi32(to, _mm256_madd_epi16(e, codes));                                        \
    __asm__("" : "+x"(to), "+r"(b));
#define STEP(i)                                                                                    \
    {                                                                                              \
        const __m256i low = _mm256_set1_epi32((int)x[2 * (i)]);                                    \
        ADD(s.low_a##i, a, low)                                                                    \
        ADD(s.low_b##i, load(b), low)                                                              \
        const __m256i high = _mm256_set1_epi32((int)x[2 * (i) + 1]);                               \
        ADD(s.high_a##i, a, high)                                                                  \
        ADD(s.high_b##i, load(b), high)                                                            \
    }
        EACH(STEP)
#undef STEP
#undef ADD
    }
    *d = s;
}

INLINE void block_open(struct whole *d, const int32_t *less, const int32_t *zero)
{
    const __m256i one = _mm256_set1_epi32(1);
    const __m256i a = zero ? load(zero) : one, b = zero ? load(zero + LANES) : one;
#define START(i)                                                                                   \
    {                                                                                              \
        const int32_t *const l = less + (i)*PITH_DIGITS;                                           \
        const __m256i low = _mm256_set1_epi32(l[0]), high = _mm256_set1_epi32(l[1] + 256 * l[2]);  \
        d->low_a##i = _mm256_mullo_epi32(low, a);                                                  \
        d->low_b##i = _mm256_mullo_epi32(low, b);                                                  \
        d->high_a##i = _mm256_mullo_epi32(high, a);                                                \
        d->high_b##i = _mm256_mullo_epi32(high, b);                                                \
    }
    EACH(START)
#undef START
}

/* t += scale * (low + 256 * high), the sum rounded once: as kern/panel.h has it. */
INLINE void add(float *t, __m256i low, __m256i high, __m256 scale)
{
    const __m256i middle = _mm256_and_si256(high, _mm256_set1_epi32(255));
    const __m256 l = _mm256_cvtepi32_ps(_mm256_add_epi32(low, _mm256_slli_epi32(middle, 8)));
    const __m256 h = _mm256_cvtepi32_ps(_mm256_srai_epi32(high, 8));
    const __m256 d = _mm256_fmadd_ps(h, _mm256_set1_ps(65536.0f), l);
    _mm256_storeu_ps(t, _mm256_fmadd_ps(d, scale, _mm256_loadu_ps(t)));
}

INLINE void block_close(float *t, const struct whole *d, const float *scale){
#define CLOSE(i)                                                                                   \
    {                                                                                              \
        const __m256 f = _mm256_set1_ps(scale[i]);                                                 \
        add(t + (i)*COLS, d->low_a##i, d->high_a##i, f);                                           \
        add(t + (i)*COLS + LANES, d->low_b##i, d->high_b##i, f);                                   \
    }
    EACH(CLOSE)
#undef CLOSE
}

/* y += scale * t, t = 0. */
INLINE void group_close(float *y, float *t, const float *scale)
{
    const __m256 a = _mm256_loadu_ps(scale), b = _mm256_loadu_ps(scale + LANES);
    for (size_t i = 0; i < ROWS; i++, y += COLS, t += COLS) {
        const __m256 u = _mm256_loadu_ps(t), v = _mm256_loadu_ps(t + LANES);
        _mm256_storeu_ps(y, _mm256_fmadd_ps(a, u, _mm256_loadu_ps(y)));
        _mm256_storeu_ps(y + LANES, _mm256_fmadd_ps(b, v, _mm256_loadu_ps(y + LANES)));
    }
    memset(t - ROWS * COLS, 0, ROWS * COLS * sizeof *t);
}

void pith_digits_tile_avx2(const struct pith_byte_tile *a)
{
    const size_t end = a->col + a->n, first = a->col / a->group;
    const uint8_t *w = a->w[0];
    if (a->col == 0) memset(a->y, 0, ROWS * COLS * sizeof *a->y);
    if (a->col % a->group == 0) memset(a->t, 0, ROWS * COLS * sizeof *a->t);
    for (size_t c = a->col, stop; c < end; c = stop) {
        const size_t group = c / a->group, block = c / a->block;
        const size_t group_end = least((group + 1) * a->group, a->cols);
        const size_t at = (group - first) * PITH_PANEL_ROWS;
        struct whole d;
        stop = least((block + 1) * a->block, group_end);
        block_open(&d, a->x_less + block * ROWS * PITH_DIGITS, a->zero ? a->zero + at : NULL);
        multiply(&d, (stop - c) / 2, w, a->x + c / 2 * PAIR);
        block_close(a->t, &d, a->x_scale + block * ROWS);
        w += (stop - c) / 2 * PITH_PANEL_LINE;
        if (stop == group_end) group_close(a->y, a->t, a->scale + at);
    }
}

/* Two lines of sixteen rows' pairs of codes from the bytes of four columns, half of the rows. */
INLINE void put_pairs(__m256i v, uint8_t *dst)
{
    const __m256i mask = _mm256_set1_epi32(0xff);
    const __m256i c0 = _mm256_and_si256(v, mask);
    const __m256i c1 = _mm256_and_si256(_mm256_srli_epi32(v, 8), mask);
    const __m256i c2 = _mm256_and_si256(_mm256_srli_epi32(v, 16), mask);
    const __m256i c3 = _mm256_srli_epi32(v, 24);
    store(dst, _mm256_or_si256(c0, _mm256_slli_epi32(c1, 16)));
    store(dst + PITH_PANEL_LINE, _mm256_or_si256(c2, _mm256_slli_epi32(c3, 16)));
}

INLINE void unpack_as(unsigned bits, const uint8_t *at, size_t n, uint8_t *dst)
{
    const size_t step = pith_panel_step(bits);
    for (; n > 0; n -= step, at += pith_panel_span(bits, step))
        for (size_t k = 0; k < step / 4; k++, dst += 2 * PITH_PANEL_LINE) {
            put_pairs(planes_word(bits, at, 0, (int)k), dst);
            put_pairs(planes_word(bits, at, 1, (int)k), dst + 32);
        }
}

const uint8_t *pith_digits_unpack_avx2(const struct pith_panels *m, size_t panel, size_t col,
                                       size_t n, bool few, uint8_t *dst)
{
    (void)few;
    const uint8_t *at = pith_panel_at(m, panel, col);
    switch (m->bits) {
#define CASE(bits_)                                                                                \
    case bits_: unpack_as(bits_, at, n, dst); break;
        PITH_PANEL_PLANES(CASE)
        CASE(4)
#undef CASE
    default: unpack_as(8, at, n, dst);
    }
    return dst;
}

/* Sixteen columns of a vector: eight pairs of each of the two numbers. */
INLINE void put_words(const int8_t *q, size_t cols, uint32_t *to)
{
    uint32_t low[8], high[8];
#define DIGIT(k) _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(q + (k)*cols)))
    store(low, DIGIT(0));
    store(high, _mm256_add_epi16(DIGIT(1), _mm256_slli_epi16(DIGIT(2), 8)));
#undef DIGIT
    for (size_t i = 0; i < 8; i++, to += PAIR) {
        to[0] = low[i];
        to[1] = high[i];
    }
}

void pith_digits_words_avx2(size_t words, size_t first, size_t count, const int8_t *q, uint32_t *x)
{
    const size_t cols = words * 4, whole = cols - cols % 16;
    for (size_t r = 0; r < count; r++, q += PITH_DIGITS * cols) {
        uint32_t *to = x + (first + r) * 2;
        for (size_t c = 0; c < whole; c += 16, to += 8 * PAIR) put_words(q + c, cols, to);
        for (size_t c = whole; c < cols; c += 2, to += PAIR) {
            int16_t pair[4];
            for (size_t e = 0; e < 2; e++) {
                pair[e] = q[c + e];
                pair[2 + e] = (int16_t)(q[c + e + cols] + 256 * q[c + e + 2 * cols]);
            }
            memcpy(to, pair, sizeof pair);
        }
    }
}
