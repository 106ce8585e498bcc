/* quantize/site/inputs.h: what becomes of the linears' inputs: the grid of activations, outlier
 * columns, the scales that calibration fixes. */
#ifndef PITH_QUANTIZE_SITE_INPUTS_H
#define PITH_QUANTIZE_SITE_INPUTS_H

#include "quantize/job.h"

/* Takes what the recipe says of the linears' inputs into the container's options and the
 * needs of the job. PITH_ARG when its parts do not go together. */
enum pith_status pith_inputs_settle(struct pith_job *job, struct pith_error *err);
/* PITH_UNSUPPORTED when the inputs of that linear cannot be treated so. */
enum pith_status pith_inputs_check(const struct pith_job *job, const struct pith_choice *c,
                                   struct pith_error *err);
/* True when the scales of keys and values are to be found and stored. */
bool pith_inputs_kv(const struct pith_job *job);
/* ... in a layer that keeps them. */
bool pith_inputs_kv_of(const struct pith_job *job, uint32_t layer);
/* Whether each head has one, and how many of keys there are. */
bool pith_inputs_kv_by_head(const struct pith_job *job);
uint32_t pith_inputs_kv_scales(const struct pith_job *job, uint32_t layer);
/* PITH_UNSUPPORTED when the container cannot hold what the input of a conversion says of inputs,
 * keys and values. */
enum pith_status pith_inputs_converts(const struct pith_job *job, struct pith_error *err);
/* The name of one of them: which is 0 for keys, 1 for values. */
enum { PITH_KV_NAME = 96 };
void pith_inputs_kv_name(const struct pith_job *job, uint32_t layer, int which,
                         char name[PITH_KV_NAME]);
/* What is done to the input of a site's linears; stats as gathered for rounding them, NULL when
 * job->needs_round is 0. */
struct pith_input pith_inputs_make(const struct pith_job *job, const struct pith_choice *c,
                                   const struct pith_stats *stats);

#endif
