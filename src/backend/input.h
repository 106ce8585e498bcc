/* backend/input.h: products of linears whose input is treated first, as struct pith_input says:
 * measured as the hardware that the checkpoint is for would compute.
 *
 * Integers on both sides are multiplied as integers: where the packed matrix and the grid of x
 * allow it (no outlier columns; scales that cover the same columns), the product is that of
 * kern/panel.h's panel_dot_bytes with x's own codes and scales, for any number of rows and in any
 * mode. A zero point of x is taken off at the end, as scale * zero times the sums of W's rows,
 * which come from a row of ones. Everything else multiplies the rounded values by pith_linear();
 * FP8, FP6 and FP4 lose nothing by that. */
#ifndef PITH_BACKEND_INPUT_H
#define PITH_BACKEND_INPUT_H

#include "backend/backend.h"
#include "backend/pack.h"

/* What is done to the input of that matrix; all zero for one that is not quantized. */
struct pith_input pith_weight_input(const struct pith_weight *w);

/* What the backend's own memory holds of many rows of an input: bytes or digits for tiles, and sums
 * over groups; until it makes others of another. */
struct pith_site_made {
    const float *x; /* NULL: nothing */
    uint64_t bytes, sums; /* which time its memory was filled, counted from 1; 0: not for this */
    size_t rows, sums_rows, block, digits, group;
    int32_t factor; /* that sums of blocks are multiplied by */
};

/* The input of a site, which several linears read. */
struct pith_site_input {
    const float *x; /* [n][cols] */
    size_t n, cols;
    float *work;        /* [n][cols]; may be x when all linears treat it alike */
    bool hadamard_done; /* x is multiplied by the Hadamard matrix already */
    bool treated;       /* work holds what `done` makes of x */
    struct pith_input done;
    struct pith_site_made made; /* of x or work by the backend: none at first */
};

/* y[n][rows] = treated(x) W^T + bias. Linears of one treatment share the work of it. */
void pith_linear_site(struct pith_backend *b, const struct pith_weight *w, const float *bias,
                      struct pith_site_input *in, float *y);

/* The same of several linears of the site; x of the products is not read, no y is the site's x, and
 * `products` is overwritten. Of one row those without treatment go into one run over the threads,
 * as pith_linear_products() has it. */
void pith_linear_site_products(struct pith_backend *b, struct pith_product *products, size_t count,
                               struct pith_site_input *in);

/* y = x[n][cols] treated; y may be x. */
void pith_input_apply(struct pith_backend *b, const struct pith_input *in, const float *x, size_t n,
                      size_t cols, float *y);

#endif
