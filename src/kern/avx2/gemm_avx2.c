/* 6 x 16: twelve sums, two vectors of b and one of a in the sixteen registers. */
#include "kern/avx2/vec_avx2.h"

#define TILE_ROWS(X) X(0) X(1) X(2) X(3) X(4) X(5)
#include "kern/template/gemm_template.h"

void pith_gemm_tile_avx2(size_t k, const float *a, const float *b, size_t ldb, float *c, size_t ldc,
                         enum pith_tile_mode mode, float alpha)
{
    gemm_tile(k, a, b, ldb, c, ldc, mode, alpha);
}
