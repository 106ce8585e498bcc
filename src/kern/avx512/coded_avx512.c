/* Attention over codes: keys by tiles of four rows and 32 keys, values by four rows and up to 64
 * elements, so that enough chains of sums wait for each other. Codes of up to four bits choose
 * among sixteen numbers in a register; of values these are scaled already, once for a group. FP8 is
 * put where a half float has its exponent and mantissa, and what it is too small by there the scale
 * takes. */
#include "kern/avx512/vec_avx512.h"
#include "kern/coded.h"
#include "kern/ops.h"
#include "kern/template/coded_block.h"

#include <stdbool.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 16")

enum { MOST_ROWS = 4, MOST_COLS = 4 };

/* What a code goes through in addition to the scale. */
enum affine { ALONE, ZEROS, OFFSETS, FOLDED };

/* Numbers that codes choose among; by how much each lane shifts, and the mask of what remains. */
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

INLINE bool is_fp8(enum pith_code_kind kind)
{
    return kind == PITH_CODE_E4M3 || kind == PITH_CODE_E5M2;
}
INLINE bool is_byte(enum pith_code_kind kind)
{
    return kind == PITH_CODE_U8 || kind == PITH_CODE_S8 || is_fp8(kind);
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
 * eight codes interleaved with those of the last. */
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

/* 32 numbers, or what they are scaled by. */
struct pair {
    __m512 a, b;
};

/* What numbers of E4M3 are multiples of as half floats, whose exponents' bias is larger by 8. */
INLINE float unit_of(enum pith_code_kind kind)
{
    return kind == PITH_CODE_E4M3 ? 0x1p8f : 1.0f;
}

/* 32 codes of FP8 as half floats, which have all their numbers, of E4M3 in units of unit_of(), and
 * from there to floats: that no half float is too small for, where a float with the code's bits in
 * place would be subnormal, and processors take a hundred times as long over those. They go through
 * memory since what is converted from there takes no port of shuffles. */
INLINE struct pair fp8_numbers(enum pith_code_kind kind, const uint8_t *p)
{
    struct halves {
        __m512i w;
    } to;
    const __m512i w = _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)(const void *)p));
    to.w = kind == PITH_CODE_E4M3 ? _mm512_and_si512(_mm512_slli_epi16(w, 7),
                                                     _mm512_set1_epi16((short)0xbf80))
                                  : _mm512_slli_epi16(w, 8);
    __asm__("" : "+m"(to)); /* or compilers see through it */
    const __m256i *at = (const __m256i *)(const void *)&to;
    return (struct pair){_mm512_cvtph_ps(_mm256_load_si256(at)),
                         _mm512_cvtph_ps(_mm256_load_si256(at + 1))};
}

/* 32 codes' numbers, sixteen and sixteen; of bytes the codes themselves. */
INLINE struct pair two_numbers(enum pith_code_kind kind, const uint8_t *p, const struct how *h)
{
    const size_t half = sixteen_codes(kind, h->bits);
    if (is_fp8(kind)) return fp8_numbers(kind, p);
    if (is_byte(kind)) {
        const __m128i *at = (const __m128i *)(const void *)p;
        return (struct pair){_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(at))),
                             _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(at + 1)))};
    }
    return (struct pair){numbers(kind, p, h), numbers(kind, p + half, h)};
}

/* Sixteen numbers to the order of choices(), and back. */
INLINE __m512 interleaved(enum pith_code_kind kind, __m512 x)
{
    if (!is_nibble(kind)) return x;
    return _mm512_permutexvar_ps(
        _mm512_setr_epi32(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15), x);
}
INLINE __m512 deinterleaved(enum pith_code_kind kind, __m512 x)
{
    if (!is_nibble(kind)) return x;
    return _mm512_permutexvar_ps(
        _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15), x);
}

/* Twice sixteen. */
INLINE struct pair interleaved_pair(enum pith_code_kind kind, struct pair x)
{
    return (struct pair){interleaved(kind, x.a), interleaved(kind, x.b)};
}
INLINE struct pair deinterleaved_pair(enum pith_code_kind kind, struct pair x)
{
    return (struct pair){deinterleaved(kind, x.a), deinterleaved(kind, x.b)};
}

