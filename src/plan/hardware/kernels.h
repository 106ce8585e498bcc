/* plan/hardware/kernels.h: how fast pith itself would be on a machine whose kernels were measured:
 * the sum of what each matrix and each cache takes, in place of one share of a roofline for all. */
#ifndef PITH_PLAN_HARDWARE_KERNELS_H
#define PITH_PLAN_HARDWARE_KERNELS_H

#include "plan/capacity.h"

#include "base/json.h"
#include "plan/hardware/hardware.h"

/* A machine's "kernels" are an array of {"grid", "cache" or "rest": name, "rows": [n, ...],
 * "seconds": [s, ...]}: what one weight takes that is multiplied with n rows at once ("none": in 16
 * bits); or a query's head, position and number of a key and a value where n positions are at work
 * at once; or, of the rest, "layer", a number of the model's width and a position. n rises.
 * PITH_FORMAT says what is no such thing. */
enum pith_status pith_kernels_check(const json_t *kernels, const char *where,
                                    struct pith_error *err);

/* A step of so many sequences, each with so many positions at work, behind `depth` others on
 * average, each giving one row of logits. */
struct pith_kernel_step {
    double sequences, positions, depth;
};
/* Seconds of the step; 0 where the machine's figures lack a grid or the cache that it uses. */
double pith_kernels_seconds(const struct pith_deployment *d, const struct pith_hardware *h,
                            const struct pith_kernel_step *step);

#endif
