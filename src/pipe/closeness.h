/* pipe/closeness.h: how far a stored matrix is from its original. */
#ifndef PITH_PIPE_CLOSENESS_H
#define PITH_PIPE_CLOSENESS_H

#include "num/qmat.h"

#include <stdbool.h>

/* *error = ||W - Q||_F / ||W||_F, in double. When `rescaled`, a transform multiplied columns and
 * rows of Q by unknown factors: the error is then the least that some diagonal scaling of rows and
 * columns of W leaves (alternating least squares, until it no longer helps), which a wrong,
 * shuffled or damaged matrix cannot make small. False when memory is out. */
bool pith_relative_error(const struct pith_weight *q, const struct pith_weight *w, bool rescaled,
                         double *error);

#endif
