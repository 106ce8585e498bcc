/* eval/eval.h: what quantization cost: perplexity by its three conventions, divergence from a
 * baseline, tasks, and whether a difference is real.
 *
 * Two models are streamed window by window, so memory does not grow with the text. Intervals
 * are 95%; the unit of the paired comparison is the window, since tokens of a window are
 * correlated. */
#ifndef PITH_EVAL_EVAL_H
#define PITH_EVAL_EVAL_H

#include "base/arena.h"
#include "base/file.h"
#include "base/progress.h"
#include "model/model.h"
#include "tok/chat/chat.h"
#include "tok/tokenizer.h"

/* gptq: ids in disjoint windows of `context`, all but the first token of each scored, tail
 * dropped.
 * hf: a window of `context` moved by `stride`, only the new tokens scored, as in HF's
 * documentation.
 * llama.cpp: disjoint windows, the first token of each replaced by BOS, predictions made at
 * positions >= context/2 scored (255 of 512).
 * bos: as gptq, the first token of each replaced by BOS where the tokenizer adds one. */
enum pith_convention {
    PITH_CONVENTION_GPTQ,
    PITH_CONVENTION_HF,
    PITH_CONVENTION_LLAMACPP,
    PITH_CONVENTION_BOS,
    PITH_CONVENTIONS
};
const char *pith_convention_name(enum pith_convention c);
/* How a convention's windows begin: as they are cut from the text, so that only the first has the
 * BOS that a tokenizer adds; each with BOS if the tokenizer adds one; each with BOS. */
enum pith_bos { PITH_BOS_OF_TEXT, PITH_BOS_IF_ADDED, PITH_BOS_ALWAYS };
enum pith_bos pith_convention_bos(enum pith_convention c);
/* False, and *out untouched, for an unknown name. */
bool pith_convention_find(const char *name, enum pith_convention *out);
/* Whether windows of `context` tokens, `stride` apart where the convention slides them, leave
 * something to score: PITH_ARG when not. */
enum pith_status pith_convention_check(enum pith_convention c, size_t context, size_t stride,
                                       struct pith_error *err);

/* One pass of the model: ids[begin .. begin+length) are fed; predictions of positions
 * score_from..length-1 within the window count. */
struct pith_window {
    size_t begin, length, score_from;
    double
        weight; /* of its mean loss in the overall mean: its scored positions; hf: see windows.c */
    bool bos_first; /* the first id is replaced by BOS */
};
/* The windows of a convention over `count` ids, each with at least one scored position; *out
 * is pith_free()d. PITH_ARG when the text is too short for one window (hf: for one
 * prediction), when context is below 2 (llama.cpp: 3), or, hf, when stride is not in
 * 2..context. Other conventions ignore stride. */
enum pith_status pith_windows_make(enum pith_convention c, size_t count, size_t context,
                                   size_t stride, struct pith_window **out, size_t *windows,
                                   struct pith_error *err);

/* A model's hidden states of a text at the scored positions of the first windows, for the models
 * that are compared with it later; and where there is a folder, their logits, in a file. The owner
 * sets `most`, `folder` and `number`, the rest starts as 0. */
struct pith_cached_text {
    size_t most;        /* bytes that rows may take; later windows are read again */
    const char *folder; /* NULL: logits are computed for each model that is compared */
    unsigned number;    /* of the text, in the file's name */
    struct pith_cached_window *windows;
    size_t count, hidden; /* windows cached; width of a row */
    float *rows;
    size_t vocab, logits_most; /* width of a row of logits; how many rows the file has room for */
    struct pith_scratch_file logits;
    double *lse; /* [logits_most] */
};
/* Frees what *k owns and zeroes it. */
void pith_cached_text_free(struct pith_cached_text *k);

enum pith_verdict { PITH_INDISTINGUISHABLE, PITH_WORSE, PITH_BETTER };
/* "indistinguishable", "worse", "better". */
const char *pith_verdict_name(enum pith_verdict v);

struct pith_interval {
    double lo, hi;
};

/* How much worse than its baseline a model is shown to be (harms.def): the least of what its
 * divergence and the difference of losses support. */
enum pith_harm {
    PITH_HARM_NONE,
#define PITH_HARM_LEVEL(id, name, kld, loss) PITH_HARM_##id,
#include "eval/harms.def"
#undef PITH_HARM_LEVEL
    PITH_HARM_UNRESOLVED
};
/* "none", "slight", "clear", "severe", "unresolved". */
const char *pith_harm_name(enum pith_harm h);

