/* Products of floats with trellises, one vector: halves are made of 32 windows, of neighbouring
 * weights in words side by side, and become floats as they are read back, which takes an
 * instruction less than in a register. */
#include "kern/avx512/spans_avx512.h"
#include "kern/ops.h"
#include "kern/panel.h"

#define INLINE static inline __attribute__((always_inline))

enum { PAIRS = PITH_TRELLIS_WORDS / 2, CHAINS = PAIRS / 2, AHEAD = 4 };

/* Half floats: what is added to weights. */
struct halves {
    _Alignas(64) __m512i low, high;
};
/* Of each row of tiles: pairs p and p + CHAINS go on in the same sums, two for each lane. */
struct chains {
    __m512 of[PITH_TRELLIS_ROWS][CHAINS];
};

/* (x & 0x8fff) ^ 0x3b60 */
INLINE __m512i half(__m512i x)
{
    enum { AND_XOR = 0x6a };
    return _mm512_ternarylogic_epi32(x, _mm512_set1_epi16((short)0x8fff), _mm512_set1_epi16(0x3b60),
                                     AND_XOR);
}

INLINE struct halves halves_of(enum pith_trellis_code code, __m512i s)
{
    const uint32_t by = code == PITH_TRELLIS_MCG ? PITH_TRELLIS_BY_MCG : PITH_TRELLIS_BY_3INST;
    const __m512i by_low = _mm512_set1_epi16((short)(by & 0xffff));
    __m512i low = _mm512_mullo_epi16(s, by_low),
            high = _mm512_add_epi16(
                _mm512_mulhi_epu16(s, by_low),
                _mm512_mullo_epi16(s, _mm512_set1_epi16((short)(by >> 16))));
    if (code == PITH_TRELLIS_3INST) {
        const __m512i and = _mm512_set1_epi16((short)(PITH_TRELLIS_AND_3INST & 0xffff));
        low = _mm512_add_epi16(low, and);
        high = _mm512_add_epi16(high, _mm512_set1_epi16((short)(PITH_TRELLIS_AND_3INST >> 16)));
        high = _mm512_mask_add_epi16(high, _mm512_cmplt_epu16_mask(low, and), high,
                                     _mm512_set1_epi16(1));
    }
    return (struct halves){half(low), half(high)};
}

INLINE __m512 floats(const __m512i *halves, size_t row)
{
    return _mm512_cvtph_ps(_mm256_load_si256((const __m256i *)(const void *)halves + row));
}

/* Halves are written AHEAD of their use; else their readers stall. */
INLINE void tile_sums(enum pith_trellis_code code, unsigned bits, const struct spans *s,
                      const float *x, struct chains *sums)
{
    struct halves h[PAIRS];
#pragma GCC unroll 32
    for (unsigned i = 0; i < PAIRS + AHEAD; i++) {
        if (i < PAIRS) {
            h[i] = halves_of(code, spans_windows(bits, s, i));
            __asm__("" : "+m"(h[i])); /* by way of memory */
        }
        if (i < AHEAD) continue;
        const unsigned p = i - AHEAD;
        const __m512 words = _mm512_castpd_ps(
            _mm512_broadcastsd_pd(_mm_load_sd((const double *)(const void *)(x + 2 * p))));
#pragma GCC unroll 2
        for (size_t row = 0; row < PITH_TRELLIS_ROWS; row++) {
            __m512 *to = &sums->of[row][p % CHAINS];
            *to = _mm512_fmadd_ps(
                _mm512_add_ps(floats(&h[p].low, row), floats(&h[p].high, row)), words, *to);
        }
    }
}

/* Chains of a row of tiles are, of lanes' two rows of eight, of even and of odd t: e of 0 and 1, e
 * of 2 and 3. */
INLINE void finish(const __m512 *s, float *y)
{
    __m512 v[2];
#pragma GCC unroll 2
    for (size_t i = 0; i < 2; i++)
        v[i] = _mm512_add_ps(_mm512_add_ps(s[2 * i], s[2 * i + 4]),
                             _mm512_add_ps(s[2 * i + 1], s[2 * i + 5]));
    const __m512 sum =
        _mm512_add_ps(_mm512_shuffle_ps(v[0], v[1], 0x88), _mm512_shuffle_ps(v[0], v[1], 0xdd));
    const __m512i order = _mm512_setr_epi32(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
    _mm512_storeu_ps(y, _mm512_add_ps(_mm512_loadu_ps(y), _mm512_permutexvar_ps(order, sum)));
}

INLINE void block_sums(const struct pith_trellis_strip *m, enum pith_trellis_code code,
                       unsigned bits, size_t block)
{
    const size_t bytes = pith_trellis_bytes(bits);
    const uint8_t *tile = m->tiles + block * PITH_TRELLIS_SIDE * bytes;
    const float *x = (const float *)m->x + block * PITH_TRELLIS_STEP;
    struct chains sums;
#pragma GCC unroll 16
    for (size_t i = 0; i < PITH_TRELLIS_ROWS * CHAINS; i++)
        sums.of[i / CHAINS][i % CHAINS] = _mm512_setzero_ps();
    for (size_t c = 0; c < PITH_TRELLIS_SIDE; c++, tile += bytes, x += PITH_TRELLIS_WORDS) {
        struct spans s;
#pragma GCC unroll 8
        for (size_t i = 0; i < PITH_TRELLIS_ROWS * bytes; i += PITH_PANEL_LINE)
            __builtin_prefetch(tile + i / bytes * m->ld + i % bytes + PITH_AHEAD_BYTES);
        spans_open(bits, tile, m->ld, &s);
        tile_sums(code, bits, &s, x, &sums);
#pragma GCC unroll 16
        for (size_t i = 0; i < PITH_TRELLIS_ROWS * CHAINS; i++) /* or they are moved about */
            __asm__("" : "+v"(sums.of[i / CHAINS][i % CHAINS]));
    }
    finish(sums.of[0], m->y);
    finish(sums.of[1], m->y + PITH_TRELLIS_TILE);
}

INLINE void blocks(const struct pith_trellis_strip *m, unsigned bits)
{
    for (size_t i = 0; i < m->blocks; i++)
        if (m->code == PITH_TRELLIS_MCG) block_sums(m, PITH_TRELLIS_MCG, bits, i);
        else block_sums(m, PITH_TRELLIS_3INST, bits, i);
}

void pith_trellis_floats_avx512(const struct pith_trellis_strip *m)
{
    if (m->count > 1) {
        pith_trellis_walk_avx512(m);
        return;
    }
    switch (m->bits) {
    case 1: blocks(m, 1); break;
    case 2: blocks(m, 2); break;
    case 3: blocks(m, 3); break;
    case 4: blocks(m, 4); break;
    case 5: blocks(m, 5); break;
    case 6: blocks(m, 6); break;
    case 7: blocks(m, 7); break;
    default: blocks(m, 8);
    }
}
