/* 8 x 2: sixteen sums, two vectors of keys and one of the query in the thirty-two registers; four
 * rows take 4 x 4. */
#include "kern/avx512/vec_avx512.h"

#define TILE_ROWS 8
#define TILE_COLS 2
#define FOUR_COLS 4
#include "kern/template/attention_template.h"

void pith_attn_scores_f32_avx512(size_t rows, size_t dim, size_t blocks, const float *q, size_t ldq,
                                 const void *k, float *s, size_t lds)
{
    attn_scores_f32(rows, dim, blocks, q, ldq, k, s, lds);
}

void pith_attn_scores_bf16_avx512(size_t rows, size_t dim, size_t blocks, const float *q,
                                  size_t ldq, const void *k, float *s, size_t lds)
{
    attn_scores_bf16(rows, dim, blocks, q, ldq, k, s, lds);
}

void pith_attn_scores_f16_avx512(size_t rows, size_t dim, size_t blocks, const float *q, size_t ldq,
                                 const void *k, float *s, size_t lds)
{
    attn_scores_f16(rows, dim, blocks, q, ldq, k, s, lds);
}

void pith_attn_values_f32_avx512(size_t rows, size_t keys, size_t dim, const float *p, size_t ldp,
                                 const void *v, float *o, size_t ldo)
{
    attn_values_f32(rows, keys, dim, p, ldp, v, o, ldo);
}

void pith_attn_values_bf16_avx512(size_t rows, size_t keys, size_t dim, const float *p, size_t ldp,
                                  const void *v, float *o, size_t ldo)
{
    attn_values_bf16(rows, keys, dim, p, ldp, v, o, ldo);
}

void pith_attn_values_f16_avx512(size_t rows, size_t keys, size_t dim, const float *p, size_t ldp,
                                 const void *v, float *o, size_t ldo)
{
    attn_values_f16(rows, keys, dim, p, ldp, v, o, ldo);
}
