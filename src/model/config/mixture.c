/* A mixture of experts in a config. */
#include "model/config/read.h"

const struct pith_mixture_keys pith_mixture_keys_qwen = {
    .count = {"num_experts", "num_local_experts"},
    .taken = {"num_experts_per_tok"},
    .width = "moe_intermediate_size",
    .renormalised = true};
const struct pith_mixture_keys pith_mixture_keys_deepseek = {
    .count = {"n_routed_experts", "num_local_experts"},
    .taken = {"num_experts_per_tok"},
    .width = "moe_intermediate_size",
    .groups = true,
    .renormalised = true,
    .scale = true};
const struct pith_mixture_keys pith_mixture_keys_local = {
    .count = {"num_local_experts", "num_experts"}, .taken = {"num_experts_per_tok"}};

/* The first of two names that is there; the second may be NULL. */
static const char *first_of(const struct pith_config *c, const char *const name[2])
{
    return name[1] && !pith_config_has(c, name[0]) ? name[1] : name[0];
}

/* An integer in 0..hi; unchanged when it is missing. */
static enum pith_status read_count(const struct pith_config *c, const char *key, int64_t hi,
                                   uint32_t *out, struct pith_error *err)
{
    int64_t n = *out;
    PITH_TRY(pith_config_int(c, key, 0, hi, &n, err));
    *out = (uint32_t)n;
    return PITH_OK;
}

static enum pith_status check(const struct pith_config *c, const struct pith_moe *m,
                              struct pith_error *err)
{
    if (m->experts == 0 || m->taken == 0 || m->taken > m->experts)
        return pith_fail(err, PITH_FORMAT, "%s: a token takes %u of %u experts", c->where, m->taken,
                         m->experts);
    if (m->ffn == 0) return pith_fail(err, PITH_FORMAT, "%s: the experts have no width", c->where);
    if (m->groups > 1 &&
        (m->experts % m->groups != 0 || m->groups_taken == 0 || m->groups_taken > m->groups ||
         (uint64_t)m->experts / m->groups * m->groups_taken < m->taken))
        return pith_fail(err, PITH_FORMAT, "%s: %u experts in %u groups, %u of which are looked at",
                         c->where, m->experts, m->groups, m->groups_taken);
    return PITH_OK;
}

static enum pith_status read_groups(const struct pith_config *c, struct pith_moe *m,
                                    struct pith_error *err)
{
    PITH_TRY(read_count(c, "n_group", PITH_MAX_EXPERTS, &m->groups, err));
    return read_count(c, "topk_group", PITH_MAX_EXPERTS, &m->groups_taken, err);
}

enum pith_status pith_read_mixture(const struct pith_config *c,
                                   const struct pith_mixture_keys *keys,
                                   const struct pith_moe *absent, struct pith_shape *shape,
                                   struct pith_error *err)
{
    struct pith_moe *m = &shape->moe;
    *m = *absent;
    PITH_TRY(read_count(c, first_of(c, keys->count), PITH_MAX_EXPERTS, &m->experts, err));
    PITH_TRY(read_count(c, first_of(c, keys->taken), PITH_MAX_EXPERTS, &m->taken, err));
    if (keys->width) PITH_TRY(read_count(c, keys->width, PITH_MAX_WIDTH, &m->ffn, err));
    if (keys->groups) PITH_TRY(read_groups(c, m, err));
    if (keys->renormalised) PITH_TRY(pith_config_bool(c, "norm_topk_prob", &m->renormalised, err));
    if (keys->scale) PITH_TRY(pith_config_real(c, "routed_scaling_factor", &m->scale, err));
    if (m->ffn == 0) m->ffn = shape->ffn;
    return check(c, m, err);
}

enum pith_status pith_read_shared(const struct pith_config *c, const char *key, uint32_t absent,
                                  struct pith_shape *shape, struct pith_error *err)
{
    int64_t n = absent;
    PITH_TRY(pith_config_int(c, key, 0, PITH_MAX_EXPERTS, &n, err));
    if (n * (int64_t)shape->moe.ffn > PITH_MAX_WIDTH)
        return pith_fail(err, PITH_FORMAT, "%s: \"%s\" %lld experts of %u are wider than %d",
                         c->where, key, (long long)n, shape->moe.ffn, (int)PITH_MAX_WIDTH);
    shape->moe.shared_ffn = (uint32_t)n * shape->moe.ffn;
    return PITH_OK;
}

enum pith_status pith_read_dense_first(const struct pith_config *c, const char *key,
                                       uint32_t absent, struct pith_shape *shape,
                                       struct pith_error *err)
{
    int64_t dense = absent;
    PITH_TRY(pith_config_int(c, key, 0, INT32_MAX, &dense, err));
    for (int64_t i = dense; i < shape->layers; i++) pith_layer_put(&shape->moe.layers, (uint32_t)i);
    return PITH_OK;
}

enum pith_status pith_read_sparse_layers(const struct pith_config *c, struct pith_shape *shape,
                                         struct pith_error *err)
{
    int64_t step = 1;
    const json_t *dense = pith_config_get(c, "mlp_only_layers");
    PITH_TRY(pith_config_int(c, "decoder_sparse_step", 1, INT32_MAX, &step, err));
    if (dense && !json_is_null(dense) && !json_is_array(dense))
        return pith_fail(err, PITH_FORMAT, "%s: \"mlp_only_layers\" is not a list", c->where);
    for (uint32_t i = 0; i < shape->layers; i++) {
        bool sparse = ((int64_t)i + 1) % step == 0;
        size_t k;
        const json_t *v;
        json_array_foreach (dense, k, v)
            if (json_is_integer(v) && json_integer_value(v) == (json_int_t)i) sparse = false;
        if (sparse) pith_layer_put(&shape->moe.layers, i);
    }
    return PITH_OK;
}
