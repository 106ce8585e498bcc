/* Attention over codes of fewer than eight bits: keys by tiles of four rows and 32 keys, values by
 * four rows and up to 64 elements, so that enough chains of sums wait for each other. Codes of up
 * to four bits choose among sixteen numbers in a register; of values these are scaled already, once
 * for a group. */
#include "kern/avx512/vec_avx512.h"
#include "kern/coded.h"
#include "kern/ops.h"
#include "kern/template/coded_block.h"

#include <stdbool.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 16")

enum { LINE = 64, MOST_ROWS = 4, MOST_COLS = 4 };

/* What is done beside the scale. */
enum beside { ALONE, ZEROS, OFFSETS };

/* Numbers that codes choose among; by how much each lane shifts, and what is left. */
struct how {
    __m512 table;
    __m512i shift, mask;
    unsigned bits;
};

INLINE bool is_nibble(enum pith_code_kind kind)
{
    return kind == PITH_CODE_U4 || kind == PITH_CODE_S4 || kind == PITH_CODE_LEVELS;
}
INLINE bool is_few(enum pith_code_kind kind)
{
    return kind == PITH_CODE_UN || kind == PITH_CODE_FEW;
}
/* Of at most four bits that a register's lanes can be chosen by. */
INLINE bool chooses(enum pith_code_kind kind)
{
    return is_nibble(kind) || kind == PITH_CODE_U2;
}

INLINE size_t sixteen_codes(enum pith_code_kind kind, unsigned bits)
{
    if (is_few(kind)) return 2 * (size_t)bits;
    if (kind == PITH_CODE_U2) return 4;
    return is_nibble(kind) ? 8 : 16;
}

INLINE struct how how_of(enum pith_code_kind kind, const struct pith_coded *c)
{
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    struct how h = {.table = _mm512_cvtepi32_ps(lane), .bits = c->bits};
    if (kind == PITH_CODE_S4) h.table = _mm512_sub_ps(h.table, _mm512_set1_ps(8));
    if (kind == PITH_CODE_LEVELS) h.table = _mm512_loadu_ps(c->level);
    if (kind == PITH_CODE_FEW) h.table = _mm512_castps256_ps512(_mm256_loadu_ps(c->level));
    if (kind == PITH_CODE_U2) /* of two codes the lower */
        h.table = _mm512_cvtepi32_ps(_mm512_and_si512(lane, _mm512_set1_epi32(3)));
    if (kind == PITH_CODE_U2) h.shift = _mm512_add_epi32(lane, lane);
    if (is_nibble(kind)) h.shift = _mm512_slli_epi32(_mm512_srli_epi32(lane, 1), 2);
    if (is_few(kind)) {
        h.shift = _mm512_mullo_epi64(_mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7),
                                     _mm512_set1_epi64((int)c->bits));
        h.mask = _mm512_set1_epi32((1 << c->bits) - 1);
    }
    return h;
}

/* Eight codes of fewer than eight bits, and what lies behind them. */
INLINE __m256i eight_few(const uint8_t *p, const struct how *h)
{
    uint64_t all;
    memcpy(&all, p, sizeof all);
    return _mm512_cvtepi64_epi32(_mm512_srlv_epi64(_mm512_set1_epi64((int64_t)all), h->shift));
}
INLINE __m512i sixteen_few(const uint8_t *p, const struct how *h)
{
    const __m512i x = _mm512_castsi256_si512(eight_few(p, h));
    return _mm512_and_si512(_mm512_inserti64x4(x, eight_few(p + h->bits, h), 1), h->mask);
}

/* What chooses a lane for each of sixteen codes, in its lowest bits: of nibbles those of the first
 * eight codes and of the last by turns. */
INLINE __m512i choices(enum pith_code_kind kind, const uint8_t *p, const struct how *h)
{
    if (kind == PITH_CODE_U2) {
        int32_t all;
        memcpy(&all, p, sizeof all);
        return _mm512_srlv_epi32(_mm512_set1_epi32(all), h->shift);
    }
    const __m128i all = _mm_loadl_epi64((const __m128i *)(const void *)p);
    return _mm512_srlv_epi32(_mm512_broadcastq_epi64(all), h->shift);
}

