/* Gemma 2: norms before and after both parts, gains of 1 + w, capped scores and logits. */
#include "model/build/build.h"
#include "model/build/names.h"
#include "model/config/read.h"
#include "model/gguf/parts.h"

#include <math.h>

static enum pith_status read_shape(const struct pith_config *c, struct pith_shape *shape,
                                   struct pith_error *err)
{
    static const struct pith_size_defaults defaults = {.key = {.act = "hidden_activation"},
                                                       .kv_heads = 4,
                                                       .head_dim = 256,
                                                       .max_position = 8192,
                                                       .tied = true,
                                                       .act = PITH_ACT_GELU_TANH};
    double query = 256, score_cap = 50, logit_cap = 30;
    PITH_TRY(pith_read_sizes(c, &defaults, shape, err));
    PITH_TRY(pith_read_cap(c, "attn_logit_softcapping", &score_cap, err));
    PITH_TRY(pith_read_cap(c, "final_logit_softcapping", &logit_cap, err));
    PITH_TRY(pith_read_scale(c, "query_pre_attn_scalar", &query, err));
    PITH_TRY(pith_read_attention_bias(c, false, shape, err));
    shape->scores.cap = score_cap;
    shape->ends.logit_cap = logit_cap;
    shape->scores.scale = 1 / sqrt(query);
    shape->ends.embed_scale = sqrt((double)shape->hidden);
    return pith_read_even_windows(c, 4096, shape->layers, shape, err);
}

static void layer(struct pith_plan_maker *m)
{
    const struct pith_norms before = pith_build_norms_before(m), after = pith_build_norms_after(m);
    const struct pith_attention_spec attention = pith_attention_of(m);
    const struct pith_mlp_spec mlp = pith_mlp_of(m);
    pith_build_around(m, &before, &after, &attention, &mlp);
}

static const struct pith_gguf_name_row parts[] = {
    PITH_GGUF_NORMS_AROUND, PITH_GGUF_ATTENTION, PITH_GGUF_MLP, {0}};

const struct pith_arch pith_arch_gemma2 = {
    .name = "Gemma2ForCausalLM",
    .model_type = "gemma2",
    .summary = "Gemma 2",
    .read = read_shape,
    .layer = layer,
    .norm = {.plus = 1},
    .names = PITH_NAMES_LLAMA,
    .gguf = {.name = "gemma2",
             .parts = parts,
             .act = PITH_ACT_GELU_TANH,
             .every = 2,
             .scalar = true,
             .features = 1u << PITH_GGUF_HAS_SCORE_CAP | 1u << PITH_GGUF_HAS_LOGIT_CAP |
                         1u << PITH_GGUF_HAS_EMBED_SCALE},
};
