#include "base/mem.h"
#include "model/model.h"
#include "num/input.h"

#include <string.h>

/* Elements of k (and of v) of one layer, and floats of work space. False when a size overflows. */
static bool measure(const struct pith_shape *s, size_t capacity, size_t *layer, size_t *work)
{
    *work = pith_attention_work(s->heads, s->head_dim, capacity);
    return *work != SIZE_MAX && pith_cache_elements(s->kv_heads, s->head_dim, capacity, layer);
}

static enum pith_status check_grid(const struct pith_grid *g, const struct pith_model *m,
                                   struct pith_error *err)
{
    const struct pith_input in = {.grid = *g, .scale = 1.0f};
    const uint32_t width = m ? m->shape.head_dim : g->group ? g->group : 64;
    const enum pith_status s = pith_input_check(&in, width, err);
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

static size_t element_bytes(enum pith_dtype dtype)
{
    return dtype == PITH_F32 ? 4 : 2;
}

enum pith_status pith_kv_init(struct pith_kv *kv, const struct pith_shape *s, uint32_t layers,
                              size_t capacity, enum pith_dtype dtype, struct pith_error *err)
{
    *kv = (struct pith_kv){.layers = layers,
                           .capacity = capacity,
                           .dtype = dtype,
                           .kv_heads = s->kv_heads,
                           .head_dim = s->head_dim};
    if (layers == 0 || capacity == 0) return pith_fail(err, PITH_ARG, "a KV cache for no tokens");
    if (dtype != PITH_F32 && dtype != PITH_BF16)
        return pith_fail(err, PITH_ARG, "a KV cache of %s", pith_dtype_name(dtype));
    size_t values;
    if (measure(s, capacity, &kv->layer_elements, &kv->work_floats) &&
        pith_mul_size(kv->layer_elements, layers, &values)) {
        kv->k = pith_alloc_huge(values, element_bytes(dtype));
        kv->v = pith_alloc_huge(values, element_bytes(dtype));
        kv->work = pith_alloc_aligned(kv->work_floats, sizeof *kv->work);
    }
    if (kv->k && kv->v && kv->work) return PITH_OK;
    pith_kv_free(kv);
    return pith_fail(err, PITH_NOMEM, "out of memory for a KV cache of %zu tokens", capacity);
}

void pith_kv_free(struct pith_kv *kv)
{
    pith_free(kv->k);
    pith_free(kv->v);
    pith_free(kv->work);
    *kv = (struct pith_kv){0};
}

uint64_t pith_kv_bytes(const struct pith_shape *s, uint32_t layers, size_t capacity,
                       enum pith_dtype dtype)
{
    size_t layer, work, all;
    if (!measure(s, capacity, &layer, &work) || !pith_mul_size(work, sizeof(float), &work) ||
        !pith_mul_size(layer, 2 * element_bytes(dtype), &all) ||
        !pith_mul_size(all, layers, &all) || !pith_add_size(all, work, &all))
        return UINT64_MAX;
    return all;
}

struct pith_cache pith_kv_layer(const struct pith_kv *kv, uint32_t layer)
{
    const size_t at = layer * kv->layer_elements * element_bytes(kv->dtype);
    return (struct pith_cache){.dtype = kv->dtype,
                               .kv_heads = kv->kv_heads,
                               .head_dim = kv->head_dim,
                               .capacity = kv->capacity,
                               .k = (char *)kv->k + at,
                               .v = (char *)kv->v + at};
}