/* Sixteen codes' numbers, in the order of choices(). */
INLINE __m512 numbers(enum pith_code_kind kind, const uint8_t *p, const struct how *h)
{
    if (chooses(kind)) return _mm512_permutexvar_ps(choices(kind, p, h), h->table);
    if (kind == PITH_CODE_UN) return _mm512_cvtepi32_ps(sixteen_few(p, h));
    return _mm512_permutexvar_ps(sixteen_few(p, h), h->table);
}

/* Sixteen numbers to the order of choices(), and back. */
INLINE __m512 by_turns(enum pith_code_kind kind, __m512 x)
{
    if (!is_nibble(kind)) return x;
    return _mm512_permutexvar_ps(
        _mm512_setr_epi32(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15), x);
}
INLINE __m512 in_turn(enum pith_code_kind kind, __m512 x)
{
    if (!is_nibble(kind)) return x;
    return _mm512_permutexvar_ps(
        _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15), x);
}

struct scales {
    __m512 scale, beside;
};

INLINE __m512 scaled(enum beside beside, __m512 x, const struct scales *s)
{
    if (beside == ZEROS) return _mm512_mul_ps(_mm512_sub_ps(x, s->beside), s->scale);
    x = _mm512_mul_ps(x, s->scale);
    return beside == OFFSETS ? _mm512_add_ps(x, s->beside) : x;
}

/* Of sixteen keys, from the lists' index on. */
INLINE struct scales key_scales(enum pith_code_kind kind, enum beside beside,
                                const struct pith_coded *k, size_t i)
{
    struct scales s = {by_turns(kind, _mm512_loadu_ps(k->scale + i)), _mm512_setzero_ps()};
    if (beside == ZEROS && k->zero) s.beside = by_turns(kind, _mm512_loadu_ps(k->zero + i));
    if (beside == OFFSETS) s.beside = by_turns(kind, _mm512_loadu_ps(k->offset + i));
    return s;
}

/* Of one value's group. */
INLINE struct scales value_scales(enum beside beside, const struct pith_coded *v, size_t i)
{
    struct scales s = {_mm512_set1_ps(v->scale[i]), _mm512_setzero_ps()};
    if (beside == ZEROS && v->zero) s.beside = _mm512_set1_ps(v->zero[i]);
    if (beside == OFFSETS) s.beside = _mm512_set1_ps(v->offset[i]);
    return s;
}

/* Asks for [from, to) of what is read soon. */
INLINE void ask(const uint8_t *next, size_t from, size_t to)
{
    for (size_t at = from - from % LINE; next && at < to; at += LINE) ask_at(next, at, true);
}

/* `rows` rows of queries, ldq apart, with 32 keys. */
struct key_rows {
    const float *q;
    size_t ldq;
    float *s;
    size_t lds;
    bool asks;
};

