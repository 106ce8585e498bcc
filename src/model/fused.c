/* Tensors that hold the matrices of several linears, shown as one tensor a linear. */
#include "model/fused.h"

#include "base/mem.h"
#include "model/load.h"

#include <stdio.h>
#include <string.h>

struct slicing {
    const struct pith_model *m;
    struct pith_slice *list; /* NULL while they are only counted */
    char (*name)[PITH_TENSOR_NAME];
    size_t count;
};

/* The forms of a fused tensor: dense ones, and gpt-oss's MXFP4, whose rows are always whole. */
static const struct form {
    const char *end, *suffix; /* of the whole's name, of a linear's tensor */
    uint32_t block, inner;    /* columns an element stands for; elements behind it */
    bool bias, dense;
} forms[] = {{.end = "", .suffix = ".weight", .block = 1, .dense = true},
             {.end = "", .suffix = ".bias", .bias = true},
             {.end = "_blocks", .suffix = ".blocks", .block = 32, .inner = 16},
             {.end = "_scales", .suffix = ".scales", .block = 32}};

/* The whole's shape in that form; its number of dimensions. */
static unsigned whole_shape(const struct form *f, const struct pith_fused_spec *spec,
                            const struct pith_linear_spec *l, uint64_t shape[4])
{
    const uint64_t rows = (uint64_t)l->rows * spec->parts;
    const bool transposed = f->dense && spec->transposed;
    if (spec->alone) {
        shape[0] = transposed ? l->cols : rows;
        shape[1] = transposed ? rows : l->cols;
        return 2;
    }
    shape[0] = spec->experts;
    shape[1] = transposed ? l->cols : rows;
    if (f->bias) return 2;
    shape[2] = transposed ? rows : l->cols / f->block;
    shape[3] = f->inner;
    return f->inner ? 4 : 3;
}

/* Elements of a row of it. */
static uint64_t columns(const struct form *f, const struct pith_linear_spec *l)
{
    return f->bias ? 1 : l->cols / f->block * (f->inner ? f->inner : 1);
}

static struct pith_fused_place place_in(const struct form *f, const struct pith_fused_spec *spec,
                                        const struct pith_linear_spec *l, uint32_t part)
{
    const uint64_t rows = (uint64_t)l->rows * spec->parts, cols = columns(f, l);
    const uint64_t first = spec->adjacent ? part : (uint64_t)part * l->rows;
    const uint64_t step = spec->adjacent ? spec->parts : 1;
    if (f->dense && spec->transposed) return (struct pith_fused_place){first, step, rows};
    return (struct pith_fused_place){first * cols, step * cols, 1};
}

/* The slice that is part `part` of expert e. */
static void place(const struct form *f, const struct pith_fused_spec *spec,
                  const struct pith_linear_spec *l, uint32_t e, uint32_t part, struct pith_slice *s)
{
    const struct pith_fused_place at = place_in(f, spec, l, part);
    const uint64_t cols = columns(f, l);
    s->dims = f->bias ? 1 : f->inner ? 3 : 2;
    s->shape[0] = l->rows;
    s->shape[1] = l->cols / (f->block ? f->block : 1);
    s->shape[2] = f->inner;
    s->first = e * (uint64_t)l->rows * spec->parts * cols + at.first;
    s->row_step = at.row_step;
    s->col_step = at.col_step;
    if (s->row_step == cols && s->col_step == 1) s->row_step = 0; /* in order */
}

/* The spec with `transposed` as the tensor has it, where it may be either. */
static struct pith_fused_spec as_stored(const struct form *f, const struct pith_fused_spec *spec,
                                        const struct pith_linear_spec *l,
                                        const struct pith_tensor *t)
{
    struct pith_fused_spec as = *spec;
    uint64_t shape[4];
    for (int i = 0; i < 2 && f->dense && spec->either && t && t->dims == 3; i++) {
        as.transposed = (i == 0) == spec->transposed;
        const unsigned dims = whole_shape(f, &as, l, shape);
        if (memcmp(t->shape, shape, dims * sizeof *shape) == 0) return as;
    }
    return *spec;
}

