/* Filters and gains as mlx-lm stores them. Its convolutions have their channels last; which files
 * are its own is seen from their shape alone, by mlx-lm too; where it transposes filters it adds
 * the 1 to gains of the form 1 + w.
 *
 * Sources: mlx-lm 0.32.2, models/qwen3_next.py, qwen3_5.py, lfm2_moe.py. */
#include "model/load.h"

#include "base/mem.h"

#include <stdio.h>
#include <string.h>

static struct pith_tensor *find(struct pith_checkpoint *c, const char *name)
{
    const struct pith_tensor *t = pith_checkpoint_find(c, name);
    return t ? &c->tensors[t - c->tensors] : NULL;
}

static struct pith_tensor *find_vector(const struct pith_model *m, uint32_t layer, uint32_t vector)
{
    char name[PITH_TENSOR_NAME];
    pith_plan_name(&m->plans, layer, pith_plan(&m->plans, layer)->vector[vector].name, name,
                   sizeof name);
    return find(m->checkpoint, name);
}

/* Transposes those that lie so; whether there were any. */
static bool transpose_filters(const struct pith_model *m)
{
    bool any = false;
    for (uint32_t layer = 0; layer < m->shape.layers; layer++) {
        const struct pith_layer_plan *l = pith_plan(&m->plans, layer);
        for (uint32_t i = 0; i < l->vectors; i++) {
            const struct pith_vector_spec *v = &l->vector[i];
            struct pith_tensor *t = v->filter && v->length > 1 ? find_vector(m, layer, i) : NULL;
            if (!t || t->dims != 3 || t->shape[1] != v->length || t->shape[2] != 1) continue;
            t->shape[2] = t->shape[1];
            t->shape[1] = 1;
            any = true;
        }
    }
    return any;
}

/* Whether a layer has a dense part by these names. */
static bool is_numbered(const struct pith_model *m)
{
    for (uint32_t i = 0; i < m->plans.kinds; i++)
        for (uint32_t k = 0; k < m->plans.kind[i].linears; k++)
            if (strcmp(m->plans.kind[i].linear[k].name, "feed_forward.w1") == 0) return true;
    return false;
}

/* LFM2's dense layers, whose linears have the usual names there, unlike its mixtures'. */
static void numbered(const void *ctx, const char *name, struct pith_str *out)
{
    static const char *const parts[][2] = {
        {"gate_proj.", "w1."}, {"up_proj.", "w3."}, {"down_proj.", "w2."}};
    static const char before[] = ".feed_forward.";
    const char *at = strstr(name, before), *part = at ? at + strlen(before) : NULL;
    (void)ctx;
    for (size_t i = 0; part && i < PITH_COUNT(parts); i++) {
        const size_t n = strlen(parts[i][0]);
        if (strncmp(part, parts[i][0], n) != 0) continue;
        pith_str_append(out, name, (size_t)(part - name));
        pith_str_puts(out, parts[i][1]);
        pith_str_puts(out, part + n);
        return;
    }
    pith_str_puts(out, name);
}

enum pith_status pith_model_show_filters(struct pith_model *m, struct pith_error *err)
{
    char norm[PITH_TENSOR_NAME];
    if (!transpose_filters(m)) return PITH_OK;
    if (is_numbered(m)) PITH_TRY(pith_checkpoint_rename(m->checkpoint, numbered, NULL, err));
    (void)snprintf(norm, sizeof norm, "%s.weight", m->arch->names.norm);
    struct pith_tensor *last = find(m->checkpoint, norm);
    if (last && m->arch->norm.plus == 1.0f) last->as = PITH_AS_PLUS_ONE;
    for (uint32_t layer = 0; layer < m->shape.layers; layer++) {
        const struct pith_layer_plan *l = pith_plan(&m->plans, layer);
        for (uint32_t i = 0; i < l->vectors; i++) {
            struct pith_tensor *t = l->vector[i].plus == 1.0f ? find_vector(m, layer, i) : NULL;
            if (t) t->as = PITH_AS_PLUS_ONE;
        }
    }
    return PITH_OK;
}
