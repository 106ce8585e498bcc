/* The gated delta rule in a config. */
#include "model/config/read.h"

#include "base/mem.h"

static enum pith_status check(const struct pith_config *c, const struct pith_delta_shape *d,
                              struct pith_error *err)
{
    if (d->value_heads % d->key_heads != 0)
        return pith_fail(err, PITH_FORMAT,
                         "%s: \"linear_num_value_heads\" %u is not a multiple of "
                         "\"linear_num_key_heads\" %u",
                         c->where, d->value_heads, d->key_heads);
    const uint64_t keys = (uint64_t)d->key_heads * d->key_dim;
    const uint64_t values = (uint64_t)d->value_heads * d->value_dim;
    const size_t state = pith_delta_state(d->value_heads, d->key_dim, d->value_dim);
    if (2 * (keys + values) <= PITH_MAX_WIDTH && state <= 1 << 28) return PITH_OK;
    return pith_fail(err, PITH_FORMAT,
                     "%s: %u and %u heads of linear attention of %u and %u are "
                     "wider than %d",
                     c->where, d->key_heads, d->value_heads, d->key_dim, d->value_dim,
                     (int)PITH_MAX_WIDTH);
}

enum pith_status pith_read_delta(const struct pith_config *c, struct pith_shape *shape,
                                 struct pith_error *err)
{
    struct pith_delta_shape *d = &shape->delta;
    const struct {
        const char *key;
        int64_t hi;
        uint32_t absent, *to;
    } sizes[] = {{"linear_num_key_heads", PITH_MAX_HEADS, 16, &d->key_heads},
                 {"linear_num_value_heads", PITH_MAX_HEADS, 32, &d->value_heads},
                 {"linear_key_head_dim", PITH_DELTA_DIM, 128, &d->key_dim},
                 {"linear_value_head_dim", PITH_DELTA_DIM, 128, &d->value_dim},
                 {"linear_conv_kernel_dim", PITH_CONV_TAPS, 4, &shape->recurrent.taps}};
    for (size_t i = 0; i < PITH_COUNT(sizes); i++)
        PITH_TRY(pith_read_size(c, sizes[i].key, sizes[i].hi, sizes[i].absent, sizes[i].to, err));
    const bool given = pith_config_has(c, "layer_types");
    int64_t every = 4;
    PITH_TRY(pith_read_layer_types(c, shape, "linear_attention", "full_attention",
                                   &shape->recurrent.layers, err));
    PITH_TRY(pith_config_int(c, "full_attention_interval", 1, INT32_MAX, &every, err));
    for (uint32_t i = 0; !given && i < shape->layers; i++)
        if (((int64_t)i + 1) % every != 0) pith_layer_put(&shape->recurrent.layers, i);
    return check(c, d, err);
}
