/* kern/template/coded_template.h: attention over codes, written once in sixteen-lane vectors.
 * Included after the vec header and v16_code(kind, p, how), the values of sixteen codes at p, and
 * what is shorter where scales allow it (FOLDED):
 *
 *     folds(c, n)                 whether they do: all n scales, zeros and the levels of c
 *     fold_unit(kind, how)        what scales are multiplied by for folded()
 *     fold_open(kind, s, how)     what folded() takes for such scales and what is taken off behind
 *                                 them, products with zeros or negative offsets, a lane each
 *     folded(kind, p, how, s)     sixteen codes with zeros and scales, in the order of fold_order()
 *     fold_order(kind, x), fold_back(kind, x)   to that order, and back
 *
 * As in attention_template.h every sum is one chain in a separate lane. Codes are converted to
 * numbers once for all rows of a tile. */
#include "kern/coded.h"
#include "kern/ops.h"
#include "kern/template/coded_block.h"

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 8")

/* Bytes of sixteen codes. */
INLINE size_t sixteen_codes(enum pith_code_kind kind, unsigned bits)
{
    if (kind == PITH_CODE_UN || kind == PITH_CODE_FEW) return 2 * (size_t)bits;
    if (kind == PITH_CODE_U2) return 4;
    return kind == PITH_CODE_U4 || kind == PITH_CODE_S4 || kind == PITH_CODE_LEVELS ? 8 : 16;
}

/* Whether a page has more lines than the first cache can wait for. */
INLINE bool is_wide(enum pith_code_kind kind)
{
    return sixteen_codes(kind, 0) == 16;
}

INLINE v16 coded_value(enum pith_code_kind kind, enum affine affine, const uint8_t *p,
                       const v16_how *how, const struct coded_scale *s)
{
    if (affine == FOLDED) return folded(kind, p, how, s);
    const v16 value = v16_code(kind, p, how);
    if (affine == ZEROS) return v16_mul(v16_sub(value, s->shift), s->scale);
    const v16 x = v16_mul(value, s->scale);
    return affine == OFFSETS ? v16_add(x, s->shift) : x;
}

/* Of keys g, g + 1, ... */
INLINE struct coded_scale key_scale(enum pith_code_kind kind, enum affine affine,
                                    const struct pith_coded *k, size_t g, const v16_how *how)
{
    const v16 scale = v16_load(k->scale + g);
    if (affine == ALONE) return (struct coded_scale){scale, v16_zero()};
    if (affine == OFFSETS) return (struct coded_scale){scale, v16_load(k->offset + g)};
    const v16 zero = k->zero ? v16_load(k->zero + g) : v16_set(middle_of(kind));
    if (affine == ZEROS) return (struct coded_scale){scale, zero};
    const v16 permuted = fold_order(kind, scale);
    const v16 less = k->offset ? fold_order(kind, v16_sub(v16_zero(), v16_load(k->offset + g)))
                     : k->zero ? fold_order(kind, v16_mul(zero, scale))
                               : v16_mul(zero, permuted);
    const v16 by = v16_mul(permuted, v16_set(fold_unit(kind, how)));
    return fold_open(kind, (struct coded_scale){by, less}, how);
}

/* What folded() takes for the groups of some values, made once for all of their elements. */
enum { LISTED = 256 };
struct folded_lists {
    float scale[LISTED], less[LISTED];
};

/* Of n groups, with room for LISTED. */
INLINE void list_folded(enum pith_code_kind kind, const struct pith_coded *v, size_t n,
                        const v16_how *how, struct folded_lists *to)
{
    const v16 unit = v16_set(fold_unit(kind, how)), middle = v16_set(middle_of(kind));
    for (size_t i = 0; i < n; i += PITH_LANES) {
        const size_t left = n - i < PITH_LANES ? n - i : PITH_LANES;
        const v16 scale = v16_load_part(v->scale + i, left);
        const v16 zero = v->zero ? v16_load_part(v->zero + i, left) : middle;
        v16_store(to->scale + i, v16_mul(scale, unit));
        v16_store(to->less + i, v->offset ? v16_sub(v16_zero(), v16_load_part(v->offset + i, left))
                                          : v16_mul(zero, scale));
    }
}

