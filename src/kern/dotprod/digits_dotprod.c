/* The tile of the exact product: three digits of 2 vectors by 16 rows, four of the rows at a time.
 */
#include "kern/neon/vec_neon.h"
#include "kern/ops.h"

#define INLINE static inline __attribute__((always_inline))

enum { ROWS = 6 /* words of a step */ };
#define EACH(X) X(0) X(1) X(2) X(3) X(4) X(5)

#include "kern/neon/tile_sums.h"

#include "kern/dotprod/tile_products.h"

#include "kern/neon/digit_steps.h"

void pith_digits_tile_dotprod(const struct pith_byte_tile *a)
{
    whole_tile(a);
}

/* Words are moved as floats, which changes no bit. */
void pith_digits_words_dotprod(size_t words, size_t first, size_t count, const int8_t *q,
                               uint32_t *x)
{
    pith_transpose_scalar(PITH_DIGITS * count, words, (const float *)(const void *)q, words,
                          (float *)(void *)(x + PITH_DIGITS * first), ROWS);
}
