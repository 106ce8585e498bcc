/* The report of a plan: what was planned for, the rows, what was ruled out. */
#include "plan/search.h"

static json_t *stored_report(const struct pith_plan_search *p)
{
    return json_pack("{s:s, s:s, s:f, s:I, s:[s, s, s]}", "container",
                     p->model.model->container->name, "grids", p->stored->text, "bits_per_weight",
                     p->stored->bits, "bytes", (json_int_t)p->model.stored, "can_change",
                     "the KV cache (`kv`)", "the container (pith convert)",
                     "the weights (pith quantize)");
}

static json_t *parameters(const struct pith_census *n)
{
    json_t *j = json_object();
    for (int i = 0; i < PITH_PLAN_CLASSES; i++)
        pith_json_set(&j, pith_plan_class_name((enum pith_plan_class)i),
                      json_integer((json_int_t)n->class[i]));
    pith_json_set(&j, "all", json_integer((json_int_t)n->all));
    pith_json_set(&j, "active", pith_json_whole(n->active));
    return j;
}

json_t *pith_plan_report(struct pith_plan_search *p)
{
    json_t *j = json_object();
    pith_json_set(&j, "model", pith_json_name(p->name));
    if (*p->model.shape_name) pith_json_set(&j, "shape", json_string(p->model.shape_name));
    pith_json_set(&j, "architecture", json_string(p->model.model->arch->name));
    pith_json_set(&j, "context", json_integer(p->model.model->shape.max_position));
    pith_json_set(&j, "parameters", parameters(&p->census));
    if (p->model.stored)
        pith_json_set(&j, "stored_bytes", json_integer((json_int_t)p->model.stored));
    if (p->stored) pith_json_set(&j, "stored", stored_report(p));
    if (json_array_size(p->rows) == 0 && p->would_fit && json_array_size(p->would_fit) > 0)
        pith_json_set(&j, "would_fit", json_incref(p->would_fit));
    pith_json_set(&j, "rows", p->rows);
    pith_json_set(&j, "ruled_out", p->out);
    p->rows = p->out = NULL;
    return j;
}
