/* Products with packed panels: a line is two registers of eight rows. */
#include "kern/avx2/panel_avx2.h"
#include "kern/avx2/planes_avx2.h"

typedef struct {
    __m256 low, high;
} v16_table;

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

static inline v16i v16i_byte(v16i x, int i)
{
    if (i == 0) return v16i_and(x, 255);
    if (i == 3) return v16i_shift_right(x, 24);
    const int none = (int)0x80808000;
    const __m256i at = _mm256_broadcastsi128_si256(
        _mm_setr_epi32(none + i, none + 4 + i, none + 8 + i, none + 12 + i));
    return (v16i){_mm256_shuffle_epi8(x.a, at), _mm256_shuffle_epi8(x.b, at)};
}

PLANES_INLINE v16i v16i_line(unsigned bits, const uint8_t *at, int j)
{
    return (v16i){planes_line(bits, at, 0, j), planes_line(bits, at, 1, j)};
}
PLANES_INLINE v16i v16i_word(unsigned bits, const uint8_t *at, int k)
{
    return (v16i){planes_word(bits, at, 0, k), planes_word(bits, at, 1, k)};
}

enum { PANELS_AT_ONCE = 2, LOOKUP_IS_FAST = 0 };
#define E4M3_UNIT 1.0f
#define v16_line_e4m3(line, i) from_e4m3(top_of(line, i))
#define v16_line_e5m2(line, i) from_e5m2(top_of(line, i))
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

void pith_panel_dot_ints_avx2(const struct pith_panels *m, size_t first, size_t count,
                              const float *x, float *y)
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
