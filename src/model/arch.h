/* model/arch.h: an architecture: how its config is read, and the plan of its layers (plan.h). One
 * row of archs.def, one file in model/arch/, is one architecture. */
#ifndef PITH_MODEL_ARCH_H
#define PITH_MODEL_ARCH_H

#include "model/plan.h"
#include "model/shape.h"

/* What the tensors outside the layers are called, and all tensors of layers begin with. */
struct pith_arch_names {
    const char *layers;              /* "model.layers." */
    const char *embed, *norm, *head; /* "model.embed_tokens" etc. */
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
    const struct pith_family *family; /* for pith_family_plan() (arch/family.h) */
    struct pith_arch_names names;
};

/* What the norms of an architecture are: see struct pith_family. */
struct pith_norm_kind {
    bool centred, bias;
    float plus;
};
struct pith_norm_kind pith_arch_norm(const struct pith_arch *a);

/* All rows. */
const struct pith_arch *const *pith_archs(size_t *count);

#endif
