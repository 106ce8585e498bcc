/* pipe/kv_auto.h: the cache that --kv auto:BITS means: the KL that each candidate (kv_auto.def)
 * costs on the keys and on the values of each layer alone, measured on calibration text, and of
 * these the assignment that loses least within so many bits a number (plan/assign.h). Both lie in a
 * file beside the weights, so the same is used again, and another budget costs no measuring. */
#ifndef PITH_PIPE_KV_AUTO_H
#define PITH_PIPE_KV_AUTO_H

#include "base/progress.h"
#include "model/model.h"
#include "tok/tokenizer.h"

struct pith_kv_auto_job {
    struct pith_backend *backend;
    struct pith_model *model;               /* blocks loaded */
    const struct pith_tokenizer *tokenizer; /* NULL: only what is recorded is used */
    double bits;                            /* mean of a number, scales counted */
    const struct pith_progress *progress;
};
/* *out has a table, which pith_kv_format_free() frees. PITH_LIMIT when the cheapest candidates need
 * more bits; PITH_ARG where nothing is kept by position, and without a tokenizer when nothing is
 * recorded of these weights; PITH_FORMAT for a damaged record; PITH_IO when it cannot be written.
 */
enum pith_status pith_kv_auto(const struct pith_kv_auto_job *job, struct pith_kv_format *out,
                              struct pith_error *err);
/* The bits of "auto:5.0"; 0 for a name that is not of this kind. PITH_ARG when they are no number
 * from 1 to 32. */
enum pith_status pith_kv_auto_parse(const char *name, double *bits, struct pith_error *err);

#endif
