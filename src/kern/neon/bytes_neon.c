/* The tile of the fast product: 4 vectors by 16 rows, four of the rows at a time, since these are a
 * register. Products of 4-bit codes with bytes are added up in 16 bits, sixteen words at a time:
 * |sum| <= 16 * 15 * 128 < 2^15. A byte counts as two 4-bit codes, the upper one sixteen times. */
#include "kern/neon/vec_neon.h"
#include "kern/ops.h"

#define INLINE static inline __attribute__((always_inline))

enum { ROWS = 4, COLS = PITH_PANEL_ROWS, RUN = 16, LANES = 4 };
#define EACH(X) X(0) X(1) X(2) X(3)

INLINE size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Four rows of a panel for the vectors of a tile: the sums of a block, of a group, of a row. */
struct sums {
#define FIELD(i)                                                                                   \
    int32x4_t d##i;                                                                                \
    float32x4_t t##i, y##i;
    EACH(FIELD)
#undef FIELD
};

/* What a tile's array of sums has for vector i and the rows from `row` on. */
#define AT(i) ((i)*COLS + row)

INLINE void sums_load(struct sums *s, const struct pith_byte_tile *a, size_t row)
{
    const bool in_row = a->col > 0, in_group = a->col % a->group > 0;
    const bool in_block = a->col % a->group % a->block > 0;
#define LOAD(i)                                                                                    \
    s->y##i = in_row ? vld1q_f32(a->y + AT(i)) : vdupq_n_f32(0);                                   \
    s->t##i = in_group ? vld1q_f32(a->t + AT(i)) : vdupq_n_f32(0);                                 \
    s->d##i = in_block ? vld1q_s32(a->d + AT(i)) : vdupq_n_s32(0);
    EACH(LOAD)
#undef LOAD
}

INLINE void sums_store(const struct sums *s, const struct pith_byte_tile *a, size_t row)
{
#define STORE(i)                                                                                   \
    vst1q_f32(a->y + AT(i), s->y##i);                                                              \
    vst1q_f32(a->t + AT(i), s->t##i);                                                              \
    vst1q_s32(a->d + AT(i), s->d##i);
    EACH(STORE)
#undef STORE
}

/* A block begins: what is taken off its sums. */
INLINE void block_open(struct sums *s, const int32_t *less, const int32_t *zero)
{
    const int32x4_t factor = zero ? vld1q_s32(zero) : vdupq_n_s32(1);
#define START(i) s->d##i = vmulq_n_s32(factor, less[i]);
    EACH(START)
#undef START
}

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

INLINE void multiply(struct sums *s, bool level4, size_t words, const uint8_t *w, const uint32_t *x)
{
    const size_t line = level4 ? PITH_PANEL_LINE : PITH_BYTES_LINE;
    for (size_t n; words > 0; words -= n, w += n * line, x += n * ROWS) {
        n = least(words, RUN);
        run(s, n, w, line, x, 0);
        if (!level4) run(s, n, w + PITH_PANEL_LINE, line, x, 4);
    }
}

INLINE void block_close(struct sums *s, const float *scale)
{
#define CLOSE(i) s->t##i = vfmaq_n_f32(s->t##i, vcvtq_f32_s32(s->d##i), scale[i]);
    EACH(CLOSE)
#undef CLOSE
}

INLINE void group_close(struct sums *s, const float *scale)
{
    const float32x4_t f = vld1q_f32(scale);
#define CLOSE(i)                                                                                   \
    s->y##i = vfmaq_f32(s->y##i, f, s->t##i);                                                      \
    s->t##i = vdupq_n_f32(0);
    EACH(CLOSE)
#undef CLOSE
}

/* Rows row .. row + 3 of the panel. */
INLINE void quarter(const struct pith_byte_tile *a, bool level4, size_t row)
{
    const size_t end = a->col + a->n, first = a->col / a->group;
    const size_t line = level4 ? PITH_PANEL_LINE : PITH_BYTES_LINE;
    const uint8_t *w = a->w + row * 4;
    size_t c = a->col, group = first, block = c / a->block;
    struct sums s;
    sums_load(&s, a, row);
    while (c < end) {
        const size_t at = (group - first) * PITH_PANEL_ROWS + row;
        const size_t group_end = least((group + 1) * a->group, a->cols);
        const size_t block_end = least((block + 1) * a->block, group_end);
        const size_t stop = least(block_end, end), words = (stop - c) / 4;
        if (c == block * a->block)
            block_open(&s, a->x_less + block * ROWS, a->zero ? a->zero + at : NULL);
        multiply(&s, level4, words, w, a->x + c / 4 * ROWS);
        w += words * line;
        c = stop;
        if (stop < block_end) break;
        block_close(&s, a->x_scale + block++ * ROWS);
        if (c < group_end) continue;
        group_close(&s, a->scale + at);
        group++;
    }
    sums_store(&s, a, row);
}

void pith_bytes_tile_neon(const struct pith_byte_tile *a)
{
    for (size_t row = 0; row < COLS; row += LANES) {
        if (a->form == PITH_PANEL_LEVEL4) quarter(a, true, row);
        else quarter(a, false, row);
    }
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
