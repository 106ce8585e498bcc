/* export/preflight.h: what other engines expect of a checkpoint, checked before the work starts and
 * again by `pith verify`. A row of the table in export/target.c is one engine: what its loaders
 * take, as data, each row with the peer's source file that says so. */
#ifndef PITH_EXPORT_PREFLIGHT_H
#define PITH_EXPORT_PREFLIGHT_H

#include "io/container/container.h"
#include "model/model.h"
#include "plan/hardware/hardware.h"

/* A grid of weights, and the grids of inputs that it may go with: texts with spaces between,
 * "none" for inputs in 16 bits, "*" for any. */
struct pith_load_pair {
    const char *weights, *inputs;
};

/* What an engine's loader takes of one layout of one container: integers with inputs in 16 bits,
 * integers with integers, or with `pairs` everything else. */
struct pith_load_rule {
    const char *container;              /* "gptq"; "*": any, also those that others do not load */
    bool acts;                          /* the layout that goes with quantized activations */
    const struct pith_load_pair *pairs; /* ending with NULL; the fields to act_order do not count */
    const char *inputs;                 /* with acts: the grids of inputs, as in a pair */
    uint32_t sym, asym;                 /* bit widths: 1 << 4 | ... */
    bool tensor, channel;               /* granularities apart from groups */
    const uint32_t *groups;             /* sizes, ending with 0; NULL: any; empty: no groups */
    bool act_order;                     /* groups that follow the order of activations */
    bool mixed;                         /* several grids in one model */
    bool online;                        /* rotates inputs at run time, on one rank */
    bool fused;                         /* holds q, k, v and gate, up as one: they share a grid */
    bool expert_zeros;                  /* takes zero points of experts too, where it takes any */
    bool whole_words;                   /* every rank gets whole 32-bit words of codes */
    uint32_t tile_rows, tile_cols; /* what a rank's rows and columns are multiples of; 0: nothing */
};

/* A cache that an engine has: a grid of keys and values, or floats, as pith names it, and what the
 * engine is started with; on its own rows of a head, whose rounding is the engine's own. */
struct pith_engine_cache {
    const char *kv;        /* "int8:token" */
    const char *option[2]; /* for both, or for keys and for values */
};

/* Who reads the tokenizer of an engine's models: export/tokens.h. */
enum pith_engine_tokens { PITH_TOKENS_ANY, PITH_TOKENS_HF, PITH_TOKENS_LLAMACPP };

struct pith_target_engine {
    const char *name;    /* "vllm", as in --for */
    const char *summary; /* one line */
    bool ranks;          /* splits linears over tp ranks */
    const struct pith_load_rule *rules;
    size_t count;
    enum pith_engine_tokens tokens;
    const char *advice; /* what would be loaded, for a container without a rule */
    const struct pith_engine_cache *caches; /* ending with NULL; NULL: none is known */
    /* Rotates heads of a multiple of so many numbers that it stores as codes, unless `unrotated` in
     * front of its command says otherwise; 0: never does. */
    uint32_t rotates;
    const char *unrotated;
    const char *stored; /* caches whose scales it takes from a checkpoint, with spaces between */
    bool any_cache;     /* has all that pith names, under these names; `caches` lists none */
};

/* What the engine is started with for such a cache, where every layer that keeps keys and values
 * has heads of `head_dim`; false where it has none. */
enum { PITH_ENGINE_CACHE = 128 };
bool pith_engine_cache(const struct pith_target_engine *e, const struct pith_kv_format *f,
                       uint32_t head_dim, char text[PITH_ENGINE_CACHE]);

/* All rows; *count receives their number. */
const struct pith_target_engine *const *pith_engines(size_t *count);
const struct pith_target_engine *pith_engine_find(const char *name);
/* Whether it loads such a container and then holds as one matrix what reads one input (q, k and v;
 * gate and up), and so the experts of a layer: these share a grid. */
bool pith_engine_fuses(const struct pith_target_engine *e, const struct pith_container *c);

/* "vllm", "vllm:tp=2", "vllm:tp=2:gpu=l4". */
struct pith_target {
    const struct pith_target_engine *engine;
    unsigned tp;                     /* ranks, at least 1 */
    const struct pith_hardware *gpu; /* NULL: any */
};
/* PITH_ARG names the part that is wrong and what would be right. */
enum pith_status pith_target_parse(const char *text, struct pith_target *out,
                                   struct pith_error *err);

/* A model that is to be made, or was. */
struct pith_offer {
    const struct pith_plans *plans;
    const struct pith_shape *shape;
    const struct pith_container *container;
    const struct pith_container_opts *opts;
    /* Every linear of the blocks, in the order of the plans; then maybe the head. */
    const struct pith_linear_grid *linears;
    size_t count;
};

/* PITH_UNSUPPORTED with "engine: module: what is wrong; what would work" for the first rule of the
 * target that the offer breaks; PITH_ARG for an offer of another number of linears. */
enum pith_status pith_preflight(const struct pith_target *target, const struct pith_offer *offer,
                                struct pith_error *err);
/* The same for all rules: appends each violation's text to the JSON list `problems` (borrowed); at
 * most one a module and rule. Fails only when it cannot do its work. */
enum pith_status pith_preflight_all(const struct pith_target *target,
                                    const struct pith_offer *offer, json_t *problems,
                                    struct pith_error *err);
/* Appends what a target's GPU does with the offer and who does not look would not expect, a text
 * each with its source: what its engine does not run there with `refused`, else what saves memory
 * and no arithmetic. Nothing for a target without a GPU. PITH_NOMEM. */
enum pith_status pith_target_natives(const struct pith_target *target,
                                     const struct pith_offer *offer, bool refused, json_t *texts,
                                     struct pith_error *err);
/* pith_preflight_all() for an open quantized model and a target as text, and what its GPU saves
 * memory by alone (pith_target_natives()) into `notes`; nothing for one that is not quantized. */
enum pith_status pith_preflight_model(const struct pith_model *m, const char *target,
                                      json_t *problems, json_t *notes, struct pith_error *err);

#endif
