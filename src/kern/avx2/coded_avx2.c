/* Attention over codes: four rows of two registers, two for the values, four for what they are
 * scaled by. */
#include "kern/avx2/vec_avx2.h"
#include "kern/coded.h"

#include <stdbool.h>

/* Sixteen levels, two registers that the four bits of a code choose among; or, of codes of two or
 * of odd numbers of bits, by how much each of eight is shifted, and the mask of its bits. */
typedef struct {
    __m256 low, high;
    __m256i shift, mask;
    __m128i table;
    float unit; /* of the bytes in the table: what a level is a multiple of */
    unsigned bits;
} v16_how;

static inline v16 from_signed(__m128i c)
{
    return (v16){_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(c)),
                 _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(c, 8)))};
}

/* Sixteen levels as bytes, and of what they are multiples: 1, or a half; 0: of neither. */
static inline float level_unit(const float *level, __m128i *bytes)
{
    const __m256 a = _mm256_loadu_ps(level), b = _mm256_loadu_ps(level + 8);
    for (float unit = 1.0f; unit > 0.25f; unit *= 0.5f) {
        const __m256 by = _mm256_set1_ps(1.0f / unit), back = _mm256_set1_ps(unit);
        const __m256i x = _mm256_cvtps_epi32(_mm256_mul_ps(a, by));
        const __m256i y = _mm256_cvtps_epi32(_mm256_mul_ps(b, by));
        const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(x, y), 0xd8);
        *bytes = _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
        const v16 got = from_signed(*bytes);
        const __m256 same = _mm256_and_ps(_mm256_cmp_ps(_mm256_mul_ps(got.a, back), a, _CMP_EQ_OQ),
                                          _mm256_cmp_ps(_mm256_mul_ps(got.b, back), b, _CMP_EQ_OQ));
        if (_mm256_movemask_ps(same) == 255) return unit;
    }
    return 0;
}

static inline v16_how v16_how_of(enum pith_code_kind kind, const struct pith_coded *c)
{
    v16_how h = {.low = _mm256_setzero_ps()};
    if (kind == PITH_CODE_LEVELS) {
        h.low = _mm256_loadu_ps(c->level);
        h.high = _mm256_loadu_ps(c->level + 8);
        h.unit = level_unit(c->level, &h.table);
    }
    if (kind == PITH_CODE_FEW) h.low = _mm256_loadu_ps(c->level);
    if (kind == PITH_CODE_U2) {
        h.shift = _mm256_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14);
        h.mask = _mm256_sllv_epi32(_mm256_set1_epi32(3), h.shift);
    }
    if (kind == PITH_CODE_UN || kind == PITH_CODE_FEW) {
        const int b = (int)c->bits;
        h.shift = _mm256_setr_epi32(0, b, 2 * b, 3 * b, 0, b, 2 * b, 3 * b);
        h.mask = _mm256_set1_epi32((1 << b) - 1);
        h.bits = c->bits;
    }
    return h;
}

/* Sixteen codes in eight bytes to a byte each. */
static inline __m128i spread(const uint8_t *p)
{
    const __m128i packed = _mm_loadl_epi64((const __m128i *)(const void *)p);
    const __m128i low = _mm_set1_epi8(15);
    return _mm_unpacklo_epi8(_mm_and_si128(packed, low),
                             _mm_and_si128(_mm_srli_epi16(packed, 4), low));
}

static inline v16 from_bytes(__m128i c)
{
    return (v16){_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(c)),
                 _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128(c, 8)))};
}

static inline __m256 level8(__m256i x, const v16_how *t)
{
    const __m256 low = _mm256_permutevar8x32_ps(t->low, x);
    const __m256 high = _mm256_permutevar8x32_ps(t->high, x);
    return _mm256_blendv_ps(low, high, _mm256_castsi256_ps(_mm256_slli_epi32(x, 28)));
}

