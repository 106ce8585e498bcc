/* Steps of the triangular solve in double. Product and difference are rounded apart, as the
 * definition says, since it must also be quick where there is no fused multiply-add. */
#include "kern/ops.h"

#include <immintrin.h>

void pith_axmy_f64_avx2(size_t n, double a, const double *x, double *y)
{
    const __m256d f = _mm256_set1_pd(a);
    size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        const __m256d p = _mm256_mul_pd(f, _mm256_loadu_pd(x + i));
        _mm256_storeu_pd(y + i, _mm256_sub_pd(_mm256_loadu_pd(y + i), p));
    }
    for (; i < n; i++) y[i] = y[i] - a * x[i];
}

void pith_solve_f64_avx2(size_t n, const double *t, size_t ldt, double *x)
{
    for (size_t p = n; p-- > 0;) {
        const double *row = t + p * ldt;
        const __m256d d = _mm256_set1_pd(row[p]);
        const __m256d a = _mm256_div_pd(_mm256_loadu_pd(x + p * 8), d);
        const __m256d b = _mm256_div_pd(_mm256_loadu_pd(x + p * 8 + 4), d);
        _mm256_storeu_pd(x + p * 8, a);
        _mm256_storeu_pd(x + p * 8 + 4, b);
        for (size_t j = 0; j < p; j++) {
            const __m256d f = _mm256_set1_pd(row[j]);
            double *y = x + j * 8;
            _mm256_storeu_pd(y, _mm256_sub_pd(_mm256_loadu_pd(y), _mm256_mul_pd(a, f)));
            _mm256_storeu_pd(y + 4, _mm256_sub_pd(_mm256_loadu_pd(y + 4), _mm256_mul_pd(b, f)));
        }
    }
}
