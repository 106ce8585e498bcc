/* eval/results.h: what was measured of a model, and its reports.
 *
 *   results.c           the numbers, and a model's JSON
 *   results_text.c      the text of pith eval
 *   results_tables.c    those of pith compare, of several caches, of signals */
#ifndef PITH_EVAL_RESULTS_H
#define PITH_EVAL_RESULTS_H

#include "eval/eval.h"
#include "eval/task/prompts.h"
#include "report/report.h"

/* A text, as one model read it. */
struct pith_result_text {
    const char *path; /* borrowed, as it was given */
    char *label;      /* owned */
    enum pith_convention convention;
    size_t context;
    struct pith_text_result result;
    bool depth;                  /* by position is wanted too */
    size_t without_bos;          /* windows that lack the BOS that the tokenizer adds to a text */
    char sha256[80];             /* "": not wanted */
    struct pith_report *details; /* owned: its further rows; may be NULL */
    size_t crlf_lines;           /* that end in CR LF ... */
    const char *crlf;            /* ... and what became of them: "lf" or "keep" */
};

/* All of a model. Start with {0}; pith_results_free() it. */
struct pith_results {
    const char *model; /* borrowed, as it was given */
    char *name;        /* owned: in a comparison, else NULL */
    double bits_per_weight, kv_bits;
    uint64_t bytes, parameters, memory_expected; /* the last 0: not known */
    char kv[PITH_KV_TEXT], attn[64];             /* attn "": float32 */
    json_t *engines, *kv_layers;                 /* owned; may be NULL */
    struct pith_report *made;                    /* owned: rows of its making; may be NULL */
    struct pith_result_text *text;               /* owned: [texts] */
    struct pith_task_result *task;               /* owned: [tasks] */
    size_t texts, tasks;
    const char *prompts_file; /* borrowed; NULL: none */
    struct pith_prompts_result prompts;
};
void pith_results_free(struct pith_results *m);

/* Adds its members to an object that is open. */
void pith_results_set(struct pith_report *r, const struct pith_results *m);
/* Adds the text of pith eval; the brief one has a line a signal. */
void pith_results_say(struct pith_report *r, const struct pith_results *m);
void pith_results_say_signals(struct pith_report *r, const struct pith_results *m);
/* Loss and divergence by position, as bars; nothing where they are not wanted. */
void pith_results_say_depth(struct pith_report *r, const struct pith_result_text *t);
/* A line of what was measured of it: "NAME, TEXT: perplexity 12.345". */
void pith_results_line(const struct pith_results *m, struct pith_str *out);

/* Of several models, the first of which is the baseline; at least one. For people a table a text,
 * and one of the tasks; a single one for other forms. */
void pith_results_compare(struct pith_report *r, const struct pith_results *m, size_t count);
/* The same of several caches of one model; the first is the baseline. */
void pith_results_caches(struct pith_report *r, const struct pith_results *m, size_t count);

#endif
