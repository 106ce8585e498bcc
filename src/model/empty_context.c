#include "model/empty_context.h"

/* Values that repeat after PERIOD, which shares no factor with the sizes of heads: small, both
 * signs, no two neighbours alike. */
enum { PERIOD = 251 };

static void fill(float *rows, size_t count)
{
    for (size_t i = 0; i < count; i++)
        rows[i] = (float)(int)(i * 97 % PERIOD) / (PERIOD / 2.0f) - 1.0f;
}

enum pith_status pith_runner_pretend(struct pith_runner *r, uint32_t sequence, size_t length,
                                     struct pith_error *err)
{
    const struct pith_scratch *w = &r->scratch;
    const struct pith_kv_span all = {.sequence = sequence, .n = length};
    for (uint32_t g = 0; g < PITH_KV_GROUPS; g++) PITH_TRY(pith_kv_reserve(&r->kv, g, &all, err));
    for (uint32_t i = 0; i < r->kv.layers; i++) {
        const struct pith_layer_plan *l = pith_plan(&r->model->plans, i);
        const struct pith_node *node = pith_plan_attend(l);
        if (!node || pith_plan_rows_of(&r->model->plans, i) != i) continue;
        const struct pith_cache cache = pith_kv_layer(&r->kv, i, &l->state);
        float *const k = w->reg[node->u.attend.k], *const v = w->reg[node->u.attend.v];
        fill(k, w->rows * cache.kv_heads * cache.k.dim);
        fill(v, w->rows * cache.kv_heads * cache.v.dim);
        struct pith_cache plain;
        const bool floats = pith_kv_plain(&r->kv, i, &l->state, &plain);
        const struct pith_kv_put put = {.backend = r->backend,
                                        .kv = &r->kv,
                                        .layer = i,
                                        .cache = &cache,
                                        .plain = floats ? &plain : NULL,
                                        .k = k,
                                        .v = v};
        for (size_t at = 0; at < length; at += w->rows)
            (void)pith_kv_store(
                &put, &(struct pith_kv_span){sequence, at,
                                             length - at < w->rows ? length - at : w->rows});
    }
    for (uint32_t i = 0; i < r->kv.layers; i++) {
        const struct pith_kv_state_part state = {
            .layer = i, .sequence = sequence, .floats = r->kv.state_at[i + 1] - r->kv.state_at[i]};
        fill(pith_kv_state_take(&r->kv, r->backend, &state), state.floats);
        pith_kv_state_put(&r->kv, r->backend, &state);
        pith_kv_moved(&r->kv, i, &all);
    }
    r->kv.sequence[sequence].length = length;
    pith_kv_save(&r->kv, sequence);
    return PITH_OK;
}
