/* 6 x 1: a vector of sixteen lanes is four of the thirty-two registers, so twenty-four sums, four
 * for keys and one for the query. */
#include "kern/neon/vec_neon.h"

#define TILE_ROWS 6
#define TILE_COLS 1
#define FOUR_COLS 1
#include "kern/template/attention_template.h"

void pith_attn_scores_f32_neon(size_t rows, size_t dim, size_t blocks, const float *q, size_t ldq,
                               const void *k, float *s, size_t lds)
{
    attn_scores_f32(rows, dim, blocks, q, ldq, k, s, lds);
}

void pith_attn_scores_bf16_neon(size_t rows, size_t dim, size_t blocks, const float *q, size_t ldq,
                                const void *k, float *s, size_t lds)
{
    attn_scores_bf16(rows, dim, blocks, q, ldq, k, s, lds);
}

void pith_attn_scores_f16_neon(size_t rows, size_t dim, size_t blocks, const float *q, size_t ldq,
                               const void *k, float *s, size_t lds)
{
    attn_scores_f16(rows, dim, blocks, q, ldq, k, s, lds);
}

void pith_attn_values_f32_neon(size_t rows, size_t keys, size_t dim, const float *p, size_t ldp,
                               const void *v, float *o, size_t ldo)
{
    attn_values_f32(rows, keys, dim, p, ldp, v, o, ldo);
}

void pith_attn_values_bf16_neon(size_t rows, size_t keys, size_t dim, const float *p, size_t ldp,
                                const void *v, float *o, size_t ldo)
{
    attn_values_bf16(rows, keys, dim, p, ldp, v, o, ldo);
}

void pith_attn_values_f16_neon(size_t rows, size_t keys, size_t dim, const float *p, size_t ldp,
                               const void *v, float *o, size_t ldo)
{
    attn_values_f16(rows, keys, dim, p, ldp, v, o, ldo);
}
