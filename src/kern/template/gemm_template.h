/* kern/template/gemm_template.h: the tile of gemm_tile in registers: TILE_ROWS(X) expands X(0)
 * X(1) ..., one a row; a row is two vectors (vn) wide. Included after the vec header, with
 * TILE_ROWS defined.
 *
 * A step of k loads one row of b, broadcasts each element of a column of a, and feeds every
 * element's own chain, so the order of sums is the definition's. There must be registers for 2 *
 * rows + 3 vectors. */
#include "kern/ops.h"

/* The addresses of the rows of c are computed anew after the loop: they would take registers that
 * the sums need. */
#define HIDE(p) __asm__("" : "+r"(p))

#define COUNT_ROW(i) +1
enum { TILE_HEIGHT = TILE_ROWS(COUNT_ROW) };

static inline void gemm_tile(size_t k, const float *a, const float *b, size_t ldb, float *c,
                             size_t ldc, enum pith_tile_mode mode, float alpha)
{
#define ZERO(i) vn s##i = vn_zero(), t##i = vn_zero();
    TILE_ROWS(ZERO)
    if (mode == PITH_TILE_ADD) {
#define START(i)                                                                                   \
    s##i = vn_load(c + i * ldc);                                                                   \
    t##i = vn_load(c + i * ldc + VN_WIDTH);
        TILE_ROWS(START)
    }
    for (size_t p = 0; p < k; p++) {
        const vn x = vn_load(b), y = vn_load(b + VN_WIDTH);
#define STEP(i)                                                                                    \
    {                                                                                              \
        const vn e = vn_set(a[i]);                                                                 \
        s##i = vn_fma(e, x, s##i);                                                                 \
        t##i = vn_fma(e, y, t##i);                                                                 \
    }
        TILE_ROWS(STEP)
        a += TILE_HEIGHT;
        b += ldb;
    }
    HIDE(c);
    if (mode == PITH_TILE_SCALE) {
        const vn f = vn_set(alpha);
#define SCALE(i)                                                                                   \
    s##i = vn_fma(f, s##i, vn_load(c + i * ldc));                                                  \
    t##i = vn_fma(f, t##i, vn_load(c + i * ldc + VN_WIDTH));
        TILE_ROWS(SCALE)
    }
#define STORE(i)                                                                                   \
    vn_store(c + i * ldc, s##i);                                                                   \
    vn_store(c + i * ldc + VN_WIDTH, t##i);
    TILE_ROWS(STORE)
}
#undef HIDE
#undef COUNT_ROW
#undef ZERO
#undef START
#undef STEP
#undef SCALE
#undef STORE
