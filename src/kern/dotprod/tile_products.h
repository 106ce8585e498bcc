/* kern/dotprod/tile_products.h: products of a tile's words with four rows of a panel: six or eight
 * integer dot products on three loads. These want signed bytes, so 8-bit codes are unpacked less
 * 128, and 128 times the sum of a word's bytes is added. For the including file see
 * kern/neon/tile_sums.h, which it has included. */

/* Words 4 and on of a step: four or two. */
INLINE uint32x4_t upper_words(const uint32_t *x)
{
    return ROWS == 8 ? vld1q_u32(x) : vcombine_u32(vld1_u32(x), vdup_n_u32(0));
}

INLINE size_t code_line(enum codes kind)
{
    (void)kind;
    return PITH_PANEL_LINE;
}

INLINE void multiply(struct sums *s, enum codes kind, size_t words, const uint8_t *w,
                     const uint32_t *x)
{
    const int8x16_t most = vdupq_n_s8(64); /* twice that is added */
    int32x4_t less_a = vdupq_n_s32(0), less_b = less_a;
    for (size_t p = 0; p < words; p++, w += PITH_PANEL_LINE, x += ROWS) {
        const int8x16_t codes = vreinterpretq_s8_u8(vld1q_u8(w));
        const int8x16_t a = vreinterpretq_s8_u32(vld1q_u32(x));
        const int8x16_t b = vreinterpretq_s8_u32(upper_words(x + 4));
#define STEP(i) s->d##i = vdotq_laneq_s32(s->d##i, codes, (i) < 4 ? a : b, (i) % 4);
        EACH(STEP)
#undef STEP
        if (kind != EIGHT) continue;
        less_a = vdotq_s32(less_a, a, most);
        less_b = vdotq_s32(less_b, b, most);
    }
    if (kind != EIGHT) return;
#define ADD(i)                                                                                     \
    s->d##i =                                                                                      \
        vaddq_s32(s->d##i, vdupq_n_s32(2 * vgetq_lane_s32((i) < 4 ? less_a : less_b, (i) % 4)));
    EACH(ADD)
#undef ADD
}
