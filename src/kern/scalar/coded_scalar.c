/* Attention over codes: the definition. */
#include "kern/coded.h"
#include "kern/ops.h"
#include "num/elements/elements.h"

#include <math.h>

static unsigned few(unsigned bits, const uint8_t *stream, size_t i)
{
    const size_t at = i * bits;
    const unsigned both = stream[at / 8] | (unsigned)stream[(at + bits - 1) / 8] << 8;
    const unsigned low = (at + bits - 1) / 8 == at / 8 ? stream[at / 8] : both;
    return low >> at % 8 & ((1u << bits) - 1);
}

static unsigned half(const uint8_t *stream, size_t i)
{
    return i % 2 ? stream[i / 2] >> 4 : stream[i / 2] & 15u;
}

/* The value of code i of a stream. */
static float value_of(const struct pith_coded *c, const uint8_t *stream, size_t i)
{
    switch (c->kind) {
    case PITH_CODE_U8: return (float)stream[i];
    case PITH_CODE_U4: return (float)half(stream, i);
    case PITH_CODE_S8: return (float)stream[i] - 128.0f;
    case PITH_CODE_S4: return (float)half(stream, i) - 8.0f;
    case PITH_CODE_E4M3: return pith_fp8_e4m3_decode(stream[i]);
    case PITH_CODE_E5M2: return pith_fp8_e5m2_decode(stream[i]);
    case PITH_CODE_U2: return (float)few(2, stream, i);
    case PITH_CODE_UN: return (float)few(c->bits, stream, i);
    case PITH_CODE_FEW: return c->level[few(c->bits, stream, i)];
    default: return c->level[half(stream, i)];
    }
}

/* ... scaled by what has that index. */
static float number(const struct pith_coded *c, const uint8_t *stream, size_t i, size_t scale)
{
    const float value = value_of(c, stream, i);
    const float x = (c->zero ? value - c->zero[scale] : value) * c->scale[scale];
    return c->offset ? x + c->offset[scale] : x;
}

void pith_attn_scores_codes_scalar(const struct pith_coded *k, size_t rows, const float *q,
                                   size_t ldq, float *s, size_t lds)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t j = 0; j < PITH_KEYS; j++) {
            float sum = 0;
            for (size_t e = 0; e < k->dim; e++)
                sum = fmaf(q[r * ldq + e],
                           number(k, k->codes + e * k->stride, j, e / k->width * PITH_KEYS + j),
                           sum);
            s[r * lds + j] = sum;
        }
}

void pith_attn_values_codes_scalar(const struct pith_coded *v, const struct pith_coded_sums *s)
{
    const size_t groups = (v->dim - 1) / v->width + 1;
    for (size_t r = 0; r < s->rows; r++)
        for (size_t j = 0; j < s->values; j++)
            for (size_t e = 0; e < v->dim; e++) {
                float *o = &s->o[r * s->ldo + e];
                *o = fmaf(s->p[r * s->ldp + j],
                          number(v, v->codes + j * v->stride, e, j * groups + e / v->width), *o);
            }
}

/* A block's sum over 32 rows of codes, less their middle. */
static float block_sum(const struct pith_coded *c, const uint8_t *rows, size_t lane,
                       const int8_t *q)
{
    const bool bytes = pith_coded_bits(c) == 8;
    int32_t sum = 0;
    for (size_t i = 0; i < PITH_CODED_BLOCK; i++, rows += c->stride) {
        const int code = bytes ? rows[lane] - 128 : (rows[lane / 2] >> 4 * (lane % 2) & 15) - 8;
        sum += code * q[i];
    }
    return (float)sum;
}

void pith_attn_scores_bytes_scalar(const struct pith_coded *k, const struct pith_coded_bytes *q,
                                   float *s, size_t lds)
{
    for (size_t r = 0; r < q->rows; r++)
        for (size_t j = 0; j < PITH_KEYS; j++) {
            float sum = 0;
            for (size_t b = 0; b < q->blocks; b++) {
                const size_t i = r * q->blocks + b, first = b * PITH_CODED_BLOCK;
                const size_t at = first / k->width * PITH_KEYS + j;
                const float d =
                    block_sum(k, k->codes + first * k->stride, j, q->q + i * PITH_CODED_BLOCK);
                sum = fmaf(d * q->scale[i], k->scale[at], sum);
                if (k->offset) sum = fmaf(k->offset[at], q->total[i], sum);
            }
            s[r * lds + j] = sum;
        }
}

void pith_attn_values_bytes_scalar(const struct pith_coded *v, const struct pith_coded_sums *s)
{
    for (size_t r = 0; r < s->rows; r++)
        for (size_t g = 0; g < v->dim / v->width; g++) {
            const float *p = s->p + r * s->ldp, *scales = v->scale + g * PITH_KEYS;
            float x[PITH_KEYS], scale, more = 0;
            int8_t q[PITH_KEYS];
            int32_t sum;
            for (size_t j = 0; j < PITH_KEYS; j++) x[j] = p[j] * scales[j];
            pith_to_bytes_scalar(PITH_KEYS, PITH_KEYS, x, q, &scale, &sum);
            if (v->offset)
                pith_lanes_f32_scalar(1, PITH_KEYS, v->offset + g * PITH_KEYS, PITH_KEYS, p, &more);
            for (size_t e = g * v->width; e < (g + 1) * v->width; e++) {
                float *o = &s->o[r * s->ldo + e];
                *o = fmaf(block_sum(v, v->codes, e, q), scale, *o);
                if (v->offset) *o += more;
            }
        }
}
