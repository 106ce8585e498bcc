/* choose/kv_auto.h: the cache that --kv auto:BITS means: the KL that each candidate (a row of
 * backend/cache/kv.def) costs on the keys and on the values of each layer alone, measured on
 * calibration text (of large models in part: choose/kv_measure.h), of these the assignment that
 * loses least within so many bits a number (plan/assign.h), made better by measuring assignments
 * whole (plan/refine.h), the best uniform ones among them. All lie in a file next to the weights,
 * so the same is used again. The KL of a position counts as what 99 in 100 lose at most: of a
 * mixture few positions, whose tokens went to other experts, make half of a mean. */
#ifndef PITH_CHOOSE_KV_AUTO_H
#define PITH_CHOOSE_KV_AUTO_H

#include "base/json.h"
#include "base/progress.h"
#include "base/ranks/ranks.h"
#include "model/model.h"
#include "tok/tokenizer.h"

struct pith_kv_auto_job {
    struct pith_backend *backend;
    struct pith_model *model;               /* blocks loaded */
    const struct pith_tokenizer *tokenizer; /* NULL: nothing is measured, only recorded rows used */
    double bits;                            /* mean of a number, scales counted */
    const struct pith_progress *progress;
    /* NULL, or who shares the windows: all make the call; the record is rank 0's. */
    struct pith_ranks *ranks;
};
/* *out has a table, which pith_kv_format_free() frees. PITH_LIMIT when the cheapest candidates need
 * more bits; PITH_ARG where nothing is cached by position, and without a tokenizer when nothing is
 * recorded of these weights; PITH_FORMAT for a damaged record; PITH_IO when it cannot be written.
 */
enum pith_status pith_kv_auto(const struct pith_kv_auto_job *job, struct pith_kv_format *out,
                              struct pith_error *err);
/* Whether there is a record next to the weights, whatever it contains: without one, formats are
 * measured first, for minutes. */
bool pith_kv_auto_is_there(const struct pith_model *m);
/* What each layer can be, for callers that weigh caches against something else: measured anew, and
 * recorded nowhere. Options of a layer are smallest first, without what is larger and loses as
 * much. */
struct pith_kv_option {
    uint64_t bytes; /* of a sequence of so many positions */
    double loss;    /* KL */
    struct pith_kv_format format;
};
struct pith_kv_menu_part {
    uint32_t layer;
    struct pith_kv_option *option;
    size_t options;
};
struct pith_kv_menu {
    struct pith_kv_menu_part *part; /* of the layers that keep something by position */
    size_t parts;
    json_t *record; /* the file that pith_kv_auto() would write, without assignments */
};
/* job->bits is not looked at. Errors as above. */
enum pith_status pith_kv_auto_menu(const struct pith_kv_auto_job *job, size_t positions,
                                   struct pith_kv_menu *out, struct pith_error *err);
void pith_kv_menu_free(struct pith_kv_menu *menu);
/* Adds to menu->record the assignment of the formats chosen[parts]; *bits is what names it: --kv
 * auto:BITS. */
enum pith_status pith_kv_menu_choose(struct pith_kv_menu *menu, const struct pith_kv_auto_job *job,
                                     const size_t *chosen, double *bits, struct pith_error *err);
/* The bits of "auto:5.0"; 0 for a name that is not of this kind. PITH_ARG when they are no number
 * from 1 to 32. */
enum pith_status pith_kv_auto_parse(const char *name, double *bits, struct pith_error *err);

#endif
