/* kern/template/attention_template.h: scores and weighted sums of attention, written once in
 * sixteen-lane vectors. Included after the vec header, with TILE_ROWS and TILE_COLS defined: the
 * largest tile of sums, in rows and vectors, that leaves registers for TILE_COLS vectors of keys or
 * values and one more; FOUR_COLS likewise for four rows. With the sizes of a tile known where it is
 * inlined, its loops unroll and its sums stay in registers.
 *
 * Every sum is one chain of multiply-adds in the definition's order, in a separate lane: a lane is
 * a key for scores, an element of the head for weighted sums. A vector of keys or values is read
 * and widened once for all rows of a tile. */
#include "kern/ops.h"

#include <stdbool.h>

typedef v16 attn_load_fn(const void *p);
struct attn_storage {
    size_t bytes; /* of an element */
    attn_load_fn *load;
};
/* Keys and values are prefetched, as far as one goes before coming back for the next rows: the
 * processor's prefetcher starts anew on every page and does not keep up with a loop that also
 * computes. */
#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 8")

/* `rows` rows against `cols` vectors of keys of one block. What lies `ahead` is prefetched; 0 for
 * later rows, which find all of it in the cache. */
INLINE void score_tile(const struct attn_storage *s, size_t rows, size_t cols, size_t dim,
                       const float *q, size_t ldq, const char *k, size_t ahead, float *out,
                       size_t ldo)
{
    v16 sum[8][2], x[2];
    const size_t step = PITH_KEYS * s->bytes;
    UNROLL
    for (size_t r = 0; r < rows; r++) {
        UNROLL
        for (size_t c = 0; c < cols; c++) sum[r][c] = v16_zero();
    }
    for (size_t e = 0; e < dim; e++) {
        UNROLL
        for (size_t c = 0; c < cols; c++) {
            const char *at = k + e * step + c * 16 * s->bytes;
            x[c] = s->load(at);
            if (s->bytes == 4 || c == 0) __builtin_prefetch(at + ahead);
        }
        UNROLL
        for (size_t r = 0; r < rows; r++) {
            const v16 y = v16_set(q[r * ldq + e]);
            UNROLL
            for (size_t c = 0; c < cols; c++) sum[r][c] = v16_fma(y, x[c], sum[r][c]);
        }
    }
    UNROLL
    for (size_t r = 0; r < rows; r++) {
        UNROLL
        for (size_t c = 0; c < cols; c++) v16_store(out + r * ldo + c * 16, sum[r][c]);
    }
}

/* A whole block for `rows` rows, `cols` vectors at a time. */
INLINE void score_rows(const struct attn_storage *s, size_t rows, size_t cols, size_t dim,
                       const float *q, size_t ldq, const char *k, size_t ahead, float *out,
                       size_t ldo)
{
    for (size_t c = 0; c < 2; c += cols)
        score_tile(s, rows, cols, dim, q, ldq, k + c * 16 * s->bytes, ahead, out + c * 16, ldo);
}

/* Rows are taken by the largest tile that they fill. */
INLINE void scores(const struct attn_storage *s, size_t rows, size_t dim, size_t blocks,
                   const float *q, size_t ldq, const void *keys, float *out, size_t ldo)
{
    enum { COLS = FOUR_COLS < 2 ? FOUR_COLS : 2 };
    const char *k = keys;
    const size_t block = dim * PITH_KEYS * s->bytes;
    for (size_t b = 0; b < blocks; b++, k += block) {
        float *o = out + b * PITH_KEYS;
        size_t r = 0, ahead = 2 * block;
        for (; r + TILE_ROWS <= rows; r += TILE_ROWS, ahead = 0)
            score_rows(s, TILE_ROWS, TILE_COLS, dim, q + r * ldq, ldq, k, ahead, o + r * ldo, ldo);
        for (; r + 4 <= rows; r += 4, ahead = 0)
            score_rows(s, 4, COLS, dim, q + r * ldq, ldq, k, ahead, o + r * ldo, ldo);
        for (; r + 2 <= rows; r += 2, ahead = 0)
            score_rows(s, 2, 2, dim, q + r * ldq, ldq, k, ahead, o + r * ldo, ldo);
        for (; r < rows; r++, ahead = 0)
            score_rows(s, 1, 2, dim, q + r * ldq, ldq, k, ahead, o + r * ldo, ldo);
    }
}

/* Values that are taken at a time: few enough that they and the next ones stay in the first cache
 * while all rows and columns pass over them. In bfloat16 they come from memory, and the less is
 * under way at a time the steadier it flows; in float32 mostly from a cache. */
INLINE size_t stretch(const struct attn_storage *s, size_t dim)
{
    enum { LEAST = 16 };
    const size_t n = (s->bytes == 2 ? 8192 : 16384) / (dim * s->bytes);
    return n < LEAST ? LEAST : n;
}

