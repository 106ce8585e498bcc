/* 12 x 8: twenty-four sums, two vectors of b and one of a in the thirty-two registers. */
#include "kern/neon/vec_neon.h"

#define TILE_ROWS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)
#include "kern/template/gemm_template.h"

void pith_gemm_tile_neon(size_t k, const float *a, const float *b, size_t ldb, float *c, size_t ldc,
                         enum pith_tile_mode mode, float alpha)
{
    gemm_tile(k, a, b, ldb, c, ldc, mode, alpha);
}
