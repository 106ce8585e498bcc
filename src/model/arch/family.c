#include "model/arch/family.h"

#include "base/mem.h"
#include "model/rope.h"

#include <string.h>

enum pith_status pith_family_read_size(const json_t *config, const char *where, const char *key,
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
    PITH_TRY(pith_family_read_size(config, where, "num_attention_heads", PITH_MAX_HEADS, d->heads,
                                   &s->heads, err));
    const bool as_heads = d->kv_heads == 0 || is_null(config, "num_key_value_heads");
    PITH_TRY(pith_family_read_size(config, where, "num_key_value_heads", PITH_MAX_HEADS,
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
    PITH_TRY(pith_family_read_size(config, where, "head_dim", PITH_MAX_HEAD_DIM, head_dim,
                                   &s->head_dim, err));
    if (s->head_dim % 2 != 0)
        return pith_fail(err, PITH_FORMAT,
                         "%s: the head dimension %u is odd, rotary positions need pairs", where,
                         s->head_dim);
    if ((uint64_t)s->heads * s->head_dim > PITH_MAX_WIDTH)
        return pith_fail(err, PITH_FORMAT, "%s: %u heads of %u are wider than %d", where, s->heads,
                         s->head_dim, (int)PITH_MAX_WIDTH);
    return PITH_OK;
}

/* "hidden_act", in older files of some "hidden_activation" or "activation_function". */
static enum pith_status read_activation(const json_t *config, const char *where,
                                        enum pith_act absent, enum pith_act *out,
                                        struct pith_error *err)
{
    static const char *const keys[] = {"hidden_act", "activation_function", "hidden_activation"};
    static const struct {
        const char *name;
        enum pith_act act;
    } known[] = {{"silu", PITH_ACT_SILU},          {"swish", PITH_ACT_SILU},
                 {"gelu", PITH_ACT_GELU},          {"gelu_pytorch_tanh", PITH_ACT_GELU_TANH},
                 {"gelu_new", PITH_ACT_GELU_TANH}, {"gelu_fast", PITH_ACT_GELU_TANH},
                 {"relu", PITH_ACT_RELU},          {"relu2", PITH_ACT_RELU2}};
    const char *name = NULL;
    for (size_t i = 0; i < PITH_COUNT(keys); i++)
        PITH_TRY(pith_json_get_str(config, keys[i], &name, where, err));
    *out = absent;
    if (!name) return PITH_OK;
    for (size_t i = 0; i < PITH_COUNT(known); i++) {
        if (strcmp(name, known[i].name) != 0) continue;
        *out = known[i].act;
        return PITH_OK;
    }
    return pith_fail(err, PITH_UNSUPPORTED,
                     "%s: activation \"%s\" is not supported (silu, gelu and its tanh forms, relu)",
                     where, name);
}

/* How much of a head is rotated: "partial_rotary_factor", at the top or among the rope parameters.
 */
static enum pith_status read_partial(const json_t *config, const char *where, double absent,
                                     struct pith_shape *shape, struct pith_error *err)
{
    double part = absent > 0 ? absent : 1;
    PITH_TRY(pith_json_get_real(config, "partial_rotary_factor", &part, where, err));
    static const char *const keys[] = {"rope_scaling", "rope_parameters"};
    for (size_t i = 0; i < PITH_COUNT(keys); i++) {
        const json_t *rope = json_object_get(config, keys[i]);
        if (json_is_object(rope))
            PITH_TRY(pith_json_get_real(rope, "partial_rotary_factor", &part, where, err));
    }
    if (absent == 0 && part != 1)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "%s: \"partial_rotary_factor\" %g: rotating a part of a head is not "
                         "supported for this architecture",
                         where, part);
    if (!(part > 0 && part <= 1))
        return pith_fail(err, PITH_FORMAT, "%s: \"partial_rotary_factor\" is %g, outside 0..1",
                         where, part);
    shape->rotary = (uint32_t)((double)shape->head_dim * part);
    if (shape->rotary < 2 || shape->rotary % 2 != 0)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "%s: %u of %u elements of a head would be rotated, which are no pairs",
                         where, shape->rotary, shape->head_dim);
    return PITH_OK;
}

static enum pith_status check_factors(const struct pith_rope *rope, const char *where,
                                      const struct pith_shape *s, struct pith_error *err)
{
    if (rope->type != PITH_ROPE_LONG || rope->factors == s->rotary / 2) return PITH_OK;
    return pith_fail(err, PITH_FORMAT,
                     "%s: %u factors of rotary frequencies, for the %u pairs of a head", where,
                     rope->factors, s->rotary / 2);
}