/* Why that level was chosen, and not another. */
enum pith_harm_cause {
    PITH_HARM_AGREED,  /* both intervals support it */
    PITH_HARM_SHORT,   /* the text is too short for intervals */
    PITH_HARM_WEAK,    /* an interval is too wide */
    PITH_HARM_DISPUTED /* the two contradict each other, whatever the length */
};
struct pith_harm_result {
    enum pith_harm harm;
    enum pith_harm_cause cause;
    struct pith_interval kld_ci95;   /* bootstrap over stretches; NaN when they are too few */
    struct pith_interval delta_ci95; /* of the same stretches; NaN likewise */
    /* The loss difference that a text of this length shows in 80% of cases at 95%: standard error
     * times the sum of the 97.5% and 80% quantiles of Student's t (Cohen 1988). */
    double resolvable_delta;
    double tokens_needed; /* how many more would resolve it, about; NaN: none needed, or not so */
    double scale;         /* of the limits: below 1 on a text that the baseline finds easy */
    size_t stretches;
};
/* One sentence that says it, without a full stop. */
void pith_harm_reason(const struct pith_harm_result *h, char *text, size_t size);

/* Loss and divergence by where in its window a position lies: in equal parts of the longest one. */
enum { PITH_DEPTHS = 16 };
struct pith_depth {
    size_t from, to;               /* positions [from, to) */
    size_t tokens;                 /* scored there; 0: none, and the rest is empty */
    double nll, base_nll, kld;     /* means */
    struct pith_interval kld_ci95; /* a window being an observation: infinite for one */
};

struct pith_text_result {
    double nll, nll_se; /* nats a token; errors come from windows: infinite for one */
    double perplexity, perplexity_se;
    size_t tokens, windows;        /* positions scored, passes made */
    double seconds, model_seconds; /* all; in the model's own passes and head */
    bool has_baseline;
    double baseline_nll;
    double kld_mean, kld_median, kld_p99, kld_max; /* KL(baseline || model), nats */
    double kld_capped; /* the mean when what is above kld_p99 counts as that: without the noise of
                          the few positions that make much of the mean */
    struct pith_interval kld_p99_ci95;             /* NaN for a text too short */
    double top1_agreement;                         /* fraction of positions */
    struct pith_interval top1_ci95;                /* NaN for a text too short */
    double nll_delta;                              /* model - baseline */
    struct pith_interval nll_delta_ci95;
    enum pith_verdict verdict;
    struct pith_harm_result harm;
    struct pith_depth depth[PITH_DEPTHS];
};

/* What was seen at one scored position of a text that two models read. */
struct pith_position {
    size_t window, at;    /* at: in the job's ids, of the token that was predicted */
    double weight;        /* in the mean loss */
    double nll, base_nll; /* of that token */
    double kld;
    int32_t top, base_top; /* the tokens that the models put first */
};
/* A listener that receives every position, in order. */
struct pith_position_watch {
    void (*seen)(void *ctx, const struct pith_position *p);
    void *ctx;
};

struct pith_text_job {
    struct pith_backend *backend;
    struct pith_model *model;
    struct pith_model *baseline; /* NULL: none */
    struct pith_kv_format kv;    /* of the model's keys and values */
    const int32_t *ids;
    size_t count;
    int32_t bos; /* -1: none */
    enum pith_convention convention;
    size_t context, stride;
    size_t max_tokens; /* 0: all; stops after the window that reaches it */
    /* NULL, or: without a baseline it receives what the model made of this text; with one it holds
     * what the baseline made of the same text, which is then not computed again. */
    struct pith_cached_text *cached;
    /* NULL, or who shares the windows: all of them make the call, with the same job but for its
     * backend, and all have the result. */
    struct pith_ranks *ranks;
    struct pith_position_watch watch; /* with a baseline; seen NULL: nobody listens */
    const struct pith_progress *progress;
};
/* Measures `model`, and the baseline over the same windows when there is one. Loads the blocks of a
 * model that has none loaded. In addition to the models' own passes and the cache it takes 4 bytes
 * a scored token (for percentiles), 288 a window and at most 32 MiB of logits a model, or 16 rows
 * when those are larger. PITH_ARG: vocabularies differ, ids outside them, windows (above).
 * PITH_NUMERIC: logits not finite. */
