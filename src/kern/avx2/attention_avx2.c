/* 6 x 1: a vector of sixteen lanes is two of the sixteen registers, so twelve sums, two for keys
 * and one for the query. */
#include "kern/avx2/vec_avx2.h"

#define TILE_ROWS 6
#define TILE_COLS 1
#define FOUR_COLS 1
#include "kern/template/attention_template.h"

void pith_attn_scores_f32_avx2(size_t rows, size_t dim, size_t blocks, const float *q, size_t ldq,
                               const void *k, float *s, size_t lds)
{
    attn_scores_f32(rows, dim, blocks, q, ldq, k, s, lds);
}

void pith_attn_scores_bf16_avx2(size_t rows, size_t dim, size_t blocks, const float *q, size_t ldq,
                                const void *k, float *s, size_t lds)
{
    attn_scores_bf16(rows, dim, blocks, q, ldq, k, s, lds);
}

void pith_attn_scores_f16_avx2(size_t rows, size_t dim, size_t blocks, const float *q, size_t ldq,
                               const void *k, float *s, size_t lds)
{
    attn_scores_f16(rows, dim, blocks, q, ldq, k, s, lds);
}

void pith_attn_values_f32_avx2(size_t rows, size_t keys, size_t dim, const float *p, size_t ldp,
                               const void *v, float *o, size_t ldo)
{
    attn_values_f32(rows, keys, dim, p, ldp, v, o, ldo);
}

void pith_attn_values_bf16_avx2(size_t rows, size_t keys, size_t dim, const float *p, size_t ldp,
                                const void *v, float *o, size_t ldo)
{
    attn_values_bf16(rows, keys, dim, p, ldp, v, o, ldo);
}

void pith_attn_values_f16_avx2(size_t rows, size_t keys, size_t dim, const float *p, size_t ldp,
                               const void *v, float *o, size_t ldo)
{
    attn_values_f16(rows, keys, dim, p, ldp, v, o, ldo);
}

/* One vector of the neighbours, down all elements. */
static void scale_lane(size_t n, const float *zero, const float *scale, const float *offset,
                       float *x)
{
    const __m256 none = _mm256_setzero_ps(), s = _mm256_loadu_ps(scale);
    const __m256 z = zero ? _mm256_loadu_ps(zero) : none;
    if (offset) {
        const __m256 o = _mm256_loadu_ps(offset);
        for (size_t e = 0; e < n; e++, x += PITH_KEYS) {
            const __m256 v = _mm256_sub_ps(_mm256_loadu_ps(x), z);
            _mm256_storeu_ps(x, _mm256_add_ps(_mm256_mul_ps(v, s), o));
        }
        return;
    }
    for (size_t e = 0; e < n; e++, x += PITH_KEYS)
        _mm256_storeu_ps(x, _mm256_mul_ps(_mm256_sub_ps(_mm256_loadu_ps(x), z), s));
}

void pith_scale_keys_avx2(size_t n, const float *zero, const float *scale, const float *offset,
                          float *x)
{
    for (size_t j = 0; j < PITH_KEYS; j += 8)
        scale_lane(n, zero ? zero + j : NULL, scale + j, offset ? offset + j : NULL, x + j);
}