/* Eight codes, four in each half of their bits. */
static inline __m256i few8(const uint8_t *p, const v16_how *h)
{
    uint64_t all;
    memcpy(&all, p, sizeof all);
    const __m128i low = _mm_set1_epi32((int)(uint32_t)all);
    const __m128i high = _mm_set1_epi32((int)(uint32_t)(all >> 4 * h->bits));
    const __m256i x = _mm256_srlv_epi32(_mm256_set_m128i(high, low), h->shift);
    return _mm256_and_si256(x, h->mask);
}

/* Sixteen codes of two bits, eight in each half of a word, masked where they are. */
typedef struct {
    __m256i a, b;
} v16_pairs;
static inline v16_pairs pairs16(const uint8_t *p, const v16_how *h)
{
    uint32_t all;
    memcpy(&all, p, sizeof all);
    const __m256i w = _mm256_set1_epi32((int)all);
    return (v16_pairs){_mm256_and_si256(w, h->mask),
                       _mm256_and_si256(_mm256_srli_epi32(w, 16), h->mask)};
}

/* FP8 as half precision: E5M2 is its upper byte; E4M3 is 2^8 too small there. */
static inline v16 from_half(__m256i half, float factor)
{
    const __m256 by = _mm256_set1_ps(factor);
    return (v16){_mm256_mul_ps(_mm256_cvtph_ps(_mm256_castsi256_si128(half)), by),
                 _mm256_mul_ps(_mm256_cvtph_ps(_mm256_extracti128_si256(half, 1)), by)};
}

static inline __attribute__((always_inline)) v16 v16_code(enum pith_code_kind kind,
                                                          const uint8_t *p, const v16_how *how)
{
    if (kind == PITH_CODE_U4) return from_bytes(spread(p));
    if (kind == PITH_CODE_S4) return from_signed(_mm_sub_epi8(spread(p), _mm_set1_epi8(8)));
    if (kind == PITH_CODE_U2) {
        const v16_pairs x = pairs16(p, how);
        return (v16){_mm256_cvtepi32_ps(_mm256_srlv_epi32(x.a, how->shift)),
                     _mm256_cvtepi32_ps(_mm256_srlv_epi32(x.b, how->shift))};
    }
    if (kind == PITH_CODE_UN)
        return (v16){_mm256_cvtepi32_ps(few8(p, how)),
                     _mm256_cvtepi32_ps(few8(p + how->bits, how))};
    if (kind == PITH_CODE_FEW)
        return (v16){_mm256_permutevar8x32_ps(how->low, few8(p, how)),
                     _mm256_permutevar8x32_ps(how->low, few8(p + how->bits, how))};
    if (kind == PITH_CODE_LEVELS) {
        const __m128i c = spread(p);
        return (v16){level8(_mm256_cvtepu8_epi32(c), how),
                     level8(_mm256_cvtepu8_epi32(_mm_srli_si128(c, 8)), how)};
    }
    const __m128i c = _mm_loadu_si128((const __m128i *)(const void *)p);
    if (kind == PITH_CODE_U8) return from_bytes(c);
    if (kind == PITH_CODE_S8) return from_signed(_mm_xor_si128(c, _mm_set1_epi8(-128)));
    if (kind == PITH_CODE_E5M2) return from_half(_mm256_slli_epi16(_mm256_cvtepu8_epi16(c), 8), 1);
    const __m256i wide = _mm256_slli_epi16(_mm256_cvtepi8_epi16(c), 7);
    return from_half(_mm256_and_si256(wide, _mm256_set1_epi16((short)0xbfff)), 0x1p8f);
}

/* --- where scales allow less ------------------------------------------------------------------
 * Products of zeros and scales that are exact are taken off in the multiplication by the scale, and
 * offsets are added in it where those of codes are; what a code of two bits, or FP8 in the place
 * of a float, is too large or too small by, the scale takes. That changes
 * the sign of zeros alone, which no chain shows that does not begin as -0. */
#define INLINE static inline __attribute__((always_inline))

/* What a code goes through in addition to the scale. */
enum affine { ALONE, ZEROS, OFFSETS, FOLDED };
struct coded_scale {
    v16 scale, shift;
};

