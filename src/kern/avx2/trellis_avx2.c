/* Trellises: eight weights, or eight nodes, a register. */
#include "kern/ops.h"
#include "kern/trellis.h"

#include <immintrin.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

/* ---- decoding ---- */

INLINE __m256 to_half(__m256 x)
{
    return _mm256_cvtph_ps(_mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}

/* The lower 16 bits of each word, as half floats. */
INLINE __m256 low_half(__m256i x)
{
    const __m256i low = _mm256_and_si256(x, _mm256_set1_epi32(0xffff));
    const __m256i both = _mm256_packus_epi32(low, low);
    return _mm256_cvtph_ps(_mm256_castsi256_si128(_mm256_permute4x64_epi64(both, 0x08)));
}

INLINE __m256 halves(__m256i x)
{
    x = _mm256_xor_si256(_mm256_and_si256(x, _mm256_set1_epi32((int)0x8fff8fff)),
                         _mm256_set1_epi32(0x3b603b60));
    return to_half(_mm256_add_ps(low_half(x), low_half(_mm256_srli_epi32(x, 16))));
}

INLINE __m256 bytes(__m256i x)
{
    const __m256i pairs = _mm256_maddubs_epi16(x, _mm256_set1_epi8(1));
    const __m256i sum = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
    return to_half(
        _mm256_fmadd_ps(_mm256_cvtepi32_ps(_mm256_add_epi32(sum, _mm256_set1_epi32(1024))),
                        _mm256_set1_ps(PITH_TRELLIS_TIMES), _mm256_set1_ps(PITH_TRELLIS_PLUS)));
}

INLINE __m256 value(enum pith_trellis_code code, __m256i s)
{
    if (code == PITH_TRELLIS_MUL1)
        return bytes(_mm256_mullo_epi32(s, _mm256_set1_epi32((int)PITH_TRELLIS_BY_MUL1)));
    if (code == PITH_TRELLIS_MCG)
        return halves(_mm256_mullo_epi32(s, _mm256_set1_epi32((int)PITH_TRELLIS_BY_MCG)));
    return halves(
        _mm256_add_epi32(_mm256_mullo_epi32(s, _mm256_set1_epi32((int)PITH_TRELLIS_BY_3INST)),
                         _mm256_set1_epi32((int)PITH_TRELLIS_AND_3INST)));
}

/* Eight weights from bit `first` of the second word on: a window ends in word last, and is shifted
 * down by right. */
INLINE __m256 eight(enum pith_trellis_code code, unsigned bits, unsigned first,
                    const uint32_t *words)
{
    const __m256i lane = _mm256_setr_epi32(1, 2, 3, 4, 5, 6, 7, 8), mask = _mm256_set1_epi32(31);
    const __m256i end = _mm256_add_epi32(_mm256_mullo_epi32(lane, _mm256_set1_epi32((int)bits)),
                                         _mm256_set1_epi32((int)first - 1));
    const __m256i before = _mm256_srli_epi32(end, 5);
    const __m256i last = _mm256_add_epi32(before, _mm256_set1_epi32(1));
    const __m256i right = _mm256_sub_epi32(mask, _mm256_and_si256(end, mask));
    const __m256i left = _mm256_sub_epi32(_mm256_set1_epi32(32), right);
    const __m256i x = _mm256_loadu_si256((const __m256i *)(const void *)words);
    const __m256i both =
        _mm256_or_si256(_mm256_srlv_epi32(_mm256_permutevar8x32_epi32(x, last), right),
                        _mm256_sllv_epi32(_mm256_permutevar8x32_epi32(x, before), left));
    return value(code, _mm256_and_si256(both, _mm256_set1_epi32(0xffff)));
}

/* Pairs a, b, c, d of one row, and of the row eight below in the upper lanes. */
INLINE void put(__m256 ab, __m256 cd, float *row, float *below)
{
    _mm256_storeu_ps(row, _mm256_permute2f128_ps(ab, cd, 0x20));
    _mm256_storeu_ps(below, _mm256_permute2f128_ps(ab, cd, 0x31));
}

INLINE __m256 low_pairs(__m256 a, __m256 b)
{
    return _mm256_castpd_ps(_mm256_unpacklo_pd(_mm256_castps_pd(a), _mm256_castps_pd(b)));
}
INLINE __m256 high_pairs(__m256 a, __m256 b)
{
    return _mm256_castpd_ps(_mm256_unpackhi_pd(_mm256_castps_pd(a), _mm256_castps_pd(b)));
}

INLINE void decode(enum pith_trellis_code code, unsigned bits, const uint8_t *tile, float *out,
                   size_t ld)
{
    uint32_t words[1 + 8 * 8 + 8] = {0};
    memcpy(words + 1, tile, (size_t)bits * 32);
    words[0] = words[bits * 8];
    for (size_t r = 0; r < 8; r++) {
        const uint32_t *from = words + r * bits;
        const __m256 a = eight(code, bits, 0, from),
                     b = eight(code, bits, 8 * bits % 32, from + 8 * bits / 32),
                     c = eight(code, bits, 16 * bits % 32, from + 16 * bits / 32),
                     d = eight(code, bits, 24 * bits % 32, from + 24 * bits / 32);
        float *row = out + r * ld, *below = row + 8 * ld;
        put(low_pairs(a, b), low_pairs(c, d), row, below);
        put(high_pairs(a, b), high_pairs(c, d), row + 8, below + 8);
    }
}

void pith_trellis_decode_avx2(enum pith_trellis_code code, unsigned bits, const uint8_t *tile,
                              float *out, size_t ld)
{
    if (code == PITH_TRELLIS_MUL2) pith_lanes_decode_avx2(bits, tile, out, ld);
    else if (code == PITH_TRELLIS_MUL1) decode(PITH_TRELLIS_MUL1, bits, tile, out, ld);
    else if (code == PITH_TRELLIS_MCG) decode(PITH_TRELLIS_MCG, bits, tile, out, ld);
    else decode(PITH_TRELLIS_3INST, bits, tile, out, ld);
}

/* ---- searching ---- */

/* The costs that lead to eight nodes, each 2^bits times. */
INLINE __m256 spread(unsigned bits, const float *in)
{
    if (bits == 1)
        return _mm256_permutevar8x32_ps(_mm256_castps128_ps256(_mm_loadu_ps(in)),
                                        _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3));
    if (bits == 2)
        return _mm256_permutevar_ps(
            _mm256_castpd_ps(_mm256_broadcast_sd((const double *)(const void *)in)),
            _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1));
    return _mm256_set1_ps(*in);
}

