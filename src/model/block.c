#include "base/mem.h"
#include "model/load.h"
#include "num/input.h"
#include "num/trellis.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum pith_status pith_vector_load(const struct pith_model *m, const char *name,
                                  const struct pith_vector_spec *spec, float **out,
                                  struct pith_error *err)
{
    const struct pith_tensor *t;
    const size_t n = pith_vector_count(spec);
    uint64_t stored[3];
    const unsigned dims = pith_vector_stored(spec, stored);
    PITH_TRY(pith_checkpoint_get(m->checkpoint, name, dims, stored, &t, err));
    float *v = pith_alloc_aligned(n, sizeof *v);
    if (!v) return pith_fail_nomem(err, name);
    if (!pith_tensor_decode(t, v)) {
        pith_free(v);
        return pith_fail(err, PITH_UNSUPPORTED, "%s: tensor \"%s\" is %s, not a float vector",
                         m->checkpoint->dir, name, pith_dtype_name(t->dtype));
    }
    for (size_t i = 0; spec->plus != 0 && i < n; i++) v[i] += spec->plus;
    for (size_t i = 0; spec->times != 0 && i < n; i++) v[i] *= spec->times;
    *out = v;
    return PITH_OK;
}

/* A copy of a matrix whose rows do not lie in order, in its own dtype. */
static enum pith_status load_straight(const struct pith_tensor *t, struct pith_linear_weights *out,
                                      struct pith_error *err)
{
    out->dense = pith_alloc_aligned((size_t)t->bytes, 1);
    if (!out->dense) return pith_fail_nomem(err, t->name);
    pith_tensor_straighten(t, out->dense);
    out->w.dense = out->dense;
    return PITH_OK;
}

static enum pith_status load_dense(const struct pith_model *m, const char *module,
                                   enum pith_load how, struct pith_linear_weights *out,
                                   struct pith_error *err)
{
    char name[PITH_TENSOR_NAME];
    (void)snprintf(name, sizeof name, "%s.weight", module);
    const struct pith_tensor *t;
    const uint64_t shape[] = {out->w.rows, out->w.cols};
    PITH_TRY(pith_checkpoint_get(m->checkpoint, name, 2, shape, &t, err));
    if (t->dtype != PITH_F32 && t->dtype != PITH_F16 && t->dtype != PITH_BF16)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "%s: tensor \"%s\" is %s; F32, F16 and BF16 are supported",
                         m->checkpoint->dir, name, pith_dtype_name(t->dtype));
    PITH_TRY(pith_tensor_need(t, err));
    out->w.dtype = t->dtype;
    out->w.dense = t->data;
    if (how == PITH_LOAD_MAPPED) return pith_tensor_plain(t) ? PITH_OK : load_straight(t, out, err);
    size_t count;
    if (pith_mul_size(out->w.rows, out->w.cols, &count))
        out->dense = pith_alloc_aligned(count, sizeof(float));
    if (!out->dense) return pith_fail_nomem(err, name);
    (void)pith_tensor_decode(t, out->dense);
    out->w.dtype = PITH_F32;
    out->w.dense = out->dense;
    return PITH_OK;
}

static enum pith_status load_weight(const struct pith_model *m, const char *module,
                                    enum pith_load how, struct pith_linear_weights *out,
                                    struct pith_error *err)
{
    if (m->container) {
        bool found = false;
        PITH_TRY(m->container->load(m->container_state, m->checkpoint, module, out->w.rows,
                                    out->w.cols, &out->q, &found, err));
        if (found) {
            out->w.quant = &out->q;
            const enum pith_status s = pith_input_check(&out->q.input, out->w.cols, err);
            return s == PITH_OK ? s : pith_fail_in(err, s, module);
        }
    }
    return load_dense(m, module, how, out, err);
}

enum pith_status pith_linear_load(const struct pith_model *m, const char *module, uint32_t rows,
                                  uint32_t cols, bool bias, enum pith_load how,
                                  struct pith_linear_weights *out, struct pith_error *err)
{
    char name[PITH_TENSOR_NAME];
    *out = (struct pith_linear_weights){.w = {.rows = rows, .cols = cols, .dtype = PITH_F32}};
    enum pith_status s = how == PITH_LOAD_SHARED ? PITH_OK : load_weight(m, module, how, out, err);
    if (s == PITH_OK && bias) {
        (void)snprintf(name, sizeof name, "%s.bias", module);
        s = pith_vector_load(m, name, &(struct pith_vector_spec){.length = rows}, &out->bias, err);
    }
    if (s != PITH_OK) pith_linear_free(out);
    return s;
}

