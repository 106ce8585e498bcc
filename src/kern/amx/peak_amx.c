/* Four sums of 16 x 16 under way: a product of tiles waits for none of the three before it. */
#include "kern/amx/shapes.h"

#include <string.h>

enum { SUMS = 4 * AMX_ROWS * PITH_LANES };
_Static_assert(PITH_PEAK_LANES % SUMS == 0 && (int)PITH_PEAK_STEPS == (int)PITH_TILE_WORDS,
               "whole tiles");

/* Tiles 4 to 7 full of the words x and y. */
static void open(const void *x, const void *y)
{
    char a[AMX_TILE], b[AMX_TILE];
    for (size_t i = 0; i < AMX_TILE; i += 4) {
        memcpy(a + i, x, 4);
        memcpy(b + i, y, 4);
    }
    amx_open(PITH_TILE_WORDS);
    _tile_loadd(4, a, AMX_LINE);
    _tile_loadd(5, a, AMX_LINE);
    _tile_loadd(6, b, AMX_LINE);
    _tile_loadd(7, b, AMX_LINE);
}

#define PEAK(multiply, acc)                                                                        \
    for (size_t i = 0; i < PITH_PEAK_LANES; i += SUMS) {                                           \
        char *at = (char *)((acc) + i);                                                            \
        _tile_loadd(0, at, AMX_LINE);                                                              \
        _tile_loadd(1, at + AMX_TILE, AMX_LINE);                                                   \
        _tile_loadd(2, at + 2 * AMX_TILE, AMX_LINE);                                               \
        _tile_loadd(3, at + 3 * AMX_TILE, AMX_LINE);                                               \
        for (size_t r = 0; r < rounds; r++) {                                                      \
            multiply(0, 4, 6);                                                                     \
            multiply(1, 4, 7);                                                                     \
            multiply(2, 5, 6);                                                                     \
            multiply(3, 5, 7);                                                                     \
        }                                                                                          \
        _tile_stored(0, at, AMX_LINE);                                                             \
        _tile_stored(1, at + AMX_TILE, AMX_LINE);                                                  \
        _tile_stored(2, at + 2 * AMX_TILE, AMX_LINE);                                              \
        _tile_stored(3, at + 3 * AMX_TILE, AMX_LINE);                                              \
    }

void pith_peak_int8_amx(size_t rounds, const uint8_t x[4], const int8_t y[4],
                        uint32_t acc[PITH_PEAK_LANES])
{
    open(x, y);
    PEAK(_tile_dpbusd, acc)
    _tile_release();
}

void pith_peak_bf16_amx(size_t rounds, const uint16_t x[2], const uint16_t y[2],
                        float acc[PITH_PEAK_LANES])
{
    open(x, y);
    PEAK(_tile_dpbf16ps, acc)
    _tile_release();
}
