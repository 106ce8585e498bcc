#include "num/gguf/krows.h"

#include "num/elements/elements.h"
#include "num/gguf/kquant.h"

#include <math.h>

enum { BLOCK = 32 };

/* False, and a scale of NaN, when a value is not finite. */
static bool begin(const float *x, struct pith_kblock *out)
{
    float wrong = 0.0f;
    for (int i = 0; i < BLOCK; i++) wrong += x[i] * 0.0f;
    *out = (struct pith_kblock){.scale = {wrong == 0.0f ? 0.0f : NAN}};
    return wrong == 0.0f;
}

/* The value of largest magnitude, with its sign; the first of them. */
static float farthest(const float *x)
{
    float amax = 0.0f, v = 0.0f;
    for (int i = 0; i < BLOCK; i++) {
        if (!(amax < fabsf(x[i]))) continue;
        amax = fabsf(x[i]);
        v = x[i];
    }
    return v;
}

static float inverse(float d)
{
    return d != 0.0f ? 1.0f / d : 0.0f;
}

static float half(float x)
{
    return pith_round_to(PITH_F16, x);
}

static uint8_t code_of(float t, unsigned most)
{
    return !(t > 0.0f) ? 0 : t >= (float)most ? (uint8_t)most : (uint8_t)t;
}

static void symmetric(const float *x, unsigned bits, struct pith_kblock *out)
{
    const float middle = (float)(1u << (bits - 1));
    if (!begin(x, out)) return;
    const float d = farthest(x) / -middle, id = inverse(d);
    out->scale[0] = half(d);
    for (int i = 0; i < BLOCK; i++)
        out->codes[i] = code_of(x[i] * id + (middle + 0.5f), (1u << bits) - 1);
}

static void with_minimum(const float *x, unsigned bits, struct pith_kblock *out)
{
    const unsigned most = (1u << bits) - 1;
    if (!begin(x, out)) return;
    float lo = x[0], hi = x[0];
    for (int i = 1; i < BLOCK; i++) {
        if (x[i] < lo) lo = x[i];
        if (x[i] > hi) hi = x[i];
    }
    const float d = (hi - lo) / (float)most, id = inverse(d);
    out->scale[0] = half(d);
    out->offset[0] = half(lo);
    for (int i = 0; i < BLOCK; i++) out->codes[i] = code_of((x[i] - lo) * id + 0.5f, most);
}

void pith_krow_q4_0(const float *x, struct pith_kblock *out)
{
    symmetric(x, 4, out);
}

void pith_krow_q4_1(const float *x, struct pith_kblock *out)
{
    with_minimum(x, 4, out);
}

void pith_krow_q5_0(const float *x, struct pith_kblock *out)
{
    symmetric(x, 5, out);
}

void pith_krow_q5_1(const float *x, struct pith_kblock *out)
{
    with_minimum(x, 5, out);
}

void pith_krow_q8_0(const float *x, struct pith_kblock *out)
{
    if (!begin(x, out)) return;
    const float d = fabsf(farthest(x)) / 127.0f, id = inverse(d);
    out->scale[0] = half(d);
    for (int i = 0; i < BLOCK; i++) out->codes[i] = (uint8_t)((int)roundf(x[i] * id) + 128);
}

/* The level nearest to t, the upper of two: the codes are in order of their levels. */
static uint8_t nearest_level(float t)
{
    uint32_t code = 0;
    while (code < 15 && !(t - pith_iq4_decode(code) < pith_iq4_decode(code + 1) - t)) code++;
    return (uint8_t)code;
}

void pith_krow_iq4_nl(const float *x, struct pith_kblock *out)
{
    enum { FIRST_LEVEL = -127 };
    static const float least = 1e-15f; /* below, ggml takes the block for zeros */
    if (!begin(x, out)) return;
    const float v = farthest(x);
    if (fabsf(v) < least) return;
    const float id = 1.0f / (v / FIRST_LEVEL);
    float product = 0.0f, squares = 0.0f;
    for (int i = 0; i < BLOCK; i++) {
        out->codes[i] = nearest_level(id * x[i]);
        const float q = pith_iq4_decode(out->codes[i]), w = x[i] * x[i];
        product += w * q * x[i];
        squares += w * q * q;
    }
    out->scale[0] = squares > 0.0f ? half(product / squares) : 0.0f;
}
