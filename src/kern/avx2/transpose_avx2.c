#include "kern/ops.h"

#include <immintrin.h>

/* Eight rows of eight to eight columns, in registers: pairs, then fours, then halves. */
static inline void transpose_8x8(__m256 v[8])
{
    __m256 t[8];
    for (int i = 0; i < 8; i += 2) {
        t[i] = _mm256_unpacklo_ps(v[i], v[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(v[i], v[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        v[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
        v[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
        v[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
        v[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
    }
    for (int i = 0; i < 4; i++) {
        t[i] = _mm256_permute2f128_ps(v[i], v[i + 4], 0x20);
        t[i + 4] = _mm256_permute2f128_ps(v[i], v[i + 4], 0x31);
    }
    for (int i = 0; i < 8; i++) v[i] = t[i];
}

static inline void store_first(float *p, __m256 v, size_t n)
{
    __m128 q = _mm256_castps256_ps128(v);
    if (n & 4) {
        _mm_storeu_ps(p, q);
        q = _mm256_extractf128_ps(v, 1);
        p += 4;
    }
    if (n & 2) {
        _mm_storel_pi((__m64 *)(void *)p, q);
        q = _mm_movehl_ps(q, q);
        p += 2;
    }
    if (n & 1) _mm_store_ss(p, q);
}

/* n <= 8 rows of eight columns. */
static inline void strip(size_t n, const float *src, size_t ld_src, float *dst, size_t ld_dst)
{
    __m256 v[8];
    for (size_t i = 0; i < 8; i++)
        v[i] = i < n ? _mm256_loadu_ps(src + i * ld_src) : _mm256_setzero_ps();
    transpose_8x8(v);
    for (size_t i = 0; i < 8; i++) {
        if (n == 8)
            _mm256_storeu_ps(dst + i * ld_dst, v[i]);
        else
            store_first(dst + i * ld_dst, v[i], n);
    }
}

static void corner(size_t rows, size_t cols, const float *src, size_t ld_src, float *dst, size_t ld_dst)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < cols; c++) dst[c * ld_dst + r] = src[r * ld_src + c];
}

void pith_transpose_avx2(size_t rows, size_t cols, const float *src, size_t ld_src, float *dst,
                         size_t ld_dst)
{
    const size_t whole = cols - cols % 8;
    size_t r = 0;
    for (; r + 8 <= rows; r += 8)
        for (size_t c = 0; c < whole; c += 8)
            strip(8, src + r * ld_src + c, ld_src, dst + c * ld_dst + r, ld_dst);
    const float *rest = src + r * ld_src;
    /* Six rows: the tile of A. The constant lets the compiler drop the tests of the rows. */
    if (rows - r == 6)
        for (size_t c = 0; c < whole; c += 8) strip(6, rest + c, ld_src, dst + c * ld_dst + r, ld_dst);
    else if (r < rows)
        for (size_t c = 0; c < whole; c += 8)
            strip(rows - r, rest + c, ld_src, dst + c * ld_dst + r, ld_dst);
    corner(rows, cols - whole, src + whole, ld_src, dst + whole * ld_dst, ld_dst);
}
