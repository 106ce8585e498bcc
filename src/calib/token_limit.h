/* calib/token_limit.h: how much a single token may count in a Hessian.
 *
 * Trained models have massive activations (Sun et al. 2024, "Massive Activations in Large Language
 * Models"): at a few linears the input of one token, mostly the first of a text, has 1e3 to 3e5
 * times the squared length of the others'. X X^T is then that token's alone, and error feedback
 * fits it at the cost of all others. So a row whose squared length is above `most` times the median
 * of its window counts as if it had just that length. */
#ifndef PITH_CALIB_TOKEN_LIMIT_H
#define PITH_CALIB_TOKEN_LIMIT_H

#include "base/pool.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of the rows of a window, or of a batch of an expert's tokens. */
struct pith_token_limit {
    double most;     /* times the median; 0: there is no limit */
    double *squares; /* [2][rows], owned: squared lengths, and the same sorted; NULL: no limit */
    double length;   /* the limit of this window's rows, squared; 0: none of them is above it */
};
/* Memory for so many rows; false: out of memory. pith_token_limit_free() is due. */
bool pith_token_limit_init(struct pith_token_limit *t, double most, size_t rows);
void pith_token_limit_free(struct pith_token_limit *t);
uint64_t pith_token_limit_bytes(size_t rows);

/* Looks at x[n][dim]. Fewer than 16 rows have no limit: their median says little. The same bits on
 * every machine and for any number of threads. */
void pith_token_limit_find(struct pith_token_limit *t, struct pith_pool *pool, const float *x,
                           size_t n, size_t dim);
/* What row i of these is multiplied by: 1, or less where it is above the limit. */
float pith_token_limit_of(const struct pith_token_limit *t, size_t i);

#endif
