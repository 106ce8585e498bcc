/* Products with packed panels: a line is one register, and one permutation looks up sixteen
 * levels at once. */
#include "kern/avx512/planes_avx512.h"
#include "kern/avx512/vec_avx512.h"

typedef __m512i v16i;
typedef __m512 v16_table;

static inline v16i v16i_load(const void *p)
{
    return _mm512_load_si512(p);
}
static inline v16i v16i_load_bytes(const void *p)
{
    return _mm512_cvtepu8_epi32(_mm_loadu_si128(p));
}
static inline v16i v16i_shift_left(v16i x, int n)
{
    return _mm512_slli_epi32(x, (unsigned)n);
}
static inline v16i v16i_shift_right(v16i x, int n)
{
    return _mm512_srli_epi32(x, (unsigned)n);
}
static inline v16i v16_arithmetic_shift(v16i x, int n)
{
    return _mm512_srai_epi32(x, (unsigned)n);
}
static inline v16i v16i_and(v16i x, int bits)
{
    return _mm512_and_si512(x, _mm512_set1_epi32(bits));
}
static inline v16 v16_from_int(v16i x)
{
    return _mm512_cvtepi32_ps(x);
}
static inline v16 v16_from_bits(v16i x)
{
    return _mm512_castsi512_ps(x);
}
static inline v16_table v16_table_load(const float *p)
{
    return _mm512_loadu_ps(p);
}
/* The permutation reads the low four bits of a field and no others. */
static inline v16 v16_lookup(v16i x, v16_table t)
{
    return _mm512_permutexvar_ps(x, t);
}

/* As half precision, whose exponent has a bit more, the value is 2^8 too small. */
static inline v16 v16_load_e4m3(const void *p)
{
    const __m256i wide = _mm256_slli_epi16(_mm256_cvtepi8_epi16(_mm_loadu_si128(p)), 7);
    const __m256i half = _mm256_and_si256(wide, _mm256_set1_epi16((short)0xbfff));
    return _mm512_mul_ps(_mm512_cvtph_ps(half), _mm512_set1_ps(0x1p8f));
}

/* FP8 by way of float16. Its bits at the place of a float32's would make its least values
 * subnormal, and a product with one takes a hundred cycles on some CPUs. Columns 0 and 1, or 2 and
 * 3, of a line become 16-bit words whose upper byte is the code; the compiler makes the words of
 * two columns once. */
static inline __m512i words_of(v16i line, int i)
{
    const char n = -128;
    const __m128i at = i < 2 ? _mm_setr_epi8(n, 0, n, 4, n, 8, n, 12, n, 1, n, 5, n, 9, n, 13)
                             : _mm_setr_epi8(n, 2, n, 6, n, 10, n, 14, n, 3, n, 7, n, 11, n, 15);
    const __m512i by_column = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
    const __m512i top = _mm512_shuffle_epi8(line, _mm512_broadcast_i32x4(at));
    return _mm512_permutexvar_epi64(by_column, top);
}
static inline v16 column_of(__m512i halves, int i)
{
    return _mm512_cvtph_ps(i % 2 ? _mm512_extracti64x4_epi64(halves, 1)
                                 : _mm512_castsi512_si256(halves));
}
/* 2^8 too small, see v16_load_e4m3(). */
#define E4M3_UNIT 0x1p8f
static inline v16 v16_line_e4m3(v16i line, int i)
{
    const __m512i down = _mm512_srai_epi16(words_of(line, i), 1);
    return column_of(_mm512_and_si512(down, _mm512_set1_epi16((short)0xbfff)), i);
}
static inline v16 v16_line_e5m2(v16i line, int i)
{
    return column_of(words_of(line, i), i);
}

static inline v16i v16i_byte(v16i x, int i)
{
    if (i == 0) return v16i_and(x, 255);
    if (i == 3) return v16i_shift_right(x, 24);
    const int none = (int)0x80808000;
    const __m128i at = _mm_setr_epi32(none + i, none + 4 + i, none + 8 + i, none + 12 + i);
    return _mm512_shuffle_epi8(x, _mm512_broadcast_i32x4(at));
}

#define v16i_line planes_line
#define v16i_word planes_word
enum { PANELS_AT_ONCE = 4, LOOKUP_IS_FAST = 1 };
#include "kern/template/panel_template.h"

#include <string.h>

static inline v16i v16i_spread(const void *p, const int32_t *bytes, const int32_t *shift)
{
    int64_t v;
    memcpy(&v, p, sizeof v);
    const __m512i at = _mm512_loadu_si512(bytes);
    const __m512i two = _mm512_shuffle_epi8(_mm512_set1_epi64(v), at);
    return _mm512_srlv_epi32(two, _mm512_loadu_si512(shift));
}
#include "kern/template/levels_template.h"

void pith_panel_dot_avx512(const struct pith_panels *m, size_t first, size_t count, const float *x,
                           float *y)
{
    panel_dot(m, first, count, x, y);
}

void pith_offsets_dot_avx512(const struct pith_panels *m, size_t first, size_t count,
                             const float *x, float *y)
{
    offsets_dot(m, first, count, x, y);
}

void pith_panel_unpack_avx512(const struct pith_panels *m, size_t panel, size_t col, size_t n,
                              float *dst, size_t ld)
{
    panel_unpack(m, panel, col, n, dst, ld);
}

void pith_levels_unpack_avx512(unsigned bits, size_t n, const uint8_t *codes, const float level[16],
                               float *dst)
{
    levels_unpack(bits, n, codes, level, dst);
}
