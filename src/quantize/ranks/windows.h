/* quantize/ranks/windows.h: the windows of the calibration text. Each rank computes a run of them,
 * rank 0 the first; results become everyone's as if one rank had computed all windows in their
 * order. Alone all are here, and nothing is sent. All ranks make the same calls in the same order.
 */
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

/* Of `count` windows, those that are computed here: [first, end). */
struct pith_window_span {
    size_t first, end;
};
struct pith_window_span pith_windows_here(const struct pith_run *r, size_t count);

/* of[count], `size` bytes each: the rank that computed a window has its item; all get all. */
enum pith_status pith_windows_share(const struct pith_run *r, void *of, size_t count, size_t size,
                                    struct pith_error *err);
/* number[n], each a count over the windows here, becomes the count over all windows. */
enum pith_status pith_windows_sum(const struct pith_run *r, size_t *number, size_t n,
                                  struct pith_error *err);

/* Two files in r->cal.learn.whole, each for the activations of all windows; alone none. */
enum pith_status pith_windows_open(struct pith_run *r, struct pith_error *err);
/* *to has all windows of the activations `from`: in file number `which`; alone *to is *from. */
enum pith_status pith_windows_gather(const struct pith_run *r, const struct pith_acts *from,
                                     int which, struct pith_acts *to, struct pith_error *err);

/* Memory for the gradients of a layer's matrices in a step of learned rounding; the caller closes
 * *g, also after a failure. Bytes of that. */
enum pith_status pith_windows_open_grads(const struct pith_run *r, uint32_t layer,
                                         struct pith_grads *g, struct pith_error *err);
uint64_t pith_windows_grads_bytes(const struct pith_job *job, uint32_t layer);
/* Makes a pass back through a window store in *g what the sums need; alone does nothing. */
void pith_windows_keep_grads(const struct pith_run *r, struct pith_grads *g,
                             struct pith_tape_grad *back);
/* w[plan->linears], the gradients, become the sums over all windows of the step. */
enum pith_status pith_windows_sum_grads(const struct pith_run *r, struct pith_grads *g,
                                        const struct pith_layer_plan *plan, float *const *w,
                                        struct pith_error *err);

/* Opens the relay that sums statistics along the ranks (calib/relay.h), with files of this rank. */
enum pith_status pith_windows_open_relay(struct pith_run *r, struct pith_error *err);

#endif
