#include "model/arch/family.h"

#include "model/rope.h"

#include <string.h>

/* An integer in 1..hi; a missing key is an error when absent is 0. */
static enum pith_status read_size(const json_t *config, const char *where, const char *key,
                                  int64_t hi, uint32_t absent, uint32_t *out,
                                  struct pith_error *err)
{
    int64_t n = absent;
    PITH_TRY(pith_json_get_int(config, key, 1, hi, &n, where, err));
    if (n == 0) return pith_fail(err, PITH_FORMAT, "%s: \"%s\" is missing", where, key);
    *out = (uint32_t)n;
    return PITH_OK;
}

static bool is_null(const json_t *config, const char *key)
{
    return json_is_null(json_object_get(config, key));
}

static enum pith_status read_heads(const json_t *config, const char *where,
                                   const struct pith_family_defaults *d, struct pith_shape *s,
                                   struct pith_error *err)
{
    PITH_TRY(read_size(config, where, "num_attention_heads", PITH_MAX_HEADS, 0, &s->heads, err));
    const bool as_heads = d->kv_heads == 0 || is_null(config, "num_key_value_heads");
    PITH_TRY(read_size(config, where, "num_key_value_heads", PITH_MAX_HEADS,
                       as_heads ? s->heads : d->kv_heads, &s->kv_heads, err));
    if (s->kv_heads > s->heads || s->heads % s->kv_heads != 0)
        return pith_fail(err, PITH_FORMAT,
                         "%s: \"num_attention_heads\" %u is not a multiple of "
                         "\"num_key_value_heads\" %u",
                         where, s->heads, s->kv_heads);
    uint32_t head_dim = d->head_dim;
    if (head_dim == 0 && s->hidden % s->heads == 0) head_dim = s->hidden / s->heads;
    const json_t *given = json_object_get(config, "head_dim");
    if (head_dim == 0 && (!given || json_is_null(given)))
        return pith_fail(err, PITH_FORMAT,
                         "%s: \"hidden_size\" %u is not a multiple of \"num_attention_heads\" %u",
                         where, s->hidden, s->heads);
    PITH_TRY(read_size(config, where, "head_dim", PITH_MAX_HEAD_DIM, head_dim, &s->head_dim, err));
    if (s->head_dim % 2 != 0)
        return pith_fail(err, PITH_FORMAT,
                         "%s: the head dimension %u is odd, rotary positions need pairs", where,
                         s->head_dim);
    if ((uint64_t)s->heads * s->head_dim > PITH_MAX_WIDTH)
        return pith_fail(err, PITH_FORMAT, "%s: %u heads of %u are wider than %d", where, s->heads,
                         s->head_dim, (int)PITH_MAX_WIDTH);
    return PITH_OK;
}

static enum pith_status read_activation(const json_t *config, const char *where,
                                        struct pith_error *err)
{
    const char *act = "silu";
    PITH_TRY(pith_json_get_str(config, "hidden_act", &act, where, err));
    if (strcmp(act, "silu") != 0 && strcmp(act, "swish") != 0)
        return pith_fail(err, PITH_UNSUPPORTED, "%s: activation \"%s\" is not supported (silu)",
                         where, act);
    return PITH_OK;
}

enum pith_status pith_family_read(const json_t *config, const char *where,
                                  const struct pith_family_defaults *defaults,
                                  struct pith_shape *shape, struct pith_error *err)
{
    struct pith_shape *s = shape;
    *s = (struct pith_shape){.eps = 1e-6, .dtype = PITH_F32};
    PITH_TRY(read_size(config, where, "hidden_size", PITH_MAX_WIDTH, 0, &s->hidden, err));
    PITH_TRY(read_size(config, where, "intermediate_size", PITH_MAX_WIDTH, 0, &s->ffn, err));
    PITH_TRY(read_size(config, where, "num_hidden_layers", PITH_MAX_LAYERS, 0, &s->layers, err));
    PITH_TRY(read_size(config, where, "vocab_size", PITH_MAX_VOCAB, 0, &s->vocab, err));
    PITH_TRY(read_heads(config, where, defaults, s, err));
    PITH_TRY(read_size(config, where, "max_position_embeddings", INT32_MAX, defaults->max_position,
                       &s->max_position, err));
    PITH_TRY(read_activation(config, where, err));
    PITH_TRY(pith_json_get_real(config, "rms_norm_eps", &s->eps, where, err));
    if (!(s->eps >= 0 && s->eps < 1))
        return pith_fail(err, PITH_FORMAT, "%s: \"rms_norm_eps\" is %g, outside 0..1", where,
                         s->eps);
    PITH_TRY(pith_json_get_bool(config, "tie_word_embeddings", &s->tied, where, err));
    return pith_rope_read(config, where, s->max_position, &s->rope, err);
}

enum pith_status pith_family_read_window(const json_t *config, const char *where, uint32_t absent,
                                         uint32_t *window, struct pith_error *err)
{
    int64_t n = is_null(config, "sliding_window") ? 0 : (int64_t)absent;
    PITH_TRY(pith_json_get_int(config, "sliding_window", 1, INT32_MAX, &n, where, err));
    *window = (uint32_t)n;
    return PITH_OK;
}

enum pith_status pith_family_read_layer_types(const json_t *config, const char *where,
                                              const struct pith_shape *shape, bool *given,
                                              uint32_t *from, struct pith_error *err)
{
    const json_t *types = json_object_get(config, "layer_types");
    *given = types && !json_is_null(types);
    *from = shape->layers;
    if (!*given) return PITH_OK;
    if (!json_is_array(types) || json_array_size(types) != shape->layers)
        return pith_fail(err, PITH_FORMAT, "%s: \"layer_types\" is not a list of %u names", where,
                         shape->layers);
    for (uint32_t i = 0; i < shape->layers; i++) {
        const char *name = json_string_value(json_array_get(types, i));
        if (!name)
            return pith_fail(err, PITH_FORMAT, "%s: \"layer_types\"[%u] is not a string", where, i);
        const bool sliding = strcmp(name, "sliding_attention") == 0;
        if (!sliding && strcmp(name, "full_attention") != 0)
            return pith_fail(err, PITH_UNSUPPORTED, "%s: layer type \"%s\" is not supported", where,
                             name);
        if (sliding && *from == shape->layers) *from = i;
        if (!sliding && *from < i)
            return pith_fail(err, PITH_UNSUPPORTED,
                             "%s: \"layer_types\": full attention (layer %u) after sliding "
                             "attention (layer %u) is not supported",
                             where, i, *from);
    }
    return PITH_OK;
}

enum pith_status pith_family_read_qwen_window(const json_t *config, const char *where,
                                              struct pith_shape *shape, struct pith_error *err)
{
    bool use = false, given;
    uint32_t window, from;
    int64_t first = 28;
    PITH_TRY(pith_json_get_bool(config, "use_sliding_window", &use, where, err));
    PITH_TRY(pith_family_read_window(config, where, 4096, &window, err));
    PITH_TRY(pith_json_get_int(config, "max_window_layers", 0, INT32_MAX, &first, where, err));
    PITH_TRY(pith_family_read_layer_types(config, where, shape, &given, &from, err));
    if (!use) window = 0;
    if (given && from < shape->layers && window == 0)
        return pith_fail(err, PITH_FORMAT,
                         "%s: \"layer_types\" has sliding attention, but no sliding window is in "
                         "use",
                         where);
    if (!given) from = first < (int64_t)shape->layers ? (uint32_t)first : shape->layers;
    if (window == 0 || from >= shape->layers) return PITH_OK;
    shape->window = window;
    shape->window_from_layer = from;
    return PITH_OK;
}
