#include "base/mem.h"
#include "model/model.h"
#include "num/input.h"

#include <string.h>

/* How many elements of keys, and of values, one layer's room has. */
static bool elements(const struct pith_state_spec *s, size_t capacity, size_t *k, size_t *v)
{
    *k = *v = 0;
    if (s->kind != PITH_STATE_KV && s->kind != PITH_STATE_LATENT) return true;
    return pith_cache_elements(s->heads, s->key, capacity, k) &&
           pith_cache_elements(s->heads, s->value, capacity, v);
}

static size_t element_bytes(enum pith_dtype dtype)
{
    return dtype == PITH_F32 ? 4 : 2;
}

/* Bytes of one layer's keys and values. */
static bool measure_layer(const struct pith_state_spec *s, size_t capacity, enum pith_dtype dtype,
                          size_t *bytes)
{
    size_t k, v;
    return elements(s, capacity, &k, &v) && pith_add_size(k, v, bytes) &&
           pith_mul_size(*bytes, element_bytes(dtype), bytes);
}

/* What has to be allocated. */
struct room {
    size_t bytes, floats, work;
};

/* Adds layer by layer, or with `layers` 1 finds the most of any; fills in the places of kv, when
 * that is not NULL. False when a size overflows. */
static bool measure(const struct pith_plans *p, uint32_t layers, size_t capacity,
                    enum pith_dtype dtype, struct pith_kv *kv, struct room *r)
{
    *r = (struct room){0};
    for (uint32_t i = 0; i < p->layers; i++) {
        const struct pith_layer_plan *l = pith_plan(p, i);
        const struct pith_node *node = pith_plan_attend(l);
        const size_t floats = l->state.kind == PITH_STATE_RECURRENT ? l->state.floats : 0;
        size_t bytes, work = 0;
        if (!measure_layer(&l->state, capacity, dtype, &bytes)) return false;
        if (node) work = pith_attention_work(node->u.attend.heads, l->state.value, capacity);
        if (work == SIZE_MAX) return false;
        if (work > r->work) r->work = work;
        if (layers == p->layers) {
            if (!pith_add_size(r->bytes, bytes, &r->bytes) ||
                !pith_add_size(r->floats, floats, &r->floats))
                return false;
        } else {
            if (bytes > r->bytes) r->bytes = bytes;
            if (floats > r->floats) r->floats = floats;
        }
        const uint32_t slot = layers == p->layers ? i + 1 : 1;
        if (kv) kv->at[slot] = r->bytes, kv->state_at[slot] = r->floats;
    }
    return true;
}

static enum pith_status check_grid(const struct pith_grid *g, const struct pith_model *m,
                                   struct pith_error *err)
{
    const struct pith_input in = {.grid = *g, .scale = 1.0f};
    enum pith_status s = PITH_OK;
    if (!m) s = pith_input_check(&in, g->group ? g->group : 64, err);
    for (uint32_t i = 0; m && i < m->plans.kinds && s == PITH_OK; i++) {
        const struct pith_state_spec *keeps = &m->plans.kind[i].state;
        if (keeps->kind == PITH_STATE_KV) s = pith_input_check(&in, keeps->key, err);
        if (s == PITH_OK && keeps->value) s = pith_input_check(&in, keeps->value, err);
    }
    if (s != PITH_OK) return pith_fail_in(err, s, "the KV cache");
    if (g->format->kind == PITH_KIND_BLOCK && pith_input_needs_scale(&in))
        return pith_fail(err, PITH_UNSUPPORTED,
                         "the KV cache cannot be %s; int8:token, fp8_e4m3:token, int8:g32, mxfp8, "
                         "mxfp4 and q8_0 are some that it can",
                         g->format->name);
    /* FP8 is often used with a scale of 1; integers without their scale mean nothing. */
    if (m && g->is_static && g->format->kind == PITH_KIND_INT && !m->kv_grid.format)
        return pith_fail(err, PITH_ARG,
                         "%s: has no scales for keys and values; int8:token needs none",
                         m->checkpoint->dir);
    return PITH_OK;
}

enum pith_status pith_kv_parse(const char *name, enum pith_dtype usual, const struct pith_model *m,
                               struct pith_kv_format *out, struct pith_error *err)
{
    *out = (struct pith_kv_format){.dtype = usual};
    if (name && strcmp(name, "f32") == 0) out->dtype = PITH_F32;
    else if (name && strcmp(name, "bf16") == 0) out->dtype = PITH_BF16;
    else if (name || (m && m->kv_grid.format)) {
        if (!name) out->grid = m->kv_grid;
        else if (pith_grid_parse(name, &out->grid, err) != PITH_OK || !out->grid.format)
            return pith_fail(err, PITH_ARG,
                             "unknown KV cache \"%s\": bf16 or f32, or a grid such as fp8_e4m3, "
                             "int8:token, int4:g32:asym",
                             name);
        out->dtype = PITH_F32;
        pith_kv_grid_settle(&out->grid);
        return check_grid(&out->grid, m, err);
    }
    return PITH_OK;
}

void pith_kv_name(const struct pith_kv_format *f, char text[PITH_GRID_TEXT])
{
    if (f->grid.format) pith_grid_format(&f->grid, text);
    else strcpy(text, f->dtype == PITH_BF16 ? "bf16" : "f32");
}

