/* quant/basis.h: a change of the whole model's basis, which a transform (quant/transform.h) may
 * choose before the first block. Where each rotation goes is pipe/turn.h's business:
 *
 *     stream   the residual stream: everything between embedding and head
 *     head     values of one attention head, between v and o
 *     down     the input of down, which is not linear in what comes before: it must be rotated by
 *              whoever computes, and so is a Sylvester matrix without signs (num/hadamard.h) */
#ifndef PITH_QUANT_BASIS_H
#define PITH_QUANT_BASIS_H

#include "quant/rotation.h"

/* What is to be rotated, and how: a block divides its width; 0 leaves it as it is. */
struct pith_basis_plan {
    uint32_t hidden, head_dim, ffn;
    uint32_t stream, head, down; /* blocks */
    uint64_t seed;               /* of the signs */
};

struct pith_basis {
    struct pith_rotation stream, head, down; /* dim 0: none */
};

/* PITH_ARG when a block does not go with its width, or down is no power of two. On failure *b owns
 * nothing. */
enum pith_status pith_basis_init(struct pith_basis *b, const struct pith_basis_plan *plan,
                                 struct pith_error *err);
/* Frees what b owns and zeroes it. */
void pith_basis_free(struct pith_basis *b);

#endif
