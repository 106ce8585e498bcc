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
/* The same as a report, for pith_report_free(). */
PITH_API enum pith_status pith_bench_report(struct pith_context *context,
                                            const struct pith_bench_options *options,
                                            struct pith_report **report, struct pith_error *err);

/* --- servers: pith bench --serve -------------------------------------------------------------- */

/* How requests are sent to a server of OpenAI's API, and what is measured. Start from
 * pith_traffic_defaults(). Texts are lists where they say so: "1,4,16". */
struct pith_traffic_options {
    size_t size;          /* of this struct as the program knows it: pith_traffic_defaults() */
    const char *url;      /* "http://127.0.0.1:8080", perhaps ending in /v1 */
    const char *key;      /* API key, sent to that server only; NULL: none */
    const char *ca_file;  /* certificates (PEM) to trust; NULL: the system's */
    const char *name;     /* of the model; NULL: the first of /v1/models */
    const char *endpoint; /* "completions" (default) or "chat" */
    const char *form;     /* prompts as "text" (default) or "ids": token ids, which the server's
                             /tokenize gives; completions only */
    const char *clients;  /* list: so many send requests one after the other. One of these three;
                             clients 1 when none is given */
    const char *rates;    /* list: requests a second, at times of `arrivals` */
    const char *trace;    /* JSON lines with time, prompt, answer: docs/serving.md */
    const char *arrivals; /* "poisson" (default), "even", "bursts" */
    const char *prompt;   /* tokens of prompts: "256" (default), "uniform:64:512" and so on */
    const char *answer;   /* tokens of answers at most: default "64" */
    size_t prefix;        /* tokens before every prompt, the same in all */
    const char *text;     /* file that prompts are made of; NULL: words of pith's own */
    size_t requests;      /* of each level; 0: all of a trace, four a client, or what comes in 30
                             seconds at a rate, at least 16; with a duration no limit but that */
    double duration;      /* seconds after which a level sends no more; 0: no limit */
    size_t warmup;        /* requests before each level that are not measured; default 1 */
    double timeout;       /* seconds of a request; default 600 */
    double temperature;   /* default 0 */
    int ignore_end;       /* request "ignore_eos": answers of exactly that length */
    const char *more;     /* a JSON object whose members are added to each request; NULL: none */
    const char *limit;    /* "first=1000ms,between=100ms": of a good answer; NULL: none */
    uint64_t seed;        /* the same seed: the same times, lengths and prompts */
    struct pith_progress progress;
};
PITH_API void pith_traffic_defaults_sized(struct pith_traffic_options *options, size_t size);
static inline void pith_traffic_defaults(struct pith_traffic_options *options)
{
    pith_traffic_defaults_sized(options, sizeof *options);
}

/* Whether the options make sense by themselves, before any request is sent. PITH_ARG. */
PITH_API enum pith_status pith_traffic_check(const struct pith_traffic_options *options,
                                             struct pith_error *err);

/* Sends requests and measures the answers, level after level. *report is JSON with the keys that
 * docs/serving.md explains; free it with pith_text_free(). Requests that fail are counted in it.
 * One thread, and no model here. The words of prompts are measured by two short requests before.
 *
 * PITH_ARG          as of pith_traffic_check()
 * PITH_IO           nobody answers at that address, or not as such a server does; a file
 * PITH_FORMAT       a file that is no trace, or has no words
 * PITH_UNSUPPORTED  no libcurl on this machine; prompts of ids without /tokenize */
PITH_API enum pith_status pith_traffic(const struct pith_traffic_options *options, char **report,
                                       struct pith_error *err);

/* The same by all ranks of the context (pith_context_join()), of the same options: each sends every
 * n-th request, and has its share of the clients. Rank 0 has the *report, elsewhere it is NULL.
 * Requests that were under way at once ("most at once") are the sum of what each rank had. */
PITH_API enum pith_status pith_traffic_shared(struct pith_context *context,
                                              const struct pith_traffic_options *options,
                                              char **report, struct pith_error *err);
/* Either as a report, for pith_report_free(): with the context's ranks where one is given, which
 * may be NULL. Good where a request was answered. */
PITH_API enum pith_status pith_traffic_report(struct pith_context *context,
                                              const struct pith_traffic_options *options,
                                              struct pith_report **report, struct pith_error *err);

/* A page with tables and charts made from such a report (pith_text_free() it). PITH_FORMAT: it is
 * none. */
PITH_API enum pith_status pith_traffic_html(const char *report, char **html,
                                            struct pith_error *err);

#ifdef __cplusplus
}
#endif
#endif
