/* pith/progress.h: following a long call and stopping it. */
#ifndef PITH_PROGRESS_H
#define PITH_PROGRESS_H

#ifdef __cplusplus
extern "C" {
#endif

/* Called now and then by a long call, always from the thread that made the call. `what` is a short
 * phrase
 * ("block 3 of 32: gptq"), done and total are in a unit that grows evenly with time (total 0:
 * unknown). Return nonzero to stop the call, which then cleans up and returns PITH_INTERRUPTED. */
typedef int pith_progress_fn(void *ctx, const char *what, double done, double total);

struct pith_progress {
    pith_progress_fn *fn; /* NULL: nobody listens */
    void *ctx;
};

#ifdef __cplusplus
}
#endif
#endif
