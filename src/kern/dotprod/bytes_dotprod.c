/* The tile of the fast product: 8 vectors by 16 rows, four of the rows at a time. */
#include "kern/neon/planes_neon.h"
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

/* Bytes less 128: integers of more than 4 bits, or large factors. */
INLINE void unpack_signed(const struct pith_panels *m, unsigned bits, const uint8_t *at, size_t n,
                          uint8_t *dst)
{
    const size_t step = pith_panel_step(bits);
    for (; n > 0; n -= step, at += pith_panel_span(bits, step))
        for (size_t k = 0; k < step / 4; k++, dst += PITH_PANEL_LINE)
            for (size_t quarter = 0; quarter < 4; quarter++) {
                const uint8x16_t v = planes_word(bits, at, quarter, (int)k);
                const uint8x16_t u = m->factors ? factors_of(m, v) : v;
                vst1q_u8(dst + 16 * quarter, veorq_u8(u, vdupq_n_u8(128)));
            }
}

const uint8_t *pith_bytes_unpack_dotprod(const struct pith_panels *m, size_t panel, size_t col,
                                         size_t n, bool few, uint8_t *dst)
{
    const uint8_t *at = pith_panel_at(m, panel, col);
    if (m->form == PITH_PANEL_LEVEL4 && m->factors != PITH_FACTORS_LARGE)
        return pith_bytes_unpack_neon(m, panel, col, n, few, dst);
    if (m->bits == 4) unpack_signed(m, 4, at, n, dst);
    else if (m->bits == 5) unpack_signed(m, 5, at, n, dst);
    else if (m->bits == 6) unpack_signed(m, 6, at, n, dst);
    else unpack_signed(m, 8, at, n, dst);
    return dst;
}

/* Words are moved as floats, which changes no bit. */
void pith_bytes_words_dotprod(size_t words, size_t first, size_t count, const int8_t *q,
                              uint32_t *x)
{
    pith_transpose_scalar(count, words, (const float *)(const void *)q, words,
                          (float *)(void *)(x + first), ROWS);
}
