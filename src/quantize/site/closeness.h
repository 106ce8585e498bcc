/* quantize/site/closeness.h: how far a stored matrix is from its original. */
#ifndef PITH_QUANTIZE_SITE_CLOSENESS_H
#define PITH_QUANTIZE_SITE_CLOSENESS_H

#include "backend/backend.h"
#include "num/qmat.h"

#include <stdbool.h>

/* *error = ||W - Q||_F / ||W||_F, in double. When `rescaled`, a transform multiplied columns and
 * rows of Q by unknown factors: the error is then the least that some diagonal scaling of rows and
 * columns of W leaves (alternating least squares, until it no longer helps), which a wrong,
 * shuffled or damaged matrix cannot make small. Over all threads of be, the same bits for any
 * number of them. False when memory is out. */
bool pith_relative_error(struct pith_backend *be, const struct pith_weight *q,
                         const struct pith_weight *w, bool rescaled, double *error);
/* Bytes that it takes. */
uint64_t pith_relative_error_bytes(uint32_t rows, uint32_t cols, unsigned threads, bool rescaled);

/* The squares of some rows: of the difference and of the original, in double, each summed in lanes
 * (kern/ops.h). */
struct pith_row_squares {
    double difference, original;
};
/* The error of a matrix whose rows have these. */
double pith_relative_from_squares(const struct pith_row_squares *rows, uint32_t count);

#endif