/* Of one value's group. */
INLINE struct coded_scale value_scale(enum pith_code_kind kind, enum affine affine,
                                      const struct pith_coded *v, const struct folded_lists *lists,
                                      size_t i, const v16_how *how)
{
    if (affine == FOLDED)
        return fold_open(
            kind, (struct coded_scale){v16_set(lists->scale[i]), v16_set(lists->less[i])}, how);
    const v16 scale = v16_set(v->scale[i]);
    if (affine == ALONE) return (struct coded_scale){scale, v16_zero()};
    if (affine == OFFSETS) return (struct coded_scale){scale, v16_set(v->offset[i])};
    return (struct coded_scale){scale, v16_set(v->zero ? v->zero[i] : middle_of(kind))};
}

/* `rows` rows against sixteen of the 32 keys, those from `half` * 16 on. */
INLINE void coded_score_tile(enum pith_code_kind kind, enum affine affine, size_t rows, size_t half,
                             const struct pith_coded *k, const float *q, size_t ldq, float *out,
                             size_t ldo)
{
    v16 sum[4];
    const v16_how how = v16_how_of(kind, k);
    const uint8_t *at = k->codes + half * sixteen_codes(kind, k->bits);
    const bool wide = is_wide(kind);
    UNROLL
    for (size_t r = 0; r < rows; r++) sum[r] = v16_zero();
    for (size_t first = 0, g = half * 16; first < k->dim; first += k->width, g += PITH_KEYS) {
        const struct coded_scale s = key_scale(kind, affine, k, g, &how);
        const size_t end = first + k->width < k->dim ? first + k->width : k->dim;
        for (size_t e = first; e < end; e++, at += k->stride) {
            if (half == 0) prefetch_at(k->next, (size_t)(at - k->codes), wide);
            const v16 x = coded_value(kind, affine, at, &how, &s);
            UNROLL
            for (size_t r = 0; r < rows; r++) sum[r] = v16_fma(v16_set(q[r * ldq + e]), x, sum[r]);
        }
    }
    UNROLL
    for (size_t r = 0; r < rows; r++)
        v16_store(out + r * ldo + half * 16, affine == FOLDED ? fold_back(kind, sum[r]) : sum[r]);
}

INLINE void coded_scores(enum pith_code_kind kind, enum affine affine, const struct pith_coded *k,
                         size_t rows, const float *q, size_t ldq, float *s, size_t lds)
{
    size_t r = 0;
    for (; r + 4 <= rows; r += 4)
        for (size_t half = 0; half < 2; half++)
            coded_score_tile(kind, affine, 4, half, k, q + r * ldq, ldq, s + r * lds, lds);
    for (; r < rows; r++)
        for (size_t half = 0; half < 2; half++)
            coded_score_tile(kind, affine, 1, half, k, q + r * ldq, ldq, s + r * lds, lds);
}

/* Some rows of sums. */
struct value_rows {
    const struct folded_lists *lists;
    size_t values, ldp, ldo;
    const float *p;
    float *o;
};

/* `rows` rows of weights times sixteen elements, from `col` on, of all values. `prefetches`: for as
 * many bytes of what is read soon, line by line. */
INLINE void coded_value_tile(enum pith_code_kind kind, enum affine affine, size_t rows, size_t col,
                             const struct pith_coded *v, const struct value_rows *to,
                             bool prefetches)
{
    const size_t each = sixteen_codes(kind, v->bits);
    size_t ahead = col / 16 * each * to->values;
    v16 sum[4];
    const v16_how how = v16_how_of(kind, v);
    const size_t groups = (v->dim - 1) / v->width + 1, stride = v->stride;
    const uint8_t *at = v->codes + col / 16 * each;
    const float *p[4];
    UNROLL
    for (size_t r = 0; r < rows; r++) {
        p[r] = to->p + r * to->ldp;
        sum[r] = v16_load(to->o + r * to->ldo + col);
        if (affine == FOLDED) sum[r] = fold_order(kind, sum[r]);
    }
    for (size_t j = 0, i = col / v->width; j < to->values; j++, i += groups, at += stride) {
        if (prefetches && j % 4 == 0) prefetch_at(v->next, ahead, true);
        ahead += each;
        const struct coded_scale s = value_scale(kind, affine, v, to->lists, i, &how);
        const v16 x = coded_value(kind, affine, at, &how, &s);
        UNROLL
        for (size_t r = 0; r < rows; r++) sum[r] = v16_fma(v16_set(p[r][j]), x, sum[r]);
    }
    UNROLL
    for (size_t r = 0; r < rows; r++)
        v16_store(to->o + r * to->ldo + col, affine == FOLDED ? fold_back(kind, sum[r]) : sum[r]);
}