struct scales {
    __m512 scale, shift;
};

INLINE __m512 scaled(enum affine affine, __m512 x, const struct scales *s)
{
    if (affine == ZEROS) return _mm512_mul_ps(_mm512_sub_ps(x, s->shift), s->scale);
    if (affine == FOLDED) return _mm512_fmsub_ps(x, s->scale, s->shift);
    x = _mm512_mul_ps(x, s->scale);
    return affine == OFFSETS ? _mm512_add_ps(x, s->shift) : x;
}

INLINE float middle_of(enum pith_code_kind kind)
{
    return kind == PITH_CODE_S8 ? 128.0f : 0.0f;
}

/* What is taken off products of bytes and scales for sixteen keys. */
INLINE __m512 folded_less(enum pith_code_kind kind, const struct pith_coded *k, size_t i,
                          __m512 scale)
{
    if (k->offset) return _mm512_sub_ps(_mm512_setzero_ps(), _mm512_loadu_ps(k->offset + i));
    return _mm512_mul_ps(scale, k->zero ? _mm512_loadu_ps(k->zero + i)
                                        : _mm512_set1_ps(middle_of(kind)));
}

/* Of 32 keys, from the lists' index on. */
INLINE void key_scales(enum pith_code_kind kind, enum affine affine, const struct pith_coded *k,
                       size_t i, struct scales s[2])
{
    const float *const list = affine == OFFSETS ? k->offset : k->zero;
    struct pair x = {_mm512_loadu_ps(k->scale + i), _mm512_loadu_ps(k->scale + i + PITH_LANES)};
    struct pair y = {_mm512_setzero_ps(), _mm512_setzero_ps()};
    if ((affine == ZEROS && k->zero) || affine == OFFSETS)
        y = (struct pair){_mm512_loadu_ps(list + i), _mm512_loadu_ps(list + i + PITH_LANES)};
    if (affine == FOLDED)
        y = (struct pair){folded_less(kind, k, i, x.a), folded_less(kind, k, i + PITH_LANES, x.b)};
    if (is_fp8(kind)) {
        const __m512 unit = _mm512_set1_ps(unit_of(kind));
        x = (struct pair){_mm512_mul_ps(x.a, unit), _mm512_mul_ps(x.b, unit)};
    }
    x = interleaved_pair(kind, x);
    y = interleaved_pair(kind, y);
    s[0] = (struct scales){x.a, y.a};
    s[1] = (struct scales){x.b, y.b};
}

/* Of one value's group. */
INLINE struct scales value_scales(enum pith_code_kind kind, enum affine affine,
                                  const struct pith_coded *v, size_t i)
{
    struct scales s = {_mm512_set1_ps(v->scale[i]), _mm512_setzero_ps()};
    if (kind == PITH_CODE_E4M3) s.scale = _mm512_mul_ps(s.scale, _mm512_set1_ps(unit_of(kind)));
    if (affine == ZEROS && v->zero) s.shift = _mm512_set1_ps(v->zero[i]);
    if (affine == OFFSETS) s.shift = _mm512_set1_ps(v->offset[i]);
    if (affine == FOLDED && v->offset) s.shift = _mm512_set1_ps(-v->offset[i]);
    if (affine == FOLDED && !v->offset)
        s.shift = _mm512_mul_ps(s.scale, _mm512_set1_ps(v->zero ? v->zero[i] : middle_of(kind)));
    return s;
}

/* `rows` rows of queries, ldq apart, with 32 keys. */
struct key_rows {
    const float *q;
    size_t ldq;
    float *s;
    size_t lds;
    bool prefetches;
};

