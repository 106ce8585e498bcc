/* A model to start from: what a quantized checkpoint stands for, as a dense one. */
#include "base/mem.h"
#include "io/dense.h"
#include "model/load.h"
#include "model/remarks.h"

#include <stdio.h>
#include <string.h>

/* All linears of a model, with the matrices outside the layers. */
struct listing {
    struct pith_dense_linear *list;
    char (*name)[PITH_TENSOR_NAME];
    size_t count;
};

static void add(struct listing *k, const char *module, uint32_t rows, uint32_t cols, bool bias)
{
    char *name = k->name[k->count];
    (void)snprintf(name, PITH_TENSOR_NAME, "%s", module);
    k->list[k->count++] =
        (struct pith_dense_linear){.module = name, .rows = rows, .cols = cols, .bias = bias};
}

static void add_outer(struct listing *k, const struct pith_model *m)
{
    const struct pith_shape *s = &m->shape;
    const struct pith_arch_names *names = &m->arch->names;
    const uint32_t embed = pith_shape_embed(s);
    add(k, names->embed, s->vocab, embed, false);
    if (!s->ends.tied) add(k, names->head, s->vocab, embed, s->ends.head_bias);
    if (s->tokens.width) {
        add(k, names->per_layer_embed, s->tokens.vocab, s->layers * s->tokens.width, false);
        add(k, names->per_layer_project, s->layers * s->tokens.width, s->hidden, false);
    }
}

static void add_layer(struct listing *k, const struct pith_model *m, uint32_t layer)
{
    const struct pith_layer_plan *l = pith_plan(&m->plans, layer);
    char name[PITH_TENSOR_NAME];
    for (uint32_t i = 0; i < l->linears; i++) {
        pith_plan_linear_name(&m->plans, layer, i, name, sizeof name);
        add(k, name, l->linear[i].rows, l->linear[i].cols, l->linear[i].bias);
    }
}

static enum pith_status list_linears(const struct pith_model *m, struct listing *k,
                                     struct pith_error *err)
{
    enum { OUTER = 4 };
    size_t count = OUTER;
    for (uint32_t i = 0; i < m->shape.layers; i++) count += pith_plan(&m->plans, i)->linears;
    k->list = pith_zalloc(count, sizeof *k->list);
    k->name = pith_alloc(count, sizeof *k->name);
    if (!k->list || !k->name) return pith_fail_nomem(err, "the list of linears");
    add_outer(k, m);
    for (uint32_t i = 0; i < m->shape.layers; i++) add_layer(k, m, i);
    return PITH_OK;
}

/* The checkpoint of m becomes part of a view; m is closed, also after a failure. */
static enum pith_status show(struct pith_model *m, const char *room, struct pith_checkpoint **view,
                             struct pith_error *err)
{
    struct listing k = {0};
    enum pith_status s = list_linears(m, &k, err);
    const struct pith_dense_options o = {.container = m->container,
                                         .state = m->container_state,
                                         .linears = k.list,
                                         .count = k.count,
                                         .leaves_out = pith_is_kv_scale,
                                         .folder = room};
    if (s == PITH_OK) s = pith_dense_open(m->checkpoint, &o, view, err);
    if (s == PITH_OK) {
        m->container = NULL; /* the view's now */
        m->checkpoint = NULL;
    }
    pith_free(k.list);
    pith_free(k.name);
    pith_model_close(m);
    return s;
}

enum pith_status pith_model_open_source(const char *dir, const struct pith_merge_into *merge,
                                        struct pith_model **out, struct pith_error *err)
{
    struct pith_model *m;
    struct pith_checkpoint *view = NULL;
    PITH_TRY(pith_model_open_with(dir, merge, &m, err));
    if (!m->container) {
        *out = m;
        return PITH_OK;
    }
    json_t *remarks = NULL;
    enum pith_status s = pith_model_remarks(m->checkpoint, m, &remarks, err);
    if (s != PITH_OK) pith_model_close(m);
    else s = show(m, merge->room, &view, err);
    if (s == PITH_OK) {
        s = pith_model_open_from(view, out, err);
        if (s == PITH_OK) (*out)->remarks = json_incref(remarks);
        else pith_checkpoint_close(view);
    }
    json_decref(remarks);
    return s;
}

void pith_model_shed(const struct pith_model *m, uint32_t layer)
{
    char prefix[PITH_TENSOR_NAME];
    size_t count;
    pith_plan_name(&m->plans, layer, "", prefix, sizeof prefix);
    const size_t first = pith_checkpoint_range(m->checkpoint, prefix, &count);
    pith_checkpoint_drop(m->checkpoint, first, count);
}
