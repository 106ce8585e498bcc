/* eval/depth.h: sums by where in its window a position lies (struct pith_depth of eval/eval.h). */
#ifndef PITH_EVAL_DEPTH_H
#define PITH_EVAL_DEPTH_H

#include "eval/eval.h"

struct pith_depths {
    size_t longest, windows; /* positions of the longest window; windows at most */
    size_t tokens[PITH_DEPTHS];
    size_t seen[PITH_DEPTHS]; /* windows that scored a position there, the one at work apart */
    double nll[PITH_DEPTHS], base_nll[PITH_DEPTHS], sum[PITH_DEPTHS];
    double *kld, *weight; /* [PITH_DEPTHS][windows]: a window's mean; its positions there */
};
/* On failure *d owns nothing. */
enum pith_status pith_depths_init(struct pith_depths *d, size_t longest, size_t windows,
                                  struct pith_error *err);
void pith_depths_free(struct pith_depths *d);
/* A scored position `at` of the window at work; without a baseline base_nll and kld are 0. */
void pith_depths_add(struct pith_depths *d, size_t at, const struct pith_position *p);
/* The window at work is done. */
void pith_depths_next(struct pith_depths *d);
void pith_depths_sum(const struct pith_depths *d, struct pith_depth out[PITH_DEPTHS]);

#endif