void pith_linear_free(struct pith_linear_weights *w)
{
    pith_free(w->bias);
    pith_free(w->dense);
    if (w->w.quant == &w->q) pith_qmat_free(&w->q);
    *w = (struct pith_linear_weights){0};
}

/* The tensor with the scales of keys (or values), named after attention or its projection; or NULL.
 */
static const struct pith_tensor *kv_scales(const struct pith_model *m, uint32_t layer, bool values)
{
    static const char *const names[2][3] = {
        {"self_attn.k_scale", "self_attn.k_proj.k_scale", "self_attn.kv_scale"},
        {"self_attn.v_scale", "self_attn.v_proj.v_scale", "self_attn.kv_scale"}};
    const struct pith_tensor *t = NULL;
    for (int i = 0; m->container && i < 3 && !t; i++) {
        char name[PITH_TENSOR_NAME];
        pith_plan_name(&m->plans, layer, names[values][i], name, sizeof name);
        t = pith_checkpoint_find(m->checkpoint, name);
    }
    return t;
}

/* scale[heads]; 1 when there is none. */
static enum pith_status load_kv_scale(const struct pith_model *m, const struct pith_tensor *t,
                                      uint32_t heads, float *scale, struct pith_error *err)
{
    for (uint32_t h = 0; h < heads; h++) scale[h] = 1.0f;
    if (!t) return PITH_OK;
    const uint64_t count = pith_tensor_elements(t);
    const bool read = (count == 1 || count == heads) &&
                      pith_dtype_decode(t->dtype, t->data, count, scale);
    uint32_t good = 0;
    for (uint32_t h = 1; h < heads && read && count == 1; h++) scale[h] = scale[0];
    while (good < heads && read && scale[good] > 0.0f && isfinite(scale[good])) good++;
    if (good == heads) return PITH_OK;
    const float wrong = scale[good];
    for (uint32_t h = 0; h < heads; h++) scale[h] = 1.0f;
    if (!m->kv_grid.format) return PITH_OK; /* a cache in 16 bits needs none */
    if (!read)
        return pith_fail(err, PITH_UNSUPPORTED, "%s: tensor \"%s\" is not one scale, or one a head",
                         m->checkpoint->dir, t->name);
    return pith_fail(err, PITH_FORMAT, "%s: tensor \"%s\" is %g, no scale", m->checkpoint->dir,
                     t->name, (double)wrong);
}

enum pith_status pith_kv_scales_load(const struct pith_model *m, uint32_t layer, float *scale,
                                     struct pith_error *err)
{
    const uint32_t heads = pith_plan(&m->plans, layer)->state.heads;
    for (uint32_t i = 0; i < 2; i++)
        PITH_TRY(load_kv_scale(m, kv_scales(m, layer, i == 1), heads, scale + i * heads, err));
    return PITH_OK;
}

/* Only where there are some. */
static enum pith_status load_kv_scales(const struct pith_model *m, struct pith_block *b,
                                       struct pith_error *err)
{
    if (b->plan->state.heads == 0 || b->plan->state.kind == PITH_STATE_SHARED ||
        (!kv_scales(m, b->layer, false) && !kv_scales(m, b->layer, true)))
        return PITH_OK;
    b->kv_scale = pith_alloc(2 * (size_t)b->plan->state.heads, sizeof *b->kv_scale);
    if (!b->kv_scale) return pith_fail_nomem(err, "scales of keys and values");
    return pith_kv_scales_load(m, b->layer, b->kv_scale, err);
}

