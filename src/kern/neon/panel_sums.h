/* kern/neon/panel_sums.h: the products of integers with packed panels, a register of four rows at a
 * time, for sums of a block's lines that the including file defines:
 *
 * level4_sum(kind, table, line, lines, q): sums of four rows of 4-bit codes, or of what the table
 * of signed factors has for them, over the columns of q; `lines` lines, PITH_PANEL_LINE bytes
 * apart.
 *
 * int8_sum(line, lines, q): the same of 8-bit codes less 128, which are signed bytes.
 *
 * planes_sum(kind, at, quarter, steps, q): the same of codes in planes, rows 4 * quarter on. */
#include "kern/neon/digits_neon.h"

enum { QUARTERS = 4 /* of a line: registers, each four columns of four rows */ };

INLINE float32x4_t scales_at(const struct pith_panels *m, size_t index)
{
    const char *at = (const char *)m->scales + index * pith_panel_scale_bytes(m->scale);
    if (m->scale == PITH_SCALE_F32) return load_4(at);
    if (m->scale == PITH_SCALE_PRODUCT) {
        uint32_t four;
        memcpy(&four, at, sizeof four);
        const int16x4_t inner = vget_low_s16(vmovl_s8(vcreate_s8(four)));
        const char *outer = (const char *)m->outer + pith_panel_outer(m, index) * 2;
        return vmulq_f32(vcvtq_f32_s32(vmovl_s16(inner)), from_f16(outer));
    }
    if (m->scale == PITH_SCALE_E8M0 || m->scale == PITH_SCALE_E4M3) {
        float four[4];
        for (size_t r = 0; r < 4; r++) four[r] = pith_panel_scale_at(m, index + r);
        return vld1q_f32(four);
    }
    return m->scale == PITH_SCALE_F16 ? from_f16(at) : from_bf16(at);
}

INLINE int32x4_t zeros_at(const struct pith_panels *m, size_t index)
{
    if (!m->zeros) return vdupq_n_s32((int32_t)m->zero);
    uint32_t four;
    memcpy(&four, m->zeros + index, sizeof four);
    const uint8x8_t bytes = vcreate_u8(four);
    return vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(vmovl_u8(bytes))));
}

/* What block sums begin with: zeros, of codes of 8 bits less 128; signed factors have none. */
INLINE int32x4_t zeros_of(const struct pith_panels *m, enum codes kind, size_t index)
{
    if (kind == SMALL || kind == LARGE) return vdupq_n_s32(0);
    return vsubq_s32(zeros_at(m, index), vdupq_n_s32(kind == EIGHT ? 128 : 0));
}

/* Columns [c, c + n) of one block, `at` where they are in the panel, by one digit of x. */
INLINE int32x4_t digit_dot(const struct pith_bytes *x, enum codes kind, int8x16_t table,
                           const uint8_t *at, size_t quarter, size_t n, size_t c, size_t block,
                           size_t digit, int32x4_t zero)
{
    const int8_t *q = x->q + c + digit * x->q_digit;
    const uint8_t *line = at + quarter * 16;
    const int32x4_t sum = pith_panel_has_planes(bits_of(kind))
                              ? planes_sum(kind, at, quarter, n / PITH_PANEL_STEP, q)
                          : kind == EIGHT ? int8_sum(line, n / 4, q)
                                          : level4_sum(kind, table, line, n / 8, q);
    return vmlsq_n_s32(sum, zero, x->sum[block + digit * x->sum_digit]);
}

INLINE float32x4_t block_dot(const struct pith_bytes *x, enum codes kind, int8x16_t table,
                             size_t digits, const uint8_t *at, size_t quarter, size_t n, size_t c,
                             size_t block, int32x4_t zero)
{
    const int32x4_t d0 = digit_dot(x, kind, table, at, quarter, n, c, block, 0, zero);
    if (digits == 1) return vcvtq_f32_s32(d0);
    return digits_together(d0, digit_dot(x, kind, table, at, quarter, n, c, block, 1, zero),
                           digit_dot(x, kind, table, at, quarter, n, c, block, 2, zero));
}

/* Rows 4 * quarter .. 4 * quarter + 3 of a panel. */
INLINE float32x4_t quarter_panel(const struct pith_panels *m, enum codes kind, size_t digits,
                                 size_t panel, size_t quarter, const struct pith_bytes *x)
{
    const int8x16_t table = signed_factors(m);
    const uint8_t *at = pith_panel_at(m, panel, 0);
    float32x4_t y = vdupq_n_f32(0);
    size_t c = 0, block = 0;
    for (size_t g = 0; g < m->groups; g++) {
        const size_t index = (panel * m->groups + g) * PITH_PANEL_ROWS + quarter * 4;
        const size_t stop = c + m->group < m->cols ? c + m->group : m->cols;
        const int32x4_t zero = zeros_of(m, kind, index);
        float32x4_t t = vdupq_n_f32(0);
        for (; c < stop; block++) {
            const size_t end = c + x->block < stop ? c + x->block : stop, n = end - c;
            t = vfmaq_n_f32(t, block_dot(x, kind, table, digits, at, quarter, n, c, block, zero),
                            x->scale[block]);
            at += pith_panel_span(bits_of(kind), n);
            c = end;
        }
        float32x4_t scale = scales_at(m, index);
        if (kind == SMALL || kind == LARGE) scale = vmulq_n_f32(scale, m->unit);
        y = vfmaq_f32(y, scale, t);
    }
    return y;
}

INLINE void dot_as(const struct pith_panels *m, enum codes kind, size_t digits, size_t first,
                   size_t count, const struct pith_bytes *x, float *y)
{
    for (size_t i = 0; i < count; i++)
        for (size_t quarter = 0; quarter < QUARTERS; quarter++, y += 4)
            vst1q_f32(y, quarter_panel(m, kind, digits, first + i, quarter, x));
}