/* `rows` rows of weights times `cols` vectors of `keys` values. */
INLINE void value_tile(const struct attn_storage *s, size_t rows, size_t cols, size_t keys,
                       size_t dim, const float *p, size_t ldp, const char *v, const char *ahead_at,
                       float *o, size_t ldo)
{
    v16 sum[8][4], x[4];
    const size_t step = dim * s->bytes;
    UNROLL
    for (size_t r = 0; r < rows; r++) {
        UNROLL
        for (size_t c = 0; c < cols; c++) sum[r][c] = v16_load(o + r * ldo + c * 16);
    }
    for (size_t j = 0; j < keys; j++) {
        UNROLL
        for (size_t c = 0; c < cols; c++) {
            x[c] = s->load(v + j * step + c * 16 * s->bytes);
            if (s->bytes == 4 || c % 2 == 0) __builtin_prefetch(ahead_at + c * 16 * s->bytes);
            __asm__("" : "+r"(ahead_at)); /* or lines are prefetched out of order */
        }
        ahead_at += cols * 16 * s->bytes;
        UNROLL
        for (size_t r = 0; r < rows; r++) {
            const v16 y = v16_set(p[r * ldp + j]);
            UNROLL
            for (size_t c = 0; c < cols; c++) sum[r][c] = v16_fma(y, x[c], sum[r][c]);
        }
    }
    UNROLL
    for (size_t r = 0; r < rows; r++) {
        UNROLL
        for (size_t c = 0; c < cols; c++) v16_store(o + r * ldo + c * 16, sum[r][c]);
    }
}

/* All columns from `col` on in which `cols` vectors fit; returns the first remaining column. The
 * first rows prefetch the next stretch; for the others it is in the cache. */
INLINE size_t value_rows(const struct attn_storage *s, size_t rows, size_t cols, size_t col,
                         size_t keys, size_t dim, const float *p, size_t ldp, const char *v,
                         bool first, float *o, size_t ldo)
{
    const char *ahead_at = v + ((first ? stretch(s, dim) * dim : 0) + col * keys) * s->bytes;
    for (; col + cols * 16 <= dim; col += cols * 16, ahead_at += cols * 16 * keys * s->bytes)
        value_tile(s, rows, cols, keys, dim, p, ldp, v + col * s->bytes, ahead_at, o + col, ldo);
    return col;
}

/* One stretch of values. */
INLINE void value_stretch(const struct attn_storage *s, size_t rows, size_t keys, size_t dim,
                          const float *p, size_t ldp, const char *v, float *o, size_t ldo)
{
    size_t r = 0, c;
    for (; r + TILE_ROWS <= rows; r += TILE_ROWS, p += TILE_ROWS * ldp, o += TILE_ROWS * ldo) {
        c = value_rows(s, TILE_ROWS, TILE_COLS, 0, keys, dim, p, ldp, v, r == 0, o, ldo);
#if TILE_COLS > 1
        (void)value_rows(s, TILE_ROWS, 1, c, keys, dim, p, ldp, v, r == 0, o, ldo);
#endif
    }
    for (; r + 4 <= rows; r += 4, p += 4 * ldp, o += 4 * ldo) {
        c = value_rows(s, 4, FOUR_COLS, 0, keys, dim, p, ldp, v, r == 0, o, ldo);
        (void)value_rows(s, 4, 1, c, keys, dim, p, ldp, v, r == 0, o, ldo);
    }
    for (; r < rows; r++, p += ldp, o += ldo) {
        c = value_rows(s, 1, 4, 0, keys, dim, p, ldp, v, r == 0, o, ldo);
        (void)value_rows(s, 1, 1, c, keys, dim, p, ldp, v, r == 0, o, ldo);
    }
    (void)c;
}

INLINE void values(const struct attn_storage *s, size_t rows, size_t keys, size_t dim,
                   const float *p, size_t ldp, const void *from, float *o, size_t ldo)
{
    const char *v = from;
    if (dim == 0) return;
    const size_t most = stretch(s, dim);
    for (size_t j = 0; j < keys; j += most) {
        const size_t n = keys - j < most ? keys - j : most;
        value_stretch(s, rows, n, dim, p + j, ldp, v + j * dim * s->bytes, o, ldo);
    }
}

static inline v16 attn_load_f32(const void *p)
{
    return v16_load(p);
}

static inline void attn_scores_f32(size_t rows, size_t dim, size_t blocks, const float *q,
                                   size_t ldq, const void *k, float *out, size_t ldo)
{
    scores(&(struct attn_storage){4, attn_load_f32}, rows, dim, blocks, q, ldq, k, out, ldo);
}

static inline void attn_scores_bf16(size_t rows, size_t dim, size_t blocks, const float *q,
                                    size_t ldq, const void *k, float *out, size_t ldo)
{
    scores(&(struct attn_storage){2, v16_load_bf16}, rows, dim, blocks, q, ldq, k, out, ldo);
}

static inline void attn_scores_f16(size_t rows, size_t dim, size_t blocks, const float *q,
                                   size_t ldq, const void *k, float *out, size_t ldo)
{
    scores(&(struct attn_storage){2, v16_load_f16}, rows, dim, blocks, q, ldq, k, out, ldo);
}

static inline void attn_values_f32(size_t rows, size_t keys, size_t dim, const float *p, size_t ldp,
                                   const void *v, float *o, size_t ldo)
{
    values(&(struct attn_storage){4, attn_load_f32}, rows, keys, dim, p, ldp, v, o, ldo);
}

static inline void attn_values_bf16(size_t rows, size_t keys, size_t dim, const float *p,
                                    size_t ldp, const void *v, float *o, size_t ldo)
{
    values(&(struct attn_storage){2, v16_load_bf16}, rows, keys, dim, p, ldp, v, o, ldo);
}

static inline void attn_values_f16(size_t rows, size_t keys, size_t dim, const float *p, size_t ldp,
                                   const void *v, float *o, size_t ldo)
{
    values(&(struct attn_storage){2, v16_load_f16}, rows, keys, dim, p, ldp, v, o, ldo);
}
#undef INLINE
#undef UNROLL
