#include "kern/avx2/vec_avx2.h"
#include "kern/template/grid_template.h"

double pith_sumsq_diff_avx2(size_t n, const float *x, const float *y)
{
    return grid_sumsq_diff(n, x, y);
}

void pith_range_avx2(size_t n, const float *x, float *lo, float *hi)
{
    grid_range(n, x, lo, hi);
}

void pith_grid_round_avx2(size_t n, const float *w, const float *scale, const float *zero,
                          size_t step, float top, uint8_t *codes, float *values)
{
    grid_round(n, w, scale, zero, step, top, codes, values);
}

void pith_grid_error_avx2(size_t n, const float *w, const struct pith_grid_trial *t,
                          float acc[PITH_TRIAL_LANES])
{
    grid_error(n, w, t, acc);
}
