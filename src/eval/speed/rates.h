/* eval/speed/rates.h: how long this machine's kernels take: products of matrices on a grid with
 * some rows, and attention over a cache of a format. Each is a median of many calls on memory that
 * no cache of the processor holds; with one thread it is of processor time, which others at work
 * disturb less. */
#ifndef PITH_EVAL_SPEED_RATES_H
#define PITH_EVAL_SPEED_RATES_H

#include "backend/backend.h"
#include "num/grid.h"

/* seconds[i] = what a weight of a matrix takes that is multiplied with rows[i] rows at once. A grid
 * without a format: weights in bfloat16. Takes up to a third of a gibibyte. PITH_UNSUPPORTED for a
 * grid that nothing can be put on as it is read. */
enum pith_status pith_rate_matrix(struct pith_backend *be, const struct pith_grid *grid,
                                  const size_t *rows, size_t count, double *seconds,
                                  struct pith_error *err);
/* The same of a cache by its name ("int8:token"), for each query's head, position that it sees and
 * number of a key and a value, where rows[i] positions of a sequence are at work at once; four
 * heads of queries share keys and values. */
enum pith_status pith_rate_cache(struct pith_backend *be, const char *name, const size_t *rows,
                                 size_t count, double *seconds, struct pith_error *err);

/* The same of what a layer does between its matrices, for each number of its width and each of
 * rows[i] positions at once: two norms, two sums, a rotation of the width and a gate of eight
 * thirds of it, as layers of the Llama family have. */
enum pith_status pith_rate_rest(struct pith_backend *be, const size_t *rows, size_t count,
                                double *seconds, struct pith_error *err);

#endif
