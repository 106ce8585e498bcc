#include "num/codebook.h"

#include "num/codebooks.h"
#include "num/elements/elements.h"

#include <math.h>

const struct pith_codebook *pith_codebook_of(const struct pith_format *f)
{
    if (f->encode == pith_iq4_encode) return &pith_iq4_book;
    return f->encode == pith_nf4_encode ? &pith_nf4_book : &pith_bnb_fp4_book;
}

void pith_codebook_encode(const struct pith_format *f, const float *x, size_t n, uint8_t *codes,
                          float *absmax)
{
    float amax = 0;
    bool finite = true;
    for (size_t i = 0; i < n; i++) {
        finite = finite && isfinite(x[i]);
        if (fabsf(x[i]) > amax) amax = fabsf(x[i]);
    }
    /* Below this the reciprocal would be infinite. */
    const float inverse = 1.0f / (amax > 1e-38f ? amax : 1e-38f);
    for (size_t i = 0; i < n; i++) codes[i] = (uint8_t)f->encode(finite ? x[i] * inverse : 0);
    *absmax = finite ? amax : NAN;
}

void pith_codebook_decode(const struct pith_format *f, const uint8_t *codes, size_t n, float absmax,
                          float *out)
{
    for (size_t i = 0; i < n; i++) out[i] = f->decode(codes[i]) * absmax;
}