INLINE float middle_of(enum pith_code_kind kind)
{
    return kind == PITH_CODE_S8 ? 128.0f : kind == PITH_CODE_S4 ? 8.0f : 0.0f;
}

INLINE bool is_nibble(enum pith_code_kind kind)
{
    return kind == PITH_CODE_U4 || kind == PITH_CODE_S4;
}

/* Codes of low halves of bytes, then those of high ones. */
INLINE v16 fold_order(enum pith_code_kind kind, v16 x)
{
    if (!is_nibble(kind)) return x;
    const __m256d even = _mm256_castps_pd(_mm256_shuffle_ps(x.a, x.b, 0x88));
    const __m256d odd = _mm256_castps_pd(_mm256_shuffle_ps(x.a, x.b, 0xdd));
    return (v16){_mm256_castpd_ps(_mm256_permute4x64_pd(even, 0xd8)),
                 _mm256_castpd_ps(_mm256_permute4x64_pd(odd, 0xd8))};
}
INLINE v16 fold_back(enum pith_code_kind kind, v16 x)
{
    if (!is_nibble(kind)) return x;
    const __m256 low = _mm256_unpacklo_ps(x.a, x.b), high = _mm256_unpackhi_ps(x.a, x.b);
    return (v16){_mm256_permute2f128_ps(low, high, 0x20), _mm256_permute2f128_ps(low, high, 0x31)};
}

INLINE float fold_unit(enum pith_code_kind kind, const v16_how *how)
{
    return kind == PITH_CODE_LEVELS ? how->unit : 1.0f;
}

INLINE struct coded_scale fold_open(enum pith_code_kind kind, struct coded_scale s,
                                    const v16_how *how)
{
    if (kind == PITH_CODE_U2) {
        const __m256i one = _mm256_slli_epi32(_mm256_set1_epi32(127), 23);
        const __m256 by =
            _mm256_castsi256_ps(_mm256_sub_epi32(one, _mm256_slli_epi32(how->shift, 23)));
        s.scale = (v16){_mm256_mul_ps(s.scale.a, by), _mm256_mul_ps(s.scale.b, by)};
    }
    return s;
}

INLINE __m256i eight_bytes(const uint8_t *p)
{
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p));
}

/* FP8: exponent and mantissa where a float has them, the former moved by `bias`, but for the first
 * numbers, which are few: a float with a code's bits in place would be subnormal there, and
 * processors take a hundred times as long over those. */
INLINE __m256 eight_of_fp8(const uint8_t *p, int up, int bias, int few, __m256 first)
{
    const __m256i w = _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p));
    const __m256i size = _mm256_and_si256(w, _mm256_set1_epi32(0x7f));
    const __m256i many =
        _mm256_add_epi32(_mm256_slli_epi32(size, up), _mm256_set1_epi32(bias << 23));
    const __m256 is_few = _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(few), size));
    const __m256 all =
        _mm256_blendv_ps(_mm256_castsi256_ps(many), _mm256_permutevar8x32_ps(first, w), is_few);
    const __m256i sign = _mm256_and_si256(w, _mm256_set1_epi32(INT32_MIN));
    return _mm256_or_ps(all, _mm256_castsi256_ps(sign));
}
INLINE __m256 eight_of_e4m3(const uint8_t *p)
{
    return eight_of_fp8(
        p, 20, 120, 8,
        _mm256_setr_ps(0, 0x1p-9f, 0x1p-8f, 0x1.8p-8f, 0x1p-7f, 0x1.4p-7f, 0x1.8p-7f, 0x1.cp-7f));
}
INLINE __m256 eight_of_e5m2(const uint8_t *p)
{
    return eight_of_fp8(p, 21, 112, 4,
                        _mm256_setr_ps(0, 0x1p-16f, 0x1p-15f, 0x1.8p-15f, 0, 0, 0, 0));
}

