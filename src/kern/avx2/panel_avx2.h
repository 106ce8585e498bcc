/* kern/avx2/panel_avx2.h: lines of packed panels as two registers of eight rows. */
#ifndef PITH_KERN_PANEL_AVX2_H
#define PITH_KERN_PANEL_AVX2_H

#include "kern/avx2/vec_avx2.h"
#include "kern/panel.h"

/* panel_dot, made for integers: panel_dot_avx2.c has other ways for floats. */
void pith_panel_dot_ints_avx2(const struct pith_panels *m, size_t first, size_t count,
                              const float *x, float *y);

typedef struct {
    __m256i a, b;
} v16i;

static inline v16i v16i_load(const void *p)
{
    const __m256i *v = p;
    return (v16i){_mm256_load_si256(v), _mm256_load_si256(v + 1)};
}
static inline v16i v16i_load_bytes(const void *p)
{
    const __m128i bytes = _mm_loadu_si128(p);
    return (v16i){_mm256_cvtepu8_epi32(bytes), _mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8))};
}
static inline v16i v16i_shift_left(v16i x, int n)
{
    return (v16i){_mm256_slli_epi32(x.a, n), _mm256_slli_epi32(x.b, n)};
}
static inline v16i v16i_shift_right(v16i x, int n)
{
    return (v16i){_mm256_srli_epi32(x.a, n), _mm256_srli_epi32(x.b, n)};
}
static inline v16i v16_arithmetic_shift(v16i x, int n)
{
    return (v16i){_mm256_srai_epi32(x.a, n), _mm256_srai_epi32(x.b, n)};
}
static inline v16i v16i_and(v16i x, int bits)
{
    const __m256i m = _mm256_set1_epi32(bits);
    return (v16i){_mm256_and_si256(x.a, m), _mm256_and_si256(x.b, m)};
}
static inline v16 v16_from_int(v16i x)
{
    return (v16){_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)};
}
static inline v16 v16_from_bits(v16i x)
{
    return (v16){_mm256_castsi256_ps(x.a), _mm256_castsi256_ps(x.b)};
}
/* factor in both halves of a register, for the codes of bytes. */
static inline __m256i factor_table(const struct pith_panels *m)
{
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)m->factor));
}
/* As half precision, whose exponent has a bit more, the value is 2^8 too small. */
static inline __m256 load8_e4m3(__m128i half)
{
    const __m128i bits = _mm_and_si128(half, _mm_set1_epi16((short)0xbfff));
    return _mm256_mul_ps(_mm256_cvtph_ps(bits), _mm256_set1_ps(0x1p8f));
}
static inline v16 v16_load_e4m3(const void *p)
{
    const __m256i wide = _mm256_slli_epi16(_mm256_cvtepi8_epi16(_mm_loadu_si128(p)), 7);
    return (v16){load8_e4m3(_mm256_castsi256_si128(wide)),
                 load8_e4m3(_mm256_extracti128_si256(wide, 1))};
}

#endif
