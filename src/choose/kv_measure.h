/* choose/kv_measure.h: what caches lose on calibration text, against the same model with keys and
 * values in float32, for choose/kv_auto.h. Inside choose/kv_auto.c only.
 *
 * In a small model each row of each part is measured alone. In others that would take hours: 30
 * layers have 1,620 rows. There each candidate is measured on all keys, and on all values, at once,
 * and one of them on each part alone, with the current page in floats and without. What a part
 * loses in the others is its share of what all of its side lose in them. So a model of 30 layers
 * takes 150 measurements, on fewer tokens where it is large. */
#ifndef PITH_CHOOSE_KV_MEASURE_H
#define PITH_CHOOSE_KV_MEASURE_H

#include "calib/corpus.h"
#include "choose/kv_plan.h"
#include "eval/eval.h"

/* How much is measured, by the products of the model. */
struct pith_kv_extent {
    bool singly;   /* each row alone */
    size_t tokens; /* of each row */
    size_t whole;  /* tokens of a whole cache */
    size_t most;   /* whole caches */
};
struct pith_kv_extent pith_kv_extent_of(const struct pith_kv_plan *p);

/* What caches are measured by: the text, and what the model makes of it in float32. */
struct pith_kv_judge {
    struct pith_calib_set set;
    struct pith_cached_text cached;
    struct pith_text_job text;
    enum pith_mode mode; /* the backend's, before */
};
/* With so many tokens, in windows of p->context positions at most. Errors of pith_calib_load() and
 * pith_eval_text(), with which nothing is to be closed. */
enum pith_status pith_kv_judge_open(const struct pith_kv_plan *p, size_t tokens,
                                    struct pith_kv_judge *j, struct pith_error *err);
void pith_kv_judge_close(const struct pith_kv_plan *p, struct pith_kv_judge *j);
/* What the layers p->layer lose. */
enum pith_status pith_kv_judge_cache(const struct pith_kv_plan *p, struct pith_kv_judge *j,
                                     struct pith_text_result *out, struct pith_error *err);

/* Fills loss and mean of all rows. */
enum pith_status pith_kv_measure_rows(struct pith_kv_plan *p, const struct pith_kv_extent *extent,
                                      struct pith_kv_judge *j, struct pith_error *err);

#endif