static enum pith_status read_rope(const json_t *config, const char *where,
                                  const struct pith_family_defaults *d, struct pith_shape *s,
                                  struct pith_error *err)
{
    static const char full[] = "full_attention", sliding[] = "sliding_attention";
    const bool kinds = d->rope_kinds && pith_rope_has_kind(config, full);
    s->rope.theta = d->theta;
    PITH_TRY(pith_rope_read(config, where, kinds ? full : NULL, s->max_position, &s->rope, err));
    PITH_TRY(check_factors(&s->rope, where, s, err));
    if (!kinds) return PITH_OK;
    s->rope_by_kind = true;
    s->rope_sliding.theta = d->theta;
    PITH_TRY(pith_rope_read(config, where, sliding, s->max_position, &s->rope_sliding, err));
    return check_factors(&s->rope_sliding, where, s, err);
}

enum pith_status pith_family_read(const json_t *config, const char *where,
                                  const struct pith_family_defaults *defaults,
                                  struct pith_shape *shape, struct pith_error *err)
{
    struct pith_shape *s = shape;
    *s = (struct pith_shape){.eps = 1e-6, .dtype = PITH_F32};
    PITH_TRY(
        pith_family_read_size(config, where, "hidden_size", PITH_MAX_WIDTH, 0, &s->hidden, err));
    PITH_TRY(pith_family_read_size(config, where, "intermediate_size", PITH_MAX_WIDTH,
                                   defaults->ffn, &s->ffn, err));
    PITH_TRY(pith_family_read_size(config, where, "num_hidden_layers", PITH_MAX_LAYERS, 0,
                                   &s->layers, err));
    PITH_TRY(pith_family_read_size(config, where, "vocab_size", PITH_MAX_VOCAB, defaults->vocab,
                                   &s->vocab, err));
    PITH_TRY(read_heads(config, where, defaults, s, err));
    int64_t positions = defaults->max_position;
    PITH_TRY(pith_json_get_most(config, "max_position_embeddings", INT32_MAX, &positions, where,
                                err));
    if (positions == 0)
        return pith_fail(err, PITH_FORMAT, "%s: \"max_position_embeddings\" is missing", where);
    s->max_position = (uint32_t)positions;
    PITH_TRY(read_activation(config, where, defaults->act, &s->act, err));
    PITH_TRY(read_partial(config, where, defaults->partial, s, err));
    s->tied = defaults->tied;
    if (defaults->eps_absent > 0) s->eps = defaults->eps_absent;
    const char *eps = defaults->eps ? defaults->eps : "rms_norm_eps";
    PITH_TRY(pith_json_get_real(config, eps, &s->eps, where, err));
    if (!(s->eps >= 0 && s->eps < 1))
        return pith_fail(err, PITH_FORMAT, "%s: \"%s\" is %g, outside 0..1", where, eps, s->eps);
    PITH_TRY(pith_json_get_bool(config, "tie_word_embeddings", &s->tied, where, err));
    return read_rope(config, where, defaults, s, err);
}

json_t *pith_family_renamed(const json_t *config, const char *const *keys, size_t pairs)
{
    json_t *out = json_copy((json_t *)(uintptr_t)config); /* only its references are counted */
    for (size_t i = 0; out && i < pairs; i++) {
        json_t *value = json_object_get(config, keys[2 * i]);
        if (value && json_object_set(out, keys[2 * i + 1], value) == 0) continue;
        if (!value) continue;
        json_decref(out);
        out = NULL;
    }
    return out;
}

enum pith_status pith_family_read_scale(const json_t *config, const char *where, const char *key,
                                        double *out, struct pith_error *err)
{
    if (!json_object_get(config, key) || is_null(config, key)) return PITH_OK;
    PITH_TRY(pith_json_get_real(config, key, out, where, err));
    if (*out > 1e-6 && *out < 1e6) return PITH_OK;
    return pith_fail(err, PITH_FORMAT, "%s: \"%s\" is %g, which makes no sense", where, key, *out);
}

enum pith_status pith_family_read_cap(const json_t *config, const char *where, const char *key,
                                      double *out, struct pith_error *err)
{
    if (is_null(config, key)) *out = 0;
    return pith_family_read_scale(config, where, key, out, err);
}

enum pith_status pith_family_read_window(const json_t *config, const char *where, uint32_t absent,
                                         uint32_t *window, struct pith_error *err)
{
    int64_t n = is_null(config, "sliding_window") ? 0 : (int64_t)absent;
    PITH_TRY(pith_json_get_most(config, "sliding_window", INT32_MAX, &n, where, err));
    *window = (uint32_t)n;
    return PITH_OK;
}

