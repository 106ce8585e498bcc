/* pith/generate.h: does it still speak? Continuing a text with a checkpoint in any container. */
#ifndef PITH_GENERATE_H
#define PITH_GENERATE_H

#include <pith/context.h>
#include <pith/quantize.h>
#include <pith/report.h>
#include <pith/status.h>

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A loaded model with its tokenizer. Borrows the context, which must outlive it; one call at a
 * time. */
struct pith_engine;

/* Loads a checkpoint folder. On success the caller owns *out. */
PITH_API enum pith_status pith_engine_open(struct pith_context *context, const char *model,
                                           struct pith_engine **out, struct pith_error *err);
/* Frees *engine and sets it to NULL; NULL and a NULL *engine are allowed. */
PITH_API void pith_engine_close(struct pith_engine **engine);

struct pith_generate_options {
    size_t size;        /* of this struct as the program knows it: pith_generate_defaults() */
    const char *prompt; /* UTF-8; BOS is put in front where the tokenizer says so */
    size_t max_tokens;  /* default 128; ends earlier at EOS or at the model's context */
    float temperature;  /* 0 (default): greedy */
    uint32_t top_k;     /* 0: no limit */
    float top_p;        /* 1: no limit */
    uint64_t seed;
    const char *kv; /* KV cache: "bf16", "f16", "f32" or a grid; NULL: as the checkpoint says, or
                       bf16 */
    /* Receives the text as it comes, whole UTF-8 characters; return nonzero to stop. NULL: not
     * wanted. */
    int (*text)(void *ctx, const char *piece, size_t size);
    void *ctx;
    struct pith_list kv_layers; /* as of struct pith_eval_options */
    /* Nonzero: the prompt is what a user says, and the text the answer: the chat template makes a
     * prompt of it, nothing is put in front, and each of the model's ends of text ends it. */
    int chat;
    const char *chat_template; /* with chat: a file in place of the model's template */
};
/* Fills in the defaults of a struct of `size` bytes: docs/library.md, "Versions". */
PITH_API void pith_generate_defaults_sized(struct pith_generate_options *options, size_t size);
static inline void pith_generate_defaults(struct pith_generate_options *options)
{
    pith_generate_defaults_sized(options, sizeof *options);
}

/* Whether the prompt can be continued: PITH_ARG when it is empty or fills the model's context,
 * PITH_FORMAT when it is not UTF-8 or the chat template refuses it; and the cache as there. With
 * `chat`, PITH_UNSUPPORTED when the model has no template. */
PITH_API enum pith_status pith_generate_check(struct pith_engine *engine,
                                              const struct pith_generate_options *options,
                                              struct pith_error *err);

/* Continues the prompt. *report (when not NULL) is JSON: {"text", "prompt_tokens",
 * "generated_tokens", "finish_reason": "stop"|"length"|"interrupted", "seconds_prompt",
 * "seconds_generate", "tokens_per_second"}; free it with pith_text_free(). */
PITH_API enum pith_status pith_generate(struct pith_engine *engine,
                                        const struct pith_generate_options *options, char **report,
                                        struct pith_error *err);
/* The same as a report, for pith_report_free(). */
PITH_API enum pith_status pith_generate_report(struct pith_engine *engine,
                                               const struct pith_generate_options *options,
                                               struct pith_report **report, struct pith_error *err);

#ifdef __cplusplus
}
#endif
#endif
