/* GPT-NeoX and Pythia: LayerNorm with biases, q, k and v of each head in one linear, branches side
 * by side or one after the other. */
#include "model/build/build.h"
#include "model/config/read.h"
#include "model/gguf/parts.h"

static enum pith_status read_shape(const struct pith_config *c, struct pith_shape *shape,
                                   struct pith_error *err)
{
    struct pith_size_defaults defaults = {.plain_heads = true,
                                          .max_position = 2048,
                                          .act = PITH_ACT_GELU,
                                          .eps = "layer_norm_eps",
                                          .eps_absent = 1e-5,
                                          .partial = 0.25};
    bool parallel = true;
    PITH_TRY(pith_config_real(c, "rotary_pct", &defaults.partial, err));
    PITH_TRY(pith_config_real(c, "rotary_emb_base", &defaults.theta, err));
    if (!(defaults.partial > 0 && defaults.partial <= 1 && defaults.theta >= 0))
        return pith_fail(err, PITH_FORMAT, "%s: \"rotary_pct\" %g, \"rotary_emb_base\" %g",
                         c->where, defaults.partial, defaults.theta);
    PITH_TRY(pith_read_sizes(c, &defaults, shape, err));
    PITH_TRY(pith_read_attention_bias(c, true, shape, err));
    PITH_TRY(pith_config_bool(c, "use_parallel_residual", &parallel, err));
    shape->biases.mlp = true;
    pith_shape_set_own(shape, &parallel, sizeof parallel);
    return PITH_OK;
}

/* Attention and feed-forward read the same stream, and are added at once. */
static void side_by_side(struct pith_plan_maker *m, const struct pith_norms *norms,
                         const struct pith_attention_spec *attention,
                         const struct pith_mlp_spec *mlp)
{
    const struct pith_branch first = pith_build_branch(m, norms->attention, BRANCH);
    pith_build_attention(m, &first, attention);
    const struct pith_branch second = pith_build_branch(m, norms->mlp, OUT);
    pith_build_feed_forward(m, &second, mlp, NULL);
    pith_build_add(m, BRANCH);
    pith_build_add(m, OUT);
}

static void layer(struct pith_plan_maker *m)
{
    bool parallel;
    const struct pith_norms norms = pith_build_norms(m);
    struct pith_attention_spec attention = pith_attention_of(m);
    const struct pith_mlp_spec mlp = {
        .up = "mlp.dense_h_to_4h", .down = "mlp.dense_4h_to_h", .ffn = m->shape->ffn, .bias = true};
    attention.qkv = "attention.query_key_value";
    attention.qkv_by_head = true;
    attention.o = "attention.dense";
    pith_shape_own(m->shape, &parallel, sizeof parallel);
    if (!parallel) pith_build_sequential(m, &norms, &attention, &mlp, NULL);
    else side_by_side(m, &norms, &attention, &mlp);
}

static const struct pith_gguf_name_row parts[] = {
    PITH_GGUF_NORMS,
    PITH_GGUF_PART("attention.dense", "attn_output"),
    {.hf = "attention.query_key_value", .gguf = "attn_qkv", .place = {.order = PITH_GGUF_BY_HEAD}},
    PITH_GGUF_PART("mlp.dense_h_to_4h", "ffn_up"),
    PITH_GGUF_PART("mlp.dense_4h_to_h", "ffn_down"),
    {0}};

const struct pith_arch pith_arch_gpt_neox = {
    .name = "GPTNeoXForCausalLM",
    .model_type = "gpt_neox",
    .summary = "GPT-NeoX, Pythia",
    .read = read_shape,
    .layer = layer,
    .norm = {.centred = true, .bias = true},
    .names = {.layers = "gpt_neox.layers.",
              .embed = "gpt_neox.embed_in",
              .norm = "gpt_neox.final_layer_norm",
              .head = "embed_out",
              .buffer = {"attention.bias", "attention.masked_bias"}},
    .gguf = {.name = "gptneox",
             .parts = parts,
             .eps = "layer_norm_eps",
             .all_biased = true,
             .partial = true,
             .untied = true,
             .act = PITH_ACT_GELU,
             .features = 1u << PITH_GGUF_HAS_QKV_BIAS | 1u << PITH_GGUF_HAS_O_BIAS |
                         1u << PITH_GGUF_HAS_MLP_BIAS},
};
