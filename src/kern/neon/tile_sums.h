/* kern/neon/tile_sums.h: the sums of a tile of the fast product, of four rows of a panel at a time,
 * since these are a register. The including file has defined ROWS, the vectors of a tile, and
 * EACH(X), X of the number of each. */
#include "kern/neon/factors.h"

enum { COLS = PITH_PANEL_ROWS, LANES = 4 };

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
