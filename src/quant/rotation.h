/* quant/rotation.h: an orthogonal change of basis of vectors, folded into the matrices that write
 * or read them.
 *
 *     R x = H (signs * x) / sqrt(block), over each block of x by itself
 *
 * H being the Hadamard matrix of num/hadamard.h. One large element of x becomes `block` elements
 * that are sqrt(block) times smaller, so that no element needs a grid's range for itself (QuaRot,
 * Ashkboos et al. 2024). Products are formed in double and rounded once. */
#ifndef PITH_QUANT_ROTATION_H
#define PITH_QUANT_ROTATION_H

#include "base/pool.h"
#include "base/rng.h"
#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

struct pith_rotation {
    uint32_t dim;   /* of the vectors; 0: nothing is rotated */
    uint32_t block; /* divides dim */
    uint32_t core;  /* of the Hadamard matrix */
    int8_t *matrix; /* [core][core], owned */
    int8_t *signs;  /* [dim], owned; NULL: all are 1 */
};

/* Without a rng the signs are all 1; with it they are the low bits of its next dim numbers.
 * PITH_ARG when block does not divide dim or there is no Hadamard matrix of that order. On failure
 * *r owns nothing. */
enum pith_status pith_rotation_init(struct pith_rotation *r, uint32_t dim, uint32_t block,
                                    struct pith_rng *rng, struct pith_error *err);
/* Frees what r owns and zeroes it. */
void pith_rotation_free(struct pith_rotation *r);

/* A matrix w[rows][cols] that reads rotated vectors, W R^T: each run of dim columns is rotated (so
 * cols is a multiple of dim, and a vector is a matrix of one row). */
enum pith_status pith_rotate_inputs(struct pith_pool *pool, const struct pith_rotation *r, float *w,
                                    size_t rows, size_t cols, struct pith_error *err);
/* One that writes them, R W: each run of dim rows is rotated. */
enum pith_status pith_rotate_outputs(struct pith_pool *pool, const struct pith_rotation *r,
                                     float *w, size_t rows, size_t cols, struct pith_error *err);
/* Bytes of scratch that either takes. */
uint64_t pith_rotation_scratch(const struct pith_rotation *r, unsigned threads);

#endif
