/* Transposing and copying for the packing of gemm: squares of sixteen, borders by masks. */
#include "kern/ops.h"

#include <immintrin.h>

#define INLINE static inline __attribute__((always_inline))

INLINE __mmask16 first(size_t n)
{
    return (__mmask16)(n < 16 ? (1u << n) - 1u : 0xffffu);
}

INLINE __m512 row(const float *src, size_t ld, size_t i, size_t n, __mmask16 cols)
{
    return i < n ? _mm512_maskz_loadu_ps(cols, src + i * ld) : _mm512_setzero_ps();
}

/* Rows 4q .. 4q + 3 of a square, transposed within each quarter of the registers: lane 4b + e of
 * out[c] is element (4q + e, 4b + c). */
struct quarter {
    __m512 c0, c1, c2, c3;
};

INLINE struct quarter transpose_quarters(__m512 r0, __m512 r1, __m512 r2, __m512 r3)
{
    const __m512d a = _mm512_castps_pd(_mm512_unpacklo_ps(r0, r1));
    const __m512d b = _mm512_castps_pd(_mm512_unpackhi_ps(r0, r1));
    const __m512d c = _mm512_castps_pd(_mm512_unpacklo_ps(r2, r3));
    const __m512d d = _mm512_castps_pd(_mm512_unpackhi_ps(r2, r3));
    return (struct quarter){
        _mm512_castpd_ps(_mm512_unpacklo_pd(a, c)), _mm512_castpd_ps(_mm512_unpackhi_pd(a, c)),
        _mm512_castpd_ps(_mm512_unpacklo_pd(b, d)), _mm512_castpd_ps(_mm512_unpackhi_pd(b, d))};
}

/* Quarters b of the four vectors become column 4b + c, whose rows they are; c is the place of the
 * vectors in their struct. */
INLINE void put(__m512 x0, __m512 x1, __m512 x2, __m512 x3, float *dst, size_t ld, __mmask16 rows,
                size_t c, size_t cols)
{
    const __m512 low = _mm512_shuffle_f32x4(x0, x1, 0x88),
                 high = _mm512_shuffle_f32x4(x0, x1, 0xdd);
    const __m512 low2 = _mm512_shuffle_f32x4(x2, x3, 0x88);
    const __m512 high2 = _mm512_shuffle_f32x4(x2, x3, 0xdd);
    float *to = dst + c * ld;
    if (c < cols) _mm512_mask_storeu_ps(to, rows, _mm512_shuffle_f32x4(low, low2, 0x88));
    if (c + 4 < cols)
        _mm512_mask_storeu_ps(to + 4 * ld, rows, _mm512_shuffle_f32x4(high, high2, 0x88));
    if (c + 8 < cols)
        _mm512_mask_storeu_ps(to + 8 * ld, rows, _mm512_shuffle_f32x4(low, low2, 0xdd));
    if (c + 12 < cols)
        _mm512_mask_storeu_ps(to + 12 * ld, rows, _mm512_shuffle_f32x4(high, high2, 0xdd));
}

/* At most sixteen rows and columns. */
INLINE void square(size_t n, size_t cols, const float *src, size_t ld, float *dst, size_t ld_dst)
{
    const __mmask16 m = first(cols), rows = first(n);
#define ROW(i) row(src, ld, i, n, m)
    const struct quarter a = transpose_quarters(ROW(0), ROW(1), ROW(2), ROW(3));
    const struct quarter b = transpose_quarters(ROW(4), ROW(5), ROW(6), ROW(7));
    const struct quarter c = transpose_quarters(ROW(8), ROW(9), ROW(10), ROW(11));
    const struct quarter d = transpose_quarters(ROW(12), ROW(13), ROW(14), ROW(15));
#undef ROW
    put(a.c0, b.c0, c.c0, d.c0, dst, ld_dst, rows, 0, cols);
    put(a.c1, b.c1, c.c1, d.c1, dst, ld_dst, rows, 1, cols);
    put(a.c2, b.c2, c.c2, d.c2, dst, ld_dst, rows, 2, cols);
    put(a.c3, b.c3, c.c3, d.c3, dst, ld_dst, rows, 3, cols);
}

INLINE void band(size_t n, size_t cols, const float *src, size_t ld, float *dst, size_t ld_dst)
{
    size_t c = 0;
    for (; c + 16 <= cols; c += 16) square(n, 16, src + c, ld, dst + c * ld_dst, ld_dst);
    if (c < cols) square(n, cols - c, src + c, ld, dst + c * ld_dst, ld_dst);
}

/* The heights that the tiles need are constants in their copies. */
void pith_transpose_avx512(size_t rows, size_t cols, const float *src, size_t ld_src, float *dst,
                           size_t ld_dst)
{
    size_t r = 0;
    for (; r + 16 <= rows; r += 16) band(16, cols, src + r * ld_src, ld_src, dst + r, ld_dst);
    if (rows - r == 14) band(14, cols, src + r * ld_src, ld_src, dst + r, ld_dst);
    else if (r < rows) band(rows - r, cols, src + r * ld_src, ld_src, dst + r, ld_dst);
}

/* A row of n <= 32 floats. */
INLINE void copy_row(size_t n, const float *src, float *dst)
{
    if (n >= 16) {
        _mm512_storeu_ps(dst, _mm512_loadu_ps(src));
        src += 16;
        dst += 16;
        n -= 16;
    }
    if (n > 0) _mm512_mask_storeu_ps(dst, first(n), _mm512_maskz_loadu_ps(first(n), src));
}

INLINE void copy_band(size_t rows, size_t n, const float *src, size_t ld_src, float *dst,
                      size_t ld_dst)
{
    for (size_t r = 0; r < rows; r++) copy_row(n, src + r * ld_src, dst + r * ld_dst);
}

void pith_copy_rows_avx512(size_t rows, size_t cols, const float *src, size_t ld_src, float *dst,
                           size_t ld_dst)
{
    for (size_t c = 0; c < cols; c += 32) {
        const size_t n = cols - c < 32 ? cols - c : 32;
        if (n == 32) copy_band(rows, 32, src + c, ld_src, dst + c, ld_dst);
        else if (n == 14) copy_band(rows, 14, src + c, ld_src, dst + c, ld_dst);
        else copy_band(rows, n, src + c, ld_src, dst + c, ld_dst);
    }
}
