/* kern/neon/digit_steps.h: the way of a tile of the exact product through its columns: two vectors
 * of three digits, as a step of six words. The including file has included kern/neon/tile_sums.h
 * (of whose sums t and y only those of the vectors' first words are used) and defined code_line()
 * and multiply() (kern/neon/tile_steps.h). */
#include "kern/neon/digits_neon.h"

enum { VECTORS = 2 };
_Static_assert((int)ROWS == (int)VECTORS * (int)PITH_DIGITS, "the words of a step");

INLINE void pair_load(struct sums *s, const struct pith_byte_tile *a, size_t row)
{
    const bool in_row = a->col > 0, in_group = a->col % a->group > 0;
    s->y0 = in_row ? vld1q_f32(a->y + row) : vdupq_n_f32(0);
    s->y3 = in_row ? vld1q_f32(a->y + COLS + row) : vdupq_n_f32(0);
    s->t0 = in_group ? vld1q_f32(a->t + row) : vdupq_n_f32(0);
    s->t3 = in_group ? vld1q_f32(a->t + COLS + row) : vdupq_n_f32(0);
}

INLINE void pair_store(const struct sums *s, const struct pith_byte_tile *a, size_t row)
{
    vst1q_f32(a->y + row, s->y0);
    vst1q_f32(a->y + COLS + row, s->y3);
    vst1q_f32(a->t + row, s->t0);
    vst1q_f32(a->t + COLS + row, s->t3);
}

/* Rows row .. row + 3 of the panel. */
INLINE void quarter(const struct pith_byte_tile *a, enum codes kind, size_t row)
{
    const size_t end = a->col + a->n, first = a->col / a->group;
    const uint8_t *w = a->w[0] + row * 4;
    struct sums s;
    pair_load(&s, a, row);
    for (size_t c = a->col, stop; c < end; c = stop) {
        const size_t group = c / a->group, block = c / a->block;
        const size_t at = (group - first) * PITH_PANEL_ROWS + row;
        const size_t group_end = least((group + 1) * a->group, a->cols);
        const float *scale = a->x_scale + block * VECTORS;
        stop = least((block + 1) * a->block, group_end);
        block_open(&s, a->x_less + block * ROWS, a->zero ? a->zero + at : NULL);
        multiply(&s, kind, (stop - c) / 4, w, a->x + c / 4 * ROWS);
        w += (stop - c) / 4 * code_line(kind);
        s.t0 = vfmaq_n_f32(s.t0, digits_together(s.d0, s.d1, s.d2), scale[0]);
        s.t3 = vfmaq_n_f32(s.t3, digits_together(s.d3, s.d4, s.d5), scale[1]);
        if (stop < group_end) continue;
        const float32x4_t f = vld1q_f32(a->scale + at);
        s.y0 = vfmaq_f32(s.y0, f, s.t0);
        s.y3 = vfmaq_f32(s.y3, f, s.t3);
        s.t0 = s.t3 = vdupq_n_f32(0);
    }
    pair_store(&s, a, row);
}

INLINE void whole_tile(const struct pith_byte_tile *a)
{
    for (size_t row = 0; row < COLS; row += LANES) {
        if (a->form == PITH_PANEL_LEVEL4) quarter(a, FOUR, row);
        else quarter(a, EIGHT, row);
    }
}