INLINE void key_tile(enum pith_code_kind kind, enum beside beside, size_t rows,
                     const struct pith_coded *k, const struct key_rows *to)
{
    __m512 sum[MOST_ROWS][2];
    const struct how how = how_of(kind, k);
    const size_t half = sixteen_codes(kind, k->bits), ldq = to->ldq;
    const uint8_t *at = k->codes;
    const float *q = to->q;
    UNROLL
    for (size_t r = 0; r < rows; r++) sum[r][0] = sum[r][1] = _mm512_setzero_ps();
    for (size_t first = 0, g = 0; first < k->dim; first += k->width, g += PITH_KEYS) {
        const struct scales a = key_scales(kind, beside, k, g);
        const struct scales b = key_scales(kind, beside, k, g + PITH_LANES);
        const size_t end = first + k->width < k->dim ? first + k->width : k->dim;
        if (to->asks) ask(k->next, first * k->stride, end * k->stride);
        for (size_t e = first; e < end; e++, at += k->stride, q++) {
            const __m512 x = scaled(beside, numbers(kind, at, &how), &a);
            const __m512 y = scaled(beside, numbers(kind, at + half, &how), &b);
            UNROLL
            for (size_t r = 0; r < rows; r++) {
                const __m512 by = _mm512_set1_ps(q[r * ldq]);
                sum[r][0] = _mm512_fmadd_ps(by, x, sum[r][0]);
                sum[r][1] = _mm512_fmadd_ps(by, y, sum[r][1]);
            }
        }
    }
    UNROLL
    for (size_t r = 0; r < rows; r++) {
        _mm512_storeu_ps(to->s + r * to->lds, in_turn(kind, sum[r][0]));
        _mm512_storeu_ps(to->s + r * to->lds + PITH_LANES, in_turn(kind, sum[r][1]));
    }
}

INLINE void scores(enum pith_code_kind kind, enum beside beside, const struct pith_coded *k,
                   size_t rows, struct key_rows to)
{
    size_t r = 0;
    for (; r + 4 <= rows; r += 4, to.q += 4 * to.ldq, to.s += 4 * to.lds, to.asks = false)
        key_tile(kind, beside, 4, k, &to);
    for (; r + 2 <= rows; r += 2, to.q += 2 * to.ldq, to.s += 2 * to.lds, to.asks = false)
        key_tile(kind, beside, 2, k, &to);
    if (r < rows) key_tile(kind, beside, 1, k, &to);
}

/* `rows` rows of weights times 16 * cols elements, from `col` on, of one group of all values. */
INLINE void value_tile(enum pith_code_kind kind, enum beside beside, size_t rows, size_t cols,
                       size_t col, const struct pith_coded *v, const struct pith_coded_sums *s)
{
    __m512 sum[MOST_ROWS][MOST_COLS];
    const struct how how = how_of(kind, v);
    const size_t groups = (v->dim - 1) / v->width + 1, step = sixteen_codes(kind, v->bits);
    const uint8_t *at = v->codes + col / 16 * step;
    const float *p = s->p;
    UNROLL
    for (size_t i = 0; i < rows * cols; i++)
        sum[i / cols][i % cols] =
            by_turns(kind, _mm512_loadu_ps(s->o + i / cols * s->ldo + col + i % cols * PITH_LANES));
    for (size_t j = 0, g = col / v->width; j < s->values; j++, g += groups, at += v->stride, p++) {
        const struct scales by = value_scales(beside, v, g);
        __m512 x[MOST_COLS], table = how.table;
        if (chooses(kind)) table = scaled(beside, table, &by);
        UNROLL
        for (size_t c = 0; c < cols; c++)
            x[c] = chooses(kind) ? _mm512_permutexvar_ps(choices(kind, at + c * step, &how), table)
                                 : scaled(beside, numbers(kind, at + c * step, &how), &by);
        UNROLL
        for (size_t r = 0; r < rows; r++) {
            const __m512 weight = _mm512_set1_ps(p[r * s->ldp]);
            UNROLL
            for (size_t c = 0; c < cols; c++) sum[r][c] = _mm512_fmadd_ps(weight, x[c], sum[r][c]);
        }
    }
    UNROLL
    for (size_t i = 0; i < rows * cols; i++)
        _mm512_storeu_ps(s->o + i / cols * s->ldo + col + i % cols * PITH_LANES,
                         in_turn(kind, sum[i / cols][i % cols]));
}

INLINE void value_rows(enum pith_code_kind kind, enum beside beside, size_t rows, bool asks,
                       const struct pith_coded *v, const struct pith_coded_sums *s)
{
    const size_t bytes = s->values * v->stride;
    for (size_t c = 0, n; c < v->dim; c += n) {
        const size_t left = v->width - c % v->width;
        n = left >= 64 && c + 64 <= v->dim ? 64 : left >= 32 && c + 32 <= v->dim ? 32 : 16;
        if (asks) ask(v->next, bytes * c / v->dim, bytes * (c + n) / v->dim);
        if (n == 64) value_tile(kind, beside, rows, 4, c, v, s);
        else if (n == 32) value_tile(kind, beside, rows, 2, c, v, s);
        else value_tile(kind, beside, rows, 1, c, v, s);
    }
}

