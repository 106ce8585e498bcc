/* Products of floats with trellises, eight weights a register: rows r and r + 8 of a tile are four.
 * Sums are two of them, of even and of odd t. A kind is a code. */
#include "kern/ops.h"
#include "kern/trellis.h"

#include <immintrin.h>

#define INLINE static inline __attribute__((always_inline))

enum { PAIRS = 2, VECTORS = 2 };
typedef float word;

struct walk {
    unsigned from[4];
    __m256i pick[4], right[4];
};
struct numbers {
    __m256 of[PITH_TRELLIS_SIDE][4][PAIRS];
};
struct walk_sums {
    __m256 of[8];
};

#include "kern/template/walk_template.h"

/* ---- a register ---- */

INLINE __m256i line(const void *p)
{
    return _mm256_load_si256((const __m256i *)p);
}

/* The windows of register t of rows r and r + 8 of tile c. */
INLINE __m256i windows(const struct walking *b, size_t c, size_t r, size_t t)
{
    const __m256i x = _mm256_broadcastsi128_si256(
        _mm_loadu_si128((const __m128i *)(const void *)walk_at(b, c, r, t)));
    return _mm256_and_si256(_mm256_srlv_epi32(_mm256_shuffle_epi8(x, b->w.pick[t]), b->w.right[t]),
                            _mm256_set1_epi32(0xffff));
}

/* (x & 0x8fff) ^ 0x3b60 of the upper half of a word, as float32: the upper bits of the exponent are
 * the constant's. */
INLINE __m256 upper_half(__m256i x)
{
    x = _mm256_and_si256(_mm256_srai_epi32(x, 3), _mm256_set1_epi32((int)0x81ffe000));
    return _mm256_castsi256_ps(_mm256_xor_si256(x, _mm256_set1_epi32(0x3f6c0000)));
}

INLINE __m256 weights(enum pith_trellis_code code, __m256i s)
{
    __m256i x = _mm256_mullo_epi32(
        s, _mm256_set1_epi32(
               (int)(code == PITH_TRELLIS_MCG ? PITH_TRELLIS_BY_MCG : PITH_TRELLIS_BY_3INST)));
    if (code == PITH_TRELLIS_3INST)
        x = _mm256_add_epi32(x, _mm256_set1_epi32((int)PITH_TRELLIS_AND_3INST));
    return _mm256_add_ps(upper_half(_mm256_slli_epi32(x, 16)), upper_half(x));
}

/* The sums of rows 0, 1, 2, 3, 8, 9, 10, 11 from those of four pairs of rows: lanes e of row r,
 * then of row r + 8. Lanes 0 and 2, 1 and 3 are added, then those. */
INLINE __m256 close(const __m256 u[4])
{
    __m256 v[2];
    for (size_t i = 0; i < 2; i++) {
        const __m256d a = _mm256_castps_pd(u[2 * i]), b = _mm256_castps_pd(u[2 * i + 1]);
        v[i] = _mm256_add_ps(_mm256_castpd_ps(_mm256_unpacklo_pd(a, b)),
                             _mm256_castpd_ps(_mm256_unpackhi_pd(a, b)));
    }
    return _mm256_add_ps(_mm256_shuffle_ps(v[0], v[1], 0x88), _mm256_shuffle_ps(v[0], v[1], 0xdd));
}

/* ---- a block ---- */

INLINE void decode(const struct walking *b, unsigned kind, size_t r, struct numbers *to)
{
    for (size_t c = 0; c < PITH_TRELLIS_SIDE; c++)
#pragma GCC unroll 8
        for (size_t i = 0; i < 4 * PAIRS; i++)
            to->of[c][i / PAIRS][i % PAIRS] =
                weights((enum pith_trellis_code)kind, windows(b, c, r + i % PAIRS, i / PAIRS));
}

INLINE void multiply(unsigned kind, const struct numbers *from, size_t n, const word *x, size_t r,
                     struct walk_sums *sums)
{
    (void)kind;
    __m256 acc[VECTORS][PAIRS][2];
#pragma GCC unroll 8
    for (size_t i = 0; i < 4 * n; i++) acc[i / 4][i / 2 % 2][i % 2] = _mm256_setzero_ps();
    for (size_t c = 0; c < PITH_TRELLIS_SIDE; c++, x += PITH_TRELLIS_WORDS)
#pragma GCC unroll 4
        for (size_t t = 0; t < 4; t++)
#pragma GCC unroll 2
            for (size_t v = 0; v < n; v++) {
                const __m256 words = _mm256_load_ps(x + v * PITH_TRELLIS_STEP + 8 * t);
#pragma GCC unroll 2
                for (size_t i = 0; i < PAIRS; i++)
                    acc[v][i][t % 2] = _mm256_fmadd_ps(from->of[c][t][i], words, acc[v][i][t % 2]);
            }
#pragma GCC unroll 4
    for (size_t i = 0; i < PAIRS * n; i++)
        sums[i / PAIRS].of[r + i % PAIRS] =
            _mm256_add_ps(acc[i / PAIRS][i % PAIRS][0], acc[i / PAIRS][i % PAIRS][1]);
}

INLINE void multiply_one(const struct walking *b, unsigned kind, size_t r, const word *x,
                         struct walk_sums *sums)
{
    __m256 acc[PAIRS][2];
#pragma GCC unroll 4
    for (size_t i = 0; i < 2 * PAIRS; i++) acc[i / 2][i % 2] = _mm256_setzero_ps();
    for (size_t c = 0; c < PITH_TRELLIS_SIDE; c++, x += PITH_TRELLIS_WORDS)
#pragma GCC unroll 8
        for (size_t i = 0; i < 4 * PAIRS; i++) {
            const size_t t = i / PAIRS, pair = i % PAIRS;
            acc[pair][t % 2] =
                _mm256_fmadd_ps(weights((enum pith_trellis_code)kind, windows(b, c, r + pair, t)),
                                _mm256_load_ps(x + 8 * t), acc[pair][t % 2]);
        }
#pragma GCC unroll 2
    for (size_t i = 0; i < PAIRS; i++) sums->of[r + i] = _mm256_add_ps(acc[i][0], acc[i][1]);
}

INLINE void put(float *y, __m128 sum)
{
    _mm_storeu_ps(y, _mm_add_ps(_mm_loadu_ps(y), sum));
}

INLINE void finish(unsigned kind, const struct walk_sums *sums, float scale, float *y)
{
    (void)kind;
    (void)scale;
    for (size_t i = 0; i < 8; i += 4) {
        const __m256 sum = close(sums->of + i);
        put(y + i, _mm256_castps256_ps128(sum));
        put(y + i + 8, _mm256_extractf128_ps(sum, 1));
    }
}

void pith_trellis_floats_avx2(const struct pith_trellis_strip *m)
{
    struct pith_trellis_windows p;
    struct walk w;
    pith_trellis_find(m->bits, 1, &p);
    memcpy(w.from, p.from, sizeof w.from);
    for (size_t t = 0; t < 4; t++) {
        w.pick[t] = line(p.pick[t]);
        w.right[t] = line(p.right[t]);
    }
    if (m->code == PITH_TRELLIS_MCG) walk(m, &w, PITH_TRELLIS_MCG);
    else walk(m, &w, PITH_TRELLIS_3INST);
}
