/* Products of bytes with trellises, sixteen weights a register: rows r and r + 8 of a tile are two.
 * A window is 16 bits; variable shifts of such are products with powers of two. There is one kind.
 */
#include "kern/ops.h"
#include "kern/trellis.h"

#include <immintrin.h>

#define INLINE static inline __attribute__((always_inline))

enum { PAIRS = 4, VECTORS = 2 };
typedef uint16_t word;

/* Of both registers; where bits > 6 their upper weights lie in sixteen separate bytes. left and
 * right: what to multiply by. */
struct walk {
    unsigned from[4];
    __m256i first[2], last[2], left[2], right[2];
};
/* The sums of bytes. */
struct numbers {
    __m256i of[PITH_TRELLIS_SIDE][2][PAIRS];
};
struct walk_sums {
    __m256i of[8];
};

#include "kern/template/walk_template.h"

/* ---- a register ---- */

INLINE __m256i line(const void *p)
{
    return _mm256_load_si256((const __m256i *)p);
}

INLINE __m128i load(const struct walking *b, size_t c, size_t r, size_t t)
{
    return _mm_loadu_si128((const __m128i *)(const void *)walk_at(b, c, r, t));
}

/* The windows of register i of rows r and r + 8 of tile c. Shifted right by 8 - left: the upper
 * half of what is shifted left by 8 + left. */
INLINE __m256i windows(const struct walking *b, size_t c, size_t r, size_t i)
{
    __m256i x = _mm256_broadcastsi128_si256(load(b, c, r, 2 * i));
    if (b->m->bits > 6) x = _mm256_inserti128_si256(x, load(b, c, r, 2 * i + 1), 1);
    return _mm256_or_si256(_mm256_mullo_epi16(_mm256_shuffle_epi8(x, b->w.first[i]), b->w.left[i]),
                           _mm256_mulhi_epu16(_mm256_shuffle_epi8(x, b->w.last[i]), b->w.right[i]));
}

/* The sums of the bytes of windows times PITH_TRELLIS_BY_MUL1. */
INLINE __m256i sums_of(__m256i s)
{
    const __m256i ones = _mm256_set1_epi8(1),
                  times = _mm256_set1_epi16((short)(PITH_TRELLIS_BY_MUL1 & 0xffff));
    const __m256i low = _mm256_mullo_epi16(s, times);
    const __m256i high = _mm256_add_epi16(
        _mm256_mulhi_epu16(s, times),
        _mm256_mullo_epi16(s, _mm256_set1_epi16((short)(PITH_TRELLIS_BY_MUL1 >> 16))));
    return _mm256_add_epi16(_mm256_maddubs_epi16(low, ones), _mm256_maddubs_epi16(high, ones));
}

/* The sums of rows 0, 1, 2, 3, 8, 9, 10, 11 from those of four pairs of rows: each has in two lanes
 * row r, in two row r + 8, and both again. */
INLINE __m256i close(const __m256i s[4])
{
    /* Quarters: r, r + 8, of the first and of the second of two pairs. */
    const __m256i u = _mm256_add_epi32(_mm256_permute2x128_si256(s[0], s[1], 0x20),
                                       _mm256_permute2x128_si256(s[0], s[1], 0x31));
    const __m256i v = _mm256_add_epi32(_mm256_permute2x128_si256(s[2], s[3], 0x20),
                                       _mm256_permute2x128_si256(s[2], s[3], 0x31));
    /* Rows 0, 8, 2, 10, then 1, 9, 3, 11. */
    return _mm256_permutevar8x32_epi32(_mm256_hadd_epi32(u, v),
                                       _mm256_setr_epi32(0, 4, 2, 6, 1, 5, 3, 7));
}

/* ---- a block ---- */

INLINE void decode(const struct walking *b, unsigned kind, size_t r, struct numbers *to)
{
    (void)kind;
    for (size_t c = 0; c < PITH_TRELLIS_SIDE; c++)
#pragma GCC unroll 8
        for (size_t i = 0; i < 2 * PAIRS; i++)
            to->of[c][i / PAIRS][i % PAIRS] = sums_of(windows(b, c, r + i % PAIRS, i / PAIRS));
}

