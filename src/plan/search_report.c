/* The report of a plan: what was planned for, the rows, what was ruled out. */
#include "plan/page.h"
#include "plan/search.h"

static void set_stored(struct pith_report *r, const struct pith_plan_search *p)
{
    static const char *const can[] = {"the KV cache (`kv`)", "the container (pith convert)",
                                      "the weights (pith quantize)"};
    pith_report_open(r, "stored");
    pith_report_set(r, "container", pith_words(p->model.model->container->name));
    pith_report_set(r, "grids", pith_words(p->stored->text));
    pith_report_set(r, "bits_per_weight", pith_real(p->stored->bits, 2));
    pith_report_set(r, "bytes", pith_whole((int64_t)p->model.stored));
    pith_report_list(r, "can_change");
    for (size_t i = 0; i < sizeof can / sizeof can[0]; i++)
        pith_report_set(r, "", pith_words(can[i]));
    pith_report_close(r);
    pith_report_close(r);
}

static void set_parameters(struct pith_report *r, const struct pith_census *n)
{
    pith_report_open(r, "parameters");
    for (int i = 0; i < PITH_PLAN_CLASSES; i++)
        pith_report_set(r, pith_plan_class_name((enum pith_plan_class)i),
                        pith_whole((int64_t)n->class[i]));
    pith_report_set(r, "all", pith_whole((int64_t)n->all));
    pith_report_set(r, "active", pith_tree(pith_json_whole(n->active)));
    pith_report_close(r);
}

struct pith_report *pith_plan_report(struct pith_plan_search *p)
{
    struct pith_report *r = pith_report_new();
    if (!r) return NULL;
    pith_plan_say(r, p);
    pith_report_set(r, "model", pith_words(p->name));
    if (*p->model.shape_name) pith_report_set(r, "shape", pith_words(p->model.shape_name));
    pith_report_set(r, "architecture", pith_words(p->model.model->arch->name));
    pith_report_set(r, "context", pith_count(p->model.model->shape.max_position));
    set_parameters(r, &p->census);
    if (p->model.stored) pith_report_set(r, "stored_bytes", pith_whole((int64_t)p->model.stored));
    if (p->stored) set_stored(r, p);
    if (json_array_size(p->rows) == 0 && p->would_fit && json_array_size(p->would_fit) > 0)
        pith_report_set(r, "would_fit", pith_tree(json_incref(p->would_fit)));
    pith_report_set(r, "rows", pith_tree(p->rows));
    pith_report_set(r, "ruled_out", pith_tree(p->out));
    pith_report_paged(r, pith_page_plan);
    p->rows = p->out = NULL;
    return r;
}
