/* bitsandbytes' FP4: sign and three bits that index levels in no order. Neither the values nor
 * the codes are those of E2M1. */
#include "num/codebooks.h"
#include "num/elements/elements.h"

#include <math.h>
#include <stddef.h>

/* The thresholds of the magnitudes are those of bitsandbytes' kernels to their printed digits, not
 * midpoints to the last bit. A magnitude on one takes the smaller level, so those of the negative
 * half are the next floats away from zero. */
/* clang-format off */
const struct pith_codebook pith_bnb_fp4_book = {
    .level = {
        -1.0f, -8.0f / 12, -0.5f, -4.0f / 12, -0.25f, -2.0f / 12, -0.0625f / 12, -0.0f,
        0.0f, 0.0625f / 12, 2.0f / 12, 0.25f, 4.0f / 12, 0.5f, 8.0f / 12, 1.0f,
    },
    .threshold = {
        -0x1.aaaaacp-1f, -0x1.2aaaa2p-1f, -0x1.aaaaaep-2f, -0x1.2aaaacp-2f,
        -0x1.aaaaacp-3f, -0x1.600002p-4f, -0x1.555574p-9f, -0x1p-149f,
        0.00260417f, 0.0859375f, 0.20833333f, 0.29166667f,
        0.4166667f, 0.583333f, 0.8333333f,
    },
    .code = {11, 10, 13, 12, 15, 14, 9, 8, 0, 1, 6, 7, 4, 5, 2, 3},
};
/* clang-format on */

float pith_bnb_fp4_decode(uint32_t code)
{
    size_t k = 0;
    while (pith_bnb_fp4_book.code[k] != (code & 15)) k++;
    return pith_bnb_fp4_book.level[k];
}

/* NaN encodes zero. */
uint32_t pith_bnb_fp4_encode(float x)
{
    size_t k = 0;
    if (isnan(x)) return 0;
    for (size_t i = 0; i < PITH_BOOK_LEVELS - 1; i++) k += x > pith_bnb_fp4_book.threshold[i];
    return pith_bnb_fp4_book.code[k];
}
