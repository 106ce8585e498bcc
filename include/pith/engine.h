/* pith/engine.h: many requests over one model: submit a request, get events.
 *
 *     engine -> service -> submit, submit, ... -> events -> drain -> close
 *
 * A service owns a thread that runs steps over all requests that it has admitted: prompts in pieces
 * with the tokens of running answers. What a request gets depends on the request alone, to the
 * bit: not on who else is served, on what was served before, nor on threads.
 *
 * Every call but pith_service_close() may be made from any thread, from within an event too. */
#ifndef PITH_ENGINE_H
#define PITH_ENGINE_H

#include <pith/generate.h>
#include <pith/quantize.h>
#include <pith/status.h>

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct pith_service;
struct pith_event;

struct pith_service_options {
    size_t size;        /* of this struct as the program knows it: pith_service_defaults() */
    size_t context;     /* tokens of one request, prompt and answer; 0: what the model has */
    uint32_t sequences; /* answers that run at once; default 64 */
    size_t batch;       /* tokens of a step, at most; default 512 */
    size_t queue;       /* requests that wait beyond those that free places can take at once, at
                           most; default 256 */
    uint64_t memory;    /* hard, in bytes: weights, pages and work space; 0: pages for `tokens` */
    size_t tokens;      /* that pages are there for, where memory is 0; 0: four whole contexts, or
                           65536 where that is less */
    double pace;        /* seconds that pieces of prompts may add to a step while answers run;
                           default 0.1 */
    const char *kv;     /* as in struct pith_generate_options */
    struct pith_list kv_layers;
    const char *chat_template; /* a file in place of the model's template; NULL: the model's */
    int no_prefix_cache;       /* nonzero: nothing of earlier requests is cached */
};
PITH_API void pith_service_defaults_sized(struct pith_service_options *options, size_t size);
static inline void pith_service_defaults(struct pith_service_options *options)
{
    pith_service_defaults_sized(options, sizeof *options);
}

/* Starts a service over an engine, which is borrowed and serves nobody else until the service is
 * closed. PITH_LIMIT when the memory does not suffice for one request of that context (the message
 * says how much would), PITH_UNSUPPORTED for a model whose bits depend on how a prompt is cut (one
 * scale over a whole call). */
PITH_API enum pith_status pith_service_open(struct pith_engine *engine,
                                            const struct pith_service_options *options,
                                            struct pith_service **out, struct pith_error *err);
/* From here on nothing is accepted; what was accepted goes on. */
PITH_API void pith_service_drain(struct pith_service *service);
/* Ends what still runs as "cancelled", joins the thread, frees *service and sets it to NULL; NULL
 * and a NULL *service are allowed. Not from within an event. */
PITH_API void pith_service_close(struct pith_service **service);

/* --- requests --------------------------------------------------------------------------------- */

enum pith_constraint {
    PITH_ANY,        /* no constraint */
    PITH_JSON,       /* a JSON object */
    PITH_SCHEMA,     /* JSON that a JSON schema takes */
    PITH_EXPRESSION, /* what a regular expression matches, as a whole */
    PITH_CALLS /* calls of functions, or else another form: JSON with "call" (the schema of a call,
                  as a text), "open" and "close" (texts around each; missing: none), "many" (true:
                  several, with a line break between them) and "else" ({"kind": "json", "schema" or
                  "expression", "text"}; missing: calls alone) */
};

struct pith_request {
    size_t size; /* of this struct as the program knows it: pith_request_defaults() */

    /* The prompt: the first of these that is not NULL. Texts are UTF-8. */
    const int32_t *ids; /* [id_count] */
    size_t id_count;
    const char *text; /* BOS is put in front where the tokenizer says so, unless `bare` */
    size_t text_size;
    const char *conversation; /* JSON as of pith_chat_prompt(); add_generation_prompt is true unless
                                 it says otherwise */
    int bare;

