/* Attention over codes by rows of bytes: four rows of codes are interleaved, so that one
 * instruction adds up four products in 32 bits. Sums begin at what the middle of the codes takes
 * off. */
#include "kern/avx2/block_bytes_avx2.h"
#include "kern/template/coded_block.h"

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 8")

/* The 32 sums of a row, in the order in which rows of codes are interleaved. */
struct block_sum {
    __m256i x[4];
};

/* Bytes of four rows of 16, side by side: of the first eight columns and of the last. */
struct eights {
    __m256i a, b;
};

INLINE __m128i sixteen_bytes(const uint8_t *at)
{
    return _mm_loadu_si128((const __m128i *)(const void *)at);
}

INLINE struct eights four_of_16(const uint8_t *at, size_t stride)
{
    const __m128i a = sixteen_bytes(at), b = sixteen_bytes(at + stride);
    const __m128i c = sixteen_bytes(at + 2 * stride), d = sixteen_bytes(at + 3 * stride);
    const __m128i x = _mm_unpacklo_epi8(a, b), y = _mm_unpacklo_epi8(c, d);
    const __m128i u = _mm_unpackhi_epi8(a, b), v = _mm_unpackhi_epi8(c, d);
    return (struct eights){_mm256_set_m128i(_mm_unpackhi_epi16(x, y), _mm_unpacklo_epi16(x, y)),
                           _mm256_set_m128i(_mm_unpackhi_epi16(u, v), _mm_unpacklo_epi16(u, v))};
}

/* Codes of four rows: of 4 bits those of even columns 0 to 14, of odd ones, and of columns 16 on;
 * bytes of columns 0 to 3 and 16 to 19, of the next four of each, and so on. */
INLINE void four_rows(size_t bits, const uint8_t *at, size_t stride, __m256i w[4])
{
    if (bits == 4) {
        const __m256i mask = _mm256_set1_epi8(15);
        const struct eights e = four_of_16(at, stride);
        w[0] = _mm256_and_si256(e.a, mask);
        w[1] = _mm256_and_si256(_mm256_srli_epi16(e.a, 4), mask);
        w[2] = _mm256_and_si256(e.b, mask);
        w[3] = _mm256_and_si256(_mm256_srli_epi16(e.b, 4), mask);
        return;
    }
#define ROW(i) _mm256_loadu_si256((const __m256i *)(const void *)(at + (i)*stride))
    const __m256i a = ROW(0), b = ROW(1), c = ROW(2), d = ROW(3);
#undef ROW
    const __m256i x = _mm256_unpacklo_epi8(a, b), y = _mm256_unpacklo_epi8(c, d);
    const __m256i u = _mm256_unpackhi_epi8(a, b), v = _mm256_unpackhi_epi8(c, d);
    w[0] = _mm256_unpacklo_epi16(x, y);
    w[1] = _mm256_unpackhi_epi16(x, y);
    w[2] = _mm256_unpacklo_epi16(u, v);
    w[3] = _mm256_unpackhi_epi16(u, v);
}

INLINE void block_sums(size_t bits, size_t rows, const uint8_t *at, size_t stride,
                       const struct coded_block *q, struct block_sum *sums)
{
    const int middle = bits == 8 ? 128 : 8;
    __m256i d[4][4];
    UNROLL
    for (size_t r = 0; r < rows; r++)
        d[r][0] = d[r][1] = d[r][2] = d[r][3] = _mm256_set1_epi32(-middle * q->sum[r * q->ld]);
    for (size_t i = 0; i < 32; i += 4, at += 4 * stride) {
        __m256i w[4];
        four_rows(bits, at, stride, w);
        UNROLL
        for (size_t r = 0; r < rows; r++) {
            int32_t four;
            memcpy(&four, q->q + r * q->ld * 32 + i, sizeof four);
            const __m256i e = _mm256_set1_epi32(four);
            UNROLL
            for (size_t n = 0; n < 4; n++) d[r][n] = _mm256_dpbusd_epi32(d[r][n], w[n], e);
        }
    }
    UNROLL
    for (size_t r = 0; r < rows; r++)
        for (size_t n = 0; n < 4; n++) sums[r].x[n] = d[r][n];
}

INLINE v16 sixteen_sums(size_t bits, const struct block_sum *s, size_t half)
{
    __m256i a, b;
    if (bits == 4) {
        a = _mm256_unpacklo_epi32(s->x[2 * half], s->x[2 * half + 1]);
        b = _mm256_unpackhi_epi32(s->x[2 * half], s->x[2 * half + 1]);
        const __m256i first = _mm256_permute2x128_si256(a, b, 0x20);
        b = _mm256_permute2x128_si256(a, b, 0x31);
        a = first;
    } else if (half == 0) {
        a = _mm256_permute2x128_si256(s->x[0], s->x[1], 0x20);
        b = _mm256_permute2x128_si256(s->x[2], s->x[3], 0x20);
    } else {
        a = _mm256_permute2x128_si256(s->x[0], s->x[1], 0x31);
        b = _mm256_permute2x128_si256(s->x[2], s->x[3], 0x31);
    }
    return (v16){_mm256_cvtepi32_ps(a), _mm256_cvtepi32_ps(b)};
}
#undef INLINE
#undef UNROLL

#include "kern/template/coded_bytes_template.h"

void pith_attn_scores_bytes_vnni(const struct pith_coded *k, const struct pith_coded_bytes *q,
                                 float *s, size_t lds)
{
    attn_scores_bytes(k, q, s, lds);
}

void pith_attn_values_bytes_vnni(const struct pith_coded *v, const struct pith_coded_sums *s)
{
    attn_values_bytes(v, s);
}
