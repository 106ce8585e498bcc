/* The ways to hold a model's weights that a plan looks at, and which engine loads each. */
#include "choose/plan.h"

#include "base/mem.h"
#include "export/file.h"
#include "export/groups.h"
#include "export/mixture.h"
#include "num/input.h"
#include "quant/scale.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LINEARS_MOST = 1 << 21 };

/* --- the form of the weights ------------------------------------------------------------------ */

/* The type that llama.cpp's files give a linear, as pith quantize chooses it. */
static struct pith_grid file_grid(const struct pith_weight_form *f, const struct pith_model *m,
                                  const struct pith_matrix *of)
{
    const struct pith_file_export *file = pith_file_export_of(f->container);
    char module[256];
    struct pith_grid g = f->linears;
    pith_plan_linear_name(&m->plans, of->layer, of->linear, module, sizeof module);
    if (f->grid_ctx) g = pith_mixture_grid(f->grid_ctx, m, of->layer, module);
    if (file->keeps(m, module)) return (struct pith_grid){0};
    (void)pith_mixture_fall_back(&g, file->side_by_side(m, module, of->cols));
    return g;
}

/* The rule of groups for a form; `engine` is room for who is to load it. */
static struct pith_group_rule rule_of(const struct pith_weight_form *f, const struct pith_model *m,
                                      const char **engine)
{
    const bool known = f->engine && pith_engine_find(f->engine);
    *engine = f->engine;
    return (struct pith_group_rule){&m->plans, f->container, &f->opts, engine, known};
}

/* The size of groups that pith quantize gives a linear whose rows the recipe's do not divide. */
static struct pith_grid grouped(const struct pith_weight_form *f, const struct pith_model *m,
                                const struct pith_matrix *of)
{
    const char *engine;
    const struct pith_group_rule rule = rule_of(f, m, &engine);
    struct pith_grid g = f->linears;
    g.group = pith_group_size(&rule, &g, pith_plan(&m->plans, of->layer), of->linear);
    return g;
}

/* Nobody named a size: each linear takes what divides its rows, or all what divides all. */
static void settle_groups(const struct pith_plan_search *p, const struct pith_plan_candidate *c,
                          struct pith_weight_form *f)
{
    const char *engine;
    const struct pith_model *m = p->model.model;
    const struct pith_group_rule rule = rule_of(f, m, &engine);
    if (!pith_groups_vary(&f->linears) || strstr(c->option, ":g")) return;
    if (pith_groups_mix(&rule)) f->grid = grouped;
    else f->linears.group = pith_group_common(&rule, &f->linears);
}

size_t pith_plan_groups(const struct pith_plan_search *p, const struct pith_weight_form *f,
                        uint32_t size[PITH_PLAN_GROUPS])
{
    const struct pith_plans *plans = &p->model.model->plans;
    size_t count = 0;
    if (!pith_groups_vary(&f->linears) || f->container->file) return 0;
    for (uint32_t layer = 0; layer < plans->layers; layer++) {
        const struct pith_layer_plan *l = pith_plan(plans, layer);
        for (uint32_t i = 0; i < l->linears; i++) {
            size_t at = 0;
            const struct pith_matrix of = {.layer = layer, .linear = i};
            if (l->linear[i].stays || (l->linear[i].expert != PITH_NO_PART && l->linear[i].expert))
                continue;
            const uint32_t own = f->grid ? f->grid(f, p->model.model, &of).group : f->linears.group;
            while (at < count && size[at] < own) at++;
            if (count == PITH_PLAN_GROUPS || (at < count && size[at] == own)) continue;
            memmove(size + at + 1, size + at, (count - at) * sizeof *size);
            size[at] = own;
            count++;
        }
    }
    return count;
}

static void set_form(const struct pith_plan_search *p, const struct pith_plan_candidate *c,
                     const char *engine, const struct pith_container *container,
                     struct pith_weight_form *f)
{
    const struct pith_model *m = p->model.model;
    const struct pith_file_export *file = pith_file_export_of(container);
    const uint32_t width = pith_shape_embed(&m->shape);
    if (c->stored) {
        pith_plan_stored_form(p, container, f);
        return;
    }
    *f = (struct pith_weight_form){.linears = c->recipe.weights,
                                   .acts = c->recipe.acts,
                                   .container = container,
                                   .engine = engine,
                                   .opts = {.model_dtype = m->shape.dtype, .acts = c->recipe.acts}};
    struct pith_linear_grid one = {.grid = f->linears};
    pith_container_settle(container, &one, 1, &f->opts);
    if (!file) {
        settle_groups(p, c, f);
        return;
    }
    f->plain_bits = 32;
    f->grid = file_grid;
    f->grid_ctx = c->recipe.mixture ? pith_mixture_find(f->linears.format, c->recipe.mixture)
                                    : NULL;
    (void)file->end_grid(&f->linears, false, width, &f->embed);
    if (m->shape.ends.tied) f->embed = (struct pith_grid){0};
    (void)file->end_grid(&f->linears, true, width, &f->head);
}

