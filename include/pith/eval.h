/* pith/eval.h: what a checkpoint is worth, and what its quantization cost. */
#ifndef PITH_EVAL_H
#define PITH_EVAL_H

#include <pith/context.h>
#include <pith/progress.h>
#include <pith/quantize.h>
#include <pith/report.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What to measure. Start from pith_eval_defaults(). */
struct pith_eval_options {
    size_t size; /* of this struct as the program knows it: pith_eval_defaults() */
    const char *model;
    const char *baseline;   /* the unquantized model to hold it against, or NULL */
    struct pith_list texts; /* UTF-8 text files */
    const char *crlf;       /* their line ends CR LF: "keep" (NULL) or "lf", made LF */
    /* Files or folders in the forms of docs/measuring.md, NAME:PATH; or what is made, NAME or
     * NAME:LENGTH. */
    struct pith_list tasks;
    const char *convention; /* "gptq" (default), "hf", "llama.cpp", "bos": docs/measuring.md */
    /* KV cache: "f32", "bf16", "f16", or a grid such as "fp8_e4m3" or "int8:token" on which keys
     * and values are stored; "k=...,v=...": one for each; "auto:BITS": by layer, the best for so
     * many bits a number, as recorded in pith.kv.json next to the weights, or measured now and
     * recorded; NULL: what the checkpoint says, or f32. A baseline has f32. */
    const char *kv;
    size_t context;    /* 0: 2048 (llama.cpp: 512), or the model's if it is less;
                        * a context beyond the model's is refused */
    size_t stride;     /* hf only; 0: half the context */
    size_t max_tokens; /* scored tokens of a text at most; 0: all */
    size_t task_limit; /* items of a task (MMLU: of a subject) at most; 0: all */
    size_t shots;      /* examples in front of each item of a task */
    struct pith_progress progress;
    /* pith_compare() hands over what it found of each model as soon as it has it: an element of
     * "models". NULL: not wanted. */
    void (*measured)(void *ctx, const char *report);
    void *measured_ctx;
    /* Not 0: each text also has "sha256" and, with a baseline, "kld_histogram" and "worst" (the
     * tokens of the largest divergence, in their text), each model "made": where it comes from, and
     * the losses of its linears. What a page shows. */
    int details;
    const char *prompts; /* a prompt a line, or JSON lines with "prompt"; needs a baseline */
    size_t task_length;  /* tokens of an item of a task that is made; 0: 4096, or the model's */
    size_t task_seed;    /* what such items are drawn from */
    /* pith_compare(): the cache of each model after the first, one each, or none: `kv` for all.
     * With it a model's "name" is its cache's. */
    struct pith_list caches;
    /* "PATTERN=GRID": other formats for some layers, the last that matches; "k=GRID" or "v=GRID"
     * alone leave the other as it is. A pattern is "3", "layers.3", "model.layers.?". */
    struct pith_list kv_layers;
    int depth; /* not 0: each text has "depth", loss and KL by position in the window */
    /* "fp8_e4m3" or "fp8_e5m2": queries and weights of attention are rounded to that, as FP8
     * attention kernels do; with ":token" queries by a scale of each head of a token, else of 1.
     * NULL: in float32, as those of a baseline always are. */
    const char *attn;
    /* Not 0: programs that a model writes as answers to a task (humaneval) are run, in a sandbox of
     * namespaces and limits (bubblewrap's; docs/measuring.md). 0: such a task is refused. */
    int run_code;
    /* Not 0: the questions of a task are put into the chat template of the model (of the first one
     * that pith_compare() has) as a conversation: docs/measuring.md. PITH_UNSUPPORTED: it has none.
     */
    int chat;
    const char *chat_template; /* with chat: a file in place of the model's template */
    /* Like `measured`, in a line: "NAME, TEXT: perplexity 12.345". NULL: not wanted. */
    void (*summary)(void *ctx, const char *line);
    void *summary_ctx;
};
/* Fills in the defaults of a struct of `size` bytes: docs/library.md, "Versions". */
PITH_API void pith_eval_defaults_sized(struct pith_eval_options *options, size_t size);
static inline void pith_eval_defaults(struct pith_eval_options *options)
{
    pith_eval_defaults_sized(options, sizeof *options);
}

/* Whether the options make sense by themselves, before any file is opened: names, grids, and which
 * of them do nothing together with the others. PITH_ARG, PITH_UNSUPPORTED. */
PITH_API enum pith_status pith_eval_check(const struct pith_eval_options *options,
                                          struct pith_error *err);

/* Whether a KV cache can be called that, for any of the options named kv: PITH_ARG or
 * PITH_UNSUPPORTED with the reason when it cannot. NULL can. */
PITH_API enum pith_status pith_kv_check(const char *kv, struct pith_error *err);
/* The same of formats for some layers, for any of the options named kv_layers. */
PITH_API enum pith_status pith_kv_layers_check(const struct pith_list *layers,
                                               struct pith_error *err);

/* Measures. *report is JSON with the keys that the command line documents; free it with
 * pith_text_free(). With one text its result stands at the top level; "texts" and "tasks" list all.
 * With a baseline each text has "harm" ("none", "slight", "clear", "severe", "unresolved": what its
 * divergence, "kld_mean" with "kld_ci95", and its loss, "nll_delta", both support), "harm_reason"
 * (a sentence), "resolvable_delta" (the smallest loss difference that the text could have shown)
 * and "tokens_needed" (how many more would resolve it, or null). */
PITH_API enum pith_status pith_eval(struct pith_context *context,
                                    const struct pith_eval_options *options, char **report,
                                    struct pith_error *err);
/* The same as a report, for pith_report_free(). With a baseline its brief text has a line for each
 * text, task and file of prompts. */
PITH_API enum pith_status pith_eval_report(struct pith_context *context,
                                           const struct pith_eval_options *options,
                                           struct pith_report **report, struct pith_error *err);

/* Measures several models on the same texts and tasks, each against the first. What the first makes
 * of the texts is cached in up to 256 MiB, so that it reads them once. `options->model` and
 * `baseline` are ignored. All models, texts and tasks are looked at before the first is measured.
 * *report: {"baseline", "complete", "models": [as of pith_eval(), with "name", the shortest that
 * distinguishes each from the others]}; given too, with the models that are done, when the call is
 * interrupted after the first of them. */
PITH_API enum pith_status pith_compare(struct pith_context *context, const struct pith_list *models,
                                       const struct pith_eval_options *options, char **report,
                                       struct pith_error *err);
/* The same as a report, for pith_report_free(); NULL where pith_compare() gives none. */
PITH_API enum pith_status pith_compare_report(struct pith_context *context,
                                              const struct pith_list *models,
                                              const struct pith_eval_options *options,
                                              struct pith_report **report, struct pith_error *err);

#ifdef __cplusplus
}
#endif
#endif
