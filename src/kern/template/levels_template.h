/* kern/template/levels_template.h: codes of rows with separate levels, read sixteen at a time,
 * written once in sixteen-lane vectors; included after panel_template.h, of which it takes v16i and
 * the lookup. The including file defines besides:
 *
 *     v16i_spread(p, bytes, shift)   eight bytes at p, which may have any address: field i has byte
 *                                    (bytes[i] & 255) as its lowest, the next as its second,
 *                                    shifted right by shift[i]; upper bits are anything
 *
 * A field's low half looks up its level, whatever is above; the fourth bit of a code of three is
 * the next code's, which is why there are two copies of eight levels. */
#include <string.h>

/* Where sixteen codes of 3 and 4 bits begin: the byte and the one after it, the bit within. */
#define LEVEL_AT(i, bits) ((i) * (bits) / 8 | ((i) * (bits) / 8 + 1) << 8)
#define LEVEL_ALL(F, b)                                                                            \
    {                                                                                              \
        F(0, b), F(1, b), F(2, b), F(3, b), F(4, b), F(5, b), F(6, b), F(7, b), F(8, b), F(9, b),  \
            F(10, b), F(11, b), F(12, b), F(13, b), F(14, b), F(15, b)                             \
    }
#define LEVEL_SHIFT(i, bits) (i) * (bits) % 8
static const int32_t level_bytes[2][16] = {LEVEL_ALL(LEVEL_AT, 3), LEVEL_ALL(LEVEL_AT, 4)};
static const int32_t level_shifts[2][16] = {LEVEL_ALL(LEVEL_SHIFT, 3), LEVEL_ALL(LEVEL_SHIFT, 4)};

INLINE v16 level_values(unsigned bits, const void *codes, v16_table table)
{
    return v16_lookup(v16i_spread(codes, level_bytes[bits - 3], level_shifts[bits - 3]), table);
}

INLINE void levels_as(unsigned bits, size_t n, const uint8_t *codes, const float *level, float *dst)
{
    const v16_table table = v16_table_load(level);
    const size_t bytes = (n * bits + 7) / 8, each = 2 * (size_t)bits;
    const size_t fits = bytes < 8 ? 0 : (bytes - 8) / each + 1;
    const size_t whole = fits < n / 16 ? fits : n / 16;
    for (size_t i = 0; i < whole; i++)
        v16_store(dst + i * 16, level_values(bits, codes + i * each, table));
    for (size_t i = whole; i * 16 < n; i++) {
        uint8_t last[8] = {0};
        const size_t left = bytes - i * each, count = n - i * 16 < 16 ? n - i * 16 : 16;
        memcpy(last, codes + i * each, left < 8 ? left : 8);
        v16_store_part(dst + i * 16, level_values(bits, last, table), count);
    }
}

static inline void levels_unpack(unsigned bits, size_t n, const uint8_t *codes, const float *level,
                                 float *dst)
{
    if (bits == 4) levels_as(4, n, codes, level, dst);
    else levels_as(3, n, codes, level, dst);
}