/* --- who loads it ----------------------------------------------------------------------------- */

struct offers {
    const struct pith_plan_search *p;
    const struct pith_hardware *h;   /* where it is to run; NULL: anywhere */
    struct pith_linear_grid *linear; /* [count] */
    char (*name)[96];                /* [count] */
    struct pith_matrix *of;          /* [count] */
    size_t *like;                    /* [count]: an earlier one that it is like, or itself */
    size_t count, room;
};

static void add_linear(void *ctx, const struct pith_matrix *m)
{
    struct offers *o = ctx;
    if (!m->spec || o->count == o->room) return;
    pith_plan_linear_name(&o->p->model.model->plans, m->layer, m->linear, o->name[o->count],
                          sizeof o->name[0]);
    o->of[o->count] = *m;
    o->like[o->count] = o->count;
    o->count++;
}

/* Experts after a layer's first are like that one. */
static enum pith_status list_linears(struct offers *o, struct pith_error *err)
{
    const struct pith_plans *plans = &o->p->model.model->plans;
    const size_t all = plans->first[plans->layers] + 1;
    if (all > LINEARS_MOST)
        return pith_fail(err, PITH_LIMIT, "a model of %zu linears: at most %d are planned for", all,
                         LINEARS_MOST);
    o->room = all;
    o->linear = pith_zalloc(all, sizeof *o->linear);
    o->name = pith_zalloc(all, sizeof *o->name);
    o->of = pith_zalloc(all, sizeof *o->of);
    o->like = pith_zalloc(all, sizeof *o->like);
    if (!o->linear || !o->name || !o->of || !o->like)
        return pith_fail_nomem(err, "the linears of a model");
    for (uint32_t i = 0; i < plans->layers; i++) {
        const struct pith_layer_plan *l = pith_plan(plans, i);
        const struct pith_node *experts = pith_plan_experts(l);
        for (uint32_t k = 0; k < l->linears; k++) {
            add_linear(o, &(struct pith_matrix){.class = l->linear[k].stays ? PITH_PLAN_ROUTER
                                                                            : PITH_PLAN_MLP,
                                                .layer = i,
                                                .linear = k,
                                                .rows = l->linear[k].rows,
                                                .cols = l->linear[k].cols,
                                                .count = 1,
                                                .spec = &l->linear[k]});
            if (experts && l->linear[k].expert != PITH_NO_PART && l->linear[k].expert > 0)
                o->like[o->count - 1] = o->like[o->count - 1 - experts->u.experts.each];
        }
    }
    return PITH_OK;
}

static void free_offers(struct offers *o)
{
    pith_free(o->linear);
    pith_free(o->name);
    pith_free(o->of);
    pith_free(o->like);
}

/* Whether the container holds all of it and the engine loads that; `why` says no. */
static bool loads(struct offers *o, const struct pith_weight_form *f,
                  const struct pith_target_engine *engine, struct pith_error *why)
{
    const struct pith_plan_subject *p = &o->p->model;
    const struct pith_target target = {.engine = engine, .tp = 1, .gpu = o->h};
    *why = (struct pith_error){0};
    for (size_t i = 0; i < o->count; i++) {
        const bool first = o->like[i] == i;
        const struct pith_grid g = first ? pith_form_grid(f, p, &o->of[i])
                                         : o->linear[o->like[i]].grid;
        o->linear[i] = (struct pith_linear_grid){.module = o->name[i], .grid = g};
        if (!first) continue;
        const struct pith_input in = {.grid = f->acts, .scale = 1.0f};
        if (g.format && f->acts.format && pith_input_check(&in, o->of[i].cols, why) != PITH_OK) {
            (void)pith_fail_in(why, why->status, o->name[i]);
            return false;
        }
        if (g.format && f->container != p->model->container &&
            f->container->accepts(&g, o->of[i].rows, o->of[i].cols, &f->opts, why) != PITH_OK)
            return false;
    }
    const struct pith_offer offer = {.plans = &p->model->plans,
                                     .shape = &p->model->shape,
                                     .container = f->container,
                                     .opts = &f->opts,
                                     .linears = o->linear,
                                     .count = o->count};
    return !engine || pith_preflight(&target, &offer, why) == PITH_OK;
}

