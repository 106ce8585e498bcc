/* Names of caches. */
#include "model/kv.h"

#include "model/model.h"
#include "num/input.h"

#include <string.h>

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
