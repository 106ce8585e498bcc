/* model/arch.h: an architecture as data: which linears a block has, what they are called, which
 * of them read the same input, and where a rescaling of that input can be folded. One row of
 * archs.def, one file in model/arch/, is one architecture. */
#ifndef PITH_MODEL_ARCH_H
#define PITH_MODEL_ARCH_H

#include "model/shape.h"

enum pith_role {
    PITH_ROLE_Q,
    PITH_ROLE_K,
    PITH_ROLE_V,
    PITH_ROLE_O,
    PITH_ROLE_GATE,
    PITH_ROLE_UP,
    PITH_ROLE_DOWN,
    PITH_ROLE_COUNT
};

enum pith_norm { PITH_NORM_INPUT, PITH_NORM_POST, PITH_NORM_Q, PITH_NORM_K, PITH_NORM_COUNT };

/* Linears that read the same input; in the order of computation. */
enum pith_site { PITH_SITE_QKV, PITH_SITE_O, PITH_SITE_GATE_UP, PITH_SITE_DOWN, PITH_SITE_COUNT };

/* What produces a site's input, so that dividing it channel by channel can be folded there. */
enum pith_fold { PITH_FOLD_NORM_INPUT, PITH_FOLD_ROWS_V, PITH_FOLD_NORM_POST, PITH_FOLD_ROWS_UP };

struct pith_site_info {
    const char *name; /* "qkv" */
    enum pith_role roles[3];
    unsigned count;
    enum pith_fold fold;
    bool inspect_module; /* AWQ judges the enclosing module, not the linears */
};

struct pith_arch {
    const char *name;       /* "LlamaForCausalLM" */
    const char *model_type; /* "llama" */
    const char *summary;
    enum pith_status (*read)(const json_t *config, const char *where, struct pith_shape *shape,
                             struct pith_error *err);
    const char *const *linear_names;    /* [PITH_ROLE_COUNT]: "self_attn.q_proj" */
    const char *const *norm_names;      /* [PITH_NORM_COUNT]: "input_layernorm" */
    const struct pith_site_info *sites; /* [PITH_SITE_COUNT] */
};

/* All rows. */
const struct pith_arch *const *pith_archs(size_t *count);

/* Rows (out) and columns (in) of a role's matrix; whether it has a bias; whether a norm exists
 * and its length. */
void pith_role_dims(const struct pith_shape *s, enum pith_role role, uint32_t *rows,
                    uint32_t *cols);
bool pith_role_has_bias(const struct pith_shape *s, enum pith_role role);
uint32_t pith_norm_length(const struct pith_shape *s, enum pith_norm norm); /* 0: absent */
uint32_t pith_site_dim(const struct pith_shape *s, enum pith_site site);

/* "model.layers.3.self_attn.q_proj" for a role; with ".weight" etc. added by the caller. Writes
 * at most size bytes. */
void pith_linear_name(const struct pith_arch *a, uint32_t layer, enum pith_role role, char *name,
                      size_t size);
void pith_norm_name(const struct pith_arch *a, uint32_t layer, enum pith_norm norm, char *name,
                    size_t size);

#endif
