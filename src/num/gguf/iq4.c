/* The 16 levels of GGUF's IQ4_NL and IQ4_XS, denser towards zero. A value half-way between two
 * takes the lower one. */
#include "num/codebooks.h"
#include "num/elements/elements.h"

#include <math.h>
#include <stddef.h>

/* clang-format off */
const struct pith_codebook pith_iq4_book = {
    .level = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113},
    .threshold = {-115.5f, -93.5f, -74, -57, -42, -28.5f, -16, -4.5f, 7, 19, 31.5f, 45.5f, 61, 79,
                  101},
    .code = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
};
/* clang-format on */

float pith_iq4_decode(uint32_t code)
{
    return pith_iq4_book.level[code & 15];
}

/* There is no zero: NaN takes 1. */
uint32_t pith_iq4_encode(float x)
{
    uint32_t code = 0;
    if (isnan(x)) return 8;
    for (size_t i = 0; i < PITH_BOOK_LEVELS - 1; i++) code += x > pith_iq4_book.threshold[i];
    return code;
}
