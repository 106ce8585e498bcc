/* choose/kv_fisher.h: how sensitive a model's output is to each channel of its keys and values: of
 * each layer the mean square of the derivative of a drawn token's log-probability with respect to a
 * key before its rotary embedding, or to a value (the Fisher information, by which KVQuant weighs).
 */
#ifndef PITH_CHOOSE_KV_FISHER_H
#define PITH_CHOOSE_KV_FISHER_H

#include "choose/kv_levels.h"

struct pith_kv_fisher {
    double *memory;
    size_t *at; /* [2 * layers + 1]: where keys [heads][key] of a layer begin, then its values */
};
static inline const double *pith_kv_fisher_keys(const struct pith_kv_fisher *f, uint32_t layer)
{
    return f->memory + f->at[2 * layer];
}
static inline const double *pith_kv_fisher_values(const struct pith_kv_fisher *f, uint32_t layer)
{
    return f->memory + f->at[2 * layer + 1];
}
/* From the first tokens of some of the windows. PITH_UNSUPPORTED, or PITH_ARG, where no gradient is
 * made: of quantized linears, of layers that carry more than the stream or have more than 2 GiB in
 * float32; on failure *out owns nothing. */
enum pith_status pith_kv_fisher_measure(const struct pith_kv_levels_job *job,
                                        const struct pith_kv_windows *windows,
                                        struct pith_kv_fisher *out, struct pith_error *err);
void pith_kv_fisher_free(struct pith_kv_fisher *f);
/* Bytes that it takes; 0 where a block is too large for it. */
uint64_t pith_kv_fisher_bytes(const struct pith_model *m, const struct pith_backend *be,
                              size_t length);

#endif
