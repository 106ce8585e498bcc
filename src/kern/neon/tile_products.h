/* kern/neon/tile_products.h: products of a tile's words with four rows of a panel. Those of 4-bit
 * codes with bytes are added up in 16 bits, sixteen words at a time: |sum| <= 16 * 15 * 128 < 2^15,
 * half as many of small factors. A byte counts as two 4-bit codes, the upper one sixteen times. For
 * the including file see kern/neon/tile_sums.h, which it has included. */
enum { RUN = 16 };

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

INLINE size_t code_line(enum codes kind)
{
    return kind != EIGHT ? PITH_PANEL_LINE : PITH_BYTES_LINE;
}

INLINE void multiply(struct sums *s, enum codes kind, size_t words, const uint8_t *w,
                     const uint32_t *x)
{
    const size_t line = code_line(kind);
    for (size_t n; words > 0; words -= n, w += n * line, x += n * ROWS) {
        n = least(words, kind == SMALL ? RUN / 2 : RUN);
        run(s, n, w, line, x, 0);
        if (kind == EIGHT) run(s, n, w + PITH_PANEL_LINE, line, x, 4);
    }
}
