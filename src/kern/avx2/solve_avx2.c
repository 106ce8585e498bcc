/* Steps of the triangular solve in double. Product and difference are rounded apart, as the
 * definition says, since it must also be quick where there is no fused multiply-add. */
#include "kern/ops.h"

#include <immintrin.h>

/* y - a f */
static inline __m256d take(__m256d y, __m256d a, __m256d f)
{
    return _mm256_sub_pd(y, _mm256_mul_pd(a, f));
}

void pith_axmy_f64_avx2(size_t n, double a, const double *x, double *y)
{
    const __m256d f = _mm256_set1_pd(a);
    size_t i = 0;
    for (; i + 4 <= n; i += 4)
        _mm256_storeu_pd(y + i, take(_mm256_loadu_pd(y + i), f, _mm256_loadu_pd(x + i)));
    for (; i < n; i++) y[i] = y[i] - a * x[i];
}

/* Two unknowns at a time, so that the others are loaded and stored once for both. */
void pith_solve_f64_avx2(size_t n, const double *t, size_t ldt, double *x)
{
    size_t p = n;
    for (; p >= 2; p -= 2) {
        const double *first = t + (p - 1) * ldt, *second = first - ldt;
        const __m256d d = _mm256_set1_pd(first[p - 1]), e = _mm256_set1_pd(second[p - 2]);
        const __m256d g = _mm256_set1_pd(first[p - 2]);
        double *u = x + (p - 2) * 8;
        const __m256d a = _mm256_div_pd(_mm256_loadu_pd(u + 8), d);
        const __m256d b = _mm256_div_pd(_mm256_loadu_pd(u + 12), d);
        const __m256d a2 = _mm256_div_pd(take(_mm256_loadu_pd(u), a, g), e);
        const __m256d b2 = _mm256_div_pd(take(_mm256_loadu_pd(u + 4), b, g), e);
        _mm256_storeu_pd(u, a2);
        _mm256_storeu_pd(u + 4, b2);
        _mm256_storeu_pd(u + 8, a);
        _mm256_storeu_pd(u + 12, b);
        for (size_t j = 0; j < p - 2; j++) {
            const __m256d f = _mm256_set1_pd(first[j]), h = _mm256_set1_pd(second[j]);
            double *y = x + j * 8;
            _mm256_storeu_pd(y, take(take(_mm256_loadu_pd(y), a, f), a2, h));
            _mm256_storeu_pd(y + 4, take(take(_mm256_loadu_pd(y + 4), b, f), b2, h));
        }
    }
    if (p == 0) return;
    const __m256d d = _mm256_set1_pd(t[0]);
    _mm256_storeu_pd(x, _mm256_div_pd(_mm256_loadu_pd(x), d));
    _mm256_storeu_pd(x + 4, _mm256_div_pd(_mm256_loadu_pd(x + 4), d));
}
