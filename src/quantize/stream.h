/* quantize/stream.h: blocks whose linears need nothing but their own weights. */
#ifndef PITH_QUANTIZE_STREAM_H
#define PITH_QUANTIZE_STREAM_H

#include "quantize/job.h"

struct pith_run;

/* True when the run's linears can be rounded some rows at a time: nothing looks at
 * activations, nothing is transformed or split, no scale is for a whole matrix. */
bool pith_job_streams(const struct pith_job *job);
/* Bytes that they take at most. */
uint64_t pith_stream_end_bytes(const struct pith_job *job, unsigned threads);
uint64_t pith_stream_layer_bytes(const struct pith_job *job, uint32_t layer, unsigned threads);
/* Rounds and stores all of a layer's linears that have a grid, a linear a task, and
 * appends their entries. */
enum pith_status pith_stream_layer(struct pith_run *r, uint32_t layer, json_t *linears,
                                   struct pith_error *err);
/* The same for the ends, to nearest. */
enum pith_status pith_stream_ends(struct pith_run *r, json_t *linears, struct pith_error *err);

#endif
