/* What num/kvquant.h needs in addition to a pool's pages: levels, and the angles by which keys are
 * rotated when they are read. */
#include "model/kv/kv.h"

#include "base/mem.h"
#include "model/model.h"
#include "model/rope.h"

#include <string.h>

static bool needs_levels(const struct pith_kv_format *layer)
{
    return ((pith_kv_needs(&layer->k) | pith_kv_needs(&layer->v)) & PITH_KV_LEVELS) ||
           layer->k.offset == PITH_KV_MIDDLE;
}

bool pith_kv_needs_levels(const struct pith_kv_format *f, uint32_t layers)
{
    bool needs = false;
    for (uint32_t i = 0; i < layers; i++) needs = needs || needs_levels(pith_kv_of(f, i));
    return needs;
}

static bool has_levels(const struct pith_state_spec *s)
{
    return s->kind == PITH_STATE_KV;
}

enum pith_status pith_kv_levels_new(const struct pith_plans *plans, struct pith_kv_levels **out,
                                    struct pith_error *err)
{
    size_t floats = 0;
    struct pith_kv_levels *l = pith_zalloc(1, sizeof *l);
    for (uint32_t i = 0; i < plans->layers; i++) {
        const struct pith_state_spec *s = &pith_plan(plans, i)->state;
        if (has_levels(s)) floats += 2 * (size_t)s->heads * s->key;
    }
    if (l) {
        l->layers = plans->layers;
        l->layer = pith_zalloc(plans->layers, sizeof *l->layer);
        l->memory = pith_zalloc(floats ? floats : 1, sizeof *l->memory);
    }
    if (!l || !l->layer || !l->memory) {
        pith_kv_levels_free(l);
        return pith_fail_nomem(err, "levels of keys and values");
    }
    float *at = l->memory;
    for (uint32_t i = 0; i < plans->layers; i++) {
        const struct pith_state_spec *s = &pith_plan(plans, i)->state;
        const size_t keys = (size_t)s->heads * s->key;
        if (!has_levels(s)) continue;
        l->layer[i] = (struct pith_kv_layer_levels){
            .heads = s->heads, .key = s->key, .middle = at, .range = at + keys};
        at += 2 * keys;
    }
    *out = l;
    return PITH_OK;
}

void pith_kv_levels_free(struct pith_kv_levels *levels)
{
    if (!levels) return;
    pith_free(levels->layer);
    pith_free(levels->memory);
    pith_free(levels);
}

const struct pith_node *pith_kv_rope_of(const struct pith_layer_plan *l)
{
    const struct pith_node *attend = pith_plan_attend(l), *rope = NULL;
    for (const struct pith_node *n = l->node; attend && n < attend; n++)
        if (n->kind == PITH_NODE_ROPE && n->in == attend->u.attend.k &&
            n->u.rope.stride == l->state.key)
            rope = n;
    return rope;
}

/* cos and sin of all positions, page by page. */
static void fill_angles(const struct pith_kv *kv, const struct pith_rope_angles *angles,
                        size_t half, float *to)
{
    const double *inv_freq = pith_rope_angles_for(angles, kv->capacity);
    float *sin = to + 32 * kv->pages_each * half;
    for (size_t p = 0; p < 32 * kv->pages_each; p++) {
        const size_t at = p / 32 * half * 32 + p % 32;
        for (size_t i = 0; i < half; i++)
            pith_rope_table(inv_freq + i, 1, angles->factor, p, 1, to + at + 32 * i,
                            sin + at + 32 * i);
    }
}

static void give_levels(struct pith_kv *kv, uint32_t layer)
{
    const struct pith_kv_layer_levels *l = &kv->levels->layer[layer];
    for (uint32_t side = 0; side < 2; side++) {
        const struct pith_kv_format *f = pith_kv_of(&kv->format, layer);
        if (!(pith_kv_needs(side ? &f->v : &f->k) & PITH_KV_LEVELS)) continue;
        struct pith_row_code *code = &kv->code[2 * layer + side];
        code->level = l->level[side][code->bits - 2];
        code->beyond = l->beyond;
    }
}

void pith_kv_rope_fill(struct pith_kv *kv, const struct pith_plans *plans,
                       const struct pith_model *m)
{
    bool filled[2] = {0};
    kv->levels = m->kv_levels;
    memset(kv->rope, 0, kv->layers * sizeof *kv->rope);
    for (uint32_t i = 0; i < kv->layers; i++) {
        const struct pith_layer_plan *l = pith_plan(plans, i);
        const struct pith_node *node = pith_kv_rope_of(l);
        const struct pith_kv_format *f = pith_kv_of(&kv->format, i);
        if (!has_levels(&l->state)) continue;
        give_levels(kv, i);
        if (!(pith_kv_needs(&f->k) & PITH_KV_LEVELS) || !node) continue;
        const unsigned table = node->u.rope.table;
        const size_t half = node->u.rope.dim / 2;
        const double factor = m->rope[table].factor;
        if (!filled[table]) fill_angles(kv, &m->rope[table], half, kv->angles[table]);
        filled[table] = true;
        kv->rope[i] =
            (struct pith_cache_rope){.cos = kv->angles[table],
                                     .sin = kv->angles[table] + 32 * kv->pages_each * half,
                                     .offset = node->u.rope.offset,
                                     .dim = node->u.rope.dim,
                                     .adjacent = node->u.rope.adjacent,
                                     .back = (float)(1 / (factor * factor))};
    }
}