INLINE void key_tile(enum pith_code_kind kind, enum affine affine, size_t rows,
                     const struct pith_coded *k, const struct key_rows *to)
{
    __m512 sum[MOST_ROWS][2];
    const struct how how = how_of(kind, k);
    const size_t ldq = to->ldq;
    const uint8_t *at = k->codes, *next = to->prefetches ? k->next : NULL;
    const float *q = to->q;
    UNROLL
    for (size_t r = 0; r < rows; r++) sum[r][0] = sum[r][1] = _mm512_setzero_ps();
    for (size_t first = 0, g = 0; first < k->dim; first += k->width, g += PITH_KEYS) {
        struct scales by[2];
        key_scales(kind, affine, k, g, by);
        const size_t end = first + k->width < k->dim ? first + k->width : k->dim;
        for (size_t e = first; e < end; e++, at += k->stride, q++) {
            prefetch_at(next, (size_t)(at - k->codes), true);
            struct pair x = two_numbers(kind, at, &how);
            x = (struct pair){scaled(affine, x.a, &by[0]), scaled(affine, x.b, &by[1])};
            UNROLL
            for (size_t r = 0; r < rows; r++) {
                const __m512 of = _mm512_set1_ps(q[r * ldq]);
                sum[r][0] = _mm512_fmadd_ps(of, x.a, sum[r][0]);
                sum[r][1] = _mm512_fmadd_ps(of, x.b, sum[r][1]);
            }
        }
    }
    UNROLL
    for (size_t r = 0; r < rows; r++) {
        const struct pair x = deinterleaved_pair(kind, (struct pair){sum[r][0], sum[r][1]});
        _mm512_storeu_ps(to->s + r * to->lds, x.a);
        _mm512_storeu_ps(to->s + r * to->lds + PITH_LANES, x.b);
    }
}

INLINE void scores(enum pith_code_kind kind, enum affine affine, const struct pith_coded *k,
                   size_t rows, struct key_rows to)
{
    size_t r = 0;
    for (; r + 4 <= rows; r += 4, to.q += 4 * to.ldq, to.s += 4 * to.lds, to.prefetches = false)
        key_tile(kind, affine, 4, k, &to);
    for (; r + 2 <= rows; r += 2, to.q += 2 * to.ldq, to.s += 2 * to.lds, to.prefetches = false)
        key_tile(kind, affine, 2, k, &to);
    if (r < rows) key_tile(kind, affine, 1, k, &to);
}

/* `cols` vectors of one value's numbers, scaled. */
INLINE void value_numbers(enum pith_code_kind kind, enum affine affine, size_t cols,
                          const uint8_t *at, const struct how *how, const struct scales *by,
                          __m512 x[MOST_COLS])
{
    const size_t step = sixteen_codes(kind, how->bits);
    const __m512 table = chooses(kind) ? scaled(affine, how->table, by) : how->table;
    UNROLL
    for (size_t c = 0; c < cols; c += 2, at += 2 * step) {
        const bool two = c + 1 < cols;
        if (chooses(kind)) {
            x[c] = _mm512_permutexvar_ps(choices(kind, at, how), table);
            if (two) x[c + 1] = _mm512_permutexvar_ps(choices(kind, at + step, how), table);
        } else if (two) {
            const struct pair of = two_numbers(kind, at, how);
            x[c] = scaled(affine, of.a, by);
            x[c + 1] = scaled(affine, of.b, by);
        } else {
            x[c] = scaled(affine, numbers(kind, at, how), by);
        }
    }
}

/* `cols` vectors of a row of sums, to the order of numbers and back. */
INLINE void load_sums(enum pith_code_kind kind, size_t cols, const float *o, __m512 x[MOST_COLS])
{
    UNROLL
    for (size_t c = 0; c < cols; c++) x[c] = _mm512_loadu_ps(o + c * PITH_LANES);
    UNROLL
    for (size_t c = 0; c < cols; c += 2) {
        const bool two = c + 1 < cols;
        const struct pair of = interleaved_pair(kind, (struct pair){x[c], two ? x[c + 1] : x[c]});
        x[c] = of.a;
        if (two) x[c + 1] = of.b;
    }
}
INLINE void store_sums(enum pith_code_kind kind, size_t cols, const __m512 x[MOST_COLS], float *o)
{
    UNROLL
    for (size_t c = 0; c < cols; c += 2) {
        const bool two = c + 1 < cols;
        const struct pair of = deinterleaved_pair(kind, (struct pair){x[c], two ? x[c + 1] : x[c]});
        _mm512_storeu_ps(o + c * PITH_LANES, of.a);
        if (two) _mm512_storeu_ps(o + (c + 1) * PITH_LANES, of.b);
    }
}

