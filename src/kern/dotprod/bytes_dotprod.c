/* The tile of the fast product: 8 vectors by 16 rows, four of the rows at a time. */
#include "kern/neon/vec_neon.h"
#include "kern/ops.h"

#define INLINE static inline __attribute__((always_inline))

enum { ROWS = 8 };
#define EACH(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)

#include "kern/neon/tile_sums.h"

#include "kern/dotprod/tile_products.h"

#include "kern/neon/tile_steps.h"

void pith_bytes_tile_dotprod(const struct pith_byte_tile *a)
{
    whole_tile(a);
}

const uint8_t *pith_bytes_unpack_dotprod(const struct pith_panels *m, size_t panel, size_t col,
                                         size_t n, bool few, uint8_t *dst)
{
    const uint8_t *const start = dst;
    const bool level4 = m->form == PITH_PANEL_LEVEL4;
    if (level4 && m->factors != PITH_FACTORS_LARGE) {
        pith_bytes_unpack_neon(m, panel, col, n, few, dst);
        return start;
    }
    const size_t width = level4 ? 8 : 4, end = n / width * PITH_PANEL_LINE;
    const uint8_t *line = m->codes + (panel * pith_panel_lines(m) + col / width) * PITH_PANEL_LINE;
    const uint8x16_t turn = vdupq_n_u8(128);
    for (size_t i = 0; !level4 && i < end; i += 16)
        vst1q_u8(dst + i, veorq_u8(vld1q_u8(line + i), turn));
    for (size_t i = 0; level4 && i < end; i += 16) {
        const uint8x16_t v = vld1q_u8(line + i);
        uint8_t *to = dst + i / PITH_PANEL_LINE * PITH_PANEL_LINE + i;
        vst1q_u8(to, veorq_u8(factors_of(m, vandq_u8(v, vdupq_n_u8(15))), turn));
        vst1q_u8(to + PITH_PANEL_LINE, veorq_u8(factors_of(m, vshrq_n_u8(v, 4)), turn));
    }
    return start;
}

/* Words are moved as floats, which changes no bit. */
void pith_bytes_words_dotprod(size_t words, size_t first, size_t count, const int8_t *q,
                              uint32_t *x)
{
    pith_transpose_scalar(count, words, (const float *)(const void *)q, words,
                          (float *)(void *)(x + first), ROWS);
}
