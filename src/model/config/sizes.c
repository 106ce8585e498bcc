/* Sizes, heads, rotary positions, biases and windows in a config. */
#include "model/config/read.h"

#include "base/mem.h"
#include "model/rope.h"

#include <string.h>

enum pith_status pith_read_size(const struct pith_config *c, const char *key, int64_t hi,
                                uint32_t absent, uint32_t *out, struct pith_error *err)
{
    int64_t n = absent;
    PITH_TRY(pith_config_int(c, key, 1, hi, &n, err));
    if (n == 0) return pith_fail(err, PITH_FORMAT, "%s: \"%s\" is missing", c->where, key);
    *out = (uint32_t)n;
    return PITH_OK;
}

/* The key of a size: the architecture's own where it has one, unless only the usual one is there
 * (transformers takes both). */
static const char *key_of(const struct pith_config *c, const char *own, const char *usual)
{
    const bool only_usual = own && !pith_config_get(c, own) && pith_config_get(c, usual);
    return own && !only_usual ? own : usual;
}

/* How many heads share each head of keys; and how wide all are. */
static enum pith_status read_kv_heads(const struct pith_config *c,
                                      const struct pith_size_defaults *d, struct pith_shape *s,
                                      struct pith_error *err)
{
    static const char key[] = "num_key_value_heads";
    const bool as_heads = d->kv_heads == 0 || pith_config_is_null(c, key);
    PITH_TRY(pith_read_size(c, key, PITH_MAX_HEADS, as_heads ? s->heads : d->kv_heads, &s->kv_heads,
                            err));
    if (s->kv_heads > s->heads || s->heads % s->kv_heads != 0)
        return pith_fail(err, PITH_FORMAT,
                         "%s: \"num_attention_heads\" %u is not a multiple of "
                         "\"num_key_value_heads\" %u",
                         c->where, s->heads, s->kv_heads);
    return PITH_OK;
}

static enum pith_status read_head_dim(const struct pith_config *c,
                                      const struct pith_size_defaults *d, struct pith_shape *s,
                                      struct pith_error *err)
{
    s->head_dim = d->head_dim;
    if (s->head_dim == 0 && s->hidden % s->heads == 0) s->head_dim = s->hidden / s->heads;
    const bool given = !d->plain_heads && pith_config_has(c, "head_dim");
    if (s->head_dim == 0 && !given)
        return pith_fail(err, PITH_FORMAT,
                         "%s: \"hidden_size\" %u is not a multiple of \"num_attention_heads\" %u",
                         c->where, s->hidden, s->heads);
    if (given) PITH_TRY(pith_read_size(c, "head_dim", PITH_MAX_HEAD_DIM, 0, &s->head_dim, err));
    if (s->head_dim % 2 != 0)
        return pith_fail(err, PITH_FORMAT,
                         "%s: the head dimension %u is odd, rotary positions need pairs", c->where,
                         s->head_dim);
    if ((uint64_t)s->heads * s->head_dim > PITH_MAX_WIDTH)
        return pith_fail(err, PITH_FORMAT, "%s: %u heads of %u are wider than %d", c->where,
                         s->heads, s->head_dim, (int)PITH_MAX_WIDTH);
    return PITH_OK;
}

static enum pith_status read_heads(const struct pith_config *c, const struct pith_size_defaults *d,
                                   struct pith_shape *s, struct pith_error *err)
{
    PITH_TRY(pith_read_size(c, key_of(c, d->key.heads, "num_attention_heads"), PITH_MAX_HEADS,
                            d->heads, &s->heads, err));
    s->kv_heads = s->heads;
    if (!d->plain_heads) PITH_TRY(read_kv_heads(c, d, s, err));
    return read_head_dim(c, d, s, err);
}