/* A vector's sixteen words, each q once. */
INLINE __m256i words_at(const uint16_t *x)
{
    return _mm256_srai_epi16(line(x), 8);
}

INLINE void multiply(unsigned kind, const struct numbers *from, size_t n, const word *x, size_t r,
                     struct walk_sums *sums)
{
    (void)kind;
    __m256i acc[VECTORS][PAIRS];
#pragma GCC unroll 8
    for (size_t i = 0; i < n * PAIRS; i++) acc[i / PAIRS][i % PAIRS] = _mm256_setzero_si256();
    for (size_t c = 0; c < 2 * PITH_TRELLIS_SIDE; c++, x += PITH_TRELLIS_WORDS / 2)
#pragma GCC unroll 2
        for (size_t v = 0; v < n; v++) {
            const __m256i words = words_at(x + v * PITH_TRELLIS_STEP);
#pragma GCC unroll 4
            for (size_t i = 0; i < PAIRS; i++)
                acc[v][i] = _mm256_add_epi32(acc[v][i],
                                             _mm256_madd_epi16(from->of[c / 2][c % 2][i], words));
        }
#pragma GCC unroll 8
    for (size_t i = 0; i < n * PAIRS; i++)
        sums[i / PAIRS].of[r + i % PAIRS] = acc[i / PAIRS][i % PAIRS];
}

INLINE void multiply_one(const struct walking *b, unsigned kind, size_t r, const word *x,
                         struct walk_sums *sums)
{
    (void)kind;
    __m256i acc[PAIRS];
#pragma GCC unroll 4
    for (size_t i = 0; i < PAIRS; i++) acc[i] = _mm256_setzero_si256();
    for (size_t c = 0; c < PITH_TRELLIS_SIDE; c++, x += PITH_TRELLIS_WORDS)
#pragma GCC unroll 8
        for (size_t i = 0; i < 2 * PAIRS; i++)
            acc[i % PAIRS] = _mm256_add_epi32(
                acc[i % PAIRS], _mm256_madd_epi16(sums_of(windows(b, c, r + i % PAIRS, i / PAIRS)),
                                                  words_at(x + i / PAIRS * 16)));
#pragma GCC unroll 4
    for (size_t i = 0; i < PAIRS; i++) sums->of[r + i] = acc[i];
}

INLINE void put(float *y, __m128i sum, float scale)
{
    _mm_storeu_ps(y, _mm_fmadd_ps(_mm_cvtepi32_ps(sum), _mm_set1_ps(scale), _mm_loadu_ps(y)));
}

INLINE void finish(unsigned kind, const struct walk_sums *sums, float scale, float *y)
{
    (void)kind;
    for (size_t i = 0; i < 8; i += 4) {
        const __m256i sum = close(sums->of + i);
        put(y + i, _mm256_castsi256_si128(sum), scale);
        put(y + i + 8, _mm256_extracti128_si256(sum, 1), scale);
    }
}

void pith_trellis_bytes_avx2(const struct pith_trellis_strip *m)
{
    struct pith_trellis_pairs p;
    struct walk w;
    _Alignas(32) uint16_t left[32], right[32];
    pith_trellis_find_pairs(m->bits, m->bits > 6 ? 1 : 2, &p);
    for (size_t i = 0; i < 32; i++) {
        left[i] = (uint16_t)(1u << p.left[i / 8][i % 8]);
        right[i] = (uint16_t)(left[i] << 8);
    }
    memcpy(w.from, p.from, sizeof w.from);
    for (size_t i = 0; i < 2; i++) {
        w.first[i] = line(p.first[2 * i]);
        w.last[i] = line(p.last[2 * i]);
        w.left[i] = line(left + 16 * i);
        w.right[i] = line(right + 16 * i);
    }
    walk(m, &w, 0);
}
