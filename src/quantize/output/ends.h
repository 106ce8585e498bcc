/* quantize/output/ends.h: the embedding and the head, where they are quantized. */
#ifndef PITH_QUANTIZE_OUTPUT_ENDS_H
#define PITH_QUANTIZE_OUTPUT_ENDS_H

#include "quantize/job.h"

struct pith_run;

/* "model.embed_tokens", "lm_head", as the architecture calls them; and their weights. */
enum { PITH_END_NAME = 64 };
const char *pith_end_module(const struct pith_model *m, enum pith_end end);
void pith_end_tensor(const struct pith_model *m, enum pith_end end, char name[PITH_END_NAME]);
/* The embedding's or head's choice whose tensor that is, or NULL. */
const struct pith_choice *pith_job_end(const struct pith_job *job, const char *tensor);
/* Names and sizes of job->ends, and what the input stores. */
enum pith_status pith_ends_list(struct pith_job *job, struct pith_error *err);
/* Whether the container can hold them quantized; then, what they are by default. */
bool pith_ends_may(const struct pith_job *job);
void pith_ends_default(const struct pith_job *job, struct pith_choice *c);
/* Stores the ends that are quantized, here or in the input. */
enum pith_status pith_ends_store(struct pith_run *r, json_t *linears, json_t *tensors,
                                 struct pith_error *err);

#endif