static enum pith_status read_activation(const struct pith_config *c,
                                        const struct pith_size_defaults *d, enum pith_act *out,
                                        struct pith_error *err)
{
    static const struct {
        const char *name;
        enum pith_act act;
    } known[] = {{"silu", PITH_ACT_SILU},          {"swish", PITH_ACT_SILU},
                 {"gelu", PITH_ACT_GELU},          {"gelu_pytorch_tanh", PITH_ACT_GELU_TANH},
                 {"gelu_new", PITH_ACT_GELU_TANH}, {"gelu_fast", PITH_ACT_GELU_TANH},
                 {"relu", PITH_ACT_RELU},          {"relu2", PITH_ACT_RELU2}};
    const char *name = NULL;
    PITH_TRY(pith_config_str(c, key_of(c, d->key.act, "hidden_act"), &name, err));
    *out = d->act;
    if (!name) return PITH_OK;
    for (size_t i = 0; i < PITH_COUNT(known); i++) {
        if (strcmp(name, known[i].name) != 0) continue;
        *out = known[i].act;
        return PITH_OK;
    }
    return pith_fail(err, PITH_UNSUPPORTED,
                     "%s: activation \"%s\" is not supported (silu, gelu and its tanh forms, relu)",
                     c->where, name);
}

/* How much of a head is rotated: "partial_rotary_factor", at the top or among the rope parameters.
 */
static enum pith_status read_partial(const struct pith_config *c, double absent,
                                     struct pith_shape *shape, struct pith_error *err)
{
    double part = absent > 0 ? absent : 1;
    PITH_TRY(pith_config_real(c, "partial_rotary_factor", &part, err));
    PITH_TRY(pith_rope_real(c, "partial_rotary_factor", &part, err));
    if (absent == 0 && part != 1)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "%s: \"partial_rotary_factor\" %g: rotating a part of a head is not "
                         "supported for this architecture",
                         c->where, part);
    if (!(part > 0 && part <= 1))
        return pith_fail(err, PITH_FORMAT, "%s: \"partial_rotary_factor\" is %g, outside 0..1",
                         c->where, part);
    shape->place.rotary = (uint32_t)((double)shape->head_dim * part);
    if (shape->place.rotary < 2 || shape->place.rotary % 2 != 0)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "%s: %u of %u elements of a head would be rotated, which are no pairs",
                         c->where, shape->place.rotary, shape->head_dim);
    return PITH_OK;
}

static enum pith_status check_factors(const struct pith_config *c, const struct pith_rope *rope,
                                      const struct pith_shape *s, struct pith_error *err)
{
    if (rope->type != PITH_ROPE_LONG || rope->factors == s->place.rotary / 2) return PITH_OK;
    return pith_fail(err, PITH_FORMAT,
                     "%s: %u factors of rotary frequencies, for the %u pairs of a head", c->where,
                     rope->factors, s->place.rotary / 2);
}

static enum pith_status read_rope(const struct pith_config *c, const struct pith_size_defaults *d,
                                  struct pith_shape *s, struct pith_error *err)
{
    static const char full[] = "full_attention", sliding[] = "sliding_attention";
    const bool kinds = d->rope_kinds && pith_rope_has_kind(c, full);
    s->place.rope.theta = d->theta;
    PITH_TRY(pith_rope_read(c, kinds ? full : NULL, s->max_position, &s->place.rope, err));
    PITH_TRY(check_factors(c, &s->place.rope, s, err));
    if (!kinds) return PITH_OK;
    s->place.by_kind = true;
    s->place.rope_window.theta = d->theta;
    PITH_TRY(pith_rope_read(c, sliding, s->max_position, &s->place.rope_window, err));
    return check_factors(c, &s->place.rope_window, s, err);
}

static enum pith_status read_widths(const struct pith_config *c, const struct pith_size_defaults *d,
                                    struct pith_shape *s, struct pith_error *err)
{
    PITH_TRY(pith_read_size(c, key_of(c, d->key.hidden, "hidden_size"), PITH_MAX_WIDTH, 0,
                            &s->hidden, err));
    PITH_TRY(pith_read_size(c, key_of(c, d->key.ffn, "intermediate_size"), PITH_MAX_WIDTH, d->ffn,
                            &s->ffn, err));
    PITH_TRY(pith_read_size(c, key_of(c, d->key.layers, "num_hidden_layers"), PITH_MAX_LAYERS, 0,
                            &s->layers, err));
    return pith_read_size(c, "vocab_size", PITH_MAX_VOCAB, d->vocab, &s->vocab, err);
}

/* The table has a row for each position, and no layer rotates. */
static void learn_positions(struct pith_shape *s)
{
    s->place.learned = s->max_position;
    pith_layer_put_all(&s->place.unrotated, s->layers);
}