INLINE void values(enum pith_code_kind kind, enum beside beside, const struct pith_coded *v,
                   struct pith_coded_sums s)
{
    size_t r = 0;
    const size_t rows = s.rows;
    for (; r + 4 <= rows; r += 4, s.p += 4 * s.ldp, s.o += 4 * s.ldo)
        value_rows(kind, beside, 4, r == 0, v, &s);
    for (; r + 2 <= rows; r += 2, s.p += 2 * s.ldp, s.o += 2 * s.ldo)
        value_rows(kind, beside, 2, r == 0, v, &s);
    if (r < rows) value_rows(kind, beside, 1, r == 0, v, &s);
}

#define CODED(name, kind, beside)                                                                  \
    static void scores_##name(const struct pith_coded *k, size_t rows, const float *q, size_t ldq, \
                              float *s, size_t lds)                                                \
    {                                                                                              \
        scores(kind, beside, k, rows, (struct key_rows){q, ldq, s, lds, true});                    \
    }                                                                                              \
    static void values_##name(const struct pith_coded *v, const struct pith_coded_sums *s)         \
    {                                                                                              \
        values(kind, beside, v, *s);                                                               \
    }
CODED(u4, PITH_CODE_U4, ZEROS)
CODED(u4_offset, PITH_CODE_U4, OFFSETS)
CODED(u2, PITH_CODE_U2, ZEROS)
CODED(u2_offset, PITH_CODE_U2, OFFSETS)
CODED(un, PITH_CODE_UN, ZEROS)
CODED(un_offset, PITH_CODE_UN, OFFSETS)
CODED(s4, PITH_CODE_S4, ALONE)
CODED(levels, PITH_CODE_LEVELS, ALONE)
CODED(few, PITH_CODE_FEW, ALONE)
#undef CODED

/* As it is, then with offsets. Codes of eight bits are AVX2's: turning them into numbers takes as
 * many steps in either, and there the multiplication by the scale takes zeros too. */
static const struct {
    pith_attn_scores_codes_fn *scores[2];
    pith_attn_values_codes_fn *values[2];
} coded_of[PITH_CODE_KINDS] = {
    [PITH_CODE_U4] = {{scores_u4, scores_u4_offset}, {values_u4, values_u4_offset}},
    [PITH_CODE_U2] = {{scores_u2, scores_u2_offset}, {values_u2, values_u2_offset}},
    [PITH_CODE_UN] = {{scores_un, scores_un_offset}, {values_un, values_un_offset}},
    [PITH_CODE_S4] = {{scores_s4, scores_s4}, {values_s4, values_s4}},
    [PITH_CODE_LEVELS] = {{scores_levels, scores_levels}, {values_levels, values_levels}},
    [PITH_CODE_FEW] = {{scores_few, scores_few}, {values_few, values_few}},
};

void pith_attn_scores_codes_avx512(const struct pith_coded *k, size_t rows, const float *q,
                                   size_t ldq, float *s, size_t lds)
{
    pith_attn_scores_codes_fn *fn = coded_of[k->kind].scores[k->offset != NULL];
    if (!fn) fn = pith_attn_scores_codes_avx2;
    fn(k, rows, q, ldq, s, lds);
}

void pith_attn_values_codes_avx512(const struct pith_coded *v, const struct pith_coded_sums *s)
{
    if (v->dim == 0) return;
    pith_attn_values_codes_fn *fn = coded_of[v->kind].values[v->offset != NULL];
    if (!fn) fn = pith_attn_values_codes_avx2;
    fn(v, s);
}
