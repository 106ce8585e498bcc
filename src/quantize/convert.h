/* quantize/convert.h: linears that are quantized already, for another container. */
#ifndef PITH_QUANTIZE_CONVERT_H
#define PITH_QUANTIZE_CONVERT_H

#include "quantize/job.h"

struct pith_run;

/* Finds out what the input stores: choices[].stored, and what it says of the container's
 * options. PITH_UNSUPPORTED for a quantized head. */
enum pith_status pith_convert_describe(struct pith_job *job, struct pith_error *err);
/* A matrix on a grid, and the options of the whole model. */
struct pith_convert_case {
    const struct pith_grid *from;
    uint32_t rows, cols;
    const struct pith_container_opts *opts;
};
/* Whether the container can hold such a matrix with its codes: on its own grid, or on the one of
 * least bits to which they can go (num/recode.h). *out is that grid. */
bool pith_convert_holds(const struct pith_container *c, const struct pith_convert_case *x,
                        struct pith_grid *out);
/* Decides whether the container takes a linear as it is stored or as the recipe's grid.
 * PITH_UNSUPPORTED when neither is possible. */
enum pith_status pith_convert_choose(const struct pith_job *job, struct pith_choice *c,
                                     struct pith_error *err);
/* Bytes that it takes at most. */
uint64_t pith_convert_bytes(const struct pith_job *job);
/* Converts those of the list that have a grid and appends their entries, each with
 * "from" (its grid in the input) and "lossless" (whether it stands for the same weights, to the
 * bit). */
enum pith_status pith_convert_linears(struct pith_run *r, const struct pith_choice *list,
                                      size_t count, json_t *linears, struct pith_error *err);
/* The codes of a linear that the input has on the choice's grid already (`keeps`), with
 * its scales and zero points as the container stores them. On failure *q owns nothing. */
enum pith_status pith_convert_keep(const struct pith_job *job, const struct pith_choice *c,
                                   struct pith_qmat *q, struct pith_error *err);

#endif
