/* kern/template/coded_bytes_template.h: attention over codes by rows of bytes, written once around
 * what is a tier's own. Included after the vec header and
 *
 *     block_to_bytes(a, b, q, scale, sum)   to_bytes() for a block of 32 numbers, a then b
 *     block_sums(bits, rows, at, stride, q, sums)   for `rows` 1, 2 or 4 rows of q: the sums of 32
 *         rows of 32 codes of 4 or 8 bits, less their middle, `stride` apart
 *     sixteen_sums(bits, sums, half)       of one of those rows, the first or last, as floats
 *
 *     BLOCK_PREFETCHES                           1 where block_sums() prefetches what is read soon,
 * else 0
 *
 * with q a block of some rows in bytes (coded_block.h). */
#include "kern/coded.h"
#include "kern/ops.h"

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 8")

enum { BLOCK = PITH_CODED_BLOCK, MOST_ROWS = 4 };
/* Groups whose weights are made bytes before the first is used: each waits long for its own. */
enum { TOGETHER = 4 };

/* Where a block of what is read soon lies; or the one that is read now. */
INLINE const uint8_t *next_block(size_t bits, const struct pith_coded *c, size_t b, bool prefetches)
{
    return (prefetches && c->next ? c->next : c->codes) + b * BLOCK * BLOCK * bits / 8;
}

INLINE struct coded_block block_of(const struct pith_coded_bytes *x, size_t row, size_t b,
                                   const uint8_t *ahead)
{
    const size_t i = row * x->blocks + b;
    return (struct coded_block){x->q + i * BLOCK, x->sum + i, x->blocks, ahead};
}

INLINE void score_rows(size_t bits, size_t rows, const struct pith_coded *k,
                       const struct pith_coded_bytes *q, size_t row, float *s, size_t lds)
{
    struct block_sum sums[MOST_ROWS];
    for (size_t b = 0; b < q->blocks; b++) {
        const struct coded_block block = block_of(q, row, b, next_block(bits, k, b, row == 0));
        const size_t list = b * BLOCK / k->width * PITH_KEYS, i = row * q->blocks + b;
        if (row == 0 && !BLOCK_PREFETCHES) prefetch_next(k, k->dim * k->stride, b, q->blocks, true);
        block_sums(bits, rows, k->codes + b * BLOCK * k->stride, k->stride, &block, sums);
        UNROLL
        for (size_t r = 0; r < rows; r++) {
            const v16 scale = v16_set(q->scale[i + r * q->blocks]);
            UNROLL
            for (size_t j = 0; j < BLOCK; j += PITH_LANES) {
                float *to = s + r * lds + j;
                v16 sum = b == 0 ? v16_zero() : v16_load(to);
                const v16 x = v16_mul(sixteen_sums(bits, &sums[r], j / PITH_LANES), scale);
                sum = v16_fma(x, v16_load(k->scale + list + j), sum);
                if (k->offset)
                    sum = v16_fma(v16_load(k->offset + list + j),
                                  v16_set(q->total[i + r * q->blocks]), sum);
                v16_store(to, sum);
            }
        }
    }
}

/* What rows of weights make of a group: bytes, their scales and sums, and what offsets add. */
struct weighed {
    int8_t q[MOST_ROWS * BLOCK];
    float scale[MOST_ROWS], more[MOST_ROWS];
    int32_t sum[MOST_ROWS];
};

INLINE void weigh_group(size_t rows, const struct pith_coded *v, size_t g, const float *p,
                        size_t ldp, struct weighed *w)
{
    const float *scale = v->scale + g * PITH_KEYS, *offset = v->offset + g * PITH_KEYS;
    for (size_t r = 0; r < rows; r++) {
        const v16 a = v16_load(p + r * ldp), b = v16_load(p + r * ldp + PITH_LANES);
        block_to_bytes(v16_mul(a, v16_load(scale)), v16_mul(b, v16_load(scale + PITH_LANES)),
                       w->q + r * BLOCK, &w->scale[r], &w->sum[r]);
        w->more[r] = 0;
        if (!v->offset) continue;
        const v16 low = v16_fma(a, v16_load(offset), v16_zero());
        w->more[r] = v16_sum(v16_fma(b, v16_load(offset + PITH_LANES), low));
    }
}

/* 32 elements of the values. */
INLINE void value_tile(size_t bits, size_t rows, const struct pith_coded *v, size_t tile,
                       const uint8_t *ahead, const struct weighed *w, float *o, size_t ldo)
{
    struct block_sum sums[MOST_ROWS];
    const struct coded_block block = {w->q, w->sum, 1, ahead};
    const uint8_t *at = v->codes + tile * BLOCK * bits / 8;
    block_sums(bits, rows, at, v->stride, &block, sums);
    o += tile * BLOCK;
    UNROLL
    for (size_t r = 0; r < rows; r++) {
        const v16 scale = v16_set(w->scale[r]);
        UNROLL
        for (size_t j = 0; j < BLOCK; j += PITH_LANES) {
            float *to = o + r * ldo + j;
            v16 sum = v16_fma(sixteen_sums(bits, &sums[r], j / PITH_LANES), scale, v16_load(to));
            if (v->offset) sum = v16_add(sum, v16_set(w->more[r]));
            v16_store(to, sum);
        }
    }
}

INLINE void value_rows(size_t bits, size_t rows, const struct pith_coded *v,
                       const struct pith_coded_sums *s, size_t row, float *o, size_t ldo)
{
    const size_t tiles = v->width / BLOCK, groups = v->dim / v->width;
    for (size_t g = 0; g < groups; g += TOGETHER) {
        struct weighed w[TOGETHER];
        const size_t n = groups - g < TOGETHER ? groups - g : TOGETHER;
        for (size_t i = 0; i < n; i++)
            weigh_group(rows, v, g + i, s->p + row * s->ldp, s->ldp, &w[i]);
        for (size_t i = 0; i < n; i++)
            for (size_t t = (g + i) * tiles; t < (g + i + 1) * tiles; t++) {
                if (row == 0 && !BLOCK_PREFETCHES)
                    prefetch_next(v, BLOCK * v->stride, t, groups * tiles, true);
                value_tile(bits, rows, v, t, next_block(bits, v, t, row == 0), &w[i], o, ldo);
            }
    }
}

/* By fours of rows, the remainder by two and by one. */
#define BY_ROWS(name, bits, c, x, to, ld)                                                          \
    {                                                                                              \
        size_t r = 0;                                                                              \
        for (; r + 4 <= (x)->rows; r += 4) name(bits, 4, c, x, r, (to) + r * (ld), ld);            \
        for (; r + 2 <= (x)->rows; r += 2) name(bits, 2, c, x, r, (to) + r * (ld), ld);            \
        for (; r < (x)->rows; r++) name(bits, 1, c, x, r, (to) + r * (ld), ld);                    \
    }

static inline void attn_scores_bytes(const struct pith_coded *k, const struct pith_coded_bytes *q,
                                     float *s, size_t lds)
{
    if (pith_coded_bits(k) == 8) BY_ROWS(score_rows, 8, k, q, s, lds)
    else BY_ROWS(score_rows, 4, k, q, s, lds)
}

static inline void attn_values_bytes(const struct pith_coded *v, const struct pith_coded_sums *s)
{
    if (pith_coded_bits(v) == 8) BY_ROWS(value_rows, 8, v, s, s->o, s->ldo)
    else BY_ROWS(value_rows, 4, v, s, s->o, s->ldo)
}
#undef BY_ROWS
#undef INLINE
#undef UNROLL
