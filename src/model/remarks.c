/* What was read otherwise than a checkpoint's files, names and lists say. */
#include "model/remarks.h"

#include "base/str.h"
#include "model/load.h"

#include <stdio.h>

/* Names of one kind: how many, and the first of them. */
struct names {
    size_t count;
    struct pith_str text;
};

static void add_name(struct names *n, const char *name)
{
    enum { MOST = 3 };
    if (n->count < MOST) pith_str_printf(&n->text, "%s%.100s", n->count ? ", " : "", name);
    else if (n->count == MOST) pith_str_puts(&n->text, ", ...");
    n->count++;
}

/* The names go. */
static void say_names(json_t **list, struct names *n, const char *what)
{
    struct pith_str line = {0};
    pith_str_printf(&line, "%s (%zu): %s", what, n->count, pith_str_text(&n->text));
    if (n->count)
        pith_json_add(list,
                      line.failed || n->text.failed ? NULL : pith_json_name(pith_str_text(&line)));
    pith_str_free(&line);
    pith_str_free(&n->text);
}

static void say_count(json_t **list, size_t count, const char *what)
{
    char line[128];
    (void)snprintf(line, sizeof line, "%s (%zu)", what, count);
    if (count) pith_json_add(list, json_string(line));
}

static void say_files(json_t **list, const struct pith_checkpoint *c)
{
    if (c->aside)
        pith_json_add(list, json_string("the index is void: there is a model.safetensors, too"));
    say_count(list, c->superseded, "tensors in several files, read where the index has them");
    say_count(list, c->absent, "tensors that the index names and no file has");
    if (c->renamed) pith_json_add(list, json_string("tensors have other names than in the files"));
}

static void say_strays(json_t **list, const struct pith_model *m)
{
    struct names n = {0};
    for (size_t i = 0; i < m->strays; i++) add_name(&n, m->stray[i]);
    say_names(list, &n, "tensors of no part of the model, not read");
}

struct lists {
    struct names stored; /* quantized, though the lists exclude them */
    struct names plain;  /* the other way round */
};

static enum pith_status compare_linear(const struct pith_model *m, const char *module,
                                       struct lists *l, struct pith_error *err)
{
    struct pith_grid grid;
    struct pith_container_opts ignored = {0};
    bool quantized;
    PITH_TRY(m->container->listed(m->container_state, module, &quantized, err));
    PITH_TRY(
        m->container->describe(m->container_state, m->checkpoint, module, &grid, &ignored, err));
    const bool stored = grid.format != NULL;
    if (stored != quantized) add_name(stored ? &l->stored : &l->plain, module);
    return PITH_OK;
}

static enum pith_status compare_layer(const struct pith_model *m, uint32_t layer, struct lists *l,
                                      struct pith_error *err)
{
    char name[PITH_TENSOR_NAME];
    for (uint32_t i = 0; i < pith_plan(&m->plans, layer)->linears; i++) {
        pith_plan_linear_name(&m->plans, layer, i, name, sizeof name);
        PITH_TRY(compare_linear(m, name, l, err));
    }
    return PITH_OK;
}

static enum pith_status say_lists(json_t **list, const struct pith_model *m, struct pith_error *err)
{
    struct lists l = {0};
    enum pith_status s = PITH_OK;
    if (!m->container || !m->container->listed) return PITH_OK;
    for (uint32_t i = 0; i < m->shape.layers && s == PITH_OK; i++) s = compare_layer(m, i, &l, err);
    say_names(list, &l.stored, "linears stored quantized, though the config leaves them alone");
    say_names(list, &l.plain, "linears stored plain, though the config has them quantized");
    return s;
}

enum pith_status pith_model_remarks(const struct pith_checkpoint *c, const struct pith_model *m,
                                    json_t **out, struct pith_error *err)
{
    json_t *list = m && m->remarks ? json_incref(m->remarks) : json_array();
    enum pith_status s = PITH_OK;
    if (!m || !m->remarks) {
        say_files(&list, c);
        if (m) say_strays(&list, m);
        if (m) s = say_lists(&list, m, err);
    }
    if (s == PITH_OK && !list) s = pith_fail_nomem(err, "remarks on a model");
    if (s == PITH_OK) *out = list;
    else json_decref(list);
    return s;
}