/* Codes that a container keeps under the weight's own name lie as they are computed with. */
static bool is_dense(const struct pith_tensor *t)
{
    return t->dtype == PITH_F32 || t->dtype == PITH_F16 || t->dtype == PITH_BF16;
}

static void whole_name(const struct pith_plans *plans, uint32_t layer, const struct form *f,
                       const struct pith_fused_spec *spec, char *name, size_t size)
{
    char part[PITH_PART_NAME + 8];
    (void)snprintf(part, sizeof part, "%s%s", f->bias ? spec->bias : spec->name, f->end);
    pith_plan_name(plans, layer, part, name, size);
}

static enum pith_status add_form(struct slicing *k, uint32_t layer, const struct form *f,
                                 const struct pith_fused_spec *spec, struct pith_error *err)
{
    const struct pith_plans *plans = &k->m->plans;
    const struct pith_layer_plan *l = pith_plan(plans, layer);
    char name[PITH_TENSOR_NAME];
    const struct pith_tensor *whole;
    uint64_t shape[4];
    if ((f->bias && !spec->bias[0]) || (spec->alone && !f->dense)) return PITH_OK;
    whole_name(plans, layer, f, spec, name, sizeof name);
    whole = pith_checkpoint_find(k->m->checkpoint, name);
    if (!whole || (spec->alone && (!is_dense(whole) || whole->exchanged))) return PITH_OK;
    const struct pith_fused_spec as = as_stored(f, spec, &l->linear[spec->first], whole);
    const unsigned dims = whole_shape(f, &as, &l->linear[spec->first], shape);
    PITH_TRY(pith_checkpoint_get(k->m->checkpoint, name, dims, shape, &whole, err));
    for (uint32_t i = 0; i < spec->experts * spec->parts; i++) {
        const size_t at = k->count++;
        const uint32_t e = i / spec->parts, p = i % spec->parts;
        const uint32_t linear = pith_fused_linear(spec, e, p);
        if (!k->list) continue;
        pith_plan_linear_name(plans, layer, linear, name, sizeof name);
        (void)snprintf(k->name[at], sizeof k->name[at], "%s%s", name, f->suffix);
        k->list[at] = (struct pith_slice){.name = k->name[at], .whole = whole};
        place(f, &as, &l->linear[linear], e, p, &k->list[at]);
    }
    return PITH_OK;
}

/* --- one linear of all experts in a tensor ---------------------------------------------------- */

/* mlx-lm has a module of experts in the place of "experts.0", and calls its linears always so. */
static const char *const stacks[] = {"switch_mlp", "experts", "experts.switch_glu"};
static const char *const stack_parts[] = {"gate_proj", "up_proj", "down_proj"};
static const char *const stack_suffixes[] = {".weight", ".scales", ".biases", ".global_scale",
                                             ".bias"};

/* A tensor of such a module, if there is one: expert e's follow each other, whatever they are. */
static enum pith_status add_stack(struct slicing *k, uint32_t layer, uint32_t first,
                                  const char *module, const char *suffix, struct pith_error *err)
{
    const struct pith_plans *plans = &k->m->plans;
    const struct pith_node *n = pith_plan_experts(pith_plan(plans, layer));
    char name[PITH_TENSOR_NAME];
    (void)snprintf(name, sizeof name, "%s%s", module, suffix);
    const struct pith_tensor *whole = pith_checkpoint_find(k->m->checkpoint, name);
    if (!whole) return PITH_OK;
    if (whole->dims == 0 || whole->shape[0] != k->m->shape.moe.experts)
        return pith_fail(err, PITH_FORMAT, "%s: tensor \"%s\" is not that of %u experts",
                         k->m->checkpoint->dir, name, (unsigned)k->m->shape.moe.experts);
    for (uint32_t e = 0; e < k->m->shape.moe.experts; e++) {
        const size_t at = k->count++;
        if (!k->list) continue;
        pith_plan_linear_name(plans, layer, first + e * n->u.experts.each, name, sizeof name);
        (void)snprintf(k->name[at], sizeof k->name[at], "%s%s", name, suffix);
        struct pith_slice *s = &k->list[at];
        *s = (struct pith_slice){.name = k->name[at], .whole = whole, .shape = {1}};
        s->dims = whole->dims > 1 ? whole->dims - 1 : 1;
        for (unsigned i = 1; i < whole->dims; i++) s->shape[i - 1] = whole->shape[i];
        s->first = e * (pith_tensor_elements(whole) / whole->shape[0]);
    }
    return PITH_OK;
}

