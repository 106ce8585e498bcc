/* Products of floats with trellises, two vectors or more: sixteen weights a register, rows r and
 * r + 8 of a tile are 32 weights, two registers. A kind is a code. */
#include "kern/ops.h"
#include "kern/trellis.h"

#include <immintrin.h>

#define INLINE static inline __attribute__((always_inline))

enum { PAIRS = 4, VECTORS = 4 };
typedef float word;

/* Of both registers; where bits > 6 their upper weights lie in sixteen separate bytes. */
struct walk {
    unsigned from[4];
    __m512i pick[2], right[2];
};
struct numbers {
    __m512 of[PITH_TRELLIS_SIDE][2][PAIRS];
};
struct walk_sums {
    __m512 of[8];
};

#include "kern/template/walk_template.h"

/* ---- a register ---- */

INLINE __m128i load(const struct walking *b, size_t c, size_t r, size_t t)
{
    return _mm_loadu_si128((const __m128i *)(const void *)walk_at(b, c, r, t));
}

/* The windows of register i of rows r and r + 8 of tile c. */
INLINE __m512i windows(const struct walking *b, size_t c, size_t r, size_t i)
{
    __m512i x = _mm512_broadcast_i32x4(load(b, c, r, 2 * i));
    if (b->m->bits > 6) x = _mm512_mask_broadcast_i32x4(x, 0xff00, load(b, c, r, 2 * i + 1));
    x = _mm512_shuffle_epi8(x, b->w.pick[i]);
    return _mm512_and_si512(_mm512_srlv_epi32(x, b->w.right[i]), _mm512_set1_epi32(0xffff));
}

/* (x & 0x8fff) ^ 0x3b60 of the upper half of a word, as float32: the upper bits of the exponent are
 * the constant's. */
INLINE __m512 upper_half(__m512i x)
{
    enum { AND_XOR = 0x6a };
    return _mm512_castsi512_ps(_mm512_ternarylogic_epi32(_mm512_srai_epi32(x, 3),
                                                         _mm512_set1_epi32((int)0x81ffe000),
                                                         _mm512_set1_epi32(0x3f6c0000), AND_XOR));
}

INLINE __m512 weights(enum pith_trellis_code code, __m512i s)
{
    __m512i x = _mm512_mullo_epi32(
        s, _mm512_set1_epi32(
               (int)(code == PITH_TRELLIS_MCG ? PITH_TRELLIS_BY_MCG : PITH_TRELLIS_BY_3INST)));
    if (code == PITH_TRELLIS_3INST)
        x = _mm512_add_epi32(x, _mm512_set1_epi32((int)PITH_TRELLIS_AND_3INST));
    return _mm512_add_ps(upper_half(_mm512_slli_epi32(x, 16)), upper_half(x));
}

/* The sums of rows 0 to 15 from those of eight pairs of rows: each has in four lanes row r, in four
 * row r + 8, and both again. Lanes e and e of a row are added, then 0 and 2, 1 and 3, then those.
 */
INLINE __m512 close(const __m512 s[8])
{
    __m512 u[4], v[2];
#pragma GCC unroll 4
    for (size_t i = 0; i < 4; i++)
        u[i] = _mm512_add_ps(_mm512_shuffle_f32x4(s[2 * i], s[2 * i + 1], 0x44),
                             _mm512_shuffle_f32x4(s[2 * i], s[2 * i + 1], 0xee));
#pragma GCC unroll 2
    for (size_t i = 0; i < 2; i++) {
        const __m512d a = _mm512_castps_pd(u[2 * i]), b = _mm512_castps_pd(u[2 * i + 1]);
        v[i] = _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(a, b)),
                             _mm512_castpd_ps(_mm512_unpackhi_pd(a, b)));
    }
    const __m512 sum =
        _mm512_add_ps(_mm512_shuffle_ps(v[0], v[1], 0x88), _mm512_shuffle_ps(v[0], v[1], 0xdd));
    /* Of a quarter the rows are those of u[0] to u[3]; quarters are rows 2 i, 2 i + 8, 2 i + 1,
     * 2 i + 9. */
    return _mm512_permutexvar_ps(
        _mm512_setr_epi32(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15), sum);
}

/* ---- a block ---- */

INLINE __m512 number(const struct walking *b, unsigned kind, size_t c, size_t r, size_t half)
{
    return weights((enum pith_trellis_code)kind, windows(b, c, r, half));
}

INLINE void decode(const struct walking *b, unsigned kind, size_t r, struct numbers *to)
{
    for (size_t c = 0; c < PITH_TRELLIS_SIDE; c++)
#pragma GCC unroll 8
        for (size_t i = 0; i < 2 * PAIRS; i++)
            to->of[c][i / PAIRS][i % PAIRS] = number(b, kind, c, r + i % PAIRS, i / PAIRS);
}

INLINE void multiply(unsigned kind, const struct numbers *from, size_t n, const word *x, size_t r,
                     struct walk_sums *sums)
{
    (void)kind;
    __m512 acc[VECTORS][PAIRS];
#pragma GCC unroll 16
    for (size_t i = 0; i < n * PAIRS; i++) acc[i / PAIRS][i % PAIRS] = _mm512_setzero_ps();
    for (size_t c = 0; c < 2 * PITH_TRELLIS_SIDE; c++, x += PITH_TRELLIS_WORDS / 2) {
        __m512 words[VECTORS];
#pragma GCC unroll 4
        for (size_t v = 0; v < n; v++) words[v] = _mm512_load_ps(x + v * PITH_TRELLIS_STEP);
#pragma GCC unroll 4
        for (size_t i = 0; i < PAIRS; i++) {
            const __m512 w = from->of[c / 2][c % 2][i];
#pragma GCC unroll 4
            for (size_t v = 0; v < n; v++) acc[v][i] = _mm512_fmadd_ps(w, words[v], acc[v][i]);
        }
    }
#pragma GCC unroll 16
    for (size_t i = 0; i < n * PAIRS; i++)
        sums[i / PAIRS].of[r + i % PAIRS] = acc[i / PAIRS][i % PAIRS];
}

INLINE void multiply_one(const struct walking *b, unsigned kind, size_t r, const word *x,
                         struct walk_sums *sums)
{
    struct numbers w;
    decode(b, kind, r, &w);
    multiply(kind, &w, 1, x, r, sums);
}

INLINE void finish(unsigned kind, const struct walk_sums *sums, float scale, float *y)
{
    (void)kind;
    (void)scale;
    _mm512_storeu_ps(y, _mm512_add_ps(_mm512_loadu_ps(y), close(sums->of)));
}

void pith_trellis_walk_avx512(const struct pith_trellis_strip *m)
{
    struct pith_trellis_windows p;
    pith_trellis_find(m->bits, m->bits > 6 ? 1 : 2, &p);
    struct walk w = {.pick = {_mm512_load_si512(p.pick[0]), _mm512_load_si512(p.pick[2])},
                     .right = {_mm512_load_si512(p.right[0]), _mm512_load_si512(p.right[2])}};
    memcpy(w.from, p.from, sizeof w.from);
    if (m->code == PITH_TRELLIS_MCG) walk(m, &w, PITH_TRELLIS_MCG);
    else walk(m, &w, PITH_TRELLIS_3INST);
}
