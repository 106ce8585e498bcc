/* Gemma 3: Gemma 2's four norms, norms on q and k, and rotary positions by kind of layer. */
#include "model/build/build.h"
#include "model/build/names.h"
#include "model/config/read.h"
#include "model/gguf/parts.h"

#include <math.h>

/* Older files have a separate base for layers with a window, whose positions are not scaled. */
static enum pith_status read_local_rope(const struct pith_config *c, struct pith_shape *shape,
                                        struct pith_error *err)
{
    static const char key[] = "rope_local_base_freq";
    struct pith_rope *r = &shape->place.rope_window;
    if (shape->place.by_kind) return PITH_OK;
    *r = shape->place.rope;
    r->type = PITH_ROPE_DEFAULT;
    r->theta = 10000;
    shape->place.by_kind = true;
    PITH_TRY(pith_config_real(c, key, &r->theta, err));
    if (r->theta > 1 && r->theta <= 1e15) return PITH_OK;
    return pith_fail(err, PITH_FORMAT, "%s: \"%s\" is %g, not above 1 and at most 1e15", c->where,
                     key, r->theta);
}

static enum pith_status read_shape(const struct pith_config *c, struct pith_shape *shape,
                                   struct pith_error *err)
{
    static const struct pith_size_defaults defaults = {.key = {.act = "hidden_activation"},
                                                       .heads = 8,
                                                       .vocab = 262208,
                                                       .kv_heads = 4,
                                                       .head_dim = 256,
                                                       .max_position = 131072,
                                                       .tied = true,
                                                       .act = PITH_ACT_GELU_TANH,
                                                       .theta = 1e6,
                                                       .rope_kinds = true};
    double query = 256;
    bool both_ways = false;
    PITH_TRY(pith_read_sizes(c, &defaults, shape, err));
    PITH_TRY(read_local_rope(c, shape, err));
    PITH_TRY(pith_read_cap(c, "final_logit_softcapping", &shape->ends.logit_cap, err));
    PITH_TRY(pith_read_scale(c, "query_pre_attn_scalar", &query, err));
    PITH_TRY(pith_read_attention_bias(c, false, shape, err));
    PITH_TRY(pith_config_bool(c, "use_bidirectional_attention", &both_ways, err));
    if (both_ways)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "%s: \"use_bidirectional_attention\": a model that looks ahead does not "
                         "write text",
                         c->where);
    shape->scores.scale = 1 / sqrt(query);
    shape->ends.embed_scale = sqrt((double)shape->hidden);
    return pith_read_pattern(c, 4096, 6, shape, err);
}

static void layer(struct pith_plan_maker *m)
{
    const struct pith_norms before = pith_build_norms_before(m), after = pith_build_norms_after(m);
    struct pith_attention_spec attention = pith_attention_of(m);
    const struct pith_mlp_spec mlp = pith_mlp_of(m);
    pith_build_head_norms(m, &attention, PITH_HEADS_EACH);
    pith_build_around(m, &before, &after, &attention, &mlp);
}

static const struct pith_gguf_name_row parts[] = {
    PITH_GGUF_NORMS_AROUND, PITH_GGUF_ATTENTION, PITH_GGUF_QK_NORM, PITH_GGUF_MLP, {0}};

const struct pith_arch pith_arch_gemma3 = {
    .name = "Gemma3ForCausalLM",
    .model_type = "gemma3_text",
    .summary = "Gemma 3, text",
    .read = read_shape,
    .layer = layer,
    .norm = {.plus = 1},
    .names = PITH_NAMES_LLAMA,
    .gguf = {.name = "gemma3",
             .parts = parts,
             .act = PITH_ACT_GELU_TANH,
             .every = 6,
             .scalar = true,
             .features = 1u << PITH_GGUF_HAS_ROPE_KINDS | 1u << PITH_GGUF_HAS_LOGIT_CAP |
                         1u << PITH_GGUF_HAS_EMBED_SCALE},
};

const struct pith_arch pith_arch_gemma3_vl = {
    .name = "Gemma3ForConditionalGeneration",
    .model_type = "gemma3",
    .summary = "Gemma 3 that sees: its language model",
    .read = read_shape,
    .layer = layer,
    .norm = {.plus = 1},
    .wraps = true,
    .wraps_tied = true,
    .names = {PITH_NAMES_IN("language_model.model."), .head = "lm_head",
              .other = {"vision_tower.", "multi_modal_projector."}},
};