enum pith_status pith_read_sizes(const struct pith_config *c,
                                 const struct pith_size_defaults *defaults,
                                 struct pith_shape *shape, struct pith_error *err)
{
    struct pith_shape *s = shape;
    const struct pith_config none = {.where = c->where};
    const struct pith_config *rotary = defaults->learned_positions ? &none : c;
    *s = (struct pith_shape){.eps = 1e-6, .dtype = PITH_F32};
    PITH_TRY(read_widths(c, defaults, s, err));
    PITH_TRY(read_heads(c, defaults, s, err));
    int64_t positions = defaults->max_position;
    const char *key = key_of(c, defaults->key.positions, "max_position_embeddings");
    PITH_TRY(pith_config_most(c, key, INT32_MAX, &positions, err));
    if (positions == 0) return pith_fail(err, PITH_FORMAT, "%s: \"%s\" is missing", c->where, key);
    s->max_position = (uint32_t)positions;
    PITH_TRY(read_activation(c, defaults, &s->activation.kind, err));
    PITH_TRY(read_partial(rotary, defaults->partial, s, err));
    s->ends.tied = defaults->tied;
    if (defaults->eps_absent > 0) s->eps = defaults->eps_absent;
    const char *eps = defaults->eps ? defaults->eps : "rms_norm_eps";
    PITH_TRY(pith_config_real(c, eps, &s->eps, err));
    if (!(s->eps >= 0 && s->eps < 1))
        return pith_fail(err, PITH_FORMAT, "%s: \"%s\" is %g, outside 0..1", c->where, eps, s->eps);
    PITH_TRY(pith_config_bool(c, key_of(c, defaults->key.tied, "tie_word_embeddings"),
                              &s->ends.tied, err));
    if (defaults->learned_positions) learn_positions(s);
    return read_rope(rotary, defaults, s, err);
}

enum pith_status pith_read_scale(const struct pith_config *c, const char *key, double *out,
                                 struct pith_error *err)
{
    if (!pith_config_get(c, key) || pith_config_is_null(c, key)) return PITH_OK;
    PITH_TRY(pith_config_real(c, key, out, err));
    if (*out > 1e-6 && *out < 1e6) return PITH_OK;
    return pith_fail(err, PITH_FORMAT, "%s: \"%s\" is %g, which makes no sense", c->where, key,
                     *out);
}

enum pith_status pith_read_cap(const struct pith_config *c, const char *key, double *out,
                               struct pith_error *err)
{
    if (pith_config_is_null(c, key)) *out = 0;
    return pith_read_scale(c, key, out, err);
}

enum pith_status pith_read_attention_bias(const struct pith_config *c, bool absent,
                                          struct pith_shape *shape, struct pith_error *err)
{
    bool bias = absent;
    PITH_TRY(pith_config_bool(c, "attention_bias", &bias, err));
    shape->biases.qkv = shape->biases.o = bias;
    return PITH_OK;
}

enum pith_status pith_read_window(const struct pith_config *c, uint32_t absent, uint32_t *window,
                                  struct pith_error *err)
{
    int64_t n = pith_config_is_null(c, "sliding_window") ? 0 : (int64_t)absent;
    PITH_TRY(pith_config_most(c, "sliding_window", INT32_MAX, &n, err));
    *window = (uint32_t)n;
    return PITH_OK;
}

enum pith_status pith_read_all_windows(const struct pith_config *c, uint32_t absent,
                                       struct pith_shape *shape, struct pith_error *err)
{
    PITH_TRY(pith_read_window(c, absent, &shape->windows.size, err));
    if (shape->windows.size) pith_layer_put_all(&shape->windows.layers, shape->layers);
    return PITH_OK;
}

enum pith_status pith_read_layer_types(const struct pith_config *c, const struct pith_shape *shape,
                                       const char *name, const char *other,
                                       struct pith_layer_set *set, struct pith_error *err)
{
    const json_t *types = pith_config_get(c, "layer_types");
    if (!types || json_is_null(types)) return PITH_OK;
    if (!json_is_array(types) || json_array_size(types) < shape->layers)
        return pith_fail(err, PITH_FORMAT, "%s: \"layer_types\" is not a list of %u names",
                         c->where, shape->layers);
    for (uint32_t i = 0; i < shape->layers; i++) {
        const char *type = json_string_value(json_array_get(types, i));
        if (!type)
            return pith_fail(err, PITH_FORMAT, "%s: \"layer_types\"[%u] is not a string", c->where,
                             i);
        const bool is = strcmp(type, name) == 0;
        if (!is && strcmp(type, other) != 0)
            return pith_fail(err, PITH_UNSUPPORTED, "%s: layer type \"%s\" is not supported",
                             c->where, type);
        if (is) pith_layer_put(set, i);
    }
    return PITH_OK;
}

