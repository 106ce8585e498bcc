/* kern/avx2/whole_avx2.h: what the two tiles of integers share: vectors of integers at any address.
 */
#ifndef PITH_KERN_AVX2_WHOLE_H
#define PITH_KERN_AVX2_WHOLE_H

#include <immintrin.h>
#include <stddef.h>

#define INLINE static inline __attribute__((always_inline))

INLINE size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

INLINE __m256i load(const void *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}

INLINE void store(void *p, __m256i x)
{
    _mm256_storeu_si256((__m256i *)p, x);
}

#endif
