/* Qwen-VL: the language models of those that see, whose positions are plain ones for text. */
#include "model/build/build.h"
#include "model/build/names.h"
#include "model/config/read.h"

static enum pith_status read_two(const struct pith_config *c, struct pith_shape *shape,
                                 struct pith_error *err)
{
    return pith_arch_qwen2.read(c, shape, err);
}

static enum pith_status read_three(const struct pith_config *c, struct pith_shape *shape,
                                   struct pith_error *err)
{
    return pith_arch_qwen3.read(c, shape, err);
}

static void layer_two(struct pith_plan_maker *m)
{
    pith_arch_qwen2.layer(m);
}

static void layer_three(struct pith_plan_maker *m)
{
    pith_arch_qwen3.layer(m);
}

const struct pith_arch pith_arch_qwen2_vl = {
    .name = "Qwen2VLForConditionalGeneration",
    .model_type = "qwen2_vl",
    .summary = "Qwen 2 VL: its language model",
    .read = read_two,
    .layer = layer_two,
    .wraps = true,
    .names = {PITH_NAMES_IN("model."), .head = "lm_head", .other = {"visual."}},
};

const struct pith_arch pith_arch_qwen2_5_vl = {
    .name = "Qwen2_5_VLForConditionalGeneration",
    .model_type = "qwen2_5_vl",
    .summary = "Qwen 2.5 VL: its language model",
    .read = read_two,
    .layer = layer_two,
    .wraps = true,
    .names = {PITH_NAMES_IN("model."), .head = "lm_head", .other = {"visual."}},
};

const struct pith_arch pith_arch_qwen3_vl = {
    .name = "Qwen3VLForConditionalGeneration",
    .model_type = "qwen3_vl",
    .summary = "Qwen 3 VL: its language model",
    .read = read_three,
    .layer = layer_three,
    .wraps = true,
    .names = {PITH_NAMES_IN("model.language_model."), .head = "lm_head",
              .other = {"model.visual."}},
};
