/* Products with matrices as they are stored, a chain a row. */
#include "kern/avx512/vec_avx512.h"

static inline vn vn_words(const void *p)
{
    return _mm512_loadu_ps(p);
}
static inline vn vn_from_f16(const void *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256(p));
}
static inline vn vn_low_bf16(vn w)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(w), 16));
}
static inline vn vn_high_bf16(vn w)
{
    return _mm512_and_ps(w, _mm512_castsi512_ps(_mm512_set1_epi32((int)0xffff0000)));
}

/* Quarter b of r[4q] becomes quarter q of r[4b]. */
static inline __attribute__((always_inline)) void exchange_quarters(vn *r)
{
    const vn low = _mm512_shuffle_f32x4(r[0], r[4], 0x88);
    const vn high = _mm512_shuffle_f32x4(r[0], r[4], 0xdd);
    const vn low2 = _mm512_shuffle_f32x4(r[8], r[12], 0x88);
    const vn high2 = _mm512_shuffle_f32x4(r[8], r[12], 0xdd);
    r[0] = _mm512_shuffle_f32x4(low, low2, 0x88);
    r[4] = _mm512_shuffle_f32x4(high, high2, 0x88);
    r[8] = _mm512_shuffle_f32x4(low, low2, 0xdd);
    r[12] = _mm512_shuffle_f32x4(high, high2, 0xdd);
}

/* Transposes within each quarter of four registers. */
static inline __attribute__((always_inline)) void transpose_quarters(vn *r)
{
    const __m512d a = _mm512_castps_pd(_mm512_unpacklo_ps(r[0], r[1]));
    const __m512d b = _mm512_castps_pd(_mm512_unpackhi_ps(r[0], r[1]));
    const __m512d c = _mm512_castps_pd(_mm512_unpacklo_ps(r[2], r[3]));
    const __m512d d = _mm512_castps_pd(_mm512_unpackhi_ps(r[2], r[3]));
    r[0] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, c));
    r[1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, c));
    r[2] = _mm512_castpd_ps(_mm512_unpacklo_pd(b, d));
    r[3] = _mm512_castpd_ps(_mm512_unpackhi_pd(b, d));
}

/* In this order the first columns are there first. */
static inline __attribute__((always_inline)) void vn_transpose(vn *r)
{
    exchange_quarters(r);
    exchange_quarters(r + 1);
    exchange_quarters(r + 2);
    exchange_quarters(r + 3);
    transpose_quarters(r);
    transpose_quarters(r + 4);
    transpose_quarters(r + 8);
    transpose_quarters(r + 12);
}

enum { BLOCKS_AT_ONCE = 2 };
#include "kern/template/chain_template.h"

void pith_matvec_f32_avx512(size_t rows, size_t cols, const void *w, size_t ldw, const float *x,
                            float *y)
{
    matvec_f32(rows, cols, w, ldw, x, y);
}

void pith_matvec_bf16_avx512(size_t rows, size_t cols, const void *w, size_t ldw, const float *x,
                             float *y)
{
    matvec_bf16(rows, cols, w, ldw, x, y);
}

void pith_matvec_f16_avx512(size_t rows, size_t cols, const void *w, size_t ldw, const float *x,
                            float *y)
{
    matvec_f16(rows, cols, w, ldw, x, y);
}
