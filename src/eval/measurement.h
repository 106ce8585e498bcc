/* eval/measurement.h: what pith eval and pith compare measure of a model that is loaded, and its
 * report. The caller opens the models and chooses their caches. */
#ifndef PITH_EVAL_MEASUREMENT_H
#define PITH_EVAL_MEASUREMENT_H

#include <pith/eval.h>

#include "base/json.h"
#include "eval/eval.h"
#include "eval/results.h"
#include "tok/chat/chat.h"
#include "tok/text_input.h"

/* What one comparison needs; the baseline may serve several models. */
struct pith_measurement {
    struct pith_backend *backend;
    struct pith_ranks *ranks; /* NULL: nobody was joined */
    const struct pith_eval_options *options;
    enum pith_convention convention;
    const char *cache;        /* what that of the model in work is called, or NULL */
    struct pith_kv_format kv; /* ... and is */
    const json_t *engines;    /* what engines are started with for it; NULL: not known */
    const char *account;      /* where that of the model in work lies, for details */
    struct pith_model *model, *baseline;
    struct pith_tokenizer *tokenizer;
    struct pith_chat *chat;            /* of tasks, or NULL */
    size_t window, shortest;           /* shortest: context of all models of a comparison */
    uint64_t expected;                 /* memory, of texts; 0: not estimated */
    struct pith_newlines newlines;     /* how line ends of texts are read */
    const char *folder;                /* for large files while it works, or NULL */
    struct pith_cached_text *cached_texts;  /* one for each text, or NULL */
    struct pith_task_answers *cached_tasks; /* one for each task, or NULL */
};

/* Reports what is wrong with tasks before anything is measured. */
enum pith_status pith_measurement_check_tasks(const struct pith_measurement *m,
                                              struct pith_error *err);
/* The length of a window: as given, or the convention's, at most the model's context. */
size_t pith_measurement_window(const struct pith_measurement *m);
/* All of a text's job but the text. */
struct pith_text_job pith_measurement_text_job(const struct pith_measurement *m);
/* Makes room for the baseline's outputs, with which the models after it are compared. */
enum pith_status pith_measurement_keep(struct pith_measurement *m, struct pith_error *err);
void pith_measurement_free_cached(struct pith_measurement *m);
/* The cache's name in a report: auto is what was given, the layers list what it became. */
void pith_measurement_cache_name(const struct pith_measurement *m, char text[PITH_KV_TEXT]);

/* Measures m->model, whose name is `dir`, which *out borrows, as it does the options' texts. *out
 * owns nothing on failure. */
enum pith_status pith_measure_model(struct pith_measurement *m, const char *dir,
                                    struct pith_results *out, struct pith_error *err);

#endif
