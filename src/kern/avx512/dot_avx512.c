#include "kern/avx512/vec_avx512.h"
#include "kern/template/dot_template.h"

void pith_dot_acc_avx512(size_t n, const float *x, const float *y, float acc[PITH_LANES])
{
    dot_acc(n, x, y, acc);
}

void pith_lanes_f32_avx512(size_t rows, size_t cols, const void *w, size_t ldw, const float *x,
                           float *y)
{
    lanes_f32(rows, cols, w, ldw, x, y);
}

void pith_lanes_f16_avx512(size_t rows, size_t cols, const void *w, size_t ldw, const float *x,
                           float *y)
{
    lanes_f16(rows, cols, w, ldw, x, y);
}

void pith_lanes_beside_avx512(size_t rows, size_t cols, const float *x, size_t ldx, const float *w,
                               float *y, size_t ldy)
{
    lanes_beside(rows, cols, x, ldx, w, y, ldy);
}

void pith_widen_bf16_avx512(size_t n, const void *src, float *dst)
{
    widen_bf16(n, src, dst);
}

void pith_widen_f16_avx512(size_t n, const void *src, float *dst)
{
    widen_f16(n, src, dst);
}

void pith_widen_e4m3_avx512(size_t n, const void *src, float *dst)
{
    widen_fp8(true, n, src, dst);
}

void pith_widen_e5m2_avx512(size_t n, const void *src, float *dst)
{
    widen_fp8(false, n, src, dst);
}

void pith_narrow_bf16_avx512(size_t n, const float *src, void *dst)
{
    narrow_bf16(n, src, dst);
}

void pith_narrow_f16_avx512(size_t n, const float *src, void *dst)
{
    narrow_f16(n, src, dst);
}
