/* Attention over codes by rows of bytes. Pairs of rows of codes are interleaved, so that a product
 * of bytes adds two of them up, in 16 bits those of 4-bit codes:
 *
 *     rows i and i + 1     a0 a1 a2 ...   b0 b1 b2 ...    (two codes a byte)
 *     one register         a0 b0 a1 b1 ...                its low halves, then its high ones
 *     q                    qa qb qa qb ...
 *
 * The sum of 32 codes' products may pass 16 bits, but that of codes less 8 does not: 32 * 8 * 127 <
 * 2^15. So sums begin at -8 times the sum of q and may wrap until the last. */
#include "kern/avx2/block_bytes_avx2.h"
#include "kern/template/coded_block.h"

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 8")

/* What each pair of rows of codes is multiplied by: q's two bytes, twice. */
INLINE void double_pairs(const int8_t *q, uint32_t pairs[16])
{
    const __m256i x = _mm256_loadu_si256((const __m256i *)(const void *)q);
    const __m256i low = _mm256_unpacklo_epi16(x, x), high = _mm256_unpackhi_epi16(x, x);
    __m256i *to = (__m256i *)(void *)pairs;
    _mm256_storeu_si256(to, _mm256_permute2x128_si256(low, high, 0x20));
    _mm256_storeu_si256(to + 1, _mm256_permute2x128_si256(low, high, 0x31));
}

/* Two rows of 32 codes of 4 bits: bytes 0 to 7, then 8 to 15. */
INLINE __m256i pair_of_nibbles(const uint8_t *at, size_t stride)
{
    const __m128i a = _mm_loadu_si128((const __m128i *)(const void *)at);
    const __m128i b = _mm_loadu_si128((const __m128i *)(const void *)(at + stride));
    return _mm256_set_m128i(_mm_unpackhi_epi8(a, b), _mm_unpacklo_epi8(a, b));
}

/* Words of a row: of low and of high halves of bytes; of whole bytes 32 sums. */
struct block_sum {
    __m256i low, high, whole[4];
};

/* The sums of low and high halves over 32 rows of codes, less 8. */
INLINE void sums_of_halves(size_t rows, const uint8_t *at, size_t stride,
                           const uint32_t (*pairs)[16], const struct coded_block *q,
                           struct block_sum *out)
{
    const __m256i mask = _mm256_set1_epi8(15);
    const uint8_t *ahead = q->prefetch;
    __m256i low[4], high[4];
    UNROLL
    for (size_t r = 0; r < rows; r++)
        low[r] = high[r] = _mm256_set1_epi16((short)(-8 * q->sum[r * q->ld]));
    for (size_t i = 0; i < 16; i += 4) {
        UNROLL
        for (size_t n = 0; n < 4; n++, at += 2 * stride, ahead += 32) {
            if (n % 2 == 0) __builtin_prefetch(ahead, 0, 2);
            const __m256i both = pair_of_nibbles(at, stride);
            const __m256i l = _mm256_and_si256(both, mask);
            const __m256i h = _mm256_and_si256(_mm256_srli_epi16(both, 4), mask);
            UNROLL
            for (size_t r = 0; r < rows; r++) {
                const __m256i y = _mm256_set1_epi32((int)pairs[r][i + n]);
                low[r] = _mm256_add_epi16(low[r], _mm256_maddubs_epi16(l, y));
                high[r] = _mm256_add_epi16(high[r], _mm256_maddubs_epi16(h, y));
            }
            /* Or products wait for their additions, in memory. */
            UNROLL
            for (size_t r = 0; r < rows; r++) __asm__("" : "+x"(low[r]), "+x"(high[r]));
        }
    }
    UNROLL
    for (size_t r = 0; r < rows; r++) {
        out[r].low = low[r];
        out[r].high = high[r];
    }
}

