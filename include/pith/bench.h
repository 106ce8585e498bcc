/* pith/bench.h: how fast a checkpoint reads and writes on this machine, and how near that is to
 * what the machine can do. */
#ifndef PITH_BENCH_H
#define PITH_BENCH_H

#include <pith/context.h>
#include <pith/progress.h>
#include <pith/quantize.h>
#include <pith/status.h>

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What to time. Start from pith_bench_defaults(). */
struct pith_bench_options {
    size_t size;         /* of this struct as the program knows it: pith_bench_defaults() */
    const char *model;   /* folder of a checkpoint; needs no tokenizer */
    size_t prompt;       /* tokens of a prompt, default 512; 0: prompts are not timed */
    size_t gen;          /* tokens made after it, default 64; 0: not timed */
    size_t depth;        /* positions of the KV cache already taken, default 0 */
    size_t reps;         /* repetitions, default 5, at least 1 */
    const char *kv;      /* as of struct pith_eval_options (auto: if recorded); NULL: bf16, or the
                            checkpoint's */
    const char *mode;    /* "exact" or "fast"; NULL: the context's */
    const char *weights; /* grid that the linears are rounded to on load; NULL: as stored */
    const char *head;    /* the same for the head (not for an embedding tied to it) */
    uint64_t seed;       /* of the token ids, which are random */
    struct pith_progress progress;
    struct pith_list kv_layers; /* as of struct pith_eval_options */
    size_t sequences; /* default 1; more: so many at that depth also make tokens together, one each
                         a step. At most 1024 */
};
/* Fills in the defaults of a struct of `size` bytes: docs/library.md, "Versions". */
PITH_API void pith_bench_defaults_sized(struct pith_bench_options *options, size_t size);
static inline void pith_bench_defaults(struct pith_bench_options *options)
{
    pith_bench_defaults_sized(options, sizeof *options);
}

/* Whether the options make sense by themselves, before the model is opened: statuses as below. */
PITH_API enum pith_status pith_bench_check(const struct pith_bench_options *options,
                                           struct pith_error *err);

/* Loads the model, warms up, and times. *report is JSON with the keys that docs/performance.md
 * explains; free it with pith_text_free(). Besides the model, half a gibibyte of memory is needed
 * to measure the machine with.
 *
 * PITH_ARG          nothing to time, more positions than the model has or sequences than can
 *                   be, a grid that cannot be read, an unknown mode or element
 * PITH_UNSUPPORTED  a grid that weights cannot be rounded to */
PITH_API enum pith_status pith_bench(struct pith_context *context,
                                     const struct pith_bench_options *options, char **report,
                                     struct pith_error *err);

#ifdef __cplusplus
}
#endif
#endif
