/* Scores and weighted sums of attention. */
#include "kern/ops.h"
#include "num/format.h"

#include <math.h>
#include <string.h>

typedef float load_fn(const unsigned char *p, size_t i);

static float load_f32(const unsigned char *p, size_t i)
{
    float f;
    memcpy(&f, p + i * sizeof f, sizeof f);
    return f;
}

static float load_bf16(const unsigned char *p, size_t i)
{
    uint16_t h;
    memcpy(&h, p + i * sizeof h, sizeof h);
    return pith_bf16_to_f32(h);
}

static float load_f16(const unsigned char *p, size_t i)
{
    uint16_t h;
    memcpy(&h, p + i * sizeof h, sizeof h);
    return pith_f16_to_f32(h);
}

static void scores(load_fn *load, size_t rows, size_t dim, size_t blocks, const float *q,
                   size_t ldq, const void *k, float *s, size_t lds)
{
    for (size_t r = 0; r < rows; r++) {
        for (size_t j = 0; j < blocks * PITH_KEYS; j++) {
            const size_t key = j / PITH_KEYS * dim * PITH_KEYS + j % PITH_KEYS;
            float sum = 0;
            for (size_t e = 0; e < dim; e++)
                sum = fmaf(q[r * ldq + e], load(k, key + e * PITH_KEYS), sum);
            s[r * lds + j] = sum;
        }
    }
}

static void values(load_fn *load, size_t rows, size_t keys, size_t dim, const float *p, size_t ldp,
                   const void *v, float *o, size_t ldo)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t j = 0; j < keys; j++)
            for (size_t e = 0; e < dim; e++)
                o[r * ldo + e] = fmaf(p[r * ldp + j], load(v, j * dim + e), o[r * ldo + e]);
}

void pith_attn_scores_f32_scalar(size_t rows, size_t dim, size_t blocks, const float *q, size_t ldq,
                                 const void *k, float *s, size_t lds)
{
    scores(load_f32, rows, dim, blocks, q, ldq, k, s, lds);
}

void pith_attn_scores_bf16_scalar(size_t rows, size_t dim, size_t blocks, const float *q,
                                  size_t ldq, const void *k, float *s, size_t lds)
{
    scores(load_bf16, rows, dim, blocks, q, ldq, k, s, lds);
}

void pith_attn_scores_f16_scalar(size_t rows, size_t dim, size_t blocks, const float *q, size_t ldq,
                                 const void *k, float *s, size_t lds)
{
    scores(load_f16, rows, dim, blocks, q, ldq, k, s, lds);
}

void pith_attn_values_f32_scalar(size_t rows, size_t keys, size_t dim, const float *p, size_t ldp,
                                 const void *v, float *o, size_t ldo)
{
    values(load_f32, rows, keys, dim, p, ldp, v, o, ldo);
}

void pith_attn_values_bf16_scalar(size_t rows, size_t keys, size_t dim, const float *p, size_t ldp,
                                  const void *v, float *o, size_t ldo)
{
    values(load_bf16, rows, keys, dim, p, ldp, v, o, ldo);
}

void pith_attn_values_f16_scalar(size_t rows, size_t keys, size_t dim, const float *p, size_t ldp,
                                 const void *v, float *o, size_t ldo)
{
    values(load_f16, rows, keys, dim, p, ldp, v, o, ldo);
}

void pith_scale_keys_scalar(size_t n, const float *zero, const float *scale, const float *offset,
                            float *x)
{
    for (size_t e = 0; e < n; e++, x += PITH_KEYS)
        for (size_t j = 0; j < PITH_KEYS; j++) {
            if (zero) x[j] -= zero[j];
            x[j] *= scale[j];
            if (offset) x[j] += offset[j];
        }
}
