/* A plan for a model that is quantized already: it is taken as it lies there. */
#include "choose/plan.h"

#include "base/file.h"
#include "base/mem.h"
#include "num/qmat.h"
#include "quantize/convert.h"
#include "quantize/job.h"
#include "quantize/output/ends.h"
#include "quantize/output/work_folder.h"
#include "quantize/requantize.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { KINDS = 16, ACCOUNT_MOST = 1 << 30 };

/* How many weights have which grid. */
struct kinds {
    struct pith_grid grid[KINDS];
    double weights[KINDS], all, bits;
    size_t count;
};

static void add_kind(struct kinds *k, const struct pith_grid *g, double weights)
{
    size_t i = 0;
    k->all += weights;
    while (i < k->count && !pith_grid_equal(&k->grid[i], g)) i++;
    if (i == KINDS) return;
    if (i == k->count) k->grid[k->count++] = *g;
    k->weights[i] += weights;
}

static double bits_of(const struct pith_model *m, const struct pith_grid *g,
                      const struct pith_linear_spec *l)
{
    const struct pith_qspec spec = {.rows = l->rows,
                                    .cols = l->cols,
                                    .grid = *g,
                                    .scale_dtype = m->container->scale_dtype(g, m->shape.dtype)};
    const double bits = pith_qspec_bits(&spec);
    return bits > 0 ? bits : g->format->bits;
}

static void write_kinds(const struct kinds *k, struct pith_plan_stored *s)
{
    bool done[KINDS] = {false};
    for (size_t n = 0; n < k->count; n++) {
        size_t most = k->count;
        char grid[PITH_GRID_TEXT] = "16 bits";
        for (size_t i = 0; i < k->count; i++)
            if (!done[i] && (most == k->count || k->weights[i] > k->weights[most])) most = i;
        done[most] = true;
        if (k->grid[most].format) pith_grid_format(&k->grid[most], grid);
        if (!s->most.format) s->most = k->grid[most];
        const size_t used = strlen(s->text);
        (void)snprintf(s->text + used, sizeof s->text - used, "%s%s %.0f%%", used ? ", " : "", grid,
                       100 * k->weights[most] / k->all);
    }
    s->bits = k->bits / k->all;
}

static enum pith_status describe(const struct pith_model *m, const char *module,
                                 struct pith_grid *g, struct pith_container_opts *opts,
                                 struct pith_error *err)
{
    return m->container->describe(m->container_state, m->checkpoint, module, g, opts, err);
}

static enum pith_status read_linears(struct pith_plan_search *p, struct pith_plan_stored *s,
                                     struct kinds *kinds, struct pith_error *err)
{
    const struct pith_model *m = p->model.model;
    for (uint32_t layer = 0; layer < m->plans.layers; layer++) {
        const struct pith_layer_plan *l = pith_plan(&m->plans, layer);
        for (uint32_t i = 0; i < l->linears; i++) {
            const struct pith_linear_spec *spec = &l->linear[i];
            struct pith_grid *g = &s->grid[m->plans.first[layer] + i];
            const double weights = (double)spec->rows * spec->cols;
            char name[256];
            pith_plan_linear_name(&m->plans, layer, i, name, sizeof name);
            PITH_TRY(describe(m, name, g, &s->opts, err));
            if (spec->stays) continue;
            s->lossy = s->lossy || pith_grid_is_lossy(g, spec->rows, spec->cols);
            add_kind(kinds, g, weights);
            kinds->bits += weights *
                           (g->format ? bits_of(m, g, spec) : pith_dtype_bits(m->shape.dtype));
        }
    }
    PITH_TRY(describe(m, pith_end_module(m, PITH_END_EMBED), &s->embed, &s->opts, err));
    return m->shape.ends.tied
               ? PITH_OK
               : describe(m, pith_end_module(m, PITH_END_HEAD), &s->head, &s->opts, err);
}

/* What was measured of it when it was made; NaN: nothing, or its account cannot be read. */
static double measured_kld(const char *model)
{
    char *path = pith_account_path(model);
    json_t *account = NULL;
    if (path && pith_path_exists(path)) (void)pith_json_load(path, ACCOUNT_MOST, &account, NULL);
    const json_t *kld = json_object_get(json_object_get(account, "prediction"), "measured");
    const double measured = json_is_number(kld) ? json_number_value(kld) : (double)NAN;
    json_decref(account);
    pith_free(path);
    return measured;
}

enum pith_status pith_plan_stored_open(struct pith_plan_search *p, struct pith_error *err)
{
    const struct pith_model *m = p->model.model;
    struct kinds kinds = {.count = 0};
    if (!p->model.opened || !m->container) return PITH_OK;
    struct pith_plan_stored *s = p->stored = pith_zalloc(1, sizeof *s);
    if (!s) return pith_fail_nomem(err, "a plan");
    s->count = m->plans.first[m->plans.layers];
    s->opts = (struct pith_container_opts){.model_dtype = m->shape.dtype};
    s->grid = pith_zalloc(s->count + 1, sizeof *s->grid);
    if (!s->grid) return pith_fail_nomem(err, "a plan");
    PITH_TRY(read_linears(p, s, &kinds, err));
    write_kinds(&kinds, s);
    s->kld = measured_kld(p->options->model);
    return PITH_OK;
}

void pith_plan_stored_free(struct pith_plan_search *p)
{
    if (!p->stored) return;
    pith_free(p->stored->grid);
    pith_free(p->stored);
    p->stored = NULL;
}

/* --- as weights are stored -------------------------------------------------------------------- */

/* The grid in that container: its own, or what its codes go to. */
static bool grid_in(const struct pith_plan_search *p, const struct pith_container *container,
                    const struct pith_linear_spec *l, struct pith_grid *g)
{
    const struct pith_container_opts *opts = &p->stored->opts;
    const struct pith_convert_case x = {g, l->rows, l->cols, opts};
    struct pith_grid out;
    if (!g->format || container == p->model.model->container) return true;
    if (!pith_convert_holds(container, &x, &out)) return false;
    *g = out;
    return true;
}

static struct pith_grid grid_of(const struct pith_weight_form *f, const struct pith_model *m,
                                const struct pith_matrix *of)
{
    const struct pith_plan_search *p = f->grid_ctx;
    struct pith_grid g = p->stored->grid[m->plans.first[of->layer] + of->linear];
    (void)grid_in(p, f->container, of->spec, &g);
    return g;
}

void pith_plan_stored_form(const struct pith_plan_search *p, const struct pith_container *container,
                           struct pith_weight_form *out)
{
    const struct pith_plan_stored *s = p->stored;
    const bool own = container == p->model.model->container;
    *out = (struct pith_weight_form){.linears = s->most,
                                     .acts = s->opts.acts,
                                     .container = container,
                                     .opts = s->opts,
                                     .grid = grid_of,
                                     .grid_ctx = p};
    if (own || container->file) {
        out->embed = s->embed;
        out->head = p->model.model->shape.ends.tied ? s->embed : s->head;
    }
    if (container->file) out->plain_bits = 32;
}

bool pith_plan_stored_converts(const struct pith_plan_search *p,
                               const struct pith_container *container)
{
    const struct pith_plans *plans = &p->model.model->plans;
    for (uint32_t layer = 0; layer < plans->layers; layer++) {
        const struct pith_layer_plan *l = pith_plan(plans, layer);
        for (uint32_t i = 0; i < l->linears; i++) {
            struct pith_grid g = p->stored->grid[plans->first[layer] + i];
            if (!grid_in(p, container, &l->linear[i], &g)) return false;
        }
    }
    return true;
}
