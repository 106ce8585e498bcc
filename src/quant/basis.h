/* quant/basis.h: a change of the whole model's basis, which a transform (quant/transform.h) may
 * choose before the first block. Where each rotation goes is quantize/site/change_basis.h's
 * business:
 *
 *     stream   the residual stream: everything between embedding and head
 *     head     values of one attention head, between v and o
 *     o, down  the inputs of these: over heads and after the activation, where nothing before can
 *              take the rotation in. So the program that computes must do it, and it is a Sylvester
 *              matrix
 *              without signs (num/hadamard.h). One of o undoes one of heads: one of them is 0. */
#ifndef PITH_QUANT_BASIS_H
#define PITH_QUANT_BASIS_H

#include "quant/rotation.h"

/* What is to be rotated, and how: a block divides its width; 0 leaves it as it is. */
struct pith_basis_plan {
    uint32_t hidden, head_dim, attention, ffn; /* attention: all heads, the width of o's input */
    bool fixed;                                /* the stream cannot be rotated */
    uint32_t stream, head, o, down;            /* blocks */
    uint64_t seed;                             /* of the signs */
};

struct pith_basis {
    struct pith_rotation stream, head, o, down; /* dim 0: none */
};

/* PITH_ARG when a block does not go with its width, or o or down is no power of two. On failure *b
 * owns nothing. */
enum pith_status pith_basis_init(struct pith_basis *b, const struct pith_basis_plan *plan,
                                 struct pith_error *err);
/* Frees what b owns and zeroes it. */
void pith_basis_free(struct pith_basis *b);

#endif