static enum pith_status load_parts(const struct pith_model *m, enum pith_load how,
                                   struct pith_block *b, struct pith_error *err)
{
    char name[PITH_TENSOR_NAME];
    const struct pith_layer_plan *l = b->plan;
    b->linear = pith_zalloc(l->linears, sizeof *b->linear);
    b->vector = pith_zalloc(l->vectors, sizeof *b->vector);
    if (!b->linear || !b->vector) return pith_fail_nomem(err, "a block");
    for (uint32_t i = 0; i < l->linears; i++) {
        const struct pith_linear_spec *spec = &l->linear[i];
        pith_plan_linear_name(&m->plans, b->layer, i, name, sizeof name);
        const bool late = how == PITH_LOAD_SHARED && spec->expert != PITH_NO_PART;
        const enum pith_load load = how == PITH_LOAD_SHARED && !late ? PITH_LOAD_FLOAT : how;
        PITH_TRY(pith_linear_load(m, name, spec->rows, spec->cols, spec->bias, load, &b->linear[i],
                                  err));
    }
    for (uint32_t i = 0; i < l->vectors; i++) {
        pith_plan_name(&m->plans, b->layer, l->vector[i].name, name, sizeof name);
        PITH_TRY(pith_vector_load(m, name, &l->vector[i], &b->vector[i], err));
    }
    PITH_TRY(pith_absorbed_make(l, how != PITH_LOAD_MAPPED, &b->absorbed, err));
    return load_kv_scales(m, b, err);
}

enum pith_status pith_block_fetch(const struct pith_model *m, struct pith_block *b, uint32_t linear,
                                  enum pith_load how, struct pith_error *err)
{
    char name[PITH_TENSOR_NAME];
    struct pith_linear_weights *l = &b->linear[linear], made;
    const struct pith_linear_spec *spec = &b->plan->linear[linear];
    if (l->w.dense || l->w.quant || l->w.pack) return PITH_OK;
    pith_plan_linear_name(&m->plans, b->layer, linear, name, sizeof name);
    PITH_TRY(pith_linear_load(m, name, spec->rows, spec->cols, false, how, &made, err));
    l->w = made.w;
    l->dense = made.dense;
    return PITH_OK;
}

void pith_block_drop(struct pith_block *b, uint32_t linear)
{
    struct pith_linear_weights *l = &b->linear[linear];
    pith_free(l->dense);
    l->dense = NULL;
    l->w.dense = NULL;
}

enum pith_status pith_block_load(const struct pith_model *m, uint32_t layer, enum pith_load how,
                                 struct pith_block *out, struct pith_error *err)
{
    *out = (struct pith_block){.layer = layer};
    if (layer >= m->shape.layers)
        return pith_fail(err, PITH_ARG, "layer %u of a model with %u", layer, m->shape.layers);
    out->plan = pith_plan(&m->plans, layer);
    const enum pith_status s = load_parts(m, how, out, err);
    if (s != PITH_OK) pith_block_free(out);
    return s;
}

void pith_block_free(struct pith_block *b)
{
    for (uint32_t i = 0; b->linear && i < b->plan->linears; i++) pith_linear_free(&b->linear[i]);
    for (uint32_t i = 0; b->vector && i < b->plan->vectors; i++) pith_free(b->vector[i]);
    pith_free(b->linear);
    pith_free(b->vector);
    pith_free(b->packed);
    pith_free(b->absorbed);
    pith_free(b->kv_scale);
    *b = (struct pith_block){0};
}

/* Packs the quantized ones of `count` linears that have a packed form, all into one allocation. */
static enum pith_status pack_linears(struct pith_linear_weights *linears, uint32_t count,
                                     struct pith_backend *be, void **memory, struct pith_error *err)
{
    size_t total = 0;
    bool prepared = false;
    for (uint32_t i = 0; i < count; i++) {
        const struct pith_qmat *q = linears[i].w.quant;
        const size_t bytes = q ? pith_pack_bytes(q) : 0;
        total += bytes;
        prepared |= q && (pith_trellis_is(q->format) || (bytes > 0 && (q->g_idx || q->offsets)));
    }
    if (prepared) PITH_TRY(pith_backend_take_prepared(be, err)); /* no product without it */
    if (total == 0) return PITH_OK;
    char *at = *memory = pith_alloc_huge(total, 1);
    if (!at) return pith_fail_nomem(err, "packed weights");
    for (uint32_t i = 0; i < count; i++) {
        struct pith_linear_weights *l = &linears[i];
        const size_t bytes = l->w.quant ? pith_pack_bytes(l->w.quant) : 0;
        if (bytes == 0) continue;
        pith_pack_init(be, l->w.quant, at, &l->pack);
        at += bytes;
        pith_qmat_free(&l->q);
        l->w.quant = NULL;
        l->w.pack = &l->pack;
    }
    return PITH_OK;
}

