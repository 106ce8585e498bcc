#include "model/arch.h"

#include "base/mem.h"
#include "model/arch/family.h"

#include <stdio.h>

static const struct pith_arch *const rows[] = {
#define PITH_ARCH(row) &row,
#include "model/archs.def"
#undef PITH_ARCH
};

const struct pith_arch *const *pith_archs(size_t *count)
{
    *count = PITH_COUNT(rows);
    return rows;
}

void pith_role_dims(const struct pith_shape *s, enum pith_role role, uint32_t *rows_out,
                    uint32_t *cols_out)
{
    const uint32_t q = s->heads * s->head_dim, kv = s->kv_heads * s->head_dim;
    const uint32_t dims[PITH_ROLE_COUNT][2] = {
        [PITH_ROLE_Q] = {q, s->hidden},         [PITH_ROLE_K] = {kv, s->hidden},
        [PITH_ROLE_V] = {kv, s->hidden},        [PITH_ROLE_O] = {s->hidden, q},
        [PITH_ROLE_GATE] = {s->ffn, s->hidden}, [PITH_ROLE_UP] = {s->ffn, s->hidden},
        [PITH_ROLE_DOWN] = {s->hidden, s->ffn},
    };
    *rows_out = dims[role][0];
    *cols_out = dims[role][1];
}

bool pith_role_has_bias(const struct pith_shape *s, enum pith_role role)
{
    if (role <= PITH_ROLE_V) return s->qkv_bias;
    return role == PITH_ROLE_O ? s->o_bias : s->mlp_bias;
}

uint32_t pith_norm_length(const struct pith_shape *s, enum pith_norm norm)
{
    if (norm == PITH_NORM_INPUT || norm == PITH_NORM_POST) return s->hidden;
    return s->qk_norm ? s->head_dim : 0;
}

uint32_t pith_site_dim(const struct pith_shape *s, enum pith_site site)
{
    static const enum pith_role reader[PITH_SITE_COUNT] = {
        [PITH_SITE_QKV] = PITH_ROLE_Q,
        [PITH_SITE_O] = PITH_ROLE_O,
        [PITH_SITE_GATE_UP] = PITH_ROLE_GATE,
        [PITH_SITE_DOWN] = PITH_ROLE_DOWN,
    };
    uint32_t out, in;
    pith_role_dims(s, reader[site], &out, &in);
    return in;
}

void pith_linear_name(const struct pith_arch *a, uint32_t layer, enum pith_role role, char *name,
                      size_t size)
{
    (void)snprintf(name, size, "model.layers.%u.%s", (unsigned)layer, a->linear_names[role]);
}

void pith_norm_name(const struct pith_arch *a, uint32_t layer, enum pith_norm norm, char *name,
                    size_t size)
{
    (void)snprintf(name, size, "model.layers.%u.%s", (unsigned)layer, a->norm_names[norm]);
}
