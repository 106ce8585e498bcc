/* The tile of the fast product: 4 vectors by 16 rows, four of the rows at a time, since these are a
 * register. Products of 4-bit codes with bytes are added up in 16 bits, sixteen words at a time:
 * |sum| <= 16 * 15 * 128 < 2^15. A byte counts as two 4-bit codes, the upper one sixteen times. */
#include "kern/neon/vec_neon.h"
#include "kern/ops.h"

#define INLINE static inline __attribute__((always_inline))

enum { ROWS = 4, RUN = 16 };
#define EACH(X) X(0) X(1) X(2) X(3)

#include "kern/neon/tile_sums.h"

/* d += the sums over pairs of fields, times 2^shift. */
INLINE int32x4_t widen(int32x4_t d, int16x8_t low, int16x8_t high, int shift)
{
    const int32x4_t sum = vpaddq_s32(vpaddlq_s16(low), vpaddlq_s16(high));
    return vaddq_s32(d, vshlq_s32(sum, vdupq_n_s32(shift)));
}

/* At most RUN words; w is read every `line` bytes. */
INLINE void run(struct sums *s, size_t words, const uint8_t *w, size_t line, const uint32_t *x,
                int shift)
{
#define ZERO(i) int16x8_t low##i = vdupq_n_s16(0), high##i = low##i;
    EACH(ZERO)
#undef ZERO
    for (size_t p = 0; p < words; p++, w += line, x += ROWS) {
        const int8x16_t codes = vreinterpretq_s8_u8(vld1q_u8(w));
#define STEP(i)                                                                                    \
    {                                                                                              \
        const int8x16_t e = vreinterpretq_s8_u32(vdupq_n_u32(x[i]));                               \
        low##i = vmlal_s8(low##i, vget_low_s8(codes), vget_low_s8(e));                             \
        high##i = vmlal_high_s8(high##i, codes, e);                                                \
    }
        EACH(STEP)
#undef STEP
    }
#define ADD(i) s->d##i = widen(s->d##i, low##i, high##i, shift);
    EACH(ADD)
#undef ADD
}

INLINE size_t code_line(bool level4)
{
    return level4 ? PITH_PANEL_LINE : PITH_BYTES_LINE;
}

INLINE void multiply(struct sums *s, bool level4, size_t words, const uint8_t *w, const uint32_t *x)
{
    const size_t line = code_line(level4);
    for (size_t n; words > 0; words -= n, w += n * line, x += n * ROWS) {
        n = least(words, RUN);
        run(s, n, w, line, x, 0);
        if (!level4) run(s, n, w + PITH_PANEL_LINE, line, x, 4);
    }
}

#include "kern/neon/tile_steps.h"

void pith_bytes_tile_neon(const struct pith_byte_tile *a)
{
    whole_tile(a);
}

/* Halves of bytes are either two codes, of different columns, or two parts of one: in both cases a
 * line becomes one of low and one of high halves. */
void pith_bytes_unpack_neon(const struct pith_panels *m, size_t panel, size_t col, size_t n,
                            uint8_t *dst)
{
    const size_t width = m->form == PITH_PANEL_LEVEL4 ? 8 : 4;
    const uint8_t *line = m->codes + (panel * pith_panel_lines(m) + col / width) * PITH_PANEL_LINE;
    for (size_t c = 0; c < n; c += width, line += PITH_PANEL_LINE, dst += 2 * PITH_PANEL_LINE)
        for (size_t i = 0; i < PITH_PANEL_LINE; i += 16) {
            const uint8x16_t v = vld1q_u8(line + i);
            vst1q_u8(dst + i, vandq_u8(v, vdupq_n_u8(15)));
            vst1q_u8(dst + i + PITH_PANEL_LINE, vshrq_n_u8(v, 4));
        }
}

/* Words are moved as floats, which changes no bit. */
void pith_bytes_words_neon(size_t words, size_t first, size_t count, const int8_t *q, uint32_t *x)
{
    pith_transpose_scalar(count, words, (const float *)(const void *)q, words,
                          (float *)(void *)(x + first), ROWS);
}
