#include "kern/ops.h"

#include <math.h>

enum { ROWS = 4, COLS = 8 };

void pith_gemm_tile_scalar(size_t k, const float *a, const float *b, size_t ldb, float *c,
                           size_t ldc, enum pith_tile_mode mode, float alpha)
{
    for (size_t i = 0; i < ROWS; i++) {
        for (size_t j = 0; j < COLS; j++) {
            float *out = &c[i * ldc + j];
            float s = mode == PITH_TILE_ADD ? *out : 0.0f;
            for (size_t p = 0; p < k; p++) s = fmaf(a[p * ROWS + i], b[p * ldb + j], s);
            *out = mode == PITH_TILE_SCALE ? fmaf(alpha, s, *out) : s;
        }
    }
}

void pith_transpose_scalar(size_t rows, size_t cols, const float *src, size_t ld_src, float *dst,
                           size_t ld_dst)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < cols; c++) dst[c * ld_dst + r] = src[r * ld_src + c];
}

void pith_copy_rows_scalar(size_t rows, size_t cols, const float *src, size_t ld_src, float *dst,
                           size_t ld_dst)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < cols; c++) dst[r * ld_dst + c] = src[r * ld_src + c];
}

void pith_axmy_f64_scalar(size_t n, double a, const double *x, double *y)
{
    for (size_t i = 0; i < n; i++) y[i] = y[i] - a * x[i];
}

void pith_solve_f64_scalar(size_t n, const double *t, size_t ldt, double *x)
{
    for (size_t p = n; p-- > 0;) {
        const double *row = t + p * ldt;
        double *xp = x + p * PITH_SOLVE_LANES;
        for (size_t l = 0; l < PITH_SOLVE_LANES; l++) xp[l] = xp[l] / row[p];
        for (size_t j = 0; j < p; j++)
            for (size_t l = 0; l < PITH_SOLVE_LANES; l++)
                x[j * PITH_SOLVE_LANES + l] = x[j * PITH_SOLVE_LANES + l] - xp[l] * row[j];
    }
}
