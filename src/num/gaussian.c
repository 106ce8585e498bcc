#include "num/gaussian.h"

#include "num/format.h"

#include <math.h>

static const float levels2[] = {-1.510417608f, -0.4527800346f, 0.4527800346f, 1.510417608f};
static const float levels3[] = {-2.151945705f, -1.343909279f, -0.7560052812f, -0.2450941789f,
                                0.2450941789f, 0.7560052812f, 1.343909279f,   2.151945705f};
static const float levels4[] = {-2.732589571f,  -2.069017227f,  -1.618046386f,  -1.256231197f,
                                -0.9423404565f, -0.6567591185f, -0.3880482995f, -0.1283950299f,
                                0.1283950299f,  0.3880482995f,  0.6567591185f,  0.9423404565f,
                                1.256231197f,   1.618046386f,   2.069017227f,   2.732589571f};

const float *pith_gaussian_levels(unsigned bits)
{
    return bits == 2 ? levels2 : bits == 3 ? levels3 : bits == 4 ? levels4 : NULL;
}

float pith_gaussian_scale(const float *x, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
    if (!isfinite(sum)) return NAN;
    const float scale = (float)sqrt(sum / (double)n);
    return pith_round_to(PITH_F16, scale > 65504.0f ? 65504.0f : scale);
}

void pith_gaussian_encode(unsigned bits, float scale, const float *x, size_t n, uint8_t *codes)
{
    const unsigned count = 1u << bits;
    const float *level = pith_gaussian_levels(bits);
    float border[15];
    for (unsigned k = 0; k + 1 < count; k++) border[k] = (level[k] + level[k + 1]) / 2 * scale;
    for (size_t i = 0; i < n; i++) {
        unsigned code = 0;
        for (unsigned k = 0; k + 1 < count; k++) code += x[i] > border[k];
        codes[i] = (uint8_t)code;
    }
}