/* What each pair of rows of bytes is multiplied by: q's two, in 16 bits. */
INLINE void wide_pairs(const int8_t *q, uint32_t pairs[16])
{
    const __m256i x = _mm256_loadu_si256((const __m256i *)(const void *)q);
    __m256i *to = (__m256i *)(void *)pairs;
    _mm256_storeu_si256(to, _mm256_cvtepi8_epi16(_mm256_castsi256_si128(x)));
    _mm256_storeu_si256(to + 1, _mm256_cvtepi8_epi16(_mm256_extracti128_si256(x, 1)));
}

/* Sixteen columns of 32 rows of bytes, less 128. */
INLINE void sums_of_bytes(size_t rows, const uint8_t *at, size_t stride,
                          const uint32_t (*pairs)[16], const struct coded_block *q, size_t half,
                          struct block_sum *out)
{
    const uint8_t *ahead = q->prefetch + half * 512;
    __m256i a[4], b[4];
    UNROLL
    for (size_t r = 0; r < rows; r++) a[r] = b[r] = _mm256_set1_epi32(-128 * q->sum[r * q->ld]);
    for (size_t i = 0; i < 16; i++, at += 2 * stride, ahead += 32) {
        __builtin_prefetch(ahead, 0, 2);
        const __m128i x = _mm_loadu_si128((const __m128i *)(const void *)at);
        const __m128i y = _mm_loadu_si128((const __m128i *)(const void *)(at + stride));
        const __m256i u = _mm256_cvtepu8_epi16(_mm_unpacklo_epi8(x, y));
        const __m256i v = _mm256_cvtepu8_epi16(_mm_unpackhi_epi8(x, y));
        UNROLL
        for (size_t r = 0; r < rows; r++) {
            const __m256i e = _mm256_set1_epi32((int)pairs[r][i]);
            a[r] = _mm256_add_epi32(a[r], _mm256_madd_epi16(u, e));
            b[r] = _mm256_add_epi32(b[r], _mm256_madd_epi16(v, e));
        }
        UNROLL
        for (size_t r = 0; r < rows; r++) __asm__("" : "+x"(a[r]), "+x"(b[r]));
    }
    UNROLL
    for (size_t r = 0; r < rows; r++) {
        out[r].whole[2 * half] = a[r];
        out[r].whole[2 * half + 1] = b[r];
    }
}

INLINE v16 sixteen_sums(size_t bits, const struct block_sum *s, size_t half)
{
    if (bits == 8)
        return (v16){_mm256_cvtepi32_ps(s->whole[2 * half]),
                     _mm256_cvtepi32_ps(s->whole[2 * half + 1])};
    const __m256i a = _mm256_unpacklo_epi16(s->low, s->high);
    const __m256i b = _mm256_unpackhi_epi16(s->low, s->high);
    const __m128i x = half ? _mm256_extracti128_si256(a, 1) : _mm256_castsi256_si128(a);
    const __m128i y = half ? _mm256_extracti128_si256(b, 1) : _mm256_castsi256_si128(b);
    return (v16){_mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(x)),
                 _mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(y))};
}

INLINE void block_sums(size_t bits, size_t rows, const uint8_t *at, size_t stride,
                       const struct coded_block *q, struct block_sum *sums)
{
    uint32_t pairs[4][16];
    for (size_t r = 0; r < rows; r++)
        (bits == 8 ? wide_pairs : double_pairs)(q->q + r * q->ld * 32, pairs[r]);
    if (bits == 4) {
        sums_of_halves(rows, at, stride, (const uint32_t(*)[16])pairs, q, sums);
        return;
    }
    for (size_t i = 0; i < 2; i++)
        sums_of_bytes(rows, at + 16 * i, stride, (const uint32_t(*)[16])pairs, q, i, sums);
}
#undef INLINE
#undef UNROLL

#define BLOCK_PREFETCHES 1
#include "kern/template/coded_bytes_template.h"

void pith_attn_scores_bytes_avx2(const struct pith_coded *k, const struct pith_coded_bytes *q,
                                 float *s, size_t lds)
{
    attn_scores_bytes(k, q, s, lds);
}

void pith_attn_values_bytes_avx2(const struct pith_coded *v, const struct pith_coded_sums *s)
{
    attn_values_bytes(v, s);
}
