/* choose/kv_levels.h: what a cache of num/kvquant.h needs to know of each layer, from calibration
 * text: of each channel of keys the middle and the range of all but an outlier in a hundred, of
 * values from which multiple of their row's mean magnitude on one in a hundred lies, and the levels
 * of least squared error of the rest, in 2, 3 and 4 bits (quant/kmeans.h), each channel's errors
 * weighed by the Fisher information where there are gradients (choose/kv_fisher.h), spread until
 * what is rounded varies as what was. They lie in a file next to the weights,
 * pith.kvquant.json, so the same are used again. */
#ifndef PITH_CHOOSE_KV_LEVELS_H
#define PITH_CHOOSE_KV_LEVELS_H

#include "base/progress.h"
#include "base/ranks/ranks.h"
#include "model/model.h"
#include "tok/tokenizer.h"

struct pith_kv_levels_job {
    struct pith_backend *backend;
    struct pith_model *model;               /* blocks loaded */
    const struct pith_tokenizer *tokenizer; /* NULL: only what is recorded is used */
    const struct pith_progress *progress;
    uint64_t memory; /* that making them may take; 0: any */
    struct pith_ranks *ranks; /* NULL, or all make the call, and rank 0's become everyone's */
};
/* Makes model->kv_levels, where it is not there. PITH_ARG without a tokenizer when nothing is
 * recorded of these weights, PITH_LIMIT where the memory does not do, PITH_NUMERIC for keys or
 * values that are not finite, PITH_FORMAT for a damaged record, PITH_IO when it cannot be written.
 */
enum pith_status pith_kv_levels_need(const struct pith_kv_levels_job *job, struct pith_error *err);
/* Bytes that making them takes, in addition to the model. */
uint64_t pith_kv_levels_bytes(const struct pith_model *m, const struct pith_backend *be);
/* Whether there is a record next to the weights, whatever it contains. */
bool pith_kv_levels_are_there(const struct pith_model *m);

/* The same from windows of ids[windows][length], without their first positions (a page, or one of
 * short windows); recorded nowhere. Nothing of the model is changed. */
struct pith_kv_windows {
    const int32_t *ids;
    size_t windows, length;
};
enum pith_status pith_kv_levels_measure(const struct pith_kv_levels_job *job,
                                        const struct pith_kv_windows *windows,
                                        struct pith_kv_levels **out, struct pith_error *err);

#endif
