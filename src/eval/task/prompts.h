/* eval/task/prompts.h: does a model still continue your prompts as its baseline does? */
#ifndef PITH_EVAL_TASK_PROMPTS_H
#define PITH_EVAL_TASK_PROMPTS_H

#include "eval/eval.h"

enum { PITH_PROMPT_TOKENS = 64 }; /* of a continuation at most */

struct pith_prompts_job {
    struct pith_backend *backend;
    struct pith_model *model, *baseline;
    struct pith_kv_format kv; /* of the model's keys and values */
    const struct pith_tokenizer *tokenizer;
    const char *path; /* a prompt a line, or JSON lines with "prompt" */
    struct pith_ranks *ranks; /* NULL, or who shares the prompts, as for a text */
    const struct pith_progress *progress;
};

struct pith_prompts_result {
    size_t prompts, tokens;        /* tokens: positions compared */
    size_t same;                   /* prompts with the same greedy continuation, token by token */
    double top1_agreement;         /* fraction of the positions */
    double kld_mean;               /* KL(baseline || model) at them, nats */
    struct pith_interval kld_ci95; /* by Student's t, a prompt being one observation */
    /* "none", "slight", "clear", "severe": the level whose bound the whole interval lies above;
     * "unresolved" when that is none but the interval reaches the first bound. */
    const char *verdict;
};

/* The baseline continues each prompt greedily, to its end of sequence or PITH_PROMPT_TOKENS; both
 * models' distributions are compared at each position of that continuation. PITH_FORMAT names path
 * and line: not UTF-8, JSON without "prompt", too long for the model; also when there is no prompt.
 * PITH_ARG: vocabularies differ. PITH_NUMERIC as for a text. */
enum pith_status pith_eval_prompts(const struct pith_prompts_job *job,
                                   struct pith_prompts_result *out, struct pith_error *err);

#endif
