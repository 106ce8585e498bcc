/* io/gguf/model.h: a GGUF file seen as a Hugging Face checkpoint: a config, and tensors under the
 * names that Hugging Face gives them. A matrix of blocks is shown as MODULE.TYPE
 * ("model.layers.0.mlp.up_proj.Q8_0"), U8 [rows][bytes a row]; the container gguf reads it. What
 * the file keeps elsewhere (rope_freqs.weight) is in the config.
 *
 * Sources: llama.cpp gguf-py/gguf/constants.py and tensor_mapping.py (names), conversion/base.py
 * and conversion/llama.py (what keys mean, permuted rows, rope_freqs). */
#ifndef PITH_IO_GGUF_MODEL_H
#define PITH_IO_GGUF_MODEL_H

#include "io/checkpoint.h"

/* Which of the file's sizes a tensor's order goes by. */
enum pith_gguf_order {
    PITH_GGUF_STRAIGHT,
    PITH_GGUF_Q_HEADS, /* rows of rotated heads: struct pith_stow */
    PITH_GGUF_K_HEADS,
    PITH_GGUF_BY_HEAD,   /* q, k and v of each head: q of all, k of all, v of all */
    PITH_GGUF_BY_LATENT, /* kv_b: keys' part transposed, values' behind it */
    PITH_GGUF_HALVES,    /* the first half of the rows, and behind it the second */
    PITH_GGUF_BY_DELTA,  /* q, k, v and z of each key head: q, k and v of all, and behind them z */
    /* Value heads of each key head: the first of all, the second of all: all rows; the last rows,
     * behind q and k; columns. */
    PITH_GGUF_BY_VALUE,
    PITH_GGUF_VALUES_LAST,
    PITH_GGUF_VALUES_ACROSS
};

/* The sizes that orders go by. */
struct pith_gguf_sizes {
    uint32_t heads, kv_heads;
    uint32_t nope, value, rank;                          /* of latents */
    uint32_t key_heads, value_heads, key_dim, value_dim; /* of the delta rule */
    uint32_t groups;                                     /* of Mamba 2 */
};

#define PITH_GGUF_NO_EXPERT UINT32_MAX
/* How a tensor lies in the file. */
struct pith_gguf_place {
    enum pith_gguf_order order;
    bool stacked;    /* all experts' in one, of one dimension more */
    uint32_t expert; /* which of these, else PITH_GGUF_NO_EXPERT */
    bool flat;       /* a matrix of one row is a vector there */
    bool filter;     /* [rows][1][n] is [rows][n] there */
    bool exchanged;  /* folders have it columns by rows */
    bool column;     /* a vector is a matrix of one column there */
    bool grouped;    /* a vector is a matrix there, a row a group */
    bool exact;      /* what llama.cpp wants in F32: routers */
    bool dense;      /* what cannot be of blocks there */
    enum pith_stored_as as;
    const char *rest; /* what its last part is called ("attn_v_b"), right behind; NULL: it is one */
    bool is_rest;     /* of a name in the file: it is such a last part */
    bool whole;       /* likewise: the module is a tensor's whole name */
};

/* A tensor's name here and there: within a layer, or of the model. */
struct pith_gguf_pair {
    char hf[56];      /* "mlp.up_proj"; "%u" stands for the number of an expert */
    const char *gguf; /* "ffn_up" */
    bool whole;       /* both are a tensor's whole name: "self_attn.sinks", "attn_sinks.weight" */
    struct pith_gguf_place place;
};

enum { PITH_GGUF_PAIRS = 48, PITH_GGUF_OUTER = 4 };

/* One architecture of llama.cpp that is one of Hugging Face's. */
struct pith_gguf_arch {
    size_t index;     /* pith_gguf_arch_at()'s */
    const char *name; /* "llama", in general.architecture and before the dot of its keys */
    const char *hf;   /* "LlamaForCausalLM" */
    const char *model_type;
    const char *act;    /* "silu", as config.json says it */
    const char *layers; /* "model.layers.", what names here begin with */
    const char *eps;    /* config.json's name of the norms' epsilon */
    bool centred;       /* they are LayerNorms */
    /* Of a mixture: what config.json calls the number of its experts, and the width of one; NULL:
     * it is none. */
    const char *experts, *expert_width;
    bool by_keys;      /* how they are chosen stands in keys; else: */
    bool renormalised; /* llama.cpp divides the weights of those that a token takes by their sum */
    bool all_sparse;   /* no layer may do without experts */
    /* expert_gating_func, where several architectures have one name; 0: any. */
    uint32_t gating;
    bool latent, delta, scan; /* what attention is, in some layers */
    bool biased;        /* q, k and v always have biases, and config.json has no word for it */
    const char *bias;   /* config.json's name of whether linears have biases */
    bool qkv_bias_only; /* "attention_bias" is of q, k and v alone */
    bool partial;       /* a config that is silent about it rotates a part of a head */
    bool windows;       /* layers with a window */
    bool scalar;        /* config.json says what scores are divided by the root of */
    bool untruncated;   /* YaRN's range is not rounded to whole dimensions */
    const char *without_keys, *off; /* see struct pith_arch_gguf */
    bool either, rope_stated;
    bool renamed;     /* with the names that some folders have; a key of pith's */
    const char *none; /* the number of experts, where config.json must say 0 */
    const char *shared_width;
    bool step;            /* every how many layers there are experts is stored */
    bool stepped;         /* it may be any number */
    const char *ffn;      /* config.json's name of "feed_forward_length" */
    uint32_t chunk, bare; /* see struct pith_arch_gguf */
    bool sections;        /* pairs of channels that rotate by a picture's positions are stored */
    bool factors;         /* keys have factors, and logits are divided by "logit_scale" */
    bool by_head;         /* q, k and v are one matrix, by head */
    struct pith_gguf_pair inner[PITH_GGUF_PAIRS], outer[PITH_GGUF_OUTER];
    size_t inners, outers;
};