/* The recipe's own container first, then the others in the order of their table. */
static const struct pith_container *find_container(struct offers *o, struct pith_plan_candidate *c,
                                                   const struct pith_target_engine *engine,
                                                   struct pith_error *why)
{
    size_t count;
    const struct pith_container *const *all = pith_containers(&count);
    const struct pith_container *own = pith_plan_own_container(c);
    struct pith_weight_form f;
    struct pith_error other;
    const bool files = strcmp(engine->name, "llama.cpp") == 0; /* its converter makes 16 bits */
    set_form(o->p, c, engine->name, own, &f);
    if (files && !own->file)
        (void)pith_fail(why, PITH_UNSUPPORTED, "%s: its converter makes 16 bits of %s",
                        engine->name, own->name);
    else if (loads(o, &f, engine, why)) return own;
    for (size_t i = 0; i < count; i++) {
        if (all[i] == own || !all[i]->pack || all[i]->unloaded) continue;
        if (files && !all[i]->file) continue;
        if (c->stored ? !pith_plan_stored_converts(o->p, all[i])
                      : (all[i]->file != NULL) != (own->file != NULL))
            continue;
        set_form(o->p, c, engine->name, all[i], &f);
        if (loads(o, &f, engine, &other)) return all[i];
    }
    return NULL;
}

enum pith_status pith_plan_candidate_ask(const struct pith_plan_search *p,
                                         struct pith_plan_candidate *c, size_t engine,
                                         const struct pith_hardware *h, struct pith_error *err)
{
    size_t count;
    const struct pith_engine_need *need = pith_engine_needs(&count);
    const struct pith_arch *arch = p->model.model->arch;
    struct pith_error why = {0};
    const unsigned requested = (h ? h->capability : 0) + 1;
    if (c->requested[engine] == requested) return PITH_OK;
    c->requested[engine] = requested;
    c->why[engine][0] = '\0';
    c->container[engine] = NULL;
    c->weighings = 0; /* of another container, maybe */
    if (!c->quantizes && !c->stored) {
        if (strcmp(need[engine].name, "llama.cpp") == 0 && !arch->gguf.name)
            (void)snprintf(c->why[engine], PITH_PLAN_WHY, "llama.cpp has no such architecture");
        return PITH_OK;
    }
    if (!c->stored && strcmp(need[engine].name, "llama.cpp") == 0 &&
        !pith_container_find(c->recipe.container)->file) {
        (void)snprintf(c->why[engine], PITH_PLAN_WHY,
                       "llama.cpp's converter makes 16 bits of it: nothing is saved");
        return PITH_OK;
    }
    struct offers o = {.p = p, .h = h};
    const enum pith_status s = list_linears(&o, err);
    if (s == PITH_OK)
        c->container[engine] = find_container(&o, c, pith_engine_find(need[engine].name), &why);
    if (s == PITH_OK && !c->container[engine])
        (void)snprintf(c->why[engine], PITH_PLAN_WHY, "%.*s", PITH_PLAN_WHY - 1, why.text);
    free_offers(&o);
    return s;
}

/* --- the candidates --------------------------------------------------------------------------- */

/* A recipe that was found for this model has been measured on it (quantize/prediction.c). */
static void set_stored(const struct pith_plan_search *p, struct pith_plan_candidate *c)
{
    c->stored = true;
    c->lies = p->model.model->container;
    (void)snprintf(c->name, PITH_PLAN_TEXT, "stored");
    (void)snprintf(c->option, PITH_PLAN_TEXT, "%s", "");
    pith_plan_quality_set(p, c);
    if (p->stored->most.format) pith_grid_format(&p->stored->most, c->weights);
    else (void)snprintf(c->weights, PITH_PLAN_TEXT, "none");
    if (p->stored->opts.acts.format) pith_grid_format(&p->stored->opts.acts, c->acts);
    else (void)snprintf(c->acts, PITH_PLAN_TEXT, "none");
    pith_plan_stored_form(p, p->model.model->container, &c->form);
    c->likened = 0; /* others are compared with it */
    if (isnan(p->stored->kld)) return;
    c->kld = p->stored->kld;
    (void)snprintf(c->source, sizeof c->source, "measured on this model when it was made");
}