INLINE void store_bytes(uint8_t *to, __m256i x)
{
    const __m128i words =
        _mm_packus_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    _mm_storel_epi64((__m128i *)(void *)to, _mm_packus_epi16(words, words));
}

INLINE void step(unsigned bits, const float *in, const float *table, float x, float *out,
                 uint8_t *from)
{
    const size_t nodes = PITH_TRELLIS_STATES >> bits, apart = nodes >> bits;
    const __m256 at = _mm256_set1_ps(x);
    for (size_t o = 0; o < nodes; o += 8) {
        const float *costs = in + (o >> bits), *v = table + (o / 16 << bits) * 16 + o % 16;
        __m256 d = _mm256_sub_ps(_mm256_loadu_ps(v), at);
        __m256 best = _mm256_fmadd_ps(d, d, spread(bits, costs));
        __m256i first = _mm256_setzero_si256();
        for (int k = 1; k < 1 << bits; k++) {
            d = _mm256_sub_ps(_mm256_loadu_ps(v + (size_t)k * 16), at);
            const __m256 cost = _mm256_fmadd_ps(d, d, spread(bits, costs + (size_t)k * apart));
            const __m256 less = _mm256_cmp_ps(cost, best, _CMP_LT_OQ);
            best = _mm256_min_ps(cost, best);
            first = _mm256_blendv_epi8(first, _mm256_set1_epi32(k), _mm256_castps_si256(less));
        }
        _mm256_storeu_ps(out + o, best);
        store_bytes(from + o, first);
    }
}

void pith_trellis_step_avx2(unsigned bits, const float *in, const float *table, float x, float *out,
                            uint8_t *from)
{
    if (bits == 1) step(1, in, table, x, out, from);
    else if (bits == 2) step(2, in, table, x, out, from);
    else if (bits == 3) step(3, in, table, x, out, from);
    else if (bits == 4) step(4, in, table, x, out, from);
    else step(bits, in, table, x, out, from);
}
