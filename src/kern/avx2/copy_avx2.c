#include "kern/ops.h"

#include <immintrin.h>

/* One row; the sizes of the pieces follow from cols alone, so the branches repeat and are
 * predicted. */
static inline void copy_row(size_t cols, const float *src, float *dst)
{
    size_t c = 0;
    for (; c + 8 <= cols; c += 8) _mm256_storeu_ps(dst + c, _mm256_loadu_ps(src + c));
    if (cols & 4) {
        _mm_storeu_ps(dst + c, _mm_loadu_ps(src + c));
        c += 4;
    }
    if (cols & 2) {
        const __m128i two = _mm_loadl_epi64((const __m128i *)(const void *)(src + c));
        _mm_storel_epi64((__m128i *)(void *)(dst + c), two);
        c += 2;
    }
    if (cols & 1) dst[c] = src[c];
}

void pith_copy_rows_avx2(size_t rows, size_t cols, const float *src, size_t ld_src, float *dst,
                         size_t ld_dst)
{
    /* The two tiles' widths as constants: straight code. */
    if (cols == 16)
        for (size_t r = 0; r < rows; r++) copy_row(16, src + r * ld_src, dst + r * ld_dst);
    else if (cols == 6)
        for (size_t r = 0; r < rows; r++) copy_row(6, src + r * ld_src, dst + r * ld_dst);
    else
        for (size_t r = 0; r < rows; r++) copy_row(cols, src + r * ld_src, dst + r * ld_dst);
}
