/* EXAONE 4: norms after the parts, on q and k; where there is a window, only layers with it rotate.
 */
#include "model/build/build.h"
#include "model/build/names.h"
#include "model/config/read.h"
#include "model/gguf/parts.h"

static enum pith_status read_shape(const struct pith_config *c, struct pith_shape *shape,
                                   struct pith_error *err)
{
    static const struct pith_size_defaults defaults = {
        .kv_heads = 32, .max_position = 2048, .eps_absent = 1e-5};
    PITH_TRY(pith_read_sizes(c, &defaults, shape, err));
    PITH_TRY(pith_read_pattern(c, 4096, 4, shape, err));
    if (shape->windows.size)
        pith_layer_put_rest(&shape->place.unrotated, &shape->windows.layers, shape->layers);
    return PITH_OK;
}

static void layer(struct pith_plan_maker *m)
{
    pith_build_olmo(m, PITH_HEADS_EACH);
}

static const struct pith_gguf_name_row parts[] = {
    PITH_GGUF_NORMS_AFTER, PITH_GGUF_ATTENTION, PITH_GGUF_QK_NORM, PITH_GGUF_MLP, {0}};

const struct pith_arch pith_arch_exaone4 = {
    .name = "Exaone4ForCausalLM",
    .model_type = "exaone4",
    .summary = "EXAONE 4: norms after the parts",
    .read = read_shape,
    .layer = layer,
    .names = PITH_NAMES_LLAMA,
    .gguf = {.name = "exaone4", .parts = parts},
};
