/* Trellises: sixteen weights, or sixteen nodes, a register. */
#include "kern/ops.h"
#include "kern/trellis.h"

#include <immintrin.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

/* ---- decoding ---- */

/* x's two halves as half floats, added in half precision. */
INLINE __m512 halves(__m512i x)
{
    x = _mm512_xor_si512(_mm512_and_si512(x, _mm512_set1_epi32((int)0x8fff8fff)),
                         _mm512_set1_epi32(0x3b603b60));
    const __m512 low = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(x)),
                 high = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_srli_epi32(x, 16)));
    return _mm512_cvtph_ps(
        _mm512_cvtps_ph(_mm512_add_ps(low, high), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

INLINE __m512 bytes(__m512i x)
{
    const __m512i pairs = _mm512_maddubs_epi16(x, _mm512_set1_epi8(1));
    const __m512i sum = _mm512_madd_epi16(pairs, _mm512_set1_epi16(1));
    const __m512 exact =
        _mm512_fmadd_ps(_mm512_cvtepi32_ps(_mm512_add_epi32(sum, _mm512_set1_epi32(1024))),
                        _mm512_set1_ps(PITH_TRELLIS_TIMES), _mm512_set1_ps(PITH_TRELLIS_PLUS));
    return _mm512_cvtph_ps(_mm512_cvtps_ph(exact, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

INLINE __m512 value(enum pith_trellis_code code, __m512i s)
{
    if (code == PITH_TRELLIS_MUL1)
        return bytes(_mm512_mullo_epi32(s, _mm512_set1_epi32((int)PITH_TRELLIS_BY_MUL1)));
    if (code == PITH_TRELLIS_MCG)
        return halves(_mm512_mullo_epi32(s, _mm512_set1_epi32((int)PITH_TRELLIS_BY_MCG)));
    return halves(
        _mm512_add_epi32(_mm512_mullo_epi32(s, _mm512_set1_epi32((int)PITH_TRELLIS_BY_3INST)),
                         _mm512_set1_epi32((int)PITH_TRELLIS_AND_3INST)));
}

/* Where sixteen weights' windows lie in the words from a place on: of the last word of each, and
 * how far it is to be shifted. */
struct windows {
    __m512i last, right, left;
};

/* Of weights whose first bit is bit `first` of the second word. */
INLINE struct windows find(unsigned bits, unsigned first)
{
    const __m512i lane = _mm512_setr_epi32(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16);
    const __m512i end = _mm512_add_epi32(_mm512_mullo_epi32(lane, _mm512_set1_epi32((int)bits)),
                                         _mm512_set1_epi32((int)first - 1));
    const __m512i word = _mm512_srli_epi32(end, 5);
    struct windows w;
    w.last = _mm512_add_epi32(word, _mm512_set1_epi32(1));
    w.right = _mm512_sub_epi32(_mm512_set1_epi32(31), _mm512_and_si512(end, _mm512_set1_epi32(31)));
    w.left = _mm512_sub_epi32(_mm512_set1_epi32(32), w.right);
    return w;
}

INLINE __m512 sixteen(enum pith_trellis_code code, const uint32_t *words, const struct windows *w)
{
    const __m512i x = _mm512_loadu_si512(words);
    const __m512i last = _mm512_permutexvar_epi32(w->last, x);
    const __m512i before =
        _mm512_permutexvar_epi32(_mm512_sub_epi32(w->last, _mm512_set1_epi32(1)), x);
    const __m512i both =
        _mm512_or_si512(_mm512_srlv_epi32(last, w->right), _mm512_sllv_epi32(before, w->left));
    return value(code, _mm512_and_si512(both, _mm512_set1_epi32(0xffff)));
}

INLINE void decode(enum pith_trellis_code code, unsigned bits, const uint8_t *tile, float *out,
                   size_t ld)
{
    const __m512i upper =
        _mm512_setr_epi32(0, 1, 8, 9, 16, 17, 24, 25, 2, 3, 10, 11, 18, 19, 26, 27);
    const __m512i lower = _mm512_add_epi32(upper, _mm512_set1_epi32(4));
    uint32_t words[1 + 8 * 8 + 16] = {0};
    memcpy(words + 1, tile, (size_t)bits * 32);
    words[0] = words[bits * 8];
    const struct windows even = find(bits, 0), odd = find(bits, 16 * bits % 32);
    for (size_t r = 0; r < 8; r++) {
        const __m512 a = sixteen(code, words + r * bits, &even),
                     b = sixteen(code, words + r * bits + bits / 2, &odd);
        _mm512_storeu_ps(out + r * ld, _mm512_permutex2var_ps(a, upper, b));
        _mm512_storeu_ps(out + (r + 8) * ld, _mm512_permutex2var_ps(a, lower, b));
    }
}

void pith_trellis_decode_avx512(enum pith_trellis_code code, unsigned bits, const uint8_t *tile,
                                float *out, size_t ld)
{
    if (code == PITH_TRELLIS_MUL2) pith_lanes_decode_avx2(bits, tile, out, ld);
    else if (code == PITH_TRELLIS_MUL1) decode(PITH_TRELLIS_MUL1, bits, tile, out, ld);
    else if (code == PITH_TRELLIS_MCG) decode(PITH_TRELLIS_MCG, bits, tile, out, ld);
    else decode(PITH_TRELLIS_3INST, bits, tile, out, ld);
}

/* ---- searching ---- */

/* The costs that lead to sixteen nodes, each 2^bits times. */
INLINE __m512 spread(unsigned bits, const float *in)
{
    const __m512i pairs = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
    if (bits == 1) return _mm512_permutexvar_ps(pairs, _mm512_castps256_ps512(_mm256_loadu_ps(in)));
    if (bits == 2)
        return _mm512_permutevar_ps(
            _mm512_broadcast_f32x4(_mm_loadu_ps(in)),
            _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3));
    if (bits == 3)
        return _mm512_permutevar_ps(
            _mm512_castpd_ps(_mm512_broadcastsd_pd(_mm_load_sd((const double *)(const void *)in))),
            _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1));
    return _mm512_set1_ps(*in);
}

INLINE void step(unsigned bits, const float *in, const float *table, float x, float *out,
                 uint8_t *from)
{
    const size_t nodes = PITH_TRELLIS_STATES >> bits, apart = nodes >> bits;
    const __m512 at = _mm512_set1_ps(x);
    for (size_t o = 0; o < nodes; o += 16) {
        const float *costs = in + (o >> bits);
        __m512 d = _mm512_sub_ps(_mm512_loadu_ps(table), at);
        __m512 best = _mm512_fmadd_ps(d, d, spread(bits, costs));
        __m512i first = _mm512_setzero_si512();
        table += 16;
        for (int k = 1; k < 1 << bits; k++, table += 16) {
            d = _mm512_sub_ps(_mm512_loadu_ps(table), at);
            const __m512 cost = _mm512_fmadd_ps(d, d, spread(bits, costs + (size_t)k * apart));
            const __mmask16 less = _mm512_cmp_ps_mask(cost, best, _CMP_LT_OQ);
            best = _mm512_min_ps(cost, best);
            first = _mm512_mask_mov_epi32(first, less, _mm512_set1_epi32(k));
        }
        _mm512_storeu_ps(out + o, best);
        _mm_storeu_si128((__m128i *)(void *)(from + o), _mm512_cvtepi32_epi8(first));
    }
}

void pith_trellis_step_avx512(unsigned bits, const float *in, const float *table, float x,
                              float *out, uint8_t *from)
{
    if (bits == 1) step(1, in, table, x, out, from);
    else if (bits == 2) step(2, in, table, x, out, from);
    else if (bits == 3) step(3, in, table, x, out, from);
    else if (bits == 4) step(4, in, table, x, out, from);
    else step(bits, in, table, x, out, from);
}
