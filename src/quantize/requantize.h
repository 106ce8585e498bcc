/* quantize/requantize.h: linears whose input is quantized already: what is made of them. */
#ifndef PITH_QUANTIZE_REQUANTIZE_H
#define PITH_QUANTIZE_REQUANTIZE_H

#include "quantize/job.h"

/* Sets of a linear whose grid is chosen which grid the input has it on (`from`), and whether its
 * codes stay (`keeps`). PITH_UNSUPPORTED for one of few bits without a request to quantize it
 * again. */
enum pith_status pith_job_requantize(const struct pith_job *job, struct pith_choice *c,
                                     struct pith_error *err);
/* Whether that many weights on a grid (format NULL: on none) have lost so much that nobody is to
 * quantize them again unasked: --requantize. */
bool pith_grid_is_lossy(const struct pith_grid *grid, uint32_t rows, uint32_t cols);

#endif
