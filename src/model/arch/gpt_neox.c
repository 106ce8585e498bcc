/* GPT-NeoX and Pythia: LayerNorm with biases, q, k and v of each head in one linear, branches side
 * by side or one after the other. */
#include "model/family/family.h"

static enum pith_status read_shape(const struct pith_config *c, struct pith_shape *shape,
                                   struct pith_error *err)
{
    struct pith_family_defaults defaults = {.plain_heads = true,
                                            .max_position = 2048,
                                            .act = PITH_ACT_GELU,
                                            .eps = "layer_norm_eps",
                                            .eps_absent = 1e-5,
                                            .partial = 0.25};
    bool bias = true, parallel = true;
    PITH_TRY(pith_config_real(c, "rotary_pct", &defaults.partial, err));
    PITH_TRY(pith_config_real(c, "rotary_emb_base", &defaults.theta, err));
    if (!(defaults.partial > 0 && defaults.partial <= 1 && defaults.theta >= 0))
        return pith_fail(err, PITH_FORMAT, "%s: \"rotary_pct\" %g, \"rotary_emb_base\" %g",
                         c->where, defaults.partial, defaults.theta);
    PITH_TRY(pith_family_read(c, &defaults, shape, err));
    PITH_TRY(pith_config_bool(c, "attention_bias", &bias, err));
    PITH_TRY(pith_config_bool(c, "use_parallel_residual", &parallel, err));
    shape->qkv_bias = shape->o_bias = bias;
    shape->mlp_bias = true;
    shape->serial = !parallel;
    return PITH_OK;
}

static const struct pith_family family = {
    PITH_FAMILY_NORMS,         .qkv = "attention.query_key_value",
    .qkv_by_head = true,       .o = "attention.dense",
    .up = "mlp.dense_h_to_4h", .down = "mlp.dense_4h_to_h",
    .parallel = true,          .centred = true,
    .norm_bias = true};

const struct pith_arch pith_arch_gpt_neox = {
    .name = "GPTNeoXForCausalLM",
    .model_type = "gpt_neox",
    .summary = "GPT-NeoX, Pythia",
    .read = read_shape,
    .plan = pith_family_plan,
    .family = &family,
    .names = {.layers = "gpt_neox.layers.",
              .embed = "gpt_neox.embed_in",
              .norm = "gpt_neox.final_layer_norm",
              .head = "embed_out",
              .buffer = {"attention.bias", "attention.masked_bias"}},
    .gguf = {.name = "gptneox",
             .eps = "layer_norm_eps",
             .all_biased = true,
             .partial = true,
             .untied = true,
             .act = PITH_ACT_GELU,
             .features = 1u << PITH_GGUF_HAS_QKV_BIAS | 1u << PITH_GGUF_HAS_O_BIAS |
                         1u << PITH_GGUF_HAS_MLP_BIAS | 1u << PITH_GGUF_HAS_SERIAL},
};
