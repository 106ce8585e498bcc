/* model/chain.h: some blocks of a model, one after the other, there and back: a tape each
 * (model/grad/block_grad.h), so that gradients of a loss of the last one's output reach all. */
#ifndef PITH_MODEL_CHAIN_H
#define PITH_MODEL_CHAIN_H

#include "model/grad/block_grad.h"

struct pith_chain {
    struct pith_tape *tape; /* [most] */
    unsigned most;
    /* The caller's, borrowed: [count], 1 to `most`, of which the first reads what goes in. */
    const struct pith_block *const *block;
    unsigned count;
    size_t floats;  /* of what goes from one block to the next: [rows][hidden], carried */
    float *between; /* [most - 1][floats] */
    float *d;       /* [rows][hidden]: a gradient on its way from one block to another */
    void *memory;
};
/* For sequences of up to `rows` through up to `most` blocks, at least 1 of each (else PITH_ARG); m
 * and be are borrowed. On failure *c owns nothing. */
enum pith_status pith_chain_init(struct pith_chain *c, struct pith_backend *be,
                                 const struct pith_model *m, unsigned most, size_t rows,
                                 struct pith_error *err);
void pith_chain_free(struct pith_chain *c);
/* Bytes that pith_chain_init() takes; UINT64_MAX when they overflow. */
uint64_t pith_chain_bytes(const struct pith_model *m, unsigned threads, unsigned most, size_t rows);

/* out = block[count - 1](... block[0](x)), each as pith_tape_forward() of the tape of its place.
 * Errors as there. */
enum pith_status pith_chain_forward(struct pith_chain *c, const float *x, size_t n, float *out,
                                    struct pith_error *err);
/* Once after a forward pass of the same blocks; g[count] is what to make of each block's gradient,
 * as of pith_tape_backward(): d_out of the last and d_x of the first are the caller's, the others'
 * are not looked at. */
void pith_chain_backward(struct pith_chain *c, const struct pith_tape_grad *g);

#endif
