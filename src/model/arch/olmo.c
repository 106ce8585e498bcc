/* OLMo 2 and 3: what a part gives is normalised before it is added, and nothing before; q and k
 * over all heads at once. */
#include "model/build/build.h"
#include "model/build/names.h"
#include "model/config/read.h"
#include "model/gguf/parts.h"

static enum pith_status read_common(const struct pith_config *c,
                                    const struct pith_size_defaults *defaults,
                                    struct pith_shape *shape, struct pith_error *err)
{
    PITH_TRY(pith_read_sizes(c, defaults, shape, err));
    return pith_read_attention_bias(c, false, shape, err);
}

static enum pith_status read_two(const struct pith_config *c, struct pith_shape *shape,
                                 struct pith_error *err)
{
    static const struct pith_size_defaults defaults = {.max_position = 2048, .eps_absent = 1e-5};
    return read_common(c, &defaults, shape, err);
}

/* Older files have one scaling, which is for the layers without a window alone. */
static enum pith_status read_three(const struct pith_config *c, struct pith_shape *shape,
                                   struct pith_error *err)
{
    static const struct pith_size_defaults defaults = {
        .max_position = 2048, .eps_absent = 1e-5, .rope_kinds = true};
    PITH_TRY(read_common(c, &defaults, shape, err));
    if (!shape->place.by_kind && shape->place.rope.type != PITH_ROPE_DEFAULT) {
        shape->place.by_kind = true;
        shape->place.rope_window = shape->place.rope;
        shape->place.rope_window.type = PITH_ROPE_DEFAULT;
    }
    return pith_read_pattern(c, 4096, 4, shape, err);
}

static void layer(struct pith_plan_maker *m)
{
    pith_build_olmo(m, PITH_HEADS_TOGETHER);
}

static const struct pith_gguf_name_row parts[] = {
    PITH_GGUF_NORMS_AFTER, PITH_GGUF_ATTENTION, PITH_GGUF_QK_NORM, PITH_GGUF_MLP, {0}};

const struct pith_arch pith_arch_olmo2 = {
    .name = "Olmo2ForCausalLM",
    .model_type = "olmo2",
    .summary = "OLMo 2: norms after the parts",
    .read = read_two,
    .layer = layer,
    .names = PITH_NAMES_LLAMA,
    .gguf = {.name = "olmo2", .parts = parts},
};

const struct pith_arch pith_arch_olmo3 = {
    .name = "Olmo3ForCausalLM",
    .model_type = "olmo3",
    .summary = "OLMo 3: OLMo 2 with windows",
    .read = read_three,
    .layer = layer,
    .names = PITH_NAMES_LLAMA,
};
