/* Products with weights as they are stored, in lanes and in chains, and widening. */
#include "kern/ops.h"
#include "num/elements/elements.h"
#include "num/format.h"

#include <math.h>
#include <string.h>

static float load_f32(const unsigned char *p)
{
    float f;
    memcpy(&f, p, sizeof f);
    return f;
}

static float load_bf16(const unsigned char *p)
{
    uint16_t h;
    memcpy(&h, p, sizeof h);
    return pith_bf16_to_f32(h);
}

static float load_f16(const unsigned char *p)
{
    uint16_t h;
    memcpy(&h, p, sizeof h);
    return pith_f16_to_f32(h);
}

void pith_dot_acc_scalar(size_t n, const float *x, const float *y, float acc[PITH_LANES])
{
    for (size_t p = 0; p < n; p++) acc[p % PITH_LANES] = fmaf(x[p], y[p], acc[p % PITH_LANES]);
}

static float lanes(size_t n, const unsigned char *w, size_t bytes,
                   float (*load)(const unsigned char *), const float *x)
{
    float acc[PITH_LANES] = {0};
    for (size_t p = 0; p < n; p++)
        acc[p % PITH_LANES] = fmaf(load(w + p * bytes), x[p], acc[p % PITH_LANES]);
    return pith_lanes_sum(acc);
}

void pith_lanes_f32_scalar(size_t rows, size_t cols, const void *w, size_t ldw, const float *x,
                           float *y)
{
    const unsigned char *row = w;
    for (size_t r = 0; r < rows; r++) y[r] = lanes(cols, row + r * ldw * 4, 4, load_f32, x);
}

void pith_lanes_f16_scalar(size_t rows, size_t cols, const void *w, size_t ldw, const float *x,
                           float *y)
{
    const unsigned char *row = w;
    for (size_t r = 0; r < rows; r++) y[r] = lanes(cols, row + r * ldw * 2, 2, load_f16, x);
}

static float chain(size_t n, const unsigned char *w, size_t bytes,
                   float (*load)(const unsigned char *), const float *x, float sum)
{
    for (size_t p = 0; p < n; p++) sum = fmaf(load(w + p * bytes), x[p], sum);
    return sum;
}

void pith_matvec_f32_scalar(size_t rows, size_t cols, const void *w, size_t ldw, const float *x,
                            float *y)
{
    const unsigned char *row = w;
    for (size_t r = 0; r < rows; r++) y[r] = chain(cols, row + r * ldw * 4, 4, load_f32, x, y[r]);
}

void pith_matvec_bf16_scalar(size_t rows, size_t cols, const void *w, size_t ldw, const float *x,
                             float *y)
{
    const unsigned char *row = w;
    for (size_t r = 0; r < rows; r++) y[r] = chain(cols, row + r * ldw * 2, 2, load_bf16, x, y[r]);
}

void pith_matvec_f16_scalar(size_t rows, size_t cols, const void *w, size_t ldw, const float *x,
                            float *y)
{
    const unsigned char *row = w;
    for (size_t r = 0; r < rows; r++) y[r] = chain(cols, row + r * ldw * 2, 2, load_f16, x, y[r]);
}

void pith_lanes_panel_scalar(size_t rows, size_t cols, const float *x, size_t ldx, const float *w,
                             float *y, size_t ldy)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < PITH_LANES; j++) {
            float acc[PITH_LANES] = {0};
            for (size_t c = 0; c < cols; c++)
                acc[c % PITH_LANES] =
                    fmaf(w[c * PITH_LANES + j], x[i * ldx + c], acc[c % PITH_LANES]);
            y[i * ldy + j] += pith_lanes_sum(acc);
        }
}

void pith_widen_bf16_scalar(size_t n, const void *src, float *dst)
{
    const unsigned char *p = src;
    for (size_t i = 0; i < n; i++) dst[i] = load_bf16(p + i * 2);
}

void pith_widen_f16_scalar(size_t n, const void *src, float *dst)
{
    const unsigned char *p = src;
    for (size_t i = 0; i < n; i++) dst[i] = load_f16(p + i * 2);
}

void pith_widen_e4m3_scalar(size_t n, const void *src, float *dst)
{
    const unsigned char *p = src;
    for (size_t i = 0; i < n; i++) dst[i] = pith_fp8_e4m3_decode(p[i]);
}

void pith_widen_e5m2_scalar(size_t n, const void *src, float *dst)
{
    const unsigned char *p = src;
    for (size_t i = 0; i < n; i++) dst[i] = pith_fp8_e5m2_decode(p[i]);
}

void pith_narrow_bf16_scalar(size_t n, const float *src, void *dst)
{
    unsigned char *p = dst;
    for (size_t i = 0; i < n; i++) {
        const uint16_t h = pith_f32_to_bf16(src[i]);
        memcpy(p + i * 2, &h, sizeof h);
    }
}

void pith_narrow_f16_scalar(size_t n, const float *src, void *dst)
{
    unsigned char *p = dst;
    for (size_t i = 0; i < n; i++) {
        uint16_t h = pith_f32_to_f16(src[i]);
        if ((h & 0x7fff) == 0x7c00) h--; /* infinity: the largest number */
        memcpy(p + i * 2, &h, sizeof h);
    }
}

void pith_dequant_u8_scalar(size_t n, const uint8_t *code, float zero, float scale, float *dst)
{
    for (size_t i = 0; i < n; i++) dst[i] = ((float)code[i] - zero) * scale;
}

static unsigned nibble(const uint8_t *code, size_t i)
{
    return i % 2 ? code[i / 2] >> 4 : code[i / 2] & 15u;
}

void pith_dequant_u4_scalar(size_t n, const uint8_t *code, float zero, float scale, float *dst)
{
    for (size_t i = 0; i < n; i++) dst[i] = ((float)nibble(code, i) - zero) * scale;
}