/* Sixteen elements of all values for some rows, the first or others. Where a page has many lines,
 * prefetching all of a tile at once would delay its loads. */
INLINE void coded_value_col(enum pith_code_kind kind, enum affine affine, size_t rows, size_t col,
                            const struct pith_coded *v, const struct value_rows *to, bool first)
{
    const bool wide = is_wide(kind);
    if (first && !wide) prefetch_next(v, to->values * v->stride, col / 16, v->dim / 16, false);
    coded_value_tile(kind, affine, rows, col, v, to, first && wide);
}

/* All elements of some values for all rows. */
INLINE void coded_value_rows(enum pith_code_kind kind, enum affine affine,
                             const struct pith_coded *v, size_t rows, struct value_rows to)
{
    size_t r = 0;
    for (; r + 4 <= rows; r += 4, to.p += 4 * to.ldp, to.o += 4 * to.ldo)
        for (size_t c = 0; c < v->dim; c += 16) coded_value_col(kind, affine, 4, c, v, &to, r == 0);
    for (; r < rows; r++, to.p += to.ldp, to.o += to.ldo)
        for (size_t c = 0; c < v->dim; c += 16) coded_value_col(kind, affine, 1, c, v, &to, r == 0);
}

/* Values n at a time, as many as lists have room for. */
INLINE void coded_values(enum pith_code_kind kind, enum affine affine, const struct pith_coded *v,
                         const struct pith_coded_sums *s)
{
    struct folded_lists lists;
    const v16_how how = v16_how_of(kind, v);
    const size_t groups = (v->dim - 1) / v->width + 1;
    const size_t most = affine == FOLDED ? LISTED / groups : s->values;
    struct pith_coded some = *v;
    for (size_t j = 0, n; j < s->values; j += n) {
        n = s->values - j < most ? s->values - j : most;
        some.codes = v->codes + j * v->stride;
        some.next = v->next ? v->next + j * v->stride : NULL;
        some.scale = v->scale + j * groups;
        if (v->zero) some.zero = v->zero + j * groups;
        if (v->offset) some.offset = v->offset + j * groups;
        if (affine == FOLDED) list_folded(kind, &some, n * groups, &how, &lists);
        coded_value_rows(kind, affine, &some, s->rows,
                         (struct value_rows){&lists, n, s->ldp, s->ldo, s->p + j, s->o});
    }
}

#define CODED(name, kind, affine)                                                                  \
    static void scores_##name(const struct pith_coded *k, size_t rows, const float *q, size_t ldq, \
                              float *s, size_t lds)                                                \
    {                                                                                              \
        coded_scores(kind, affine, k, rows, q, ldq, s, lds);                                       \
    }                                                                                              \
    static void values_##name(const struct pith_coded *v, const struct pith_coded_sums *s)         \
    {                                                                                              \
        coded_values(kind, affine, v, s);                                                          \
    }
