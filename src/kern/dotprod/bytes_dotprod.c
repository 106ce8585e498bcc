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
