/* Scales that are quantized again. */
#include "num/qmat.h"

#include "base/mem.h"
#include "num/codebook.h"

struct pith_nested *pith_nested_new(const struct pith_qmat *q)
{
    const size_t count = pith_qmat_scale_count(q);
    const size_t runs = (count - 1) / PITH_DOUBLE_QUANT_BLOCK + 1;
    size_t bytes;
    if (!pith_mul_size(runs, sizeof(float), &bytes) || !pith_add_size(bytes, count, &bytes) ||
        !pith_add_size(bytes, sizeof(struct pith_nested), &bytes))
        return NULL;
    struct pith_nested *n = pith_zalloc(bytes, 1);
    if (!n) return NULL;
    n->absmax = (float *)(void *)(n + 1);
    n->code = (uint8_t *)(n->absmax + runs);
    return n;
}

enum pith_status pith_qmat_nest_scales(struct pith_qmat *q, struct pith_error *err)
{
    const size_t count = pith_qmat_scale_count(q);
    struct pith_nested *n = pith_nested_new(q);
    if (!n) return pith_fail_nomem(err, "scales quantized again");
    pith_double_quant_encode(q->scales, count, n->code, n->absmax, &n->offset);
    pith_double_quant_decode(n->code, n->absmax, n->offset, count, q->scales);
    pith_free(q->nested);
    q->nested = n;
    return PITH_OK;
}