/* Some rows of weights and of sums. */
struct value_sums {
    struct pith_coded_sums sums;
    size_t groups, group; /* of a value's elements, the one that is at hand */
    bool prefetches;
};

/* `rows` rows of weights times 16 * cols elements, from `col` on, of one group of all values. */
INLINE void value_tile(enum pith_code_kind kind, enum affine affine, size_t rows, size_t cols,
                       size_t col, const struct pith_coded *v, const struct value_sums *to)
{
    const struct pith_coded_sums *s = &to->sums;
    const size_t tile_bytes = cols * sixteen_codes(kind, v->bits);
    const uint8_t *next = to->prefetches ? v->next : NULL;
    __m512 sum[MOST_ROWS][MOST_COLS];
    const struct how how = how_of(kind, v);
    const uint8_t *at = v->codes + col / 16 * sixteen_codes(kind, v->bits);
    const float *p = s->p;
    float *o = s->o + col;
    UNROLL
    for (size_t r = 0; r < rows; r++) load_sums(kind, cols, o + r * s->ldo, sum[r]);
    if (next) next += col / 16 * sixteen_codes(kind, v->bits) * s->values;
    for (size_t j = 0, g = to->group; j < s->values; j++, at += v->stride, p++) {
        prefetch_at(next, j * tile_bytes, true);
        const struct scales by = value_scales(kind, affine, v, g);
        g += to->groups;
        __m512 x[MOST_COLS];
        value_numbers(kind, affine, cols, at, &how, &by, x);
        UNROLL
        for (size_t r = 0; r < rows; r++) {
            const __m512 weight = _mm512_set1_ps(p[r * s->ldp]);
            UNROLL
            for (size_t c = 0; c < cols; c++) sum[r][c] = _mm512_fmadd_ps(weight, x[c], sum[r][c]);
        }
    }
    UNROLL
    for (size_t r = 0; r < rows; r++) store_sums(kind, cols, sum[r], o + r * s->ldo);
}

INLINE void value_rows(enum pith_code_kind kind, enum affine affine, size_t rows,
                       const struct pith_coded *v, struct value_sums s)
{
    s.group = 0;
    for (size_t first = 0; first < v->dim; first += v->width, s.group++) {
        const size_t end = first + v->width < v->dim ? first + v->width : v->dim;
        size_t c = first;
        for (; c + 64 <= end; c += 64) value_tile(kind, affine, rows, 4, c, v, &s);
        for (; c + 32 <= end; c += 32) value_tile(kind, affine, rows, 2, c, v, &s);
        for (; c < end && !is_byte(kind); c += 16) value_tile(kind, affine, rows, 1, c, v, &s);
    }
}

INLINE void values(enum pith_code_kind kind, enum affine affine, const struct pith_coded *v,
                   struct value_sums s)
{
    struct pith_coded_sums *of = &s.sums;
    size_t r = 0;
    const size_t rows = of->rows;
    for (; r + 4 <= rows; r += 4, of->p += 4 * of->ldp, of->o += 4 * of->ldo, s.prefetches = false)
        value_rows(kind, affine, 4, v, s);
    for (; r + 2 <= rows; r += 2, of->p += 2 * of->ldp, of->o += 2 * of->ldo, s.prefetches = false)
        value_rows(kind, affine, 2, v, s);
    if (r < rows) value_rows(kind, affine, 1, v, s);
}

