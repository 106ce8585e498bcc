#include "kern/ops.h"

#include <immintrin.h>

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

static inline void store(float *p, __m256 v, size_t n)
{
    if (n == 8) _mm256_storeu_ps(p, v);
    else store_first(p, v, n);
}

static inline __m256 row(const float *src, size_t ld, size_t i, size_t n)
{
    return i < n ? _mm256_loadu_ps(src + i * ld) : _mm256_setzero_ps();
}

/* n <= 8 rows of eight columns, in registers: pairs of rows, then fours, then halves. Spelled
 * out, since loops over an array of vectors end up in memory. */
static inline void strip(size_t n, const float *src, size_t ld_src, float *dst, size_t ld_dst)
{
    const __m256 r0 = row(src, ld_src, 0, n), r1 = row(src, ld_src, 1, n);
    const __m256 r2 = row(src, ld_src, 2, n), r3 = row(src, ld_src, 3, n);
    const __m256 r4 = row(src, ld_src, 4, n), r5 = row(src, ld_src, 5, n);
    const __m256 r6 = row(src, ld_src, 6, n), r7 = row(src, ld_src, 7, n);
    const __m256 p0 = _mm256_unpacklo_ps(r0, r1), p1 = _mm256_unpackhi_ps(r0, r1);
    const __m256 p2 = _mm256_unpacklo_ps(r2, r3), p3 = _mm256_unpackhi_ps(r2, r3);
    const __m256 p4 = _mm256_unpacklo_ps(r4, r5), p5 = _mm256_unpackhi_ps(r4, r5);
    const __m256 p6 = _mm256_unpacklo_ps(r6, r7), p7 = _mm256_unpackhi_ps(r6, r7);
    const __m256 f0 = _mm256_shuffle_ps(p0, p2, 0x44), f1 = _mm256_shuffle_ps(p0, p2, 0xee);
    const __m256 f2 = _mm256_shuffle_ps(p1, p3, 0x44), f3 = _mm256_shuffle_ps(p1, p3, 0xee);
    const __m256 f4 = _mm256_shuffle_ps(p4, p6, 0x44), f5 = _mm256_shuffle_ps(p4, p6, 0xee);
    const __m256 f6 = _mm256_shuffle_ps(p5, p7, 0x44), f7 = _mm256_shuffle_ps(p5, p7, 0xee);
    store(dst, _mm256_permute2f128_ps(f0, f4, 0x20), n);
    store(dst + ld_dst, _mm256_permute2f128_ps(f1, f5, 0x20), n);
    store(dst + 2 * ld_dst, _mm256_permute2f128_ps(f2, f6, 0x20), n);
    store(dst + 3 * ld_dst, _mm256_permute2f128_ps(f3, f7, 0x20), n);
    store(dst + 4 * ld_dst, _mm256_permute2f128_ps(f0, f4, 0x31), n);
    store(dst + 5 * ld_dst, _mm256_permute2f128_ps(f1, f5, 0x31), n);
    store(dst + 6 * ld_dst, _mm256_permute2f128_ps(f2, f6, 0x31), n);
    store(dst + 7 * ld_dst, _mm256_permute2f128_ps(f3, f7, 0x31), n);
}

/* Four columns of some rows, four rows at a time; returns how many were done. */
static size_t fours(size_t rows, const float *src, size_t ld_src, float *dst, size_t ld_dst)
{
    size_t r = 0;
    for (; r + 4 <= rows; r += 4, src += 4 * ld_src, dst += 4) {
        __m128 a = _mm_loadu_ps(src), b = _mm_loadu_ps(src + ld_src);
        __m128 c = _mm_loadu_ps(src + 2 * ld_src), d = _mm_loadu_ps(src + 3 * ld_src);
        _MM_TRANSPOSE4_PS(a, b, c, d);
        _mm_storeu_ps(dst, a);
        _mm_storeu_ps(dst + ld_dst, b);
        _mm_storeu_ps(dst + 2 * ld_dst, c);
        _mm_storeu_ps(dst + 3 * ld_dst, d);
    }
    return r;
}

static void corner(size_t rows, size_t cols, const float *src, size_t ld_src, float *dst,
                   size_t ld_dst)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < cols; c++) dst[c * ld_dst + r] = src[r * ld_src + c];
}

/* n < 8 rows. Six are the tile of A: the constant lets the compiler drop the tests of the rows. */
static void last_rows(size_t n, size_t cols, const float *src, size_t ld_src, float *dst,
                      size_t ld_dst)
{
    for (size_t c = 0; c < cols; c += 8) {
        if (n == 6) strip(6, src + c, ld_src, dst + c * ld_dst, ld_dst);
        else strip(n, src + c, ld_src, dst + c * ld_dst, ld_dst);
    }
}

void pith_transpose_avx2(size_t rows, size_t cols, const float *src, size_t ld_src, float *dst,
                         size_t ld_dst)
{
    /* Rows at a time: those of one line of dst, so that it is written whole. More rows would evict
     * each other where ld is a large power of two. */
    enum { BAND = 16 };
    const size_t whole = cols - cols % 8, eights = rows - rows % 8;
    for (size_t band = 0; band < eights; band += BAND) {
        const size_t end = eights - band < BAND ? eights : band + BAND;
        for (size_t c = 0; c < whole; c += 8)
            for (size_t r = band; r < end; r += 8)
                strip(8, src + r * ld_src + c, ld_src, dst + c * ld_dst + r, ld_dst);
    }
    if (eights < rows)
        last_rows(rows - eights, whole, src + eights * ld_src, ld_src, dst + eights, ld_dst);
    size_t done = whole;
    if (cols - whole >= 4) {
        const size_t r = fours(rows, src + whole, ld_src, dst + whole * ld_dst, ld_dst);
        corner(rows - r, 4, src + r * ld_src + whole, ld_src, dst + whole * ld_dst + r, ld_dst);
        done += 4;
    }
    corner(rows, cols - done, src + done, ld_src, dst + done * ld_dst, ld_dst);
}