static void name_grids(struct pith_plan_candidate *c, enum pith_dtype dtype)
{
    if (c->recipe.weights.format) {
        pith_grid_format(&c->recipe.weights, c->weights);
        if (c->recipe.mixture)
            (void)snprintf(c->weights + strlen(c->weights), 4, ":%c", c->recipe.mixture);
    } else
        (void)snprintf(c->weights, PITH_PLAN_TEXT, "%s",
                       dtype == PITH_F16   ? "f16"
                       : dtype == PITH_F32 ? "f32"
                                           : "bf16");
    if (c->recipe.acts.format) pith_grid_format(&c->recipe.acts, c->acts);
    else (void)snprintf(c->acts, PITH_PLAN_TEXT, "none");
}

static bool plain_name(const char *text)
{
    static const char *const names[] = {"none", "bf16",    "f16",     "f32",
                                        "fp16", "float16", "bfloat16"};
    for (size_t i = 0; i < PITH_COUNT(names); i++)
        if (strcmp(text, names[i]) == 0) return true;
    return false;
}

static bool is_recipe(const char *text)
{
    size_t count;
    const struct pith_recipe_row *rows = pith_recipe_rows(&count);
    for (size_t i = 0; i < count; i++)
        if (strcmp(rows[i].name, text) == 0) return true;
    return strchr(text, '/') || strstr(text, ".json");
}

/* A grid alone is rounding to nearest, in whichever container has it. */
static enum pith_status read_grid(const char *text, struct pith_plan_candidate *c,
                                  struct pith_error *err)
{
    struct pith_recipe *r = &c->recipe;
    PITH_TRY(pith_recipe_load("rtn", r, err));
    PITH_TRY(pith_recipe_set(r, "weights", text, err));
    if (r->weights.format && r->weights.format->kind == PITH_KIND_GGUF)
        (void)snprintf(r->container, sizeof r->container, "gguf");
    (void)snprintf(c->name, PITH_PLAN_TEXT, "rtn");
    (void)snprintf(c->option, PITH_PLAN_TEXT, " --weights %.60s", text);
    return PITH_OK;
}

static enum pith_status add_candidate(struct pith_plan_search *p, const char *text,
                                      struct pith_error *err)
{
    struct pith_plan_candidate *c = &p->candidate[p->candidates];
    if (p->candidates == PITH_PLAN_CANDIDATES)
        return pith_fail(err, PITH_ARG, "more than %d kinds of weights", PITH_PLAN_CANDIDATES);
    if (plain_name(text) && p->stored) {
        set_stored(p, c);
        p->candidates++;
        return PITH_OK;
    }
    if (plain_name(text)) (void)snprintf(c->name, PITH_PLAN_TEXT, "none");
    else if (is_recipe(text)) {
        PITH_TRY(pith_recipe_load(text, &c->recipe, err));
        (void)snprintf(c->name, PITH_PLAN_TEXT, "%.70s", text);
    } else PITH_TRY(read_grid(text, c, err));
    c->quantizes = c->recipe.weights.format != NULL;
    name_grids(c, p->model.model->shape.dtype);
    if (c->quantizes) {
        const struct pith_container *own = pith_container_find(c->recipe.container);
        set_form(p, c, NULL, own, &c->form);
    }
    pith_plan_quality_set(p, c);
    p->candidates++;
    return PITH_OK;
}

void pith_plan_form(const struct pith_plan_search *p, const struct pith_plan_candidate *c,
                    const char *engine, const struct pith_container *container,
                    struct pith_weight_form *out)
{
    *out = c->form;
    if (container && (c->quantizes || c->stored)) set_form(p, c, engine, container, out);
}

enum pith_status pith_plan_candidates_make(struct pith_plan_search *p, struct pith_error *err)
{
    const struct pith_list *requested = &p->options->weights;
    enum pith_status s = PITH_OK;
    p->candidate = pith_zalloc(PITH_PLAN_CANDIDATES, sizeof *p->candidate);
    if (!p->candidate) return pith_fail_nomem(err, "a plan");
    for (size_t i = 0; i < requested->count && s == PITH_OK; i++)
        s = add_candidate(p, requested->item[i], err);
    if (requested->count == 0 && s == PITH_OK) s = add_candidate(p, "none", err);
    /* What few bits have lost stays lost: such a model is quantized again on request only. */
    const bool as_it_is = requested->count > 0 || (p->stored && p->stored->lossy);
    const char *name;
    for (size_t i = 0; !as_it_is && s == PITH_OK && (name = pith_plan_recipe_tried(&i)); i++)
        s = add_candidate(p, name, err);
    return s;
}
