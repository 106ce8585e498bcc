/* Double quantization of bitsandbytes: the scales of a tensor, less their mean, in runs of 256
 * with an 8-bit map of levels. */
#include "num/codebook.h"

#include <math.h>

/* Point k of parts + 1 equally spaced ones from 0.1 to 1, counted from the nearer end and
 * rounded once: the library's map is stored with its codes, so it must come out the same to
 * the bit. */
static float boundary(int parts, int k)
{
    const float step = (1.0f - 0.1f) / (float)parts;
    return k < (parts + 1) / 2 ? fmaf(step, (float)k, 0.1f) : fmaf(-step, (float)(parts - k), 1.0f);
}

void pith_dynamic_map(float map[256])
{
    static const float decades[7] = {1e-6f, 1e-5f, 1e-4f, 1e-3f, 1e-2f, 0.1f, 1.0f};
    int n = 0;
    for (int i = 0; i < 7; i++) {
        const int parts = 1 << i;
        for (int k = 0; k < parts; k++, n++) {
            const float level = decades[i] * ((boundary(parts, k) + boundary(parts, k + 1)) / 2);
            map[128 + n] = level;
            map[126 - n] = -level;
        }
    }
    map[127] = 0;
    map[255] = 1;
}

/* Index of the level nearest to x, the lower one when two are as near. */
static uint8_t nearest(const float map[256], float x)
{
    unsigned lo = 0, hi = 255;
    while (hi - lo > 1) {
        const unsigned mid = (lo + hi) / 2;
        if (x >= map[mid]) lo = mid;
        else hi = mid;
    }
    return (uint8_t)(map[hi] - x < x - map[lo] ? hi : lo);
}

void pith_double_quant_encode(const float *absmax, size_t n, uint8_t *codes, float *nested,
                              float *offset)
{
    float map[256];
    double sum = 0;
    pith_dynamic_map(map);
    for (size_t i = 0; i < n; i++) sum += absmax[i];
    const float mean = (float)(sum / (double)n);
    *offset = mean;
    for (size_t first = 0; first < n; first += PITH_DOUBLE_QUANT_BLOCK) {
        const size_t left = n - first;
        const size_t m = left < PITH_DOUBLE_QUANT_BLOCK ? left : PITH_DOUBLE_QUANT_BLOCK;
        float amax = 0;
        for (size_t i = first; i < first + m; i++) amax = fmaxf(amax, fabsf(absmax[i] - mean));
        nested[first / PITH_DOUBLE_QUANT_BLOCK] = amax;
        const float inverse = 1.0f / fmaxf(amax, 1e-38f);
        for (size_t i = first; i < first + m; i++)
            codes[i] = nearest(map, (absmax[i] - mean) * inverse);
    }
}

void pith_double_quant_decode(const uint8_t *codes, const float *nested, float offset, size_t n,
                              float *absmax)
{
    float map[256];
    pith_dynamic_map(map);
    for (size_t i = 0; i < n; i++)
        absmax[i] = map[codes[i]] * nested[i / PITH_DOUBLE_QUANT_BLOCK] + offset;
}
