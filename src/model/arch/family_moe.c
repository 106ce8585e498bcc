/* Reading what config.json says of a mixture of experts. */
#include "model/arch/family.h"

#include "base/mem.h"

#include <string.h>

/* The first of the names that is there, an integer in 0..hi; left alone when none is. */
static enum pith_status read_first(const json_t *config, const char *where,
                                   const char *const keys[4], int64_t hi, uint32_t *out,
                                   struct pith_error *err)
{
    for (int i = 0; i < 4 && keys[i]; i++) {
        const json_t *v = json_object_get(config, keys[i]);
        int64_t n = 0;
        if (!v || json_is_null(v)) continue;
        PITH_TRY(pith_json_get_int(config, keys[i], 0, hi, &n, where, err));
        *out = (uint32_t)n;
        return PITH_OK;
    }
    return PITH_OK;
}

static enum pith_status check(const struct pith_moe *m, const char *where, struct pith_error *err)
{
    if (m->experts == 0 || m->taken == 0 || m->taken > m->experts)
        return pith_fail(err, PITH_FORMAT, "%s: a token takes %u of %u experts", where, m->taken,
                         m->experts);
    if (m->ffn == 0) return pith_fail(err, PITH_FORMAT, "%s: the experts have no width", where);
    if (m->groups > 1 &&
        (m->experts % m->groups != 0 || m->groups_taken == 0 || m->groups_taken > m->groups ||
         (uint64_t)m->experts / m->groups * m->groups_taken < m->taken))
        return pith_fail(err, PITH_FORMAT, "%s: %u experts in %u groups, %u of which are looked at",
                         where, m->experts, m->groups, m->groups_taken);
    return PITH_OK;
}

enum pith_status pith_family_read_moe(const json_t *config, const char *where,
                                      const struct pith_moe *absent, struct pith_shape *shape,
                                      struct pith_error *err)
{
    static const struct {
        const char *const keys[4];
        size_t at;
        int64_t hi;
    } numbers[] = {
        {{"num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"},
         offsetof(struct pith_moe, experts),
         PITH_MAX_EXPERTS},
        {{"num_experts_per_tok", "moe_k", "top_k_experts"},
         offsetof(struct pith_moe, taken),
         PITH_MAX_EXPERTS},
        {{"moe_intermediate_size"}, offsetof(struct pith_moe, ffn), PITH_MAX_WIDTH},
        {{"n_group"}, offsetof(struct pith_moe, groups), PITH_MAX_EXPERTS},
        {{"topk_group"}, offsetof(struct pith_moe, groups_taken), PITH_MAX_EXPERTS},
    };
    struct pith_moe *m = &shape->moe;
    *m = *absent;
    for (size_t i = 0; i < PITH_COUNT(numbers); i++) {
        uint32_t n;
        char *field = (char *)m + numbers[i].at;
        memcpy(&n, field, sizeof n);
        PITH_TRY(read_first(config, where, numbers[i].keys, numbers[i].hi, &n, err));
        memcpy(field, &n, sizeof n);
    }
    PITH_TRY(pith_json_get_bool(config, "norm_topk_prob", &m->renormalised, where, err));
    PITH_TRY(pith_json_get_real(config, "routed_scaling_factor", &m->scale, where, err));
    if (m->ffn == 0) m->ffn = shape->ffn;
    if (m->router == PITH_ROUTER_TOP) m->renormalised = false; /* their sum is 1 */
    return check(m, where, err);
}

enum pith_status pith_family_read_shared(const json_t *config, const char *where, const char *key,
                                         uint32_t absent, struct pith_shape *shape,
                                         struct pith_error *err)
{
    int64_t n = absent;
    PITH_TRY(pith_json_get_int(config, key, 0, PITH_MAX_EXPERTS, &n, where, err));
    if (n * (int64_t)shape->moe.ffn > PITH_MAX_WIDTH)
        return pith_fail(err, PITH_FORMAT, "%s: \"%s\" %lld experts of %u are wider than %d", where,
                         key, (long long)n, shape->moe.ffn, (int)PITH_MAX_WIDTH);
    shape->moe.shared_ffn = (uint32_t)n * shape->moe.ffn;
    return PITH_OK;
}

enum pith_status pith_family_read_dense_first(const json_t *config, const char *where,
                                              uint32_t absent, struct pith_shape *shape,
                                              struct pith_error *err)
{
    int64_t dense = absent;
    PITH_TRY(pith_json_get_int(config, "first_k_dense_replace", 0, INT32_MAX, &dense, where, err));
    for (int64_t i = dense; i < shape->layers; i++) pith_layer_put(&shape->moe.layers, (uint32_t)i);
    return PITH_OK;
}

enum pith_status pith_family_read_sparse_layers(const json_t *config, const char *where,
                                                struct pith_shape *shape, struct pith_error *err)
{
    int64_t step = 1;
    const json_t *dense = json_object_get(config, "mlp_only_layers");
    PITH_TRY(pith_json_get_int(config, "decoder_sparse_step", 1, INT32_MAX, &step, where, err));
    if (dense && !json_is_null(dense) && !json_is_array(dense))
        return pith_fail(err, PITH_FORMAT, "%s: \"mlp_only_layers\" is not a list", where);
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