enum pith_status pith_read_pattern(const struct pith_config *c, uint32_t absent, uint32_t every,
                                   struct pith_shape *shape, struct pith_error *err)
{
    static const char key[] = "sliding_window_pattern";
    const bool given = pith_config_has(c, "layer_types");
    int64_t n = every;
    PITH_TRY(pith_read_window(c, absent, &shape->windows.size, err));
    PITH_TRY(pith_read_layer_types(c, shape, "sliding_attention", "full_attention",
                                   &shape->windows.layers, err));
    if (given) return PITH_OK;
    PITH_TRY(pith_config_int(c, key, 1, INT32_MAX, &n, err));
    for (uint32_t i = 0; i < shape->layers; i++)
        if ((i + 1) % (uint32_t)n != 0) pith_layer_put(&shape->windows.layers, i);
    return PITH_OK;
}

enum pith_status pith_read_even_windows(const struct pith_config *c, uint32_t absent, int64_t end,
                                        struct pith_shape *shape, struct pith_error *err)
{
    const bool given = pith_config_has(c, "layer_types");
    PITH_TRY(pith_read_window(c, absent, &shape->windows.size, err));
    PITH_TRY(pith_read_layer_types(c, shape, "sliding_attention", "full_attention",
                                   &shape->windows.layers, err));
    for (uint32_t i = 0; !given && i < shape->layers && i < end; i += 2)
        pith_layer_put(&shape->windows.layers, i);
    return PITH_OK;
}

enum pith_status pith_read_unrotated(const struct pith_config *c, uint32_t every,
                                     struct pith_shape *shape, struct pith_error *err)
{
    const json_t *list = pith_config_get(c, "no_rope_layers");
    int64_t n = every;
    PITH_TRY(pith_config_int(c, "no_rope_layer_interval", 1, INT32_MAX, &n, err));
    if (list && !json_is_null(list) && !json_is_array(list))
        return pith_fail(err, PITH_FORMAT, "%s: \"no_rope_layers\" is not a list", c->where);
    const bool given = json_array_size(list) > 0;
    if (given && json_array_size(list) < shape->layers)
        return pith_fail(err, PITH_FORMAT, "%s: \"no_rope_layers\" has %zu items, not %u", c->where,
                         json_array_size(list), shape->layers);
    for (uint32_t i = 0; i < shape->layers; i++) {
        const json_t *item = json_array_get(list, i);
        if (given && !json_is_integer(item))
            return pith_fail(err, PITH_FORMAT, "%s: \"no_rope_layers\"[%u] is no whole number",
                             c->where, i);
        if (given ? json_integer_value(item) == 0 : (i + 1) % (uint32_t)n == 0)
            pith_layer_put(&shape->place.unrotated, i);
    }
    return PITH_OK;
}

enum pith_status pith_read_qwen_window(const struct pith_config *c, struct pith_shape *shape,
                                       struct pith_error *err)
{
    bool use = false;
    const bool given = pith_config_has(c, "layer_types");
    uint32_t window;
    int64_t first = 28;
    struct pith_layer_set sliding = {0};
    PITH_TRY(pith_config_bool(c, "use_sliding_window", &use, err));
    PITH_TRY(pith_read_window(c, 4096, &window, err));
    PITH_TRY(pith_config_int(c, "max_window_layers", 0, INT32_MAX, &first, err));
    PITH_TRY(pith_read_layer_types(c, shape, "sliding_attention", "full_attention", &sliding, err));
    for (int64_t i = first; !given && i < shape->layers; i++) pith_layer_put(&sliding, (uint32_t)i);
    const bool any = pith_layer_any(&sliding, shape->layers);
    if (!use) window = 0;
    if (given && any && window == 0)
        return pith_fail(err, PITH_FORMAT,
                         "%s: \"layer_types\" has sliding attention, but no sliding window is in "
                         "use",
                         c->where);
    if (window == 0 || !any) return PITH_OK;
    shape->windows.size = window;
    shape->windows.layers = sliding;
    return PITH_OK;
}
