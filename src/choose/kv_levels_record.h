/* choose/kv_levels_record.h: what choose/kv_levels.h found, as a file next to the weights. */
#ifndef PITH_CHOOSE_KV_LEVELS_RECORD_H
#define PITH_CHOOSE_KV_LEVELS_RECORD_H

#include "base/json.h"
#include "calib/corpus.h"
#include "model/model.h"

enum { PITH_KV_LEVELS_BITS = 3 }; /* levels are made for 2, 3 and 4 bits */

/* What levels were made of: the weights, the text, the share of numbers that are outliers. */
struct pith_kv_levels_source {
    const char *identity;
    const struct pith_calib_set *set;
    double share;
};

/* Where the file of a model lies, for pith_free(); NULL when memory is out. */
char *pith_kv_levels_path(const struct pith_model *m);
/* To *out, for pith_kv_levels_free(); NULL if there is no file, or it is of other weights.
 * PITH_FORMAT: its layers are not the model's. */
enum pith_status pith_kv_levels_read(const struct pith_model *m, const char *path,
                                     const char *identity, struct pith_kv_levels **out,
                                     struct pith_error *err);
/* Writes the file, atomically. */
enum pith_status pith_kv_levels_write(const struct pith_kv_levels *levels, const char *path,
                                      const struct pith_kv_levels_source *of,
                                      struct pith_error *err);
/* The layers as a list, and back, into those of `out`; false if the list is not of this model. */
json_t *pith_kv_levels_json(const struct pith_kv_levels *levels);
bool pith_kv_levels_take(const json_t *layers, struct pith_kv_levels *out);

#endif