enum pith_status pith_eval_text(const struct pith_text_job *job, struct pith_text_result *out,
                                struct pith_error *err);
/* Rows that it computes at once, at most, of a text of so many tokens. */
size_t pith_eval_text_rows(const struct pith_text_job *job);
/* What it takes of a text of `count` tokens at most, whose ids are not there yet; models need not
 * be loaded. The cache and the watch are not in it. */
void pith_eval_text_meter(const struct pith_text_job *job, struct pith_meter *meter);

/* Tasks: questions with choices, in the forms that questions.h reads. The score of a choice is the
 * summed log-probability of its tokens after the prompt (items.h: where they begin); the highest
 * wins, the first of equals. Where a form needs a word, it is right when each of its tokens is the
 * likeliest one. */
struct pith_accuracy {
    double accuracy;
    struct pith_interval ci95; /* Wilson */
    double baseline, delta;    /* the baseline's; paired difference */
    struct pith_interval delta_ci95;
    double mcnemar_p; /* exact, two-sided */
    enum pith_verdict verdict;
};
struct pith_task_figures {
    size_t n;
    bool has_baseline;
    struct pith_accuracy plain;
    bool normalized; /* norm: by log-probability a character of the choice */
    struct pith_accuracy norm;
    bool made; /* exact: the answer's tokens are the likeliest, whatever the choices */
    struct pith_accuracy exact;
    bool flexible; /* loose: generated text, by the looser rule of its form (free_answers.h) */
    struct pith_accuracy loose;
    bool words; /* e to the mean loss of a word, its error, the paired difference in loss */
    double perplexity, perplexity_se, baseline_perplexity, nll_delta;
    struct pith_interval nll_delta_ci95;
    enum pith_verdict words_verdict;
};
/* A subject, or a category of subjects: each item of it counts once. */
struct pith_task_group {
    char name[64];
    const char *category; /* of a subject; NULL for a category, and for a subject without */
    double depth;         /* of what is made; else 0 */
    struct pith_task_figures figures;
};
struct pith_task_result {
    char name[128];
    const char *form; /* "mmlu" */
    bool chat;        /* prompts are conversations */
    size_t shots;
    size_t length, seed; /* of what is made; length 0: read from a file */
    struct pith_task_figures all;
    /* Items that the rule decides without the model: a choice merges with the end of its context
     * and has no separate token, so its sum is 0. */
    size_t undecided;
    size_t shortened;              /* items too long for the model, which lost tokens in front */
    struct pith_task_group *group; /* categories, then subjects; none for a task of one file */
    size_t groups;
};
/* Frees what *r owns. */
void pith_task_result_free(struct pith_task_result *r);

/* What a model made of each choice of a task; starts as {0}. */
struct pith_task_answers {
    double *score; /* [count]: log-probability of its tokens */
    bool *greedy;  /* [count]: each of them is the likeliest */
    size_t count;
};
/* Frees what *k owns and zeroes it. */
void pith_task_answers_free(struct pith_task_answers *k);

struct pith_task_job {
    struct pith_backend *backend;
    struct pith_model *model, *baseline;
    struct pith_kv_format kv; /* of the model's keys and values */
    const struct pith_tokenizer *tokenizer;
    /* A file or folder; NAME:PATH when its form is to be NAME; or synthetic_tasks.h. */
    const char *path;
    size_t limit;     /* 0: all items; else so many of each subject */
    size_t shots;     /* examples in front of each question */
    const struct pith_chat *chat; /* items.h; NULL: prompts are texts */
    size_t length, seed;          /* of what is made */
    bool run_code;                /* programs that a model writes may run, in a sandbox */
    struct pith_task_answers *cached; /* as for a text */
    struct pith_ranks *ranks;     /* the same, of the items */
    const struct pith_progress *progress;
};
/* The whole task is read and encoded before anything is computed. PITH_FORMAT names the file and
 * the line of an item that is wrong: keys missing, fewer than two choices, answer out of range, an
 * empty choice, more tokens than the model has positions (in the forms of others tokens are dropped
 * in front instead, and counted). The verdict on accuracy is "worse" or "better" only when both the
 * interval and the exact test (p < 0.05) say so. PITH_ARG: fewer examples than shots, and
 * PITH_ARG, PITH_NUMERIC as for a text. */
enum pith_status pith_eval_task(const struct pith_task_job *job, struct pith_task_result *out,
                                struct pith_error *err);

#endif
