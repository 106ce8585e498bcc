#include "model/pretend.h"

/* Values that repeat after PERIOD, which shares no factor with the sizes of heads: small, both
 * signs, no two neighbours alike. */
enum { PERIOD = 251 };

static void fill(float *rows, size_t count)
{
    for (size_t i = 0; i < count; i++)
        rows[i] = (float)(int)(i * 97 % PERIOD) / (PERIOD / 2.0f) - 1.0f;
}

void pith_session_pretend(struct pith_session *s, size_t length)
{
    const struct pith_scratch *w = &s->scratch;
    for (uint32_t i = 0; i < s->kv.layers; i++) {
        const struct pith_layer_plan *l = pith_plan(&s->model->plans, i);
        const struct pith_node *node = pith_plan_attend(l);
        if (!node) continue;
        const struct pith_cache cache = pith_kv_layer(&s->kv, i, &l->state);
        float *const k = w->reg[node->u.attend.k], *const v = w->reg[node->u.attend.v];
        fill(k, w->rows * cache.kv_heads * cache.head_dim);
        fill(v, w->rows * cache.kv_heads * pith_cache_value(&cache));
        for (size_t at = 0; at < length; at += w->rows) {
            const size_t n = length - at < w->rows ? length - at : w->rows;
            pith_cache_store(s->backend, &cache, at, n, k, v);
        }
    }
    fill(s->kv.state, s->kv.state_at[s->kv.layers]);
    for (uint32_t i = 0; i < s->kv.layers; i++) s->kv.reached[i] = length;
    pith_kv_save(&s->kv, length);
    s->length = length;
}