CODED(u8, PITH_CODE_U8, ZEROS)
CODED(u8_offset, PITH_CODE_U8, OFFSETS)
CODED(u4, PITH_CODE_U4, ZEROS)
CODED(u4_offset, PITH_CODE_U4, OFFSETS)
CODED(u2, PITH_CODE_U2, ZEROS)
CODED(u2_offset, PITH_CODE_U2, OFFSETS)
CODED(un, PITH_CODE_UN, ZEROS)
CODED(un_offset, PITH_CODE_UN, OFFSETS)
CODED(s8, PITH_CODE_S8, ALONE)
CODED(s4, PITH_CODE_S4, ALONE)
CODED(e4m3, PITH_CODE_E4M3, ALONE)
CODED(e5m2, PITH_CODE_E5M2, ALONE)
CODED(levels, PITH_CODE_LEVELS, ALONE)
CODED(few, PITH_CODE_FEW, ALONE)
CODED(u8_folded, PITH_CODE_U8, FOLDED)
CODED(u4_folded, PITH_CODE_U4, FOLDED)
CODED(u2_folded, PITH_CODE_U2, FOLDED)
CODED(s8_folded, PITH_CODE_S8, FOLDED)
CODED(s4_folded, PITH_CODE_S4, FOLDED)
CODED(e4m3_folded, PITH_CODE_E4M3, FOLDED)
CODED(e5m2_folded, PITH_CODE_E5M2, FOLDED)
CODED(levels_folded, PITH_CODE_LEVELS, FOLDED)
#undef CODED

typedef void coded_scores_fn(const struct pith_coded *k, size_t rows, const float *q, size_t ldq,
                             float *s, size_t lds);
typedef void coded_values_fn(const struct pith_coded *v, const struct pith_coded_sums *s);
/* By kind: as it is, with offsets, folded. */
enum { AS_IS, WITH_OFFSETS, SHORTER, WAYS };
#define FOLDED_KIND(name)                                                                          \
    {scores_##name, NULL, scores_##name##_folded},                                                 \
    {                                                                                              \
        values_##name, NULL, values_##name##_folded                                                \
    }
static const struct {
    coded_scores_fn *scores[WAYS];
    coded_values_fn *values[WAYS];
} coded_of[PITH_CODE_KINDS] = {
    [PITH_CODE_U8] = {{scores_u8, scores_u8_offset, scores_u8_folded},
                      {values_u8, values_u8_offset, values_u8_folded}},
    [PITH_CODE_U4] = {{scores_u4, scores_u4_offset, scores_u4_folded},
                      {values_u4, values_u4_offset, values_u4_folded}},
    [PITH_CODE_U2] = {{scores_u2, scores_u2_offset, scores_u2_folded},
                      {values_u2, values_u2_offset, values_u2_folded}},
    [PITH_CODE_UN] = {{scores_un, scores_un_offset}, {values_un, values_un_offset}},
    [PITH_CODE_S8] = {FOLDED_KIND(s8)},
    [PITH_CODE_S4] = {FOLDED_KIND(s4)},
    [PITH_CODE_E4M3] = {FOLDED_KIND(e4m3)},
    [PITH_CODE_E5M2] = {FOLDED_KIND(e5m2)},
    [PITH_CODE_LEVELS] = {FOLDED_KIND(levels)},
    [PITH_CODE_FEW] = {{scores_few}, {values_few}},
};
#undef FOLDED_KIND

/* How n groups are read. */
static inline int way_of(const struct pith_coded *c, size_t n)
{
    if (coded_of[c->kind].scores[SHORTER] && folds(c, n)) return SHORTER;
    return c->offset ? WITH_OFFSETS : AS_IS;
}

static inline size_t coded_groups(const struct pith_coded *c)
{
    return c->dim == 0 ? 0 : (c->dim - 1) / c->width + 1;
}

static inline void attn_scores_codes(const struct pith_coded *k, size_t rows, const float *q,
                                     size_t ldq, float *s, size_t lds)
{
    const int way = way_of(k, coded_groups(k) * PITH_KEYS);
    coded_of[k->kind].scores[way](k, rows, q, ldq, s, lds);
}

static inline void attn_values_codes(const struct pith_coded *v, const struct pith_coded_sums *s)
{
    const size_t groups = coded_groups(v);
    if (groups == 0) return;
    /* What has more groups than there is room for is longer. */
    const int way = groups > LISTED ? v->offset ? WITH_OFFSETS : AS_IS
                                    : way_of(v, groups * s->values);
    coded_of[v->kind].values[way](v, s);
}
#undef INLINE
#undef UNROLL