INLINE v16 folded(enum pith_code_kind kind, const uint8_t *p, const v16_how *how,
                  const struct coded_scale *s)
{
    if (kind == PITH_CODE_E4M3)
        return v16_mul((v16){eight_of_e4m3(p), eight_of_e4m3(p + 8)}, s->scale);
    if (kind == PITH_CODE_E5M2)
        return v16_mul((v16){eight_of_e5m2(p), eight_of_e5m2(p + 8)}, s->scale);
    if (kind == PITH_CODE_LEVELS)
        return v16_mul(from_signed(_mm_shuffle_epi8(how->table, spread(p))), s->scale);
    if (kind == PITH_CODE_U2) {
        const v16_pairs x = pairs16(p, how);
        return (v16){_mm256_fmsub_ps(_mm256_cvtepi32_ps(x.a), s->scale.a, s->shift.a),
                     _mm256_fmsub_ps(_mm256_cvtepi32_ps(x.b), s->scale.b, s->shift.b)};
    }
    __m256i a = eight_bytes(p), b = a;
    if (is_nibble(kind)) {
        a = _mm256_and_si256(a, _mm256_set1_epi32(15));
        b = _mm256_srli_epi32(b, 4);
    } else {
        b = eight_bytes(p + 8);
    }
    return (v16){_mm256_fmsub_ps(_mm256_cvtepi32_ps(a), s->scale.a, s->shift.a),
                 _mm256_fmsub_ps(_mm256_cvtepi32_ps(b), s->scale.b, s->shift.b)};
}

/* All bits where scales are zeros or of a middling size, and their products with zeros, or with
 * offsets those with codes, exact. */
INLINE __m256 eight_fold(const struct pith_coded *c, __m256 s, __m256 zero)
{
    const __m256 size = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff));
    const __m256 of = _mm256_and_ps(s, size);
    const __m256 large = _mm256_cmp_ps(of, _mm256_set1_ps(0x1p-60f), _CMP_GE_OQ);
    const __m256 none = _mm256_cmp_ps(s, _mm256_setzero_ps(), _CMP_EQ_OQ);
    const __m256 small = _mm256_cmp_ps(of, _mm256_set1_ps(0x1p6f), _CMP_LE_OQ);
    __m256 fits = _mm256_and_ps(small, _mm256_or_ps(large, none));
    if (c->offset) {
        const __m256i low = _mm256_and_si256(_mm256_castps_si256(s), _mm256_set1_epi32(255));
        fits = _mm256_and_ps(fits,
                             _mm256_castsi256_ps(_mm256_cmpeq_epi32(low, _mm256_setzero_si256())));
    }
    if (!c->zero) return fits;
    const __m256 rest = _mm256_fmsub_ps(zero, s, _mm256_mul_ps(zero, s));
    return _mm256_and_ps(fits, _mm256_cmp_ps(rest, _mm256_setzero_ps(), _CMP_EQ_OQ));
}

/* Whether those of n scales are. */
static bool scales_fold(const struct pith_coded *c, size_t n)
{
    const float *zeros = c->zero ? c->zero : c->scale;
    __m256 fits = _mm256_castsi256_ps(_mm256_set1_epi32(-1));
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        fits = _mm256_and_ps(
            fits, eight_fold(c, _mm256_loadu_ps(c->scale + i), _mm256_loadu_ps(zeros + i)));
    if (i < n) {
        const __m256i mask = mask8(n - i);
        fits = _mm256_and_ps(fits, eight_fold(c, _mm256_maskload_ps(c->scale + i, mask),
                                              _mm256_maskload_ps(zeros + i, mask)));
    }
    return _mm256_movemask_ps(fits) == 255;
}

static bool folds(const struct pith_coded *c, size_t n)
{
    __m128i bytes;
    return scales_fold(c, n) && (c->kind != PITH_CODE_LEVELS || level_unit(c->level, &bytes) > 0);
}

#include "kern/template/coded_template.h"

void pith_attn_scores_codes_avx2(const struct pith_coded *k, size_t rows, const float *q,
                                 size_t ldq, float *s, size_t lds)
{
    attn_scores_codes(k, rows, q, ldq, s, lds);
}

void pith_attn_values_codes_avx2(const struct pith_coded *v, const struct pith_coded_sums *s)
{
    attn_values_codes(v, s);
}
