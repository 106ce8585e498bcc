/* Latent attention in a config. */
#include "model/config/read.h"

#include "base/mem.h"
#include "model/rope.h"

#include <math.h>
#include <string.h>

/* DeepSeek's own rule for contexts beyond those trained on: scores times m^2, m = 0.1 a ln(factor)
 * + 1 with a = "mscale_all_dim". */
static enum pith_status read_scale(const struct pith_config *c, struct pith_shape *shape,
                                   struct pith_error *err)
{
    double all = 0, m = 1;
    PITH_TRY(pith_rope_real(c, "mscale_all_dim", &all, err));
    if (!(fabs(all) <= 1e3))
        return pith_fail(err, PITH_FORMAT, "%s: \"mscale_all_dim\" is %g, which makes no sense",
                         c->where, all);
    if (shape->place.rope.type != PITH_ROPE_DEFAULT && shape->place.rope.factor > 1)
        m = 0.1 * all * log(shape->place.rope.factor) + 1;
    shape->scores.scale = m * m / sqrt((double)shape->head_dim);
    return PITH_OK;
}

enum pith_status pith_read_latent(const struct pith_config *c,
                                  const struct pith_latent_shape *absent, struct pith_shape *shape,
                                  struct pith_error *err)
{
    struct pith_latent_shape *l = &shape->latent;
    static const struct {
        const char *key;
        size_t at;
    } sizes[] = {{"kv_lora_rank", offsetof(struct pith_latent_shape, rank)},
                 {"qk_nope_head_dim", offsetof(struct pith_latent_shape, nope)},
                 {"qk_rope_head_dim", offsetof(struct pith_latent_shape, rope)},
                 {"v_head_dim", offsetof(struct pith_latent_shape, value)}};
    *l = *absent;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint32_t n;
        memcpy(&n, (char *)l + sizes[i].at, sizeof n);
        PITH_TRY(pith_read_size(c, sizes[i].key, PITH_MAX_HEAD_DIM, n, &n, err));
        memcpy((char *)l + sizes[i].at, &n, sizeof n);
    }
    if (json_is_null(pith_config_get(c, "q_lora_rank"))) l->q_rank = 0;
    else PITH_TRY(pith_read_size(c, "q_lora_rank", PITH_MAX_WIDTH, l->q_rank, &l->q_rank, err));
    if (l->rope % 2 != 0)
        return pith_fail(err, PITH_FORMAT,
                         "%s: \"qk_rope_head_dim\" %u is odd, rotary positions need pairs",
                         c->where, l->rope);
    if (l->nope % 2 != 0)
        return pith_fail(err, PITH_FORMAT,
                         "%s: \"qk_nope_head_dim\" %u is odd, a head's dimension must be even",
                         c->where, l->nope);
    const uint64_t wide = l->rank > l->value ? l->rank : l->value;
    if (shape->heads * (wide + l->nope + l->rope) > PITH_MAX_WIDTH)
        return pith_fail(err, PITH_FORMAT, "%s: %u heads of a latent of %u are wider than %d",
                         c->where, shape->heads, l->rank, (int)PITH_MAX_WIDTH);
    shape->head_dim = l->nope + l->rope;
    shape->kv_heads = shape->heads;
    shape->place.rotary = l->rope;
    return read_scale(c, shape, err);
}
