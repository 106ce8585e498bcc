/* model/arch.h: an architecture: how its config is read, and the plan of its layers (plan.h). One
 * row of archs.def, one file in model/arch/, is one architecture. */
#ifndef PITH_MODEL_ARCH_H
#define PITH_MODEL_ARCH_H

#include "model/plan.h"
#include "model/shape.h"

enum { PITH_ARCH_BESIDE = 4, PITH_ARCH_BUFFERS = 2 };

/* What the tensors outside the layers are called, and all tensors of layers begin with. */
struct pith_arch_names {
    const char *layers;              /* "model.layers." */
    const char *embed, *norm, *head; /* "model.embed_tokens" etc. */
    const char *positions;           /* "wpe", where positions are learned */
    /* What is in the file and no part of the language model begins with these ("model.visual.");
     * with `further` layers behind the last one are of that kind too. It is copied, never run. */
    const char *beside[PITH_ARCH_BESIDE];
    bool further;
    /* Within a layer: what old files store though it can be computed ("attn.bias", a mask). */
    const char *buffer[PITH_ARCH_BUFFERS];
};

struct pith_family;

struct pith_arch {
    const char *name;       /* "LlamaForCausalLM" */
    const char *model_type; /* "llama" */
    const char *summary;
    enum pith_status (*read)(const json_t *config, const char *where, struct pith_shape *shape,
                             struct pith_error *err);
    /* Adds the parts of layer m->layer. */
    enum pith_status (*plan)(struct pith_plan_maker *m, struct pith_error *err);
    /* It wraps a language model, whose config is in "text_config" (in older files at the top);
     * whether the head is tied the top says, where it is silent `wraps_tied`. */
    bool wraps, wraps_tied;
    const struct pith_family *family; /* for pith_family_plan() (arch/family.h) */
    struct pith_arch_names names;
};

/* What the norms of an architecture are: see struct pith_family. */
struct pith_norm_kind {
    bool centred, bias;
    float plus;
};
struct pith_norm_kind pith_arch_norm(const struct pith_arch *a);

/* Whether `part` of a layer (or of anything) is a buffer that the forward pass computes itself:
 * rotary frequencies, and the architecture's own. */
bool pith_arch_buffer(const struct pith_arch *a, const char *part);

/* All rows. */
const struct pith_arch *const *pith_archs(size_t *count);

#endif
