/* Attention over codes: four rows of two registers, two for the values, four for what they are
 * scaled by. */
#include "kern/avx2/vec_avx2.h"
#include "kern/coded.h"

#include <stdbool.h>

/* Sixteen levels, two registers that the four bits of a code choose among; or, of codes of odd
 * numbers of bits, by how much each of eight is shifted and what is left of it. */
typedef struct {
    __m256 low, high;
    __m256i shift, mask;
    unsigned bits;
} v16_how;

static inline v16_how v16_how_of(enum pith_code_kind kind, const struct pith_coded *c)
{
    v16_how h = {.low = _mm256_setzero_ps()};
    if (kind == PITH_CODE_LEVELS) {
        h.low = _mm256_loadu_ps(c->level);
        h.high = _mm256_loadu_ps(c->level + 8);
    }
    if (kind == PITH_CODE_FEW) h.low = _mm256_loadu_ps(c->level);
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

static inline v16 from_signed(__m128i c)
{
    return (v16){_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(c)),
                 _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(c, 8)))};
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
