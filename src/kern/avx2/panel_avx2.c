/* Products with packed panels: a line is two registers of eight rows. */
#include "kern/avx2/vec_avx2.h"

typedef struct {
    __m256i a, b;
} v16i;
typedef struct {
    __m256 low, high;
} v16_table;

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
static inline v16_table v16_table_load(const float *p)
{
    return (v16_table){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}
/* The permutation reads three bits; the fourth, moved to the sign, chooses between two of them. */
static inline __m256 lookup8(__m256i x, v16_table t)
{
    const __m256 low = _mm256_permutevar8x32_ps(t.low, x);
    const __m256 high = _mm256_permutevar8x32_ps(t.high, x);
    return _mm256_blendv_ps(low, high, _mm256_castsi256_ps(_mm256_slli_epi32(x, 28)));
}
static inline v16 v16_lookup(v16i x, v16_table t)
{
    return (v16){lookup8(x.a, t), lookup8(x.b, t)};
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

enum { PANELS_AT_ONCE = 2, LOOKUP_IS_FAST = 0 };
#include "kern/template/panel_template.h"

#include <string.h>

static inline __m256i spread8(__m256i v, const int32_t *bytes, const int32_t *shift)
{
    const __m256i at = _mm256_loadu_si256((const __m256i *)(const void *)bytes);
    const __m256i by = _mm256_loadu_si256((const __m256i *)(const void *)shift);
    return _mm256_srlv_epi32(_mm256_shuffle_epi8(v, at), by);
}
static inline v16i v16i_spread(const void *p, const int32_t *bytes, const int32_t *shift)
{
    int64_t v;
    memcpy(&v, p, sizeof v);
    const __m256i all = _mm256_set1_epi64x(v);
    return (v16i){spread8(all, bytes, shift), spread8(all, bytes + 8, shift + 8)};
}
#include "kern/template/levels_template.h"

void pith_panel_dot_avx2(const struct pith_panels *m, size_t first, size_t count, const float *x,
                         float *y)
{
    panel_dot(m, first, count, x, y);
}

void pith_offsets_dot_avx2(const struct pith_panels *m, size_t first, size_t count, const float *x,
                           float *y)
{
    offsets_dot(m, first, count, x, y);
}

void pith_panel_unpack_avx2(const struct pith_panels *m, size_t panel, size_t col, size_t n,
                            float *dst, size_t ld)
{
    panel_unpack(m, panel, col, n, dst, ld);
}

void pith_levels_unpack_avx2(unsigned bits, size_t n, const uint8_t *codes, const float level[16],
                             float *dst)
{
    levels_unpack(bits, n, codes, level, dst);
}