    size_t max_tokens; /* 0: as many as the context has room for */
    size_t min_tokens; /* before which no answer ends by itself */
    float temperature; /* 0 (default): greedy */
    uint32_t top_k;    /* 0: no limit */
    float top_p;       /* 1: no limit */
    float min_p;       /* 0: no limit; a share of the likeliest token's probability */
    float typical;     /* 1: no limit; locally typical sampling (Meister et al. 2022) */
    float repetition;  /* 1: none; Keskar et al. 2019, over prompt and answer */
    float frequency;   /* 0: none; taken off a logit for each time that the answer has the token */
    float presence;    /* 0: none; taken off once */
    uint64_t seed;     /* choice i draws from a separate stream of it */
    const int32_t *bias; /* [bias_count]: ids whose logits get bias_value[] added */
    const float *bias_value;
    size_t bias_count;
    struct pith_list stop;   /* texts that end an answer, and are not part of it */
    int keep_stop;           /* nonzero: they are */
    const int32_t *stop_ids; /* [stop_id_count], in addition to the model's own */
    size_t stop_id_count;
    int ignore_end;   /* nonzero: the model's own ends are tokens like others */
    int special;      /* nonzero: special tokens stand in the text */
    uint32_t n;       /* choices that are reported; default 1 */
    uint32_t best_of; /* choices that are made, of which the n with the best mean log-probability
                         are reported, when all are there; 0: n */
    int logprobs; /* -1 (default): none; else that many alternatives of each token, at most 20 */
    int prompt_logprobs; /* the same of the prompt's tokens, before the answer */
    int echo;            /* nonzero: the prompt comes before the answer, as text and tokens */
    enum pith_constraint constraint;
    const char *constraint_text; /* the schema or the calls, as JSON; or the expression */
    uint32_t lookup; /* tokens that are guessed from the text so far and verified in one step; 0
                        (default): none. Never changes what a request gets */
    double deadline; /* seconds from now at most; 0: none */
    uint64_t client; /* requests of one client share its time; any number */

    /* Called for each event, from the service's thread, in order, and not after the last one (whose
     * kind is PITH_EVENT_END or PITH_EVENT_FAILED). Must not block. */
    void (*event)(void *ctx, const struct pith_event *event);
    void *ctx;

    int prompt_only; /* nonzero: the prompt is read and sent, with `echo` or `prompt_logprobs`, and
                        no token chosen; it may fill the context. max_tokens says nothing then */
};
PITH_API void pith_request_defaults_sized(struct pith_request *request, size_t size);
static inline void pith_request_defaults(struct pith_request *request)
{
    pith_request_defaults_sized(request, sizeof *request);
}

/* --- events ----------------------------------------------------------------------------------- */

enum pith_event_kind {
    PITH_EVENT_PROMPT, /* text and tokens of the prompt: with echo or prompt_logprobs */
    PITH_EVENT_TEXT,   /* some more of a choice: whole characters, none of a stop text */
    PITH_EVENT_CHOICE, /* a choice has ended: finish */
    PITH_EVENT_END,    /* all choices have: usage; the last */
    PITH_EVENT_FAILED  /* error; the last */
};

struct pith_alternative {
    int32_t id;
    float logprob;
};
struct pith_event_token {
    int32_t id;
    float logprob; /* natural, of the model's distribution, before temperature, penalties, bias and
                      constraint; NAN for a prompt's first token, and where none was requested */
    const struct pith_alternative *top; /* [tops]: the likeliest, best first */
    size_t tops;
};
struct pith_usage {
    size_t prompt;                 /* tokens */
    size_t cached;                 /* of them, that were not computed again */
    size_t generated;              /* tokens of all choices that were made */
    size_t guessed, guessed_right; /* with lookup */
    double queued, first, seconds; /* seconds from submit to admission, first token, end */
};
struct pith_event {
    enum pith_event_kind kind;
    uint64_t request; /* as pith_submit() gave it */
    uint32_t choice;
    const char *text; /* [text_size]: UTF-8; may be empty */
    size_t text_size;
    const struct pith_event_token *token; /* [tokens]: those that were chosen since the last event
                                             of this choice; text may lag behind them */
    size_t tokens;
    const char *finish;      /* "stop", "length", "cancelled", "deadline" */
    int32_t stop_id;         /* "stop": the token that ended it, or -1 */
    const char *stop;        /* "stop": the text that ended it, or NULL */
    struct pith_usage usage; /* of a text: the tokens so far; times at the end alone */
    const struct pith_error *error;
    enum pith_status status; /* of a failure */
    /* [tokens]: where each begins, in characters of the choice's text, or of the prompt's. A part
     * of a character begins where that does; a part of a stop text may lie behind the end. */
    const size_t *offset;
};

