/* The tile of the fast product: 4 vectors by 16 rows, four of the rows at a time, since these are a
 * register. */
#include "kern/neon/planes_neon.h"
#include "kern/neon/vec_neon.h"
#include "kern/ops.h"

#define INLINE static inline __attribute__((always_inline))

enum { ROWS = 4 };
#define EACH(X) X(0) X(1) X(2) X(3)

#include "kern/neon/tile_sums.h"

#include "kern/neon/tile_products.h"

#include "kern/neon/tile_steps.h"

void pith_bytes_tile_neon(const struct pith_byte_tile *a)
{
    whole_tile(a);
}

/* Bytes as a line of low and one of high halves. */
INLINE void split(uint8x16_t v, uint8_t *dst)
{
    vst1q_u8(dst, vandq_u8(v, vdupq_n_u8(15)));
    vst1q_u8(dst + PITH_PANEL_LINE, vshrq_n_u8(v, 4));
}

/* Large factors of n columns from the line on, as codes of 8 bits become. */
static void unpack_large(const struct pith_panels *m, const uint8_t *line, size_t n, uint8_t *dst)
{
    for (; n > 0; n -= 8, line += PITH_PANEL_LINE, dst += 2 * PITH_BYTES_LINE)
        for (size_t i = 0; i < PITH_PANEL_LINE; i += 16) {
            const uint8x16_t v = vld1q_u8(line + i);
            split(factors_of(m, vandq_u8(v, vdupq_n_u8(15))), dst + i);
            split(factors_of(m, vshrq_n_u8(v, 4)), dst + PITH_BYTES_LINE + i);
        }
}

/* Codes in planes: of at most 4 bits a line a word, of more one of low and one of high halves. */
INLINE void unpack_planes(unsigned bits, const uint8_t *at, size_t n, uint8_t *dst)
{
    const size_t line = bits < 4 ? PITH_PANEL_LINE : PITH_BYTES_LINE;
    for (; n > 0; n -= PITH_PANEL_STEP, at += pith_panel_span(bits, PITH_PANEL_STEP))
        for (int k = 0; k < PITH_PANEL_WORDS; k++, dst += line)
            for (size_t quarter = 0; quarter < 4; quarter++) {
                const uint8x16_t v = planes_word(bits, at, quarter, k);
                if (bits < 4) vst1q_u8(dst + 16 * quarter, v);
                else split(v, dst + 16 * quarter);
            }
}

/* Halves of bytes are either two codes, of different columns, or two parts of one: in both cases a
 * line becomes one of low and one of high halves. */
static void unpack_halves(const struct pith_panels *m, const uint8_t *line, size_t lines,
                          uint8_t *dst)
{
    for (; lines > 0; lines--, line += PITH_PANEL_LINE, dst += 2 * PITH_PANEL_LINE)
        for (size_t i = 0; i < PITH_PANEL_LINE; i += 16) {
            const uint8x16_t v = vld1q_u8(line + i);
            const uint8x16_t a = vandq_u8(v, vdupq_n_u8(15)), b = vshrq_n_u8(v, 4);
            vst1q_u8(dst + i, m->factors ? factors_of(m, a) : a);
            vst1q_u8(dst + i + PITH_PANEL_LINE, m->factors ? factors_of(m, b) : b);
        }
}

const uint8_t *pith_bytes_unpack_neon(const struct pith_panels *m, size_t panel, size_t col,
                                      size_t n, bool few, uint8_t *dst)
{
    (void)few;
    const uint8_t *at = pith_panel_at(m, panel, col);
    switch (m->bits) {
#define CASE(bits_)                                                                                \
    case bits_: unpack_planes(bits_, at, n, dst); return dst;
        PITH_PANEL_PLANES(CASE)
#undef CASE
    default: break;
    }
    if (m->factors == PITH_FACTORS_LARGE) unpack_large(m, at, n, dst);
    else unpack_halves(m, at, n / pith_panel_step(m->bits), dst);
    return dst;
}

/* Words are moved as floats, which changes no bit. */
void pith_bytes_words_neon(size_t words, size_t first, size_t count, const int8_t *q, uint32_t *x)
{
    pith_transpose_scalar(count, words, (const float *)(const void *)q, words,
                          (float *)(void *)(x + first), ROWS);
}
