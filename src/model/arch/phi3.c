/* Phi-3 and Phi-4: q, k and v are one linear, gate and up another. */
#include "model/build/build.h"
#include "model/build/names.h"
#include "model/config/read.h"
#include "model/gguf/parts.h"

static enum pith_status read_shape(const struct pith_config *c, struct pith_shape *shape,
                                   struct pith_error *err)
{
    static const struct pith_size_defaults defaults = {
        .max_position = 4096, .partial = 1, .eps_absent = 1e-5};
    PITH_TRY(pith_read_sizes(c, &defaults, shape, err));
    PITH_TRY(pith_read_all_windows(c, 0, shape, err));
    return PITH_OK;
}

static void layer(struct pith_plan_maker *m)
{
    const struct pith_norms norms = pith_build_norms(m);
    struct pith_attention_spec attention = pith_attention_of(m);
    const struct pith_mlp_spec mlp = {
        .gate_up = "mlp.gate_up_proj", .down = "mlp.down_proj", .ffn = m->shape->ffn};
    attention.qkv = "self_attn.qkv_proj";
    pith_build_sequential(m, &norms, &attention, &mlp, NULL);
}

static const struct pith_gguf_name_row parts[] = {PITH_GGUF_NORMS,
                                                  PITH_GGUF_PART("self_attn.o_proj", "attn_output"),
                                                  PITH_GGUF_PART("self_attn.qkv_proj", "attn_qkv"),
                                                  PITH_GGUF_PART("mlp.gate_up_proj", "ffn_up"),
                                                  PITH_GGUF_PART("mlp.down_proj", "ffn_down"),
                                                  {0}};

const struct pith_arch pith_arch_phi3 = {
    .name = "Phi3ForCausalLM",
    .model_type = "phi3",
    .summary = "Phi 3 and 4, their mini and long forms",
    .read = read_shape,
    .layer = layer,
    .names = PITH_NAMES_LLAMA,
    .gguf = {.name = "phi3", .parts = parts},
};
