/* Products of bytes with trellises, many vectors: 32 weights a register, rows r and r + 8 of a
 * tile. A window is 16 bits, and what it is multiplied to is two such, whose bytes are added up as
 * they are multiplied. A kind is in how many parts windows are loaded. */
#include "kern/ops.h"
#include "kern/trellis.h"

#include <immintrin.h>

#define INLINE static inline __attribute__((always_inline))

enum { PAIRS = 4, VECTORS = 4 };
typedef uint16_t word;

struct walk {
    unsigned from[4];
    __m512i first, last, left, right;
};
/* Both halves of the products. */
struct numbers {
    __m512i of[PITH_TRELLIS_SIDE][PAIRS][2];
};
struct walk_sums {
    __m512i of[8];
};

#include "kern/template/walk_template.h"

/* ---- a register ---- */

INLINE __m128i load(const struct walking *b, size_t c, size_t r, size_t t)
{
    return _mm_loadu_si128((const __m128i *)(const void *)walk_at(b, c, r, t));
}

/* The windows of rows r and r + 8 of tile c, those of 32 / parts weights in the same sixteen bytes.
 */
INLINE __m512i windows(const struct walking *b, unsigned parts, size_t c, size_t r)
{
    __m512i x = _mm512_broadcast_i32x4(load(b, c, r, 0));
    if (parts == 4) x = _mm512_mask_broadcast_i32x4(x, 0x00f0, load(b, c, r, 1));
    if (parts > 1) x = _mm512_mask_broadcast_i32x4(x, 0xff00, load(b, c, r, 2));
    if (parts == 4) x = _mm512_mask_broadcast_i32x4(x, 0xf000, load(b, c, r, 3));
    return _mm512_or_si512(_mm512_sllv_epi16(_mm512_shuffle_epi8(x, b->w.first), b->w.left),
                           _mm512_srlv_epi16(_mm512_shuffle_epi8(x, b->w.last), b->w.right));
}

/* The lower and the upper half of windows times PITH_TRELLIS_BY_MUL1. */
INLINE __m512i lower(__m512i s)
{
    return _mm512_mullo_epi16(s, _mm512_set1_epi16((short)(PITH_TRELLIS_BY_MUL1 & 0xffff)));
}
INLINE __m512i upper(__m512i s)
{
    return _mm512_add_epi16(
        _mm512_mulhi_epu16(s, _mm512_set1_epi16((short)(PITH_TRELLIS_BY_MUL1 & 0xffff))),
        _mm512_mullo_epi16(s, _mm512_set1_epi16((short)(PITH_TRELLIS_BY_MUL1 >> 16))));
}

INLINE __m512i shuffle(__m512i a, __m512i b, bool odd)
{
    const __m512 x = _mm512_castsi512_ps(a), y = _mm512_castsi512_ps(b);
    return _mm512_castps_si512(odd ? _mm512_shuffle_ps(x, y, 0xdd) : _mm512_shuffle_ps(x, y, 0x88));
}

/* The sums of rows 0 to 15 from those of eight pairs of rows: each has in two lanes row r, in two
 * row r + 8, and these three times more. */
INLINE __m512i close(const __m512i s[8])
{
    __m512i u[4], v[2];
#pragma GCC unroll 4
    for (size_t i = 0; i < 4; i++)
        u[i] = _mm512_add_epi32(_mm512_shuffle_i32x4(s[2 * i], s[2 * i + 1], 0x44),
                                _mm512_shuffle_i32x4(s[2 * i], s[2 * i + 1], 0xee));
#pragma GCC unroll 2
    for (size_t i = 0; i < 2; i++)
        v[i] = _mm512_add_epi32(_mm512_shuffle_i32x4(u[2 * i], u[2 * i + 1], 0x88),
                                _mm512_shuffle_i32x4(u[2 * i], u[2 * i + 1], 0xdd));
    /* Quarters are rows i, i + 8, i + 4, i + 12. */
    return _mm512_permutexvar_epi32(
        _mm512_setr_epi32(0, 4, 8, 12, 2, 6, 10, 14, 1, 5, 9, 13, 3, 7, 11, 15),
        _mm512_add_epi32(shuffle(v[0], v[1], false), shuffle(v[0], v[1], true)));
}

/* ---- a block ---- */

INLINE void decode(const struct walking *b, unsigned kind, size_t r, struct numbers *to)
{
    for (size_t c = 0; c < PITH_TRELLIS_SIDE; c++)
#pragma GCC unroll 4
        for (size_t i = 0; i < PAIRS; i++) {
            const __m512i s = windows(b, kind, c, r + i);
            to->of[c][i][0] = lower(s);
            to->of[c][i][1] = upper(s);
        }
}

INLINE void multiply(unsigned kind, const struct numbers *from, size_t n, const word *x, size_t r,
                     struct walk_sums *sums)
{
    (void)kind;
    __m512i acc[VECTORS][PAIRS];
#pragma GCC unroll 16
    for (size_t i = 0; i < n * PAIRS; i++) acc[i / PAIRS][i % PAIRS] = _mm512_setzero_si512();
    for (size_t c = 0; c < PITH_TRELLIS_SIDE; c++, x += PITH_TRELLIS_WORDS) {
        __m512i words[VECTORS];
#pragma GCC unroll 4
        for (size_t v = 0; v < n; v++) words[v] = _mm512_load_si512(x + v * PITH_TRELLIS_STEP);
#pragma GCC unroll 8
        for (size_t i = 0; i < 2 * PAIRS; i++) {
            const __m512i w = from->of[c][i / 2][i % 2];
#pragma GCC unroll 4
            for (size_t v = 0; v < n; v++)
                acc[v][i / 2] = _mm512_dpbusd_epi32(acc[v][i / 2], w, words[v]);
        }
#pragma GCC unroll 16
        for (size_t i = 0; i < n * PAIRS; i++) /* or they are moved about */
            __asm__("" : "+v"(acc[i / PAIRS][i % PAIRS]));
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
    _mm512_storeu_ps(y, _mm512_fmadd_ps(_mm512_cvtepi32_ps(close(sums->of)), _mm512_set1_ps(scale),
                                        _mm512_loadu_ps(y)));
}

void pith_trellis_walk_vnni(const struct pith_trellis_strip *m)
{
    const unsigned parts = m->bits > 6 ? 4 : m->bits > 3 ? 2 : 1;
    struct pith_trellis_pairs p;
    pith_trellis_find_pairs(m->bits, 4 / parts, &p);
    struct walk w = {.first = _mm512_load_si512(p.first),
                     .last = _mm512_load_si512(p.last),
                     .left = _mm512_load_si512(p.left)};
    w.right = _mm512_sub_epi16(_mm512_set1_epi16(8), w.left);
    memcpy(w.from, p.from, sizeof w.from);
    if (parts == 4) walk(m, &w, 4);
    else if (parts == 2) walk(m, &w, 2);
    else walk(m, &w, 1);
}
