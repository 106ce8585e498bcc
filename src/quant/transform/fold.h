/* quant/transform/fold.h: what transforms that scale columns share: multiplying a site's linears by
 * s and dividing what makes their input by s. Only transforms call it. */
#ifndef PITH_QUANT_TRANSFORM_FOLD_H
#define PITH_QUANT_TRANSFORM_FOLD_H

#include "quant/transform.h"

/* PITH_ARG unless there are linears, all of them read the same inputs, and
 * those are made of whole heads where s is tied. `who` begins the message. */
enum pith_status pith_fold_check(const struct pith_transform_job *job, const char *who,
                                 struct pith_error *err);
/* The most bytes that a trial of rounding one of the linears takes. */
uint64_t pith_fold_trial_bytes(const struct pith_transform_job *job);
/* True when heads share their scales: 1/s goes into rows that several of the inputs come from. */
bool pith_fold_tied(const struct pith_transform_job *job);
/* The first of the columns that share column c's scale: itself where none is tied. */
size_t pith_fold_first(const struct pith_transform_job *job, size_t c);
/* True when there is something to divide by s, and a linear that is rounded. */
bool pith_fold_possible(const struct pith_transform_job *job);

/* Moves s[dim] to where the gain that will be stored stands for it exactly; 1 where that gain would
 * not be finite. */
void pith_fold_settle(const struct pith_transform_job *job, float *s);
/* Begins to work on linear i, and ends: one that is lent is there in between. */
enum pith_status pith_fold_hold(const struct pith_transform_job *job, unsigned i,
                                struct pith_error *err);
void pith_fold_drop(const struct pith_transform_job *job, unsigned i);
/* Multiplies the columns of all linears that are not lent by s; those of one. */
void pith_fold_scale(const struct pith_transform_job *job, const float *s);
void pith_fold_scale_one(struct pith_pool *pool, const struct pith_transform_linear *l,
                         const float *s);
/* Divides the gain, or the rows of the linear before, by s. */
void pith_fold_divide(const struct pith_transform_job *job, const float *s);

/* What each of `count` choices loses, loss[count]: attempt() finds that of choice i; ranks take
 * them cyclically. Errors of attempt(), and what messages between ranks say. */
typedef enum pith_status pith_fold_attempt_fn(void *ctx, int i, double *loss,
                                              struct pith_error *err);
enum pith_status pith_fold_try(const struct pith_transform_job *job, int count,
                               pith_fold_attempt_fn *attempt, void *ctx, double *loss,
                               struct pith_error *err);

#endif
