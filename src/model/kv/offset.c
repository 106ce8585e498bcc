/* The offset of keys, which is not stored: found in a layer's program, and written where attention
 * reads it. */
#include "model/kv/kv.h"

#include "backend/cache/key_offset.h"
#include "backend/parts.h"
#include "base/mem.h"
#include "model/model.h"
#include "model/nodes/nodes.h"
#include "model/rope.h"

#include <string.h>

/* --- biases ----------------------------------------------------------------------------------- */

/* Where keys come from: a linear, whose rows `split` deals out where that is not NULL. */
struct source {
    const struct pith_node *linear, *split;
};

static const struct pith_node *last_writer(const struct pith_layer_plan *l,
                                           const struct pith_node *before, unsigned reg)
{
    const struct pith_node *last = NULL;
    for (const struct pith_node *n = l->node; n < before; n++)
        if (pith_node_writes(n) & 1u << reg) last = n;
    return last;
}

/* False where there is no bias, or its part of a key is not the bias itself. */
static bool source_of(const struct pith_layer_plan *l, struct source *out)
{
    const struct pith_node *attend = pith_plan_attend(l), *rope = pith_kv_rope_of(l);
    *out = (struct source){0};
    if (l->state.kind != PITH_STATE_KV || !attend) return false;
    const unsigned reg = attend->u.attend.k;
    const struct pith_node *n = last_writer(l, attend, reg);
    if (n && n == rope) n = last_writer(l, n, reg);
    if (n && n->kind == PITH_NODE_SPLIT) {
        out->split = n;
        n = last_writer(l, n, n->in);
    }
    out->linear = n;
    return n && n->kind == PITH_NODE_LINEAR && l->linear[n->u.linear.linear].bias;
}

bool pith_kv_has_biases(const struct pith_plans *plans)
{
    struct source ignored;
    bool any = false;
    for (uint32_t i = 0; i < plans->kinds; i++) any = any || source_of(&plans->kind[i], &ignored);
    return any;
}

/* The part of the keys of a row that a split deals out. */
static enum pith_status split_bias(const struct source *from, unsigned reg, const float *bias,
                                   const struct pith_layer_plan *l, float *to,
                                   struct pith_error *err)
{
    const struct pith_node *split = from->split;
    const uint32_t rows = l->linear[from->linear->u.linear.linear].rows;
    size_t width = 0;
    float *part[4] = {NULL};
    for (uint32_t p = 0; p < split->u.split.parts; p++) width += l->width[split->u.split.to[p]];
    float *room = pith_alloc(width + rows, sizeof *room), *at = room + rows;
    if (!room) return pith_fail_nomem(err, "offsets of keys");
    memcpy(room, bias, rows * sizeof *room);
    for (uint32_t p = 0; p < split->u.split.parts; p++) {
        part[p] = at;
        at += l->width[split->u.split.to[p]];
    }
    pith_split_rows(split, 1, room, part, false);
    for (uint32_t p = 0; p < split->u.split.parts; p++)
        if (split->u.split.to[p] == reg)
            memcpy(to, part[p], (size_t)l->state.heads * l->state.key * sizeof *to);
    pith_free(room);
    return PITH_OK;
}

/* --- tables ----------------------------------------------------------------------------------- */

/* Those of pages, then those of the positions within one (struct pith_key_offset). */
static void fill_angles(const struct pith_kv *kv, const struct pith_rope_angles *angles,
                        size_t half, float *page)
{
    const double *inv_freq = pith_rope_angles_for(angles, kv->capacity);
    float *within = page + kv->pages_each * 2 * half;
    for (size_t p = 0; p < kv->pages_each; p++, page += 2 * half)
        pith_rope_table(inv_freq, half, angles->factor, p * PITH_KEYS, 1, page, page + half);
    for (size_t i = 0; i < half; i++)
        for (size_t j = 0; j < PITH_KEYS; j++)
            pith_rope_table(inv_freq + i, 1, 1, j, 1, within + (half + i) * PITH_KEYS + j,
                            within + i * PITH_KEYS + j);
}

static void lay_rope(const struct pith_kv *kv, const struct pith_node *rope,
                     struct pith_key_offset *o)
{
    const size_t half = rope->u.rope.dim / 2;
    o->page = kv->offset_angles[rope->u.rope.table];
    o->within = o->page + kv->pages_each * 2 * half;
    o->first = rope->u.rope.offset;
    o->pairs = half;
    o->adjacent = rope->u.rope.adjacent;
}

/* The offset of a layer's keys; none where it is all 0. */
static enum pith_status fill_numbers(const struct pith_kv *kv, uint32_t layer,
                                     const struct pith_layer_plan *l, const struct pith_model *m,
                                     float *to, struct pith_error *err)
{
    const enum pith_kv_offset what = pith_kv_of(&kv->format, layer)->k.offset;
    const size_t bytes = (size_t)l->state.heads * l->state.key * sizeof *to;
    struct source from;
    memset(to, 0, bytes);
    if (what == PITH_KV_MIDDLE) memcpy(to, m->kv_levels->layer[layer].middle, bytes);
    if (what != PITH_KV_BIAS || !source_of(l, &from)) return PITH_OK;
    const float *bias = m->blocks[layer].linear[from.linear->u.linear.linear].bias;
    if (from.split) return split_bias(&from, pith_plan_attend(l)->u.attend.k, bias, l, to, err);
    memcpy(to, bias, bytes);
    return PITH_OK;
}

enum pith_status pith_kv_offset_fill(struct pith_kv *kv, const struct pith_plans *plans,
                                     const struct pith_model *m, struct pith_error *err)
{
    bool filled[2] = {0};
    float *to = kv->offsets;
    memset(kv->offset, 0, kv->layers * sizeof *kv->offset);
    for (uint32_t i = 0; i < kv->layers; i++) {
        const struct pith_layer_plan *l = pith_plan(plans, i);
        const struct pith_node *rope = pith_kv_rope_of(l);
        const struct pith_kv_part *part = &pith_kv_of(&kv->format, i)->k;
        const size_t numbers = (size_t)l->state.heads * l->state.key;
        bool any = false;
        if (!part->offset || l->state.kind != PITH_STATE_KV) continue;
        PITH_TRY(fill_numbers(kv, i, l, m, to, err));
        for (size_t e = 0; e < numbers; e++) any = any || to[e] != 0;
        kv->offset[i] = (struct pith_key_offset){.of = any ? to : NULL,
                                                 .kv_heads = l->state.heads,
                                                 .dim = l->state.key,
                                                 .hadamard = part->rotate ? l->state.key : 0};
        to += numbers;
        if (!rope) continue;
        const unsigned table = rope->u.rope.table;
        lay_rope(kv, rope, &kv->offset[i]);
        if (!filled[table])
            fill_angles(kv, &m->rope[table], kv->offset[i].pairs, kv->offset_angles[table]);
        filled[table] = true;
    }
    return PITH_OK;
}

const struct pith_key_offset *pith_kv_offset_of(const struct pith_kv *kv, uint32_t layer)
{
    return kv->offset && kv->offset[layer].of ? &kv->offset[layer] : NULL;
}
