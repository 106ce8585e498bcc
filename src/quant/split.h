/* quant/split.h: stage 2, what is stored off the grid, or dropped. The table of splits is in
 * quant/tables.c; `none` keeps nothing out. */
#ifndef PITH_QUANT_SPLIT_H
#define PITH_QUANT_SPLIT_H

#include "backend/backend.h"
#include "base/status.h"
#include "num/qmat.h"
#include "quant/stats.h"

/* What the rounder does not put on the grid. All zero: every weight goes on the grid. */
struct pith_off_grid {
    /* NULL, or a bit a weight, those of a row in pith_zeros_stride(cols) bytes, LSB first: set, the
     * weight becomes 0. */
    uint8_t *zeros;
    /* Of each four neighbouring inputs of a row two become 0; which, the rounder says as it goes.
     * Only for rounders that keep(). */
    bool choose;
    /* NULL, or weights that stay unchanged, off the grid: the matrix has 0 in their place; their
     * values are any float32. */
    struct pith_sparse *sparse;
};
static inline size_t pith_zeros_stride(uint32_t cols)
{
    return ((size_t)cols + 7) / 8;
}
static inline bool pith_off_grid_zero(const struct pith_off_grid *k, uint32_t cols, size_t row,
                                      uint32_t c)
{
    return k->zeros && (k->zeros[row * pith_zeros_stride(cols) + c / 8] >> c % 8 & 1);
}
/* Frees what k owns and zeroes it. */
void pith_off_grid_free(struct pith_off_grid *k);

struct pith_split_job {
    struct pith_backend *backend;
    uint32_t rows, cols;
    float *w; /* [rows][cols], finite; what is taken off the grid becomes 0 */
    const struct pith_stats *stats;
    double value; /* of the option */
    bool keeps;   /* the rounder keeps() */
};
struct pith_split {
    const char *name;
    const char *summary;
    unsigned needs;
    /* It makes zeros: also of weights that stay in 16 bits. Two of each four neighbouring inputs of
     * a row are 0 afterwards. */
    bool two_four;
    /* Of those: a rounder that keeps() chooses them. */
    bool left;
    /* Weights are stored off the grid: pith_sparse_count(rows, cols, value) of them. */
    bool sparse;
    /* It concerns columns of the inputs with a magnitude of at least the option's value: the
     * weights stay whole, and the value goes to struct pith_input. */
    bool of_inputs;
    /* NULL: the name takes no option. Else the value of what follows the name and a colon, "" when
     * nothing does; PITH_ARG says what is right. */
    enum pith_status (*option)(const char *text, double *value, struct pith_error *err);
    /* Fills *off_grid, which is zeroed; free it with pith_off_grid_free(), also after a failure.
     * PITH_UNSUPPORTED when the matrix does not have the shape for it, PITH_ARG when the statistics
     * are missing. */
    enum pith_status (*run)(const struct pith_split_job *job, struct pith_off_grid *off_grid,
                            struct pith_error *err);
};
/* All of them, *count; one by its name, NULL when there is none. */
const struct pith_split *const *pith_splits(size_t *count);
const struct pith_split *pith_split_find(const char *name);

#endif