/* Accepts a request; what it points to is copied. The prompt is encoded in the calling thread.
 * PITH_ARG: a value out of range, an empty prompt, an id outside the vocabulary; PITH_LENGTH:
 * prompt and answer do not fit the context; PITH_LIMIT: the constraint is too large; PITH_FORMAT:
 * not UTF-8, a wrong conversation or constraint; PITH_UNSUPPORTED: a keyword of a schema that is
 * not supported (named), no chat template; PITH_BUSY: the queue is full; PITH_CLOSED: it drains. On
 * failure there are no events. */
PITH_API enum pith_status pith_submit(struct pith_service *service,
                                      const struct pith_request *request, uint64_t *id,
                                      struct pith_error *err);
/* Its choices end as "cancelled" soon; a request that is over, or unknown, does not change. */
PITH_API void pith_cancel(struct pith_service *service, uint64_t id);

/* --- other calls ------------------------------------------------------------------------------ */

/* Text or ids that a call below is given. */
struct pith_input_text {
    const char *text; /* [size], or NULL */
    size_t size;
    const int32_t *ids; /* [count], where text is NULL */
    size_t count;
    int special; /* of a text: BOS in front where the tokenizer says so; of ids: special tokens
                    stand in the text */
    int normal;  /* of an embedding: its length becomes 1 */
};
/* Ids of a text as a JSON list, for pith_text_free(). */
PITH_API enum pith_status pith_service_encode(struct pith_service *service,
                                              const struct pith_input_text *in, char **ids,
                                              struct pith_error *err);
/* The text of ids, *size bytes and a NUL, for pith_text_free(). */
PITH_API enum pith_status pith_service_decode(struct pith_service *service,
                                              const struct pith_input_text *in, char **text,
                                              size_t *size, struct pith_error *err);
/* The bytes that one id adds to a text in whose middle it stands, which may be a part of a
 * character; of a special token its name. *bytes[*size] and a NUL, for pith_text_free(). */
PITH_API enum pith_status pith_service_token(struct pith_service *service, int32_t id, char **bytes,
                                             size_t *size, struct pith_error *err);
/* What a client that encodes by itself needs of the tokenizer, under the names of
 * tokenizer_config.json, for pith_text_free(): {"bos_token", "eos_token", "unk_token", "pad_token",
 * "add_bos_token", "model_max_length", "chat_template"}. */
PITH_API enum pith_status pith_service_tokenizer(struct pith_service *service, char **json,
                                                 struct pith_error *err);
/* The prompt that a conversation becomes with the service's template. */
PITH_API enum pith_status pith_service_render(struct pith_service *service,
                                              const char *conversation, char **prompt, size_t *size,
                                              struct pith_error *err);
/* The mean of the last hidden rows (after the final norm) of a text or ids: *out[width], freed as
 * (char *) by pith_text_free(). Waits for the steps that it takes. */
PITH_API enum pith_status pith_service_embed(struct pith_service *service,
                                             const struct pith_input_text *in, float **out,
                                             size_t *width, struct pith_error *err);

/* What it is doing and has done, for gauges; counters run from its start. */
struct pith_service_state {
    size_t size;
    size_t running, waiting;  /* requests */
    size_t sequences;         /* in the last step */
    size_t pages, pages_used; /* of those that running requests and the cache hold */
    size_t pages_cached;      /* of them, only cached for a prefix that may come again */
    size_t context, vocab;
    uint64_t steps, preempted;
    uint64_t prompt_tokens, cached_tokens, generated_tokens;
    uint64_t guessed, guessed_right;
    double busy; /* seconds of steps */
    /* What a token takes in the cache, in bytes and in bits a number, scales and all; its name as
     * in the option kv, as long as the service is open. A page is 32 tokens. */
    double token_bytes, kv_bits;
    const char *kv;
};
PITH_API void pith_service_state(struct pith_service *service, struct pith_service_state *out);

#ifdef __cplusplus
}
#endif
#endif
