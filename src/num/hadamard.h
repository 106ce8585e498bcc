/* num/hadamard.h: Hadamard matrices: entries +1 and -1, rows at right angles to each other.
 *
 * One of order 2^k is made by doubling (Sylvester 1867), and its product takes k additions an
 * element. One of order m 2^k is the Kronecker product of a core of order m and that of order 2^k:
 * element a 2^k + b of a vector goes with row a of the core and row b of the other. Cores come from
 * the squares of a finite field (Paley 1933): m = q + 1 for a prime power q = 3 mod 4, and
 * m = 2 (q + 1) for a prime power q = 1 mod 4. So the same width has the same matrix everywhere. */
#ifndef PITH_NUM_HADAMARD_H
#define PITH_NUM_HADAMARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Cores go up to this order: larger ones would make the product slow. */
#define PITH_HADAMARD_CORE 1024

/* The order of the core of the matrix of order n: 1 for a power of two; 0 when none is made here.
 */
uint32_t pith_hadamard_core(uint32_t n);
/* Writes the core's entries, m x m, row-major; false when memory is out or there is none of that
 * order. A core need not be symmetric. */
bool pith_hadamard_fill(uint32_t m, int8_t *entries);
/* The largest divisor of dim for which a matrix is made here: dim itself for the widths of nearly
 * all models, at least the largest power of two in dim. dim > 0. */
uint32_t pith_hadamard_divisor(uint32_t dim);
/* The largest power of two that divides dim and does not pass `limit`; limit > 0. */
uint32_t pith_hadamard_power(uint32_t dim, uint32_t limit);

/* Multiplies each block of `block` values of n rows of dim by the Sylvester matrix of that order,
 * divided by sqrt(block), in place: an orthogonal, symmetric change of basis, its own inverse.
 * block is a power of two and divides dim. Sums are taken pair by pair over halves, quarters and so
 * on, and scaled last, so the bits are the same on every machine. By the calling thread. */
void pith_hadamard_rows(float *x, size_t n, size_t dim, uint32_t block);

#endif
