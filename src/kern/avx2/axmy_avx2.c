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
