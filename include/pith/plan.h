/* pith/plan.h: which formats a model could have on which hardware, what fits, how fast it would be
 * and what it would cost: computed, before anything is made or rented. */
#ifndef PITH_PLAN_H
#define PITH_PLAN_H

#include <pith/context.h>
#include <pith/quantize.h>
#include <pith/status.h>

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The request. Start from pith_plan_model_defaults(). Of lists every combination is looked at; an
 * empty one leaves the choice to the planner. */
struct pith_plan_model_options {
    size_t size;       /* of this struct as the program knows it: pith_plan_model_defaults() */
    const char *model; /* folder, .gguf, config.json, or a name of pith_plan_shapes() */
    struct pith_list hardware; /* "l4", "h100-sxm x8", "h100-sxmx8": a name, and how many; without a
                                  number as few as it fits on. "all": every kind that has a price */
    struct pith_list
        contexts;             /* positions of each user: "8k"; none: 4096, or the model's if less */
    struct pith_list users;   /* at once: "1"; none: 1 */
    size_t prompt, gen;       /* tokens of a request; 0: three quarters of the context, a quarter */
    struct pith_list weights; /* recipes, or grids */
    struct pith_list kv;      /* caches, as of pith_eval_options */
    struct pith_list targets; /* engines: "vllm", "sglang", "trtllm", "llama.cpp", "pith" */
    uint64_t fit;             /* bytes that must do for all of it, 0: no limit */
    double max_latency;       /* seconds between tokens of a user; 0: no limit, and so below */
    double max_first;         /* seconds to the first token */
    size_t min_users;         /* that must fit at once */
    double max_cost;          /* USD a million tokens made */
    const char *own; /* further hardware, JSON as of pith_hardware_json() or one of its rows; NULL:
                        none. A name of `hardware` that ends in .json is such a file */
    struct pith_list prefill; /* where prompts are read, as of `hardware`: "same", of the kind that
                                 answers; "none", by the devices that answer (as without any) */
    uint64_t pool_link; /* bytes a second from the devices that read to those that answer, of each;
                           0: their link, or a network's */
    uint64_t offload;   /* bytes of the host's memory for caches, 0: none */
};
/* Fills in the defaults of a struct of `size` bytes: docs/library.md, "Versions". */
PITH_API void pith_plan_model_defaults_sized(struct pith_plan_model_options *options, size_t size);
static inline void pith_plan_model_defaults(struct pith_plan_model_options *options)
{
    pith_plan_model_defaults_sized(options, sizeof *options);
}

/* *report is JSON with the keys that docs/planning.md explains, rows best first; free it with
 * pith_text_free(). Reads headers of files at most, never weights.
 *
 * PITH_ARG          a name or number that means nothing
 * PITH_UNSUPPORTED  an architecture that is not known, a grid that weights cannot have
 * PITH_FORMAT       a file that is none of these; statuses of opening a checkpoint */
PITH_API enum pith_status pith_plan_model(const struct pith_plan_model_options *options,
                                          char **report, struct pith_error *err);

/* What quantizing a model would take on machines of a kind. Start from
 * pith_plan_quantize_defaults(). */
struct pith_plan_quantize_options {
    size_t size;        /* of this struct as the program knows it: pith_plan_quantize_defaults() */
    const char *model;  /* as of pith_plan_model_options */
    const char *recipe; /* a recipe's name or file */
    const char *hardware; /* a CPU's name, perhaps with how many machines at most, up to 64: x8 */
    const char *own;      /* as of pith_plan_model_options */
    const char *link;     /* "BITS[,MICROSECONDS]", what joins them; default "10G,50" */
    size_t calib_tokens, seq_len; /* as of pith_quantize_options, with its defaults */
};
PITH_API void pith_plan_quantize_defaults_sized(struct pith_plan_quantize_options *options,
                                                size_t size);
static inline void pith_plan_quantize_defaults(struct pith_plan_quantize_options *options)
{
    pith_plan_quantize_defaults_sized(options, sizeof *options);
}
/* *report is JSON: "model", "recipe", "hardware", "memory_bytes" of each machine, "tokens", and
 * "ranks", as of a rehearsal (pith_quantize_options). Free it with pith_text_free(). Errors as of
 * pith_plan_model(); PITH_UNSUPPORTED also for hardware that is no CPU, and for recipes and models
 * whose times are not estimated. */
PITH_API enum pith_status pith_plan_quantize(const struct pith_plan_quantize_options *options,
                                             char **report, struct pith_error *err);

/* The well-known shapes that a plan can be made for by name, as a JSON array; free it likewise. */
PITH_API enum pith_status pith_plan_shapes(char **report, struct pith_error *err);

/* The same as reports, for pith_report_free(); a plan's page is that of pith_plan_html(). */
PITH_API enum pith_status pith_plan_model_report(const struct pith_plan_model_options *options,
                                                 struct pith_report **report,
                                                 struct pith_error *err);
PITH_API enum pith_status pith_plan_quantize_report(
    const struct pith_plan_quantize_options *options, struct pith_report **report,
    struct pith_error *err);
PITH_API enum pith_status pith_plan_shapes_report(struct pith_report **report,
                                                  struct pith_error *err);

/* The hardware that is known, as a JSON array; free it likewise. */
PITH_API enum pith_status pith_hardware_json(char **report, struct pith_error *err);
/* The machine at hand as such a row, "this": its memory, its bandwidth and its arithmetic measured
 * with the context's threads and kernels, which takes some tenths of a second and half a gibibyte.
 * PITH_NOMEM. */
PITH_API enum pith_status pith_hardware_measure(struct pith_context *context, char **report,
                                                struct pith_error *err);

/* The same with "kernels": what pith's own products of matrices on those grids, and attention over
 * caches of those formats (none named: bf16), take here with few rows and with many. A plan for
 * pith on such a row adds these up in place of a share of the roofline. Some seconds for each.
 * PITH_UNSUPPORTED for a grid that nothing can be put on as it is read. */
PITH_API enum pith_status pith_hardware_measure_kernels(struct pith_context *context,
                                                        const struct pith_list *weights,
                                                        const struct pith_list *caches,
                                                        char **report, struct pith_error *err);
/* The same as a report, for pith_report_free(). */
PITH_API enum pith_status pith_hardware_report(struct pith_context *context,
                                               const struct pith_list *weights,
                                               const struct pith_list *caches,
                                               struct pith_report **report, struct pith_error *err);

/* A page with tables and charts made from such a report (pith_text_free() it). PITH_FORMAT: it is
 * none. */
PITH_API enum pith_status pith_plan_html(const char *report, char **html, struct pith_error *err);

#ifdef __cplusplus
}
#endif
#endif
