/* kern/amx/shapes.h: the shapes of the eight tiles, as every kernel here uses them:
 *
 *     0 to 3   sums: 16 rows of 16 words        C[i][j] is tile 2 i + j
 *     4, 5     16 rows of `words` words: the left operands of C[0] and C[1]
 *     6, 7     `words` rows of 16 words: the right operands of C[][0] and C[][1]
 *
 * so that a step of a product is four loads and four products of tiles, and a product waits for
 * none of the three before it. (Intel 64 and IA-32 Architectures Software Developer's Manual,
 * volume 1, chapter 18.) */
#ifndef PITH_KERN_AMX_SHAPES_H
#define PITH_KERN_AMX_SHAPES_H

#include "kern/ops.h"

#include <immintrin.h>

enum { AMX_ROWS = 16, AMX_LINE = 64, AMX_TILE = AMX_ROWS * AMX_LINE /* bytes */ };

static inline void amx_open(size_t words)
{
    struct {
        uint8_t palette, start, reserved[14];
        uint16_t row_bytes[8], reserved_bytes[8];
        uint8_t rows[8], reserved_rows[8];
    } shapes = {.palette = 1};
    for (int t = 0; t < 8; t++) {
        shapes.row_bytes[t] = (uint16_t)(t == 4 || t == 5 ? 4 * words : AMX_LINE);
        shapes.rows[t] = (uint8_t)(t == 6 || t == 7 ? words : AMX_ROWS);
    }
    /* gcc 12 believes that the instruction reads eight bytes only, and drops stores of the rest. */
    __asm__ volatile("" : : "r"(&shapes) : "memory");
    _tile_loadconfig(&shapes);
}

#endif
