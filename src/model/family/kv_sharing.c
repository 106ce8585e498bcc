/* What small models share and are told (Gemma 4): keys and values of earlier layers, rows
 * of tables for each token and layer. */
#include "model/family/family.h"

uint32_t pith_family_kv_source(const struct pith_shape *s, uint32_t layer)
{
    const uint32_t own = s->layers - s->kv_shared;
    const bool window = pith_layer_in(&s->sliding, layer);
    uint32_t from = own;
    if (layer < own) return layer;
    while (from > 0 && pith_layer_in(&s->sliding, from - 1) != window) from--;
    return from > 0 ? from - 1 : layer;
}

bool pith_family_kv_left(const struct pith_shape *s, uint32_t layer)
{
    for (uint32_t i = s->layers - s->kv_shared; i < s->layers; i++)
        if (i != layer && pith_family_kv_source(s, i) == layer) return true;
    return false;
}

static enum pith_status read_shared(const struct pith_config *c, struct pith_shape *shape,
                                    struct pith_error *err)
{
    int64_t shared = 0;
    bool wide = false;
    PITH_TRY(pith_config_int(c, "num_kv_shared_layers", 0, shape->layers, &shared, err));
    PITH_TRY(pith_config_bool(c, "use_double_wide_mlp", &wide, err));
    shape->kv_shared = (uint32_t)shared;
    shape->kv_shared_ffn = wide ? 2 * shape->ffn : 0;
    if (shape->kv_shared_ffn > PITH_MAX_WIDTH)
        return pith_fail(err, PITH_FORMAT, "%s: \"intermediate_size\" %u twice", c->where,
                         shape->ffn);
    for (uint32_t i = shape->layers - shape->kv_shared; i < shape->layers; i++)
        if (pith_family_kv_source(shape, i) == i)
            return pith_fail(err, PITH_FORMAT,
                             "%s: \"num_kv_shared_layers\" %u leaves no layer whose keys and"
                             " values layer %u could share",
                             c->where, shape->kv_shared, i);
    return PITH_OK;
}

static enum pith_status read_told(const struct pith_config *c, uint32_t told,
                                  struct pith_shape *shape, struct pith_error *err)
{
    int64_t width = told, vocab = 262144;
    PITH_TRY(pith_config_int(c, "hidden_size_per_layer_input", 0, PITH_MAX_WIDTH, &width, err));
    PITH_TRY(pith_config_int(c, "vocab_size_per_layer_input", 1, PITH_MAX_VOCAB, &vocab, err));
    if (width == 0) return PITH_OK;
    if ((uint64_t)width * shape->layers > PITH_MAX_WIDTH || (uint64_t)vocab < shape->vocab)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "%s: %u layers are told %lld numbers each, of %lld tokens of %u", c->where,
                         shape->layers, (long long)width, (long long)vocab, shape->vocab);
    shape->told = (uint32_t)width;
    shape->told_vocab = (uint32_t)vocab;
    return PITH_OK;
}

enum pith_status pith_family_read_small(const struct pith_config *c, uint32_t told,
                                        struct pith_shape *shape, struct pith_error *err)
{
    PITH_TRY(read_shared(c, shape, err));
    return read_told(c, told, shape, err);
}
