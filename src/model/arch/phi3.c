/* Phi-3 and Phi-4: q, k and v are one linear, gate and up another. */
#include "model/family/family.h"

static enum pith_status read_shape(const struct pith_config *c, struct pith_shape *shape,
                                   struct pith_error *err)
{
    static const struct pith_family_defaults defaults = {
        .max_position = 4096, .partial = 1, .eps_absent = 1e-5};
    PITH_TRY(pith_family_read(c, &defaults, shape, err));
    PITH_TRY(pith_family_read_all_windows(c, 0, shape, err));
    return PITH_OK;
}

static const struct pith_family family = {PITH_FAMILY_NORMS, .qkv = "self_attn.qkv_proj",
                                          .o = "self_attn.o_proj", .gate_up = "mlp.gate_up_proj",
                                          .down = "mlp.down_proj"};

const struct pith_arch pith_arch_phi3 = {
    .name = "Phi3ForCausalLM",
    .model_type = "phi3",
    .summary = "Phi 3 and 4, their mini and long forms",
    .read = read_shape,
    .plan = pith_family_plan,
    .family = &family,
    .names = PITH_FAMILY_NAMES,
    .gguf = {.name = "phi3"},
};
