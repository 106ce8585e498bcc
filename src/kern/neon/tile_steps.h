/* kern/neon/tile_steps.h: the way of a tile of the fast product through its columns. The including
 * file has included kern/neon/tile_sums.h and defined
 *
 *     code_line(kind)                   bytes of a panel's unpacked codes for a word: four columns
 *     multiply(s, kind, words, w, x)    adds the products of so many words to the sums d */
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
INLINE void quarter(const struct pith_byte_tile *a, enum codes kind, size_t row)
{
    const size_t end = a->col + a->n, first = a->col / a->group;
    const size_t line = code_line(kind);
    const uint8_t *w = a->w[0] + row * 4;
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
        multiply(&s, kind, words, w, a->x + c / 4 * ROWS);
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

INLINE void whole_tile(const struct pith_byte_tile *a)
{
    for (size_t row = 0; row < COLS; row += LANES) {
        if (a->factors == PITH_FACTORS_SMALL) quarter(a, SMALL, row);
        else if (a->form == PITH_PANEL_LEVEL4) quarter(a, FOUR, row);
        else quarter(a, EIGHT, row);
    }
}
