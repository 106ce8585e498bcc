#include "kern/ops.h"

#include <math.h>
#include <string.h>

uint64_t pith_read_lines_scalar(size_t lines, const void *data)
{
    const char *p = data;
    uint64_t found = 0;
    for (size_t i = 0; i < 8 * lines; i++) {
        uint64_t word;
        memcpy(&word, p + 8 * i, sizeof word);
        found ^= word;
    }
    return found;
}

void pith_peak_f32_scalar(size_t rounds, float x, float y, float acc[PITH_PEAK_LANES])
{
    for (size_t r = 0; r < rounds * PITH_PEAK_STEPS; r++)
        for (size_t i = 0; i < PITH_PEAK_LANES; i++) acc[i] = fmaf(x, y, acc[i]);
}

void pith_peak_int8_scalar(size_t rounds, const uint8_t x[4], const int8_t y[4],
                           uint32_t acc[PITH_PEAK_LANES])
{
    for (size_t r = 0; r < rounds * PITH_PEAK_STEPS; r++)
        for (size_t i = 0; i < PITH_PEAK_LANES; i++)
            for (size_t k = 0; k < 4; k++) acc[i] += (uint32_t)(x[k] * y[k]);
}

static float widen(uint16_t h)
{
    const uint32_t bits = (uint32_t)h << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

void pith_peak_bf16_scalar(size_t rounds, const uint16_t x[2], const uint16_t y[2],
                           float acc[PITH_PEAK_LANES])
{
    for (size_t r = 0; r < rounds * PITH_PEAK_STEPS; r++)
        for (size_t i = 0; i < PITH_PEAK_LANES; i++)
            for (size_t k = 0; k < 2; k++) acc[i] = fmaf(widen(x[k]), widen(y[k]), acc[i]);
}
