/* Products of bytes with trellises (kern/trellis.h), 32 weights a register, rows r and r + 8 of a
 * tile: a window is 16 bits, and what it is multiplied to is two such, whose bytes are added up as
 * they are multiplied. */
#include "kern/ops.h"
#include "kern/panel.h"
#include "kern/trellis.h"

#include <immintrin.h>

#define INLINE static inline __attribute__((always_inline))

/* ---- a register ---- */

/* Where the windows are: those of 32 / parts weights in the same sixteen bytes. */
struct walk {
    unsigned from[4];
    __m512i first, last, left, right;
};

INLINE struct walk walk_init(unsigned bits, unsigned parts)
{
    struct pith_trellis_pairs p;
    pith_trellis_find_pairs(bits, 4 / parts, &p);
    struct walk w = {.first = _mm512_load_si512(p.first),
                     .last = _mm512_load_si512(p.last),
                     .left = _mm512_load_si512(p.left)};
    w.right = _mm512_sub_epi16(_mm512_set1_epi16(8), w.left);
    memcpy(w.from, p.from, sizeof w.from);
    return w;
}

/* A block of m, and its tiles. */
struct block {
    const struct pith_trellis_strip *m;
    struct walk w;
    size_t block;
    struct pith_trellis_block tiles;
};

INLINE __m128i load(const struct block *b, size_t c, size_t r, unsigned t)
{
    const bool head = r == 0 || b->m->bits == 1;
    return _mm_loadu_si128((const __m128i *)(const void *)pith_trellis_at(
        &b->tiles, c, r * b->m->bits + b->w.from[t], head));
}

/* The windows of rows r and r + 8 of tile c. */
INLINE __m512i windows(const struct block *b, unsigned parts, size_t c, size_t r)
{
    __m512i x = _mm512_broadcast_i32x4(load(b, c, r, 0));
    if (parts == 4) x = _mm512_mask_broadcast_i32x4(x, 0x00f0, load(b, c, r, 1));
    if (parts > 1) x = _mm512_mask_broadcast_i32x4(x, 0xff00, load(b, c, r, 2));
    if (parts == 4) x = _mm512_mask_broadcast_i32x4(x, 0xf000, load(b, c, r, 3));
    return _mm512_or_si512(_mm512_sllv_epi16(_mm512_shuffle_epi8(x, b->w.first), b->w.left),
                           _mm512_srlv_epi16(_mm512_shuffle_epi8(x, b->w.last), b->w.right));
}

/* The lower and the upper half of windows times 0x83dcd12d. */
INLINE __m512i lower(__m512i s)
{
    return _mm512_mullo_epi16(s, _mm512_set1_epi16((short)0xd12d));
}
INLINE __m512i upper(__m512i s)
{
    return _mm512_add_epi16(_mm512_mulhi_epu16(s, _mm512_set1_epi16((short)0xd12d)),
                            _mm512_mullo_epi16(s, _mm512_set1_epi16((short)0x83dc)));
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

enum { PAIRS = 4, VECTORS = 4 /* that meet in registers */ };

/* The products of the windows of pairs of rows, both halves. */
struct numbers {
    __m512i of[PITH_TRELLIS_SIDE][PAIRS][2];
};
/* A vector's, of pairs of rows. */
struct sums {
    __m512i of[8];
};

/* Those of pairs [r, r + PAIRS). */
INLINE void decode(const struct block *b, unsigned parts, size_t r, struct numbers *to)
{
    for (size_t c = 0; c < PITH_TRELLIS_SIDE; c++)
#pragma GCC unroll 4
        for (size_t i = 0; i < PAIRS; i++) {
            const __m512i s = windows(b, parts, c, r + i);
            to->of[c][i][0] = lower(s);
            to->of[c][i][1] = upper(s);
        }
}

/* Their sums with n vectors, n being known, to sums[v].of[r ...]. */
INLINE void multiply(const struct numbers *from, size_t n, const uint16_t *x, size_t r,
                     struct sums *sums)
{
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

/* Their sums with one vector, without a place between. */
INLINE void multiply_one(const struct block *b, unsigned parts, size_t r, const uint16_t *x,
                         struct sums *sums)
{
    __m512i acc[PAIRS];
#pragma GCC unroll 4
    for (size_t i = 0; i < PAIRS; i++) acc[i] = _mm512_setzero_si512();
    for (size_t c = 0; c < PITH_TRELLIS_SIDE; c++, x += PITH_TRELLIS_WORDS) {
        const __m512i words = _mm512_load_si512(x);
#pragma GCC unroll 4
        for (size_t i = 0; i < PAIRS; i++) {
            const __m512i s = windows(b, parts, c, r + i);
            acc[i] = _mm512_dpbusd_epi32(acc[i], lower(s), words);
            acc[i] = _mm512_dpbusd_epi32(acc[i], upper(s), words);
        }
    }
#pragma GCC unroll 4
    for (size_t i = 0; i < PAIRS; i++) sums->of[r + i] = acc[i];
}

/* Pairs [r, r + PAIRS) with all vectors. */
INLINE void pairs_of(const struct block *b, unsigned parts, size_t r, struct sums *sums)
{
    const size_t count = b->m->count;
    const uint16_t *x = (const uint16_t *)b->m->x + b->block * count * PITH_TRELLIS_STEP;
    struct numbers w;
    if (count == 1) {
        multiply_one(b, parts, r, x, sums);
        return;
    }
    decode(b, parts, r, &w);
    for (size_t v = 0; v < count; v += VECTORS, x += VECTORS * PITH_TRELLIS_STEP) {
        if (count - v == 1) multiply(&w, 1, x, r, sums + v);
        else if (count - v == 2) multiply(&w, 2, x, r, sums + v);
        else if (count - v == 3) multiply(&w, 3, x, r, sums + v);
        else multiply(&w, 4, x, r, sums + v);
    }
}

INLINE void finish(const struct block *b, const struct sums *sums)
{
    const struct pith_trellis_strip *m = b->m;
    const float *scale = m->scale + b->block * m->count;
    for (size_t i = 0; i < m->count; i++) {
        float *y = m->y + i * m->ldy;
        _mm512_storeu_ps(y, _mm512_fmadd_ps(_mm512_cvtepi32_ps(close(sums[i].of)),
                                            _mm512_set1_ps(scale[i]), _mm512_loadu_ps(y)));
    }
}

INLINE void blocks(const struct pith_trellis_strip *m, unsigned parts)
{
    struct block b = {.m = m, .w = walk_init(m->bits, parts)};
    const size_t bytes = PITH_TRELLIS_SIDE * pith_trellis_bytes(m->bits);
    struct sums sums[PITH_TRELLIS_VECTORS];
    for (; b.block < m->blocks; b.block++) {
        const uint8_t *tiles = m->tiles + b.block * bytes;
        for (size_t i = 0; i < bytes; i += PITH_PANEL_LINE)
            _mm_prefetch((const char *)tiles + PITH_AHEAD_BYTES + i, _MM_HINT_T0);
        pith_trellis_open(&b.tiles, tiles, m->bits);
        /* What row 0 reads was just written. */
        pairs_of(&b, parts, PAIRS, sums);
        pairs_of(&b, parts, 0, sums);
        finish(&b, sums);
    }
}

void pith_trellis_bytes_vnni(const struct pith_trellis_strip *m)
{
    if (m->bits > 6) blocks(m, 4);
    else if (m->bits > 3) blocks(m, 2);
    else blocks(m, 1);
}