enum pith_status pith_block_pack(struct pith_block *b, struct pith_backend *be,
                                 struct pith_error *err)
{
    if (b->packed) return PITH_OK;
    return pack_linears(b->linear, b->plan->linears, be, &b->packed, err);
}

enum pith_status pith_model_pack(struct pith_model *m, struct pith_backend *be,
                                 struct pith_error *err)
{
    for (uint32_t i = 0; m->blocks && i < m->shape.layers; i++)
        PITH_TRY(pith_block_pack(&m->blocks[i], be, err));
    if (m->head_packed || !m->head.quant) return PITH_OK;
    const bool tied = m->head.quant == &m->embed_store.q;
    struct pith_linear_weights *store = tied ? &m->embed_store : &m->head_store;
    PITH_TRY(pack_linears(store, 1, be, &m->head_packed, err));
    m->head = store->w;
    if (tied) m->embed = store->w;
    return PITH_OK;
}

enum pith_status pith_model_round_head(struct pith_model *m, struct pith_backend *be,
                                       struct pith_error *err)
{
    struct pith_linear_weights *store = &m->head_store;
    struct pith_qmat q;
    if (!m->head.dense) return PITH_OK;
    const enum pith_status s = pith_round_to_bytes(be, &m->head, &q, err);
    if (s != PITH_OK) return pith_fail_in(err, s, "the head");
    pith_free(store->dense);
    *store = (struct pith_linear_weights){
        .w = {.rows = q.rows, .cols = q.cols}, .bias = store->bias, .q = q};
    store->w.quant = &store->q;
    m->head = store->w;
    return pith_model_pack(m, be, err);
}

/* A packed block needs its part of the files no longer: the pages go back to the kernel, which may
 * keep them as its cache. */
static void release_files(const struct pith_model *m, uint32_t layer)
{
    const struct pith_checkpoint *c = m->checkpoint;
    char prefix[PITH_TENSOR_NAME];
    pith_plan_name(&m->plans, layer, "", prefix, sizeof prefix);
    const size_t n = strlen(prefix);
    for (size_t i = 0; i < c->count; i++)
        if (strncmp(c->tensors[i].name, prefix, n) == 0) pith_checkpoint_release(c, &c->tensors[i]);
}

static enum pith_status load_block(struct pith_model *m, struct pith_backend *be, uint32_t layer,
                                   struct pith_block *out, struct pith_error *err)
{
    PITH_TRY(pith_block_load(m, layer, PITH_LOAD_MAPPED, out, err));
    if (!be) return PITH_OK;
    const enum pith_status s = pith_block_pack(out, be, err);
    if (s != PITH_OK) pith_block_free(out);
    else if (out->packed) release_files(m, layer);
    return s;
}

enum pith_status pith_model_load_blocks(struct pith_model *m, struct pith_backend *be,
                                        struct pith_error *err)
{
    if (m->blocks) return PITH_OK;
    struct pith_block *blocks = pith_zalloc(m->shape.layers, sizeof *blocks);
    if (!blocks) return pith_fail_nomem(err, "the blocks of a model");
    for (uint32_t i = 0; i < m->shape.layers; i++) {
        const enum pith_status s = load_block(m, be, i, &blocks[i], err);
        if (s == PITH_OK) continue;
        while (i-- > 0) pith_block_free(&blocks[i]);
        pith_free(blocks);
        return s;
    }
    m->blocks = blocks;
    return PITH_OK;
}

uint64_t pith_block_rest_bytes(const struct pith_layer_plan *l)
{
    uint64_t values = 0;
    for (uint32_t i = 0; i < l->linears; i++)
        if (l->linear[i].bias) values += l->linear[i].rows;
    for (uint32_t i = 0; i < l->vectors; i++) values += pith_vector_count(&l->vector[i]);
    return values * sizeof(float) + pith_absorbed_bytes(l);
}

uint64_t pith_block_float_bytes(const struct pith_layer_plan *l)
{
    uint64_t values = 0;
    for (uint32_t i = 0; i < l->linears; i++)
        values += (uint64_t)l->linear[i].rows * l->linear[i].cols;
    return values * sizeof(float) + pith_block_rest_bytes(l);
}
