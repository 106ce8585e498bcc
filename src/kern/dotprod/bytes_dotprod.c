/* The tile of the fast product: 8 vectors by 16 rows, four of the rows at a time: eight integer dot
 * products on three loads. These want signed bytes, so 8-bit codes are unpacked less 128, and 128
 * times the sum of a vector's bytes is added. */
#include "kern/neon/vec_neon.h"
#include "kern/ops.h"

#define INLINE static inline __attribute__((always_inline))

enum { ROWS = 8 };
#define EACH(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)

#include "kern/neon/tile_sums.h"

INLINE size_t code_line(bool level4)
{
    (void)level4;
    return PITH_PANEL_LINE;
}

INLINE void multiply(struct sums *s, bool level4, size_t words, const uint8_t *w, const uint32_t *x)
{
    const int8x16_t most = vdupq_n_s8(64); /* twice that is added */
    int32x4_t less_a = vdupq_n_s32(0), less_b = less_a;
    for (size_t p = 0; p < words; p++, w += PITH_PANEL_LINE, x += ROWS) {
        const int8x16_t codes = vreinterpretq_s8_u8(vld1q_u8(w));
        const int8x16_t a = vreinterpretq_s8_u32(vld1q_u32(x));
        const int8x16_t b = vreinterpretq_s8_u32(vld1q_u32(x + 4));
#define STEP(i) s->d##i = vdotq_laneq_s32(s->d##i, codes, (i) < 4 ? a : b, (i) % 4);
        EACH(STEP)
#undef STEP
        if (level4) continue;
        less_a = vdotq_s32(less_a, a, most);
        less_b = vdotq_s32(less_b, b, most);
    }
    if (level4) return;
#define ADD(i)                                                                                     \
    s->d##i =                                                                                      \
        vaddq_s32(s->d##i, vdupq_n_s32(2 * vgetq_lane_s32((i) < 4 ? less_a : less_b, (i) % 4)));
    EACH(ADD)
#undef ADD
}

#include "kern/neon/tile_steps.h"

void pith_bytes_tile_dotprod(const struct pith_byte_tile *a)
{
    whole_tile(a);
}

void pith_bytes_unpack_dotprod(const struct pith_panels *m, size_t panel, size_t col, size_t n,
                               uint8_t *dst)
{
    if (m->form == PITH_PANEL_LEVEL4) {
        pith_bytes_unpack_neon(m, panel, col, n, dst);
        return;
    }
    const uint8_t *line = m->codes + (panel * pith_panel_lines(m) + col / 4) * PITH_PANEL_LINE;
    for (size_t i = 0; i < n / 4 * PITH_PANEL_LINE; i += 16)
        vst1q_u8(dst + i, veorq_u8(vld1q_u8(line + i), vdupq_n_u8(128)));
}

/* Words are moved as floats, which changes no bit. */
void pith_bytes_words_dotprod(size_t words, size_t first, size_t count, const int8_t *q,
                              uint32_t *x)
{
    pith_transpose_scalar(count, words, (const float *)(const void *)q, words,
                          (float *)(void *)(x + first), ROWS);
}
