/* One step of the AMX products against the scalar ones, at the corners of the tile: wrong shapes,
 * another order of sums or small numbers that are kept show in the bits. */
#include "kern/ops.h"

#include <string.h>

enum { STEP = PITH_BF16_STEP, WORDS = PITH_TILE_WORDS };

/* Numbers of either sign with all their bits in use; those of a vector of k with an odd number are
 * so small that its products with another such vector come out below the normal numbers. */
static float number(uint32_t *state, size_t vector)
{
    *state = *state * 1664525 + 1013904223;
    const float f = (float)(*state >> 8) * 0x1p-24f - 0.5f;
    return vector % 2 ? f * 0x1p-62f : f;
}

/* A step of the product of x[][STEP] and y[STEP][], row stride cols: a tile of k, c[][its cols]. */
static void product(const struct pith_kern *k, const float *x, const float *y, size_t cols,
                    float *c)
{
    uint32_t a[WORDS * PITH_TILE_ROWS_MAX], b[WORDS * PITH_TILE_COLS_MAX];
    k->bf16_round(k->bf16_rows, STEP, x, STEP, k->bf16_rows, a);
    k->bf16_pairs(STEP, k->bf16_cols, y, cols, k->bf16_cols, b);
    k->tiles_open(WORDS);
    k->bf16_tile(1, a, b, c, k->bf16_cols, PITH_TILE_SET, 0.0f);
    k->tiles_close();
}

static bool halves_agree(const struct pith_kern *k, const struct pith_kern *scalar)
{
    float x[PITH_TILE_ROWS_MAX * STEP], y[STEP * PITH_TILE_COLS_MAX];
    float got[PITH_TILE_ROWS_MAX * PITH_TILE_COLS_MAX], want[PITH_TILE_COLS_MAX];
    uint32_t state = 1;
    for (size_t i = 0; i < k->bf16_rows * STEP; i++) x[i] = number(&state, i / STEP);
    for (size_t i = 0; i < k->bf16_cols * STEP; i++) y[i] = number(&state, i % k->bf16_cols);
    product(k, x, y, k->bf16_cols, got);
    const size_t rows = scalar->bf16_rows, cols = scalar->bf16_cols;
    for (size_t i = 0; i < k->bf16_rows; i += k->bf16_rows - rows)
        for (size_t j = 0; j < k->bf16_cols; j += k->bf16_cols - cols) {
            product(scalar, x + i * STEP, y + j, k->bf16_cols, want);
            for (size_t r = 0; r < rows; r++)
                if (memcmp(got + (i + r) * k->bf16_cols + j, want + r * cols, cols * sizeof *got))
                    return false;
        }
    return true;
}

uint32_t pith_kern_usable(void)
{
    const uint32_t mask = pith_cpu_detect();
    struct pith_kern unit, scalar;
    if (!(mask & PITH_CPU_AMX)) return mask;
    pith_kern_select(mask, &unit);
    pith_kern_select(PITH_CPU_SCALAR, &scalar);
    return halves_agree(&unit, &scalar) ? mask : mask & ~(uint32_t)PITH_CPU_AMX;
}