/* Lists, and with several layers a copy of what cannot be cut back. */
static bool allocate(struct pith_kv *kv, const struct room *r, bool copies)
{
    size_t saved;
    const size_t some = r->bytes ? r->bytes : 1, work = r->work ? r->work : 1;
    if (!pith_mul_size(r->floats, copies ? 2 : 1, &saved)) return false;
    kv->memory = pith_alloc_huge(some, 1);
    kv->work = pith_alloc_aligned(work, sizeof *kv->work);
    if (r->floats) kv->state = pith_alloc_aligned(saved, sizeof *kv->state);
    if (kv->state && copies) kv->saved = kv->state + r->floats;
    return kv->memory && kv->work && (kv->state || !r->floats);
}

enum pith_status pith_kv_init(struct pith_kv *kv, const struct pith_plans *plans, uint32_t layers,
                              size_t capacity, enum pith_dtype dtype, struct pith_error *err)
{
    struct room r;
    *kv = (struct pith_kv){.layers = layers, .capacity = capacity, .dtype = dtype};
    if (layers == 0 || capacity == 0) return pith_fail(err, PITH_ARG, "a KV cache for no tokens");
    if (layers != 1 && layers != plans->layers)
        return pith_fail(err, PITH_ARG, "a KV cache for %u of %u layers", layers, plans->layers);
    if (dtype != PITH_F32 && dtype != PITH_BF16)
        return pith_fail(err, PITH_ARG, "a KV cache of %s", pith_dtype_name(dtype));
    kv->at = pith_zalloc((size_t)layers + 1, sizeof *kv->at);
    kv->state_at = pith_zalloc((size_t)layers + 1, sizeof *kv->state_at);
    kv->reached = pith_zalloc(layers, sizeof *kv->reached);
    if (kv->at && kv->state_at && kv->reached && measure(plans, layers, capacity, dtype, kv, &r) &&
        allocate(kv, &r, layers > 1)) {
        kv->work_floats = r.work;
        return PITH_OK;
    }
    pith_kv_free(kv);
    return pith_fail(err, PITH_NOMEM, "out of memory for a KV cache of %zu tokens", capacity);
}

void pith_kv_free(struct pith_kv *kv)
{
    pith_free(kv->memory);
    pith_free(kv->at);
    pith_free(kv->state);
    pith_free(kv->state_at);
    pith_free(kv->reached);
    pith_free(kv->work);
    *kv = (struct pith_kv){0};
}

uint64_t pith_kv_bytes(const struct pith_plans *plans, uint32_t layers, size_t capacity,
                       enum pith_dtype dtype)
{
    struct room r;
    size_t floats, all;
    if (!measure(plans, layers, capacity, dtype, NULL, &r) ||
        !pith_mul_size(r.floats, layers > 1 ? 2 : 1, &floats) ||
        !pith_add_size(floats, r.work, &floats) || !pith_mul_size(floats, sizeof(float), &floats) ||
        !pith_add_size(r.bytes, floats, &all))
        return UINT64_MAX;
    return all;
}

struct pith_cache pith_kv_layer(const struct pith_kv *kv, uint32_t layer,
                                const struct pith_state_spec *s)
{
    char *const memory = kv->memory + kv->at[layer];
    size_t k, v;
    (void)elements(s, kv->capacity, &k, &v);
    return (struct pith_cache){.dtype = kv->dtype,
                               .kv_heads = s->heads,
                               .head_dim = s->key,
                               .value_dim = s->value,
                               .capacity = kv->capacity,
                               .k = memory,
                               .v = memory + k * element_bytes(kv->dtype)};
}

/* --- recurrent states ------------------------------------------------------------------------- */

enum pith_status pith_kv_state(const struct pith_kv *kv, uint32_t layer,
                               const struct pith_state_spec *s, size_t start, float **state,
                               struct pith_error *err)
{
    *state = kv->state + kv->state_at[layer];
    if (start == 0) {
        memset(*state, 0, s->floats * sizeof **state);
        kv->reached[layer] = 0;
    }
    if (kv->reached[layer] == start) return PITH_OK;
    return pith_fail(err, PITH_ARG,
                     "a recurrent state that has seen %zu tokens cannot go on from %zu",
                     kv->reached[layer], start);
}

bool pith_kv_recurrent(const struct pith_kv *kv)
{
    return kv->state_at[kv->layers] > 0;
}

bool pith_kv_is_at(const struct pith_kv *kv, size_t length)
{
    bool at = true;
    for (uint32_t i = 0; i < kv->layers; i++)
        at = at && (kv->state_at[i + 1] == kv->state_at[i] || kv->reached[i] == length);
    return at;
}

void pith_kv_save(struct pith_kv *kv, size_t length)
{
    if (!kv->saved) return;
    memcpy(kv->saved, kv->state, kv->state_at[kv->layers] * sizeof *kv->saved);
    kv->saved_at = length;
}

void pith_kv_restore(struct pith_kv *kv)
{
    memcpy(kv->state, kv->saved, kv->state_at[kv->layers] * sizeof *kv->saved);
    for (uint32_t i = 0; i < kv->layers; i++) kv->reached[i] = kv->saved_at;
}