enum pith_status pith_family_read_layer_types(const json_t *config, const char *where,
                                              const struct pith_shape *shape, const char *name,
                                              const char *other, struct pith_layer_set *set,
                                              bool *given, struct pith_error *err)
{
    const json_t *types = json_object_get(config, "layer_types");
    *given = types && !json_is_null(types);
    if (!*given) return PITH_OK;
    if (!json_is_array(types) || json_array_size(types) < shape->layers)
        return pith_fail(err, PITH_FORMAT, "%s: \"layer_types\" is not a list of %u names", where,
                         shape->layers);
    for (uint32_t i = 0; i < shape->layers; i++) {
        const char *type = json_string_value(json_array_get(types, i));
        if (!type)
            return pith_fail(err, PITH_FORMAT, "%s: \"layer_types\"[%u] is not a string", where, i);
        const bool is = strcmp(type, name) == 0;
        if (!is && strcmp(type, other) != 0)
            return pith_fail(err, PITH_UNSUPPORTED, "%s: layer type \"%s\" is not supported", where,
                             type);
        if (is) pith_layer_put(set, i);
    }
    return PITH_OK;
}

enum pith_status pith_family_read_pattern(const json_t *config, const char *where, uint32_t absent,
                                          uint32_t every, struct pith_shape *shape,
                                          struct pith_error *err)
{
    static const char key[] = "sliding_window_pattern";
    bool given;
    int64_t n = every;
    PITH_TRY(pith_family_read_window(config, where, absent, &shape->window, err));
    PITH_TRY(pith_family_read_layer_types(config, where, shape, "sliding_attention",
                                          "full_attention", &shape->sliding, &given, err));
    if (given) return PITH_OK;
    PITH_TRY(pith_json_get_int(config, key, 1, INT32_MAX, &n, where, err));
    for (uint32_t i = 0; i < shape->layers; i++)
        if ((i + 1) % (uint32_t)n != 0) pith_layer_put(&shape->sliding, i);
    return PITH_OK;
}

enum pith_status pith_family_read_unrotated(const json_t *config, const char *where, uint32_t every,
                                            struct pith_shape *shape, struct pith_error *err)
{
    const json_t *list = json_object_get(config, "no_rope_layers");
    int64_t n = every;
    PITH_TRY(pith_json_get_int(config, "no_rope_layer_interval", 1, INT32_MAX, &n, where, err));
    if (list && !json_is_null(list) && !json_is_array(list))
        return pith_fail(err, PITH_FORMAT, "%s: \"no_rope_layers\" is not a list", where);
    const bool given = json_array_size(list) > 0;
    if (given && json_array_size(list) < shape->layers)
        return pith_fail(err, PITH_FORMAT, "%s: \"no_rope_layers\" has %zu items, not %u", where,
                         json_array_size(list), shape->layers);
    for (uint32_t i = 0; i < shape->layers; i++) {
        const json_t *item = json_array_get(list, i);
        if (given && !json_is_integer(item))
            return pith_fail(err, PITH_FORMAT, "%s: \"no_rope_layers\"[%u] is no whole number",
                             where, i);
        if (given ? json_integer_value(item) == 0 : (i + 1) % (uint32_t)n == 0)
            pith_layer_put(&shape->unrotated, i);
    }
    return PITH_OK;
}

enum pith_status pith_family_read_qwen_window(const json_t *config, const char *where,
                                              struct pith_shape *shape, struct pith_error *err)
{
    bool use = false, given;
    uint32_t window;
    int64_t first = 28;
    struct pith_layer_set sliding = {0};
    PITH_TRY(pith_json_get_bool(config, "use_sliding_window", &use, where, err));
    PITH_TRY(pith_family_read_window(config, where, 4096, &window, err));
    PITH_TRY(pith_json_get_int(config, "max_window_layers", 0, INT32_MAX, &first, where, err));
    PITH_TRY(pith_family_read_layer_types(config, where, shape, "sliding_attention",
                                          "full_attention", &sliding, &given, err));
    bool any = false;
    for (uint32_t i = 0; i < shape->layers; i++) {
        if (!given && (int64_t)i >= first) pith_layer_put(&sliding, i);
        any |= pith_layer_in(&sliding, i);
    }
    if (!use) window = 0;
    if (given && any && window == 0)
        return pith_fail(err, PITH_FORMAT,
                         "%s: \"layer_types\" has sliding attention, but no sliding window is in "
                         "use",
                         where);
    if (window == 0 || !any) return PITH_OK;
    shape->window = window;
    shape->sliding = sliding;
    return PITH_OK;
}