/* Those that are known, in the order of preference where a file fits several: *out receives number
 * `index`, its lists of names still empty; false behind the last. Both are defined where
 * architectures are (model/gguf/archs.c), which io/ cannot name. */
bool pith_gguf_arch_at(size_t index, struct pith_gguf_arch *out);
/* The lists of names of what pith_gguf_arch_at() gave. */
void pith_gguf_arch_fill(struct pith_gguf_arch *a);

/* What a model of that Hugging Face name is to llama.cpp, with experts or without where it may be
 * either, its layers' names beginning so (NULL: anyhow); false when unknown. */
bool pith_gguf_arch_of(const char *hf, bool experts, const char *layers,
                       struct pith_gguf_arch *out);
#define PITH_GGUF_RENAMED "pith.renamed" /* such a key */
/* The architecture that the file names. */
enum pith_status pith_gguf_arch_read(const struct pith_gguf *g, struct pith_gguf_arch *out,
                                     struct pith_error *err);

/* The order of a tensor of that many rows; PARTED or ACROSS of one part a group are straight. */
struct pith_stow pith_gguf_order(enum pith_gguf_order order, const struct pith_gguf_sizes *s,
                                 uint64_t rows);
/* Whether a tensor of `rows` rows of `cols` falls into what the order moves, which is whole blocks
 * of so many columns. */
bool pith_gguf_fits(const struct pith_stow *o, uint64_t rows, uint64_t cols, uint64_t block);
/* The shapes of both parts of a matrix whose last part has another name (place.rest): in
 * `name`, whose shape is the matrix's so far. False when it does not come apart. */
bool pith_gguf_part(enum pith_gguf_order order, const struct pith_gguf_sizes *s,
                    struct pith_gguf_name *name);

enum { PITH_GGUF_NAME = 64 }; /* bytes of the longest name, with its NUL */
/* "blk.0.attn_q.weight" for "model.layers.0.self_attn.q_proj.weight": the module's name is
 * replaced, what follows the last dot becomes `ending`. False for a tensor that GGUF has no name
 * for in that architecture. */
bool pith_gguf_name(const struct pith_gguf_arch *arch, const char *hf, const char *ending,
                    char out[PITH_GGUF_NAME], struct pith_gguf_place *place);
/* Makes the place of a module's matrix or gain that of its bias: no filter, and as it is where a
 * gain is stored as 1 + w. */
void pith_gguf_place_bias(struct pith_gguf_place *place);
/* The reverse, as written by pith_gguf_name() without the ending: the module, of expert
 * `expert` where the tensor is stacked; of a name that is `whole` the tensor's own. */
bool pith_gguf_module(const struct pith_gguf_arch *arch, const char *name, uint32_t expert,
                      char *out, size_t size, struct pith_gguf_place *place);

/* *file receives the path of the GGUF file that a model's path means: the file itself, or the only
 * one of a folder without config.json; of a model in parts the first, whichever is named.
 * pith_free() it. NULL when it means none. */
enum pith_status pith_gguf_at(const char *path, char **file, struct pith_error *err);

/* split.c. Of a file whose name says that it is a later part of a model, *path (owned) becomes
 * the first part's. PITH_IO when that is not there. */
enum pith_status pith_gguf_first_part(char **path, struct pith_error *err);
/* Opens the other parts, where c->gguf says that it is the first of several: they become c's files,
 * and their tensors c->gguf's. PITH_IO names a part that is missing, PITH_FORMAT one that says to
 * be another than its name does; tensors that are there twice, or too few. */
enum pith_status pith_gguf_join(struct pith_checkpoint *c, struct pith_error *err);

/* Opens a GGUF file, or the parts that one is the first of, as a checkpoint. PITH_UNSUPPORTED for
 * an architecture, tensor or feature that cannot be shown this way. */
enum pith_status pith_gguf_checkpoint(const char *path, struct pith_checkpoint **out,
                                      struct pith_error *err);

/* The layers that run: those of the file but for the last, which predict further tokens. */
enum pith_status pith_gguf_layers(const struct pith_gguf *g, const struct pith_gguf_arch *arch,
                                  uint64_t *layers, struct pith_error *err);
/* The most heads of keys that a layer has, where the file has them by layer. */
enum pith_status pith_gguf_kv_heads(const struct pith_gguf *g, const struct pith_gguf_arch *arch,
                                    uint32_t *most, struct pith_error *err);
/* The config alone; *out is a new reference. `quantized`: some matrix is of blocks. */
enum pith_status pith_gguf_config(const struct pith_gguf *g, const struct pith_gguf_arch *arch,
                                  bool quantized, json_t **out, struct pith_error *err);
/* What llama.cpp divides the frequency of each pair of channels by, for models scaled as Llama 3.1
 * is: count values (conversion/llama.py, generate_extra_tensors()). */
struct pith_llama3_rope {
    double theta, factor, low, high;
    uint64_t original;
};
void pith_gguf_rope_factors(const struct pith_llama3_rope *rope, uint32_t count, float *out);

#endif