static enum pith_status add_stacks(struct slicing *k, uint32_t layer, struct pith_error *err)
{
    const struct pith_node *n = pith_plan_experts(pith_plan(&k->m->plans, layer));
    char name[PITH_TENSOR_NAME], module[PITH_TENSOR_NAME];
    for (uint32_t i = 0; n && i < PITH_COUNT(stack_parts); i++) {
        const uint32_t first = n->u.experts.first + i;
        pith_plan_linear_name(&k->m->plans, layer, first, name, sizeof name);
        const char *experts = strstr(name, "experts.0.");
        for (size_t s = 0; experts && s < PITH_COUNT(stacks); s++) {
            (void)snprintf(module, sizeof module, "%.*s%s.%s", (int)(experts - name), name,
                           stacks[s], stack_parts[i]);
            for (size_t x = 0; x < PITH_COUNT(stack_suffixes); x++)
                PITH_TRY(add_stack(k, layer, first, module, stack_suffixes[x], err));
        }
    }
    return PITH_OK;
}

static enum pith_status add_all(struct slicing *k, struct pith_error *err)
{
    k->count = 0;
    for (uint32_t layer = 0; layer < k->m->shape.layers; layer++) {
        const struct pith_layer_plan *l = pith_plan(&k->m->plans, layer);
        PITH_TRY(add_stacks(k, layer, err));
        for (uint32_t i = 0; i < l->fuseds; i++)
            for (size_t f = 0; f < PITH_COUNT(forms); f++)
                PITH_TRY(add_form(k, layer, &forms[f], &l->fused[i], err));
    }
    return PITH_OK;
}

bool pith_fused_whole(const struct pith_model *m, uint32_t layer, uint32_t fused, bool bias,
                      struct pith_fused_whole *out)
{
    const struct pith_layer_plan *l = pith_plan(&m->plans, layer);
    const struct pith_fused_spec *spec = &l->fused[fused];
    const struct form *f = &forms[bias];
    *out = (struct pith_fused_whole){.bias = bias};
    if (spec->alone || (bias && !spec->bias[0])) return false;
    whole_name(&m->plans, layer, f, spec, out->name, sizeof out->name);
    out->stored = pith_checkpoint_find_stored(m->checkpoint, out->name);
    out->spec = as_stored(f, spec, &l->linear[spec->first], out->stored);
    out->dims = whole_shape(f, &out->spec, &l->linear[spec->first], out->shape);
    return true;
}

struct pith_fused_place pith_fused_place(const struct pith_fused_whole *w,
                                         const struct pith_linear_spec *l, uint32_t part)
{
    return place_in(&forms[w->bias], &w->spec, l, part);
}

enum pith_status pith_model_unfuse(struct pith_model *m, struct pith_error *err)
{
    struct slicing k = {.m = m};
    PITH_TRY(add_all(&k, err));
    if (k.count == 0) return PITH_OK;
    k.name = pith_alloc(k.count, sizeof *k.name);
    k.list = pith_alloc(k.count, sizeof *k.list);
    enum pith_status s = k.name && k.list ? add_all(&k, err)
                                          : pith_fail_nomem(err, "slices of tensors");
    if (s == PITH_OK) s = pith_checkpoint_slice(m->checkpoint, k.list, k.count, err);
    pith_free(k.name);
    pith_free(k.list);
    return s;
}
