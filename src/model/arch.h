/* model/arch.h: an architecture: how its config is read, and the plan of its layers (plan.h). One
 * row of archs.def, one file in model/arch/, is one architecture. */
#ifndef PITH_MODEL_ARCH_H
#define PITH_MODEL_ARCH_H

#include "model/config/shape.h"
#include "model/plan.h"

enum { PITH_ARCH_OTHERS = 4, PITH_ARCH_BUFFERS = 2 };

/* What the tensors outside the layers are called, and all tensors of layers begin with. */
struct pith_arch_names {
    const char *layers;                   /* "model.layers." */
    const char *embed, *norm, *head;      /* "model.embed_tokens" etc. */
    const char *positions;                /* "wpe", where positions are learned */
    const char *project_in, *project_out; /* where the embedding has another width */
    /* Per-layer vectors of tokens (model/nodes/token_vectors.c): E, W and the norm. */
    const char *per_layer_embed, *per_layer_project, *per_layer_norm;
    /* What is in the file and no part of the language model begins with these ("model.visual.");
     * with `further` layers behind the last one are of that kind too. It is copied, never run. */
    const char *other[PITH_ARCH_OTHERS];
    bool further;
    /* Within a layer: what old files store though it can be computed ("attn.bias", a mask). */
    const char *buffer[PITH_ARCH_BUFFERS];
};

/* What a model may have that llama.cpp's architecture may be without: model/gguf/features.def. */
enum pith_gguf_feature {
#define PITH_GGUF_FEATURE(name, text, has) PITH_GGUF_HAS_##name,
#include "model/gguf/features.def"
#undef PITH_GGUF_FEATURE
    PITH_GGUF_FEATURES
};

struct pith_gguf_name_row;

/* What the architecture is to llama.cpp (its src/models/, one file each). */
struct pith_arch_gguf {
    const char *name; /* "llama"; NULL: not written as GGUF, nor read */
    /* What the parts of its layers are called (model/gguf/parts.h); not NULL where name is not. */
    const struct pith_gguf_name_row *parts;
    unsigned
        features;  /* 1 << PITH_GGUF_HAS_...: what llama.cpp computes there, or reads from keys */
    bool permuted; /* rows of q and k lie as pith_stow_interleaved() */
    enum pith_act act;
    const char *eps; /* config.json's name of the norms' epsilon; NULL: "rms_norm_eps" */
    /* Of a mixture: what config.json calls the number of experts (NULL: "num_experts") and the
     * width of one (NULL: "moe_intermediate_size"). */
    const char *experts, *expert_width;
    bool by_keys;      /* keys say how they are chosen; else by a softmax, and: */
    bool renormalised; /* their weights are divided by their sum */
    bool all_sparse;   /* no layer may do without experts */
    uint32_t gating;   /* expert_gating_func, where several architectures have the name; 0: any */
    /* Of `every` layers all but the last have the window; 0: none has one. */
    uint32_t every;
    uint32_t unrotated; /* the last of so many layers has no positions; 0: any */
    bool scalar;        /* scores are divided by the root of a head's size, which the config says */
    bool untruncated;   /* YaRN's range is not rounded to whole dimensions */
    const char *last_norm; /* NULL: "output_norm" */
    /* Heads of keys are given by layer, 0 where config.json's "layer_types" says this in place of
     * "full_attention"; and what then is false in config.json, or NULL. */
    const char *without_keys, *off;
    bool dense;               /* the mixtures of such layers are another architecture's */
    bool either;              /* with experts or without, by "expert_count" */
    bool rope_stated;         /* whether layers have positions, all or none */
    const char *shared_width; /* config.json's name; NULL: "shared_expert_intermediate_size" */
    bool step;                /* a key says every how many layers there are experts: 1, or */
    bool stepped;             /* that number, of which the last is a mixture */
    const char *ffn; /* config.json's name of "feed_forward_length"; NULL: "intermediate_size" */
    /* Windows are chunks of this length, by whose number queries grow that have no position; q and
     * k are normed unless there are `bare` experts. 0: neither. */
    uint32_t chunk, bare;
    bool sections;    /* keys say which pairs of channels are rotated by which of a picture's
                         positions */
    bool factors;     /* Granite's: keys give factors, and logits are divided by "logit_scale" */
    bool large;       /* llama-quantize takes 80 layers of it for 70 billion weights (is_large()) */
    const char *bias; /* config.json's name of whether linears have any; NULL: "attention_bias" */
    bool partial;     /* a config that is silent about it rotates a part of a head */
    bool square;      /* heads together are as wide as the stream */
    bool untied;      /* the head is never the embedding */
    bool all_biased;  /* no linear may do without a bias */
    bool biased;      /* see struct pith_gguf_arch */
    bool qkv_bias_only; /* likewise */
};

struct pith_config;

/* What the norms of an architecture are: LayerNorm or RMSNorm, with biases or without, and what is
 * added to the gains as they are stored. */
struct pith_norm_kind {
    bool centred, bias;
    float plus;
};

/* A member of the struct that an architecture alone has (struct pith_shape's `own`), by which two
 * of its models are compared. */
struct pith_own_field {
    const char *name; /* as config.json calls it, or in words; NULL: the end of the list */
    size_t at;
    bool real; /* a double, else a uint32_t */
};

struct pith_arch {
    const char *name;       /* "LlamaForCausalLM" */
    const char *model_type; /* "llama" */
    const char *summary;
    enum pith_status (*read)(const struct pith_config *c, struct pith_shape *shape,
                             struct pith_error *err);
    /* Adds the parts of layer m->layer (model/build/build.h). */
    void (*layer)(struct pith_plan_maker *m);
    struct pith_norm_kind norm;
    const struct pith_own_field *own; /* NULL: nothing of it is compared */
    /* It wraps a language model, whose config is in "text_config" (in older files at the top);
     * whether the head is tied the top says, where it is silent `wraps_tied`. */
    bool wraps, wraps_tied;
    const struct pith_arch *renamed; /* the same under other names, which some files have */
    struct pith_arch_names names;
    struct pith_arch_gguf gguf;
};

/* What llama.cpp does not compute of a model of such plans, in words; NULL: nothing. For an
 * architecture that has a name there. */
const char *pith_arch_gguf_lacks(const struct pith_plans *p, const struct pith_shape *s);

/* Whether `part` of a layer (or of anything) is a buffer that the forward pass computes itself:
 * rotary frequencies, and the architecture's own. */
bool pith_arch_buffer(const struct pith_arch *a, const char *part);

/* All rows, and each by its name. */
const struct pith_arch *const *pith_archs(size_t *count);
#define PITH_ARCH(row) extern const struct pith_arch row;
#include "model/archs.def"
#undef PITH_ARCH

#endif
