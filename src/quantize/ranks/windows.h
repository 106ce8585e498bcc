/* quantize/ranks/windows.h: windows of the calibration text, and what is made of them, of which
 * each rank has a run: the first ones are rank 0's. What becomes everyone's is as if one had gone
 * through all windows in their order. Alone all are here, and nothing is sent. All ranks make the
 * same calls in the same order. */
#ifndef PITH_QUANTIZE_RANKS_WINDOWS_H
#define PITH_QUANTIZE_RANKS_WINDOWS_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

struct pith_acts;
struct pith_grads;
struct pith_job;
struct pith_layer_plan;
struct pith_run;
struct pith_tape_grad;

/* Those of so many that are gone through here: [first, end). */
struct pith_window_span {
    size_t first, end;
};
struct pith_window_span pith_windows_here(const struct pith_run *r, size_t count);

/* of[count] of `size` bytes, each found where its window is, becomes everyone's. */
enum pith_status pith_windows_share(const struct pith_run *r, void *of, size_t count, size_t size,
                                    struct pith_error *err);
/* n numbers that count something over the windows here, over all. */
enum pith_status pith_windows_sum(const struct pith_run *r, size_t *number, size_t n,
                                  struct pith_error *err);

/* Room for all windows of two kinds of activations, in r->cal.learn.whole; to->x is there, or that
 * of `from` where all its windows are here. */
enum pith_status pith_windows_open(struct pith_run *r, struct pith_error *err);
enum pith_status pith_windows_gather(const struct pith_run *r, const struct pith_acts *from,
                                     int which, struct pith_acts *to, struct pith_error *err);

/* The gradients of a layer's matrices over a step of learned rounding: memory for them, which the
 * caller closes, also after a failure; what a pass back through a window has to give for that; and
 * w[plan->linears], which become the sums over all windows of the step. */
enum pith_status pith_windows_open_grads(const struct pith_run *r, uint32_t layer,
                                         struct pith_grads *g, struct pith_error *err);
uint64_t pith_windows_grads_bytes(const struct pith_job *job, uint32_t layer);
void pith_windows_keep_grads(const struct pith_run *r, struct pith_grads *g,
                             struct pith_tape_grad *back);
enum pith_status pith_windows_sum_grads(const struct pith_run *r, struct pith_grads *g,
                                        const struct pith_layer_plan *plan, float *const *w,
                                        struct pith_error *err);

/* What statistics take on their way along the ranks (calib/relay.h), in files of this rank. */
enum pith_status pith_windows_open_relay(struct pith_run *r, struct pith_error *err);

#endif