#define CODED(name, kind, affine)                                                                  \
    static void scores_##name(const struct pith_coded *k, size_t rows, const float *q, size_t ldq, \
                              float *s, size_t lds)                                                \
    {                                                                                              \
        scores(kind, affine, k, rows, (struct key_rows){q, ldq, s, lds, true});                    \
    }                                                                                              \
    static void values_##name(const struct pith_coded *v, const struct pith_coded_sums *s)         \
    {                                                                                              \
        const size_t groups = (v->dim - 1) / v->width + 1;                                         \
        values(kind, affine, v,                                                                    \
               (struct value_sums){.sums = *s, .groups = groups, .prefetches = true});             \
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
CODED(u8, PITH_CODE_U8, FOLDED)
CODED(s8, PITH_CODE_S8, FOLDED)
CODED(e4m3, PITH_CODE_E4M3, ALONE)
CODED(e5m2, PITH_CODE_E5M2, ALONE)
#undef CODED

/* All of sixteen scales that are zeros or of a middling size, and whose products with zeros, or
 * with offsets those with codes, are exact. */
INLINE __mmask16 fold_lanes(const struct pith_coded *c, __m512 s, __m512 zero)
{
    const __m512 size = _mm512_abs_ps(s);
    __mmask16 fits = _mm512_cmp_ps_mask(size, _mm512_set1_ps(0x1p-60f), _CMP_GE_OQ);
    fits |= _mm512_cmp_ps_mask(s, _mm512_setzero_ps(), _CMP_EQ_OQ);
    fits &= _mm512_cmp_ps_mask(size, _mm512_set1_ps(0x1p6f), _CMP_LE_OQ);
    if (c->offset) fits &= _mm512_testn_epi32_mask(_mm512_castps_si512(s), _mm512_set1_epi32(255));
    if (!c->zero) return fits;
    const __m512 rest = _mm512_fmsub_ps(zero, s, _mm512_mul_ps(zero, s));
    return fits & _mm512_cmp_ps_mask(rest, _mm512_setzero_ps(), _CMP_EQ_OQ);
}

/* Whether codes of eight bits may be scaled in one step, as kern/avx2/coded_avx2.c has it. */
static bool folds(const struct pith_coded *c, size_t n)
{
    const float *zeros = c->zero ? c->zero : c->scale;
    __mmask16 fits = 0xffff;
    for (size_t i = 0; i < n; i += PITH_LANES) {
        const size_t left = n - i < PITH_LANES ? n - i : PITH_LANES;
        fits &= fold_lanes(c, v16_load_part(c->scale + i, left), v16_load_part(zeros + i, left));
    }
    return fits == 0xffff;
}

/* As it is, then with offsets. */
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
    [PITH_CODE_U8] = {{scores_u8, scores_u8}, {values_u8, values_u8}},
    [PITH_CODE_S8] = {{scores_s8, scores_s8}, {values_s8, values_s8}},
    [PITH_CODE_E4M3] = {{scores_e4m3, scores_e4m3}, {values_e4m3, values_e4m3}},
    [PITH_CODE_E5M2] = {{scores_e5m2, scores_e5m2}, {values_e5m2, values_e5m2}},
};

void pith_attn_scores_codes_avx512(const struct pith_coded *k, size_t rows, const float *q,
                                   size_t ldq, float *s, size_t lds)
{
    const size_t groups = k->dim ? (k->dim - 1) / k->width + 1 : 0;
    pith_attn_scores_codes_fn *fn = coded_of[k->kind].scores[k->offset != NULL];
    if (is_byte(k->kind) && !folds(k, groups * PITH_KEYS)) fn = pith_attn_scores_codes_avx2;
    fn(k, rows, q, ldq, s, lds);
}

void pith_attn_values_codes_avx512(const struct pith_coded *v, const struct pith_coded_sums *s)
{
    if (v->dim == 0) return;
    const size_t groups = (v->dim - 1) / v->width + 1;
    pith_attn_values_codes_fn *fn = coded_of[v->kind].values[v->offset != NULL];
    if (is_byte(v->kind) &&
        (v->dim % 32 != 0 || v->width % 32 != 0 || !folds(v, groups * s->values)))
        fn = pith_attn_values_codes_avx2;
    fn(v, s);
}
