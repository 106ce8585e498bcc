/* 32 x 32 sums of products of bfloat16 in four tiles. A step of 32 elements is four loads of tiles
 * (eight cycles each where the operand lies in the first cache) and four products (sixteen cycles
 * each), so the products are what limits it. The order of the unit's own sums is the definition. */
#include "kern/amx/shapes.h"
#include "kern/bf16/words.h"

enum { SIDE = 32, LANES = 16, PANEL = 4 * SIDE /* bytes of a row of b */ };

static inline void start(const float *c, size_t ld)
{
    _tile_loadd(0, c, 4 * ld);
    _tile_loadd(1, c + LANES, 4 * ld);
    _tile_loadd(2, c + LANES * ld, 4 * ld);
    _tile_loadd(3, c + LANES * ld + LANES, 4 * ld);
}

static inline void zero(void)
{
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
}

static inline void store(float *c, size_t ld)
{
    _tile_stored(0, c, 4 * ld);
    _tile_stored(1, c + LANES, 4 * ld);
    _tile_stored(2, c + LANES * ld, 4 * ld);
    _tile_stored(3, c + LANES * ld + LANES, 4 * ld);
}

static inline void multiply(size_t steps, const uint32_t *a, const uint32_t *b)
{
    for (size_t p = 0; p < steps; p++, a += SIDE * LANES, b += LANES * SIDE) {
        _tile_loadd(6, b, PANEL);
        _tile_loadd(4, a, AMX_LINE);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(7, b + LANES, PANEL);
        _tile_dpbf16ps(1, 4, 7);
        _tile_loadd(5, a + LANES * LANES, AMX_LINE);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
}

void pith_bf16_tile_amx(size_t steps, const uint32_t *a, const uint32_t *b, float *c, size_t ldc,
                        enum pith_tile_mode mode, float alpha)
{
    if (mode == PITH_TILE_ADD) start(c, ldc);
    else zero();
    multiply(steps, a, b);
    if (mode != PITH_TILE_SCALE) {
        store(c, ldc);
        return;
    }
    _Alignas(64) float own[SIDE * SIDE];
    const __m512 f = _mm512_set1_ps(alpha);
    store(own, SIDE);
    for (size_t i = 0; i < SIDE; i++)
        for (size_t j = 0; j < SIDE; j += LANES) {
            float *to = c + i * ldc + j;
            const __m512 s = _mm512_load_ps(own + i * SIDE + j);
            _mm512_storeu_ps(to, _mm512_fmadd_ps(f, s, _mm512_loadu_ps(to)));
        }
}

void pith_bf16_round_amx(size_t rows, size_t k, const float *src, size_t ld, size_t height,
                         uint32_t *dst)
{
    rows_to_words(rows, k, src, ld, height, false, dst);
}

void pith_bf16_words_amx(size_t rows, size_t k, const void *src, size_t ld, size_t height,
                         uint32_t *dst)
{
    nibbles_to_words(rows, k, src, ld, height, false, dst);
}

void pith_bf16_pairs_amx(size_t k, size_t n, const float *src, size_t ld, size_t width,
                         uint32_t *dst)
{
    columns_to_words(k, n, src, ld, width, false, dst);
}
