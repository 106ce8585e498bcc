/* Products with matrices as they are stored, a chain a row. */
#include "kern/avx2/vec_avx2.h"

static inline vn vn_words(const void *p)
{
    return _mm256_loadu_ps(p);
}
static inline vn vn_from_f16(const void *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128(p));
}
static inline vn vn_low_bf16(vn w)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(w), 16));
}
static inline vn vn_high_bf16(vn w)
{
    return _mm256_and_ps(w, _mm256_castsi256_ps(_mm256_set1_epi32((int)0xffff0000)));
}

static inline __attribute__((always_inline)) void exchange_halves(vn *r)
{
    const vn low = r[0], high = r[4];
    r[0] = _mm256_permute2f128_ps(low, high, 0x20);
    r[4] = _mm256_permute2f128_ps(low, high, 0x31);
}

/* Transposes within each half of four registers. */
static inline __attribute__((always_inline)) void transpose_halves(vn *r)
{
    const vn a = _mm256_unpacklo_ps(r[0], r[1]), b = _mm256_unpackhi_ps(r[0], r[1]);
    const vn c = _mm256_unpacklo_ps(r[2], r[3]), d = _mm256_unpackhi_ps(r[2], r[3]);
    r[0] = _mm256_shuffle_ps(a, c, 0x44);
    r[1] = _mm256_shuffle_ps(a, c, 0xee);
    r[2] = _mm256_shuffle_ps(b, d, 0x44);
    r[3] = _mm256_shuffle_ps(b, d, 0xee);
}

/* In this order the first columns are there first. */
static inline __attribute__((always_inline)) void vn_transpose(vn *r)
{
    exchange_halves(r);
    exchange_halves(r + 1);
    exchange_halves(r + 2);
    exchange_halves(r + 3);
    transpose_halves(r);
    transpose_halves(r + 4);
}

enum { BLOCKS_AT_ONCE = 1 };
#include "kern/template/chain_template.h"

void pith_matvec_f32_avx2(size_t rows, size_t cols, const void *w, size_t ldw, const float *x,
                          float *y)
{
    matvec_f32(rows, cols, w, ldw, x, y);
}

void pith_matvec_bf16_avx2(size_t rows, size_t cols, const void *w, size_t ldw, const float *x,
                           float *y)
{
    matvec_bf16(rows, cols, w, ldw, x, y);
}

void pith_matvec_f16_avx2(size_t rows, size_t cols, const void *w, size_t ldw, const float *x,
                          float *y)
{
    matvec_f16(rows, cols, w, ldw, x, y);
}
