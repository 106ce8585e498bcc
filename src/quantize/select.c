/* Which linear gets which grid. */
#include "quantize/select.h"

#include "base/mem.h"
#include "base/str.h"
#include "export/file.h"
#include "export/groups.h"
#include "num/gguf/kquant.h"
#include "quant/scale.h"
#include "quantize/convert.h"
#include "quantize/job.h"
#include "quantize/output/ends.h"
#include "quantize/requantize.h"
#include "quantize/site/inputs.h"

#include <stdio.h>
#include <string.h>

/* PATTERN=GRID, taken apart. */
struct override {
    char *pattern;
    struct pith_grid grid;
    bool used;    /* a linear matches it */
    bool decides; /* and none that comes later, nor --ignore */
};

/* Whether a pattern that matches the module says its last part itself: "*.mlp.gate" does, but
 * "layers.0.*" means what is usually quantized there. */
static bool asks_by_name(const char *pattern, const char *module)
{
    const char *dot = strrchr(pattern, '.'), *last = dot ? dot + 1 : pattern;
    return last[strspn(last, "*?")] != '\0' && pith_glob_match(last, strrchr(module, '.') + 1);
}

static void free_overrides(struct override *list, size_t count)
{
    for (size_t i = 0; i < count; i++) pith_free(list[i].pattern);
    pith_free(list);
}

/* 16 bits or more, by a format's name or by "none". */
static bool is_plain(const struct pith_grid *g)
{
    return !g->format || (g->format->kind == PITH_KIND_FLOAT && g->format->bits >= 16);
}

static enum pith_status parse_grid(const char *text, const char *grid,
                                   const struct pith_grid *usual, struct pith_grid *out,
                                   struct pith_error *err)
{
    const enum pith_status s = pith_grid_parse_like(grid, usual, out, err);
    if (s != PITH_OK) return pith_fail_in(err, s, "`overrides`");
    if (is_plain(out) || pith_gridder_for(out)) return PITH_OK;
    return pith_fail(err, PITH_UNSUPPORTED,
                     "`overrides` %s: weights cannot be put on that grid; grids that can be: "
                     "int4:g128, fp8_e4m3:channel, nf4:g64, mxfp4, nvfp4 and their like, and bf16 "
                     "leaves them alone",
                     text);
}

static enum pith_status parse_overrides(const struct pith_job *job, struct override **out,
                                        struct pith_error *err)
{
    const struct pith_list *texts = &job->options->overrides;
    struct override *list = pith_zalloc(texts->count, sizeof *list);
    if (!list) return pith_fail_nomem(err, "overrides");
    for (size_t i = 0; i < texts->count; i++) {
        const char *text = texts->item[i];
        const char *equals = strrchr(text, '=');
        enum pith_status s;
        if (!equals || equals == text)
            s = pith_fail(err, PITH_ARG, "`overrides` %s: expected PATTERN=GRID", text);
        else if (!(list[i].pattern = pith_strndup(text, (size_t)(equals - text))))
            s = pith_fail_nomem(err, "overrides");
        else s = parse_grid(text, equals + 1, &job->recipe.weights, &list[i].grid, err);
        if (s != PITH_OK) {
            free_overrides(list, texts->count);
            return s;
        }
    }
    *out = list;
    return PITH_OK;
}

enum pith_status pith_select_check(const struct pith_job *job, unsigned *needs,
                                   struct pith_error *err)
{
    struct override *list;
    PITH_TRY(parse_overrides(job, &list, err));
    for (size_t i = 0; i < job->options->overrides.count; i++)
        if (!is_plain(&list[i].grid)) *needs |= pith_gridder_for(&list[i].grid)->needs;
    free_overrides(list, job->options->overrides.count);
    return PITH_OK;
}

/* Types with minimums have it by chance alone, and the levels of iq4 never. */
static bool has_zero(const struct pith_grid *g)
{
    const struct pith_kquant *t = pith_kquant_find(g->format->name);
    return !t || (!t->minimums && strcmp(t->element, "iq4") != 0);
}

/* Whether the split goes with the matrix, its grid and the container. */
static enum pith_status check_split(const struct pith_job *job, const struct pith_choice *c,
                                    struct pith_error *err)
{
    const struct pith_split *split = job->recipe.split;
    if (split->two_four && (c->grid.format || c->prune) && c->cols % 4)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "2:4 needs rows of a multiple of 4 weights, and these have %u; `ignore`"
                         " leaves the linear alone",
                         c->cols);
    if (split->two_four && c->grid.format && !has_zero(&c->grid))
        return pith_fail(
            err, PITH_UNSUPPORTED,
            "2:4 needs a grid that has a zero, and %s has none; q3_k, q6_k and q4_0 do",
            c->grid.format->name);
    if (split->sparse && c->grid.format && !(job->container->holds & PITH_QMAT_SPARSE))
        return pith_fail(err, PITH_UNSUPPORTED,
                         "%s has no place for weights outside the grid (`split=sparse`);"
                         " `container=squeezellm` has",
                         job->container->name);
    return PITH_OK;
}

static bool file_keeps(const struct pith_job *job, const struct pith_choice *c)
{
    const struct pith_file_export *file = pith_file_export_of(job->container);
    return file && file->keeps(job->model, c->module);
}

/* Rows that are no whole blocks of a type go on the one that llama.cpp takes instead. */
static void settle_blocks(const struct pith_job *job, struct pith_choice *c)
{
    const struct pith_format *wanted = c->grid.format;
    if (wanted && file_keeps(job, c)) {
        c->grid = (struct pith_grid){0};
        c->reason = "its engine has it in 16 bits";
        return;
    }
    const struct pith_file_export *file = pith_file_export_of(job->container);
    if (!file) return;
    const uint32_t cols = file->side_by_side(job->model, c->module, c->cols);
    if (!pith_mixture_fall_back(&c->grid, cols)) return;
    c->wanted = wanted;
    if (!c->grid.format) c->reason = "its rows are no whole blocks of a type";
}

/* The embedding or the head: by the container's rule, unless an option says otherwise. */
static enum pith_status choose_end(struct pith_job *job, struct pith_choice *c,
                                   struct override *overrides, bool *ignore_used,
                                   struct pith_error *err)
{
    const struct pith_quantize_options *o = job->options;
    if (job->convert) {
        if (!c->stored.format || !pith_ends_may(job)) return PITH_OK;
        return pith_convert_choose(job, c, err);
    }
    struct override *over = NULL;
    pith_ends_default(job, c);
    for (size_t i = 0; i < o->overrides.count && pith_ends_may(job); i++)
        if (pith_module_match(overrides[i].pattern, c->module)) {
            over = &overrides[i];
            c->grid = over->grid;
            c->wanted = NULL;
            over->used = true;
        }
    if (c->grid.format && is_plain(&c->grid)) c->grid = (struct pith_grid){0};
    settle_blocks(job, c);
    for (size_t i = 0; i < o->ignore.count; i++)
        if (pith_module_match(o->ignore.item[i], c->module)) {
            c->grid = (struct pith_grid){0};
            ignore_used[i] = true;
            over = NULL;
        }
    if (over) over->decides = true;
    PITH_TRY(pith_job_requantize(job, c, err));
    if (!c->grid.format) return PITH_OK;
    enum pith_status s =
        job->container->accepts(&c->grid, c->rows, c->cols, &job->container_opts, err);
    if (s == PITH_OK && !pith_gridder_for(&c->grid))
        s = pith_fail(err, PITH_UNSUPPORTED, "cannot be put on that grid");
    return s == PITH_OK ? s : pith_fail_in(err, s, c->module);
}

/* A rotation that the reader has to do must be stated in the container. */
static enum pith_status check_online(const struct pith_job *job, const struct pith_choice *c,
                                     struct pith_error *err)
{
    const char *way = job->convert ? "" : "; `transform=rotate:folded` leaves that rotation out";
    if (c->hadamard <= 1 || job->container->online) return PITH_OK;
    return pith_fail(err, PITH_UNSUPPORTED, "%s: %s cannot make an engine rotate its inputs%s",
                     c->module, job->container->name, way);
}

/* The block in which a linear's input is rotated online, if the linear is quantized: one that is
 * not is read as it was, and engines rotate nothing in front of it. */
static uint32_t online_block(const struct pith_job *job, const struct pith_choice *c)
{
    return pith_online_rotation(&job->basis, pith_job_plan(job, c->layer), c->linear)->block;
}

/* The grid that the recipe gives a linear, and --override, of which the last one that matches is
 * returned, or NULL; none to a router that nobody named. */
static struct override *choose_grid(const struct pith_job *job, struct pith_choice *c,
                                    struct override *overrides)
{
    const bool stays = pith_job_plan(job, c->layer)->linear[c->linear].stays;
    struct override *by_name = NULL;
    const char *own =
        json_string_value(json_object_get(json_object_get(job->more, "linears"), c->module));
    c->grid = job->mixture ? pith_mixture_grid(job->mixture, job->model, c->layer, c->module)
                           : job->recipe.weights;
    c->usual = !own && !job->groups_named;
    if (own) (void)pith_recipe_linear(own, &c->grid, NULL);
    for (size_t i = 0; i < job->options->overrides.count; i++)
        if (pith_module_match(overrides[i].pattern, c->module)) {
            const bool named = asks_by_name(overrides[i].pattern, c->module);
            if (stays && !named) continue;
            c->grid = overrides[i].grid;
            c->usual = false;
            by_name = &overrides[i];
            by_name->used = true;
        }
    const bool spared = by_name && is_plain(&c->grid);
    c->prune = !c->grid.format && !spared && job->recipe.split->two_four;
    if (stays && !by_name && !own) {
        c->grid = (struct pith_grid){0};
        c->prune = false;
        c->reason = "a router, in 16 bits unless `overrides` names it";
    } else if (c->prune) c->reason = "two of each four weights become 0";
    else if (!c->grid.format && !spared) c->reason = "the recipe leaves weights alone";
    else if (is_plain(&c->grid)) {
        c->grid = (struct pith_grid){0};
        c->reason = "in 16 bits by `overrides`";
    }
    return by_name;
}

static void choose_one(struct pith_job *job, struct pith_choice *c, struct override *overrides,
                       bool *ignore_used)
{
    const struct pith_quantize_options *o = job->options;
    struct override *over = choose_grid(job, c, overrides);
    for (size_t i = 0; i < o->ignore.count; i++)
        if (pith_module_match(o->ignore.item[i], c->module)) {
            c->grid = (struct pith_grid){0};
            c->prune = false;
            c->reason = "unquantized by `ignore`";
            ignore_used[i] = true;
            over = NULL;
        }
    if (over) over->decides = true;
    settle_blocks(job, c);
    if (c->grid.format) c->hadamard = online_block(job, c);
    if (c->hadamard > job->container_opts.hadamard) job->container_opts.hadamard = c->hadamard;
}

static bool may_fall(const struct pith_choice *c)
{
    return c->usual && pith_groups_vary(&c->grid);
}

static void take_group(struct pith_choice *c, uint32_t size)
{
    if (c->grid.group == size) return;
    c->wanted_group = c->grid.group;
    c->grid.group = size;
}

/* Groups that do not divide rows: each linear takes what divides its own, or all the same where
 * engines want one size. */
static void settle_groups(struct pith_job *job)
{
    const struct pith_list *targets = &job->options->targets;
    const struct pith_group_rule rule = {&job->model->plans, job->container, &job->container_opts,
                                         targets->item, targets->count};
    const bool mixed = pith_groups_mix(&rule);
    struct pith_group_fit all = {0};
    for (size_t i = 0; i < job->choice_count; i++) {
        struct pith_choice *c = &job->choices[i];
        if (!may_fall(c)) continue;
        if (mixed)
            take_group(c,
                       pith_group_size(&rule, &c->grid, pith_job_plan(job, c->layer), c->linear));
        else {
            if (!all.grid.format) pith_group_fit_begin(&all, &c->grid);
            pith_group_fit_add(&rule, &all, &pith_job_plan(job, c->layer)->linear[c->linear]);
        }
    }
    for (size_t i = 0; i < job->choice_count && all.grid.format; i++)
        if (may_fall(&job->choices[i])) take_group(&job->choices[i], pith_group_fit_end(&all));
}

bool pith_job_falls(const struct pith_job *job)
{
    for (size_t i = 0; i < job->choice_count; i++)
        if (job->choices[i].wanted_group) return true;
    return false;
}

static enum pith_status check_one(const struct pith_job *job, struct pith_choice *c,
                                  struct pith_error *err)
{
    struct pith_container_opts opts = job->container_opts;
    opts.hadamard = c->hadamard;
    PITH_TRY(check_online(job, c, err));
    enum pith_status s = check_split(job, c, err);
    if (s == PITH_OK && c->grid.format) s = pith_inputs_check(job, c, err);
    if (s == PITH_OK && c->grid.format)
        s = job->container->accepts(&c->grid, c->rows, c->cols, &opts, err);
    if (s != PITH_OK) return pith_fail_in(err, s, c->module);
    return pith_job_requantize(job, c, err);
}

static enum pith_status choose_converted(const struct pith_job *job, struct pith_choice *c,
                                         struct pith_error *err)
{
    PITH_TRY(check_online(job, c, err));
    if (c->stored.format && file_keeps(job, c))
        return pith_fail(err, PITH_UNSUPPORTED,
                         "%s: is quantized, and %s has it in 16 bits: quantize the original",
                         c->module, job->container->name);
    return pith_convert_choose(job, c, err);
}

/* Each linear that the recipe's file names is one of the model's. */
static enum pith_status check_named(const struct pith_job *job, struct pith_error *err)
{
    json_t *named = json_object_get(job->more, "linears"), *left, *grid;
    const char *name;
    size_t found = 0;
    for (size_t i = 0; i < job->choice_count && named; i++)
        found += json_object_get(named, job->choices[i].module) != NULL;
    if (found == json_object_size(named)) return PITH_OK;
    if (!(left = json_copy(named))) return pith_fail_nomem(err, job->options->recipe);
    for (size_t i = 0; i < job->choice_count; i++) json_object_del(left, job->choices[i].module);
    enum pith_status s = PITH_OK;
    json_object_foreach (left, name, grid)
        s = pith_fail(err, PITH_ARG,
                      "%s: \"linears\" has %.200s, which this model lacks; names look like %s",
                      job->options->recipe, name, job->choices[0].module);
    json_decref(left);
    return s;
}

static enum pith_status check_used(const struct pith_job *job, const struct override *overrides,
                                   const bool *ignore_used, struct pith_error *err)
{
    const struct pith_quantize_options *o = job->options;
    const char *head = pith_end_module(job->model, PITH_END_HEAD);
    PITH_TRY(check_named(job, err));
    for (size_t i = 0; i < o->overrides.count; i++) {
        if (overrides[i].used && !overrides[i].decides)
            return pith_fail(err, PITH_ARG,
                             "`overrides` %s does nothing: each linear that it matches is taken by "
                             "a later `overrides` or by `ignore`",
                             o->overrides.item[i]);
        if (overrides[i].used) continue;
        if (pith_module_match(overrides[i].pattern, head))
            return pith_fail(err, PITH_UNSUPPORTED,
                             "`overrides` %s: this version leaves the head in 16 bits",
                             o->overrides.item[i]);
        return pith_fail(err, PITH_ARG, "`overrides` %s matches no linear; names look like %s",
                         o->overrides.item[i], job->choices[0].module);
    }
    for (size_t i = 0; i < o->ignore.count; i++)
        if (!ignore_used[i] && !pith_module_match(o->ignore.item[i], head))
            return pith_fail(err, PITH_ARG, "`ignore` %s matches no linear; names look like %s",
                             o->ignore.item[i], job->choices[0].module);
    return PITH_OK;
}

/* The length of the name of a matrix outside the layers that engines would take for a quantized
 * linear too; 0: it is none. */
static size_t outer_length(const struct pith_model *m, const struct pith_tensor *t)
{
    static const char end[] = ".weight";
    const struct pith_shape *s = &m->shape;
    const struct pith_arch_names *names = &m->arch->names;
    const char *const joins[] = {s->ends.width ? names->project_in : NULL,
                                 s->ends.width ? names->project_out : NULL,
                                 s->tokens.width ? names->per_layer_project : NULL};
    const size_t n = strlen(t->name), tail = sizeof end - 1;
    if (t->dims != 2 || n <= tail || strcmp(t->name + n - tail, end) != 0) return 0;
    if (pith_plan_is_other(&m->plans, t->name)) return n - tail;
    for (size_t i = 0; i < PITH_COUNT(joins); i++)
        if (joins[i] && strlen(joins[i]) == n - tail && strncmp(t->name, joins[i], n - tail) == 0)
            return n - tail;
    return 0;
}

/* Adds them to job->linears where there is room, else only counts; their names take *bytes. */
static size_t add_outer(struct pith_job *job, char *names, size_t *bytes)
{
    const struct pith_checkpoint *c = job->model->checkpoint;
    size_t count = 0;
    *bytes = 0;
    for (size_t i = 0; i < c->count; i++) {
        const size_t n = outer_length(job->model, &c->tensors[i]);
        if (n == 0) continue;
        if (names) {
            memcpy(names + *bytes, c->tensors[i].name, n);
            names[*bytes + n] = '\0';
            job->linears[job->choice_count + 1 + count].module = names + *bytes;
        }
        *bytes += n + 1;
        count++;
    }
    return count;
}

/* What the container gets: every linear of the model; among the unquantized ones the head, and
 * those outside the language model. */
static enum pith_status list_linears(struct pith_job *job, struct pith_error *err)
{
    size_t bytes;
    job->linear_count = job->choice_count + 1 + add_outer(job, NULL, &bytes);
    job->linears = pith_zalloc(job->linear_count, sizeof *job->linears);
    job->outer_names = pith_alloc(bytes + 1, 1);
    if (!job->linears || !job->outer_names) return pith_fail_nomem(err, "the list of linears");
    for (size_t i = 0; i < job->choice_count; i++)
        job->linears[i] = (struct pith_linear_grid){
            .module = job->choices[i].module,
            .grid = job->choices[i].grid,
            .hadamard = job->choices[i].hadamard,
        };
    job->linears[job->choice_count] = (struct pith_linear_grid){
        .module = job->model->arch->names.head, .grid = job->ends[PITH_END_HEAD].grid};
    (void)add_outer(job, job->outer_names, &bytes);
    pith_container_settle(job->container, job->linears, job->choice_count + 1,
                          &job->container_opts);
    return PITH_OK;
}

static enum pith_status list_layer(struct pith_job *job, uint32_t layer, struct pith_error *err)
{
    const struct pith_layer_plan *l = pith_job_plan(job, layer);
    for (uint32_t i = 0; i < l->linears; i++) {
        struct pith_choice *c = &job->choices[job->model->plans.first[layer] + i];
        char name[256];
        pith_plan_linear_name(&job->model->plans, layer, i, name, sizeof name);
        *c = (struct pith_choice){.module = pith_strdup(name),
                                  .layer = layer,
                                  .linear = i,
                                  .rows = l->linear[i].rows,
                                  .cols = l->linear[i].cols};
        if (!c->module) return pith_fail_nomem(err, name);
    }
    return PITH_OK;
}

enum pith_status pith_job_select(struct pith_job *job, struct pith_error *err)
{
    const struct pith_quantize_options *o = job->options;
    struct override *overrides = NULL;
    bool *ignore_used = pith_zalloc(o->ignore.count, sizeof *ignore_used);
    const struct pith_plans *plans = &job->model->plans;
    job->choice_count = plans->first[plans->layers];
    job->choices = pith_zalloc(job->choice_count + PITH_END_COUNT, sizeof *job->choices);
    job->ends = job->choices ? job->choices + job->choice_count : NULL;
    enum pith_status s = PITH_OK;
    if (!ignore_used || !job->choices) s = pith_fail_nomem(err, "the list of linears");
    if (s == PITH_OK) s = parse_overrides(job, &overrides, err);
    for (uint32_t layer = 0; layer < plans->layers && s == PITH_OK; layer++)
        s = list_layer(job, layer, err);
    if (s == PITH_OK) s = pith_ends_list(job, err);
    if (s == PITH_OK && job->convert) s = pith_convert_describe(job, err);
    for (size_t i = 0; i < job->choice_count && s == PITH_OK && !job->convert; i++)
        choose_one(job, &job->choices[i], overrides, ignore_used);
    if (s == PITH_OK && !job->convert) settle_groups(job);
    for (size_t i = 0; i < job->choice_count && s == PITH_OK; i++)
        s = job->convert ? choose_converted(job, &job->choices[i], err)
                         : check_one(job, &job->choices[i], err);
    for (int i = 0; i < PITH_END_COUNT && s == PITH_OK; i++)
        if (job->ends[i].rows) s = choose_end(job, &job->ends[i], overrides, ignore_used, err);
    for (size_t i = 0; i < job->choice_count && s == PITH_OK && !job->convert; i++) {
        const struct pith_grid *grid = &job->choices[i].grid;
        if (grid->format) job->needs_round |= pith_gridder_for(grid)->needs;
        job->quantizes |= grid->format != NULL;
    }
    job->quantizes |= job->convert && (job->model->container || job->container->file);
    if (s == PITH_OK) s = check_used(job, overrides, ignore_used, err);
    if (overrides) free_overrides(overrides, o->overrides.count);
    pith_free(ignore_used);
    return s == PITH_OK ? list_linears(job, err) : s;
}

void pith_job_unselect(struct pith_job *job)
{
    for (size_t i = 0; job->choices && i < job->choice_count + PITH_END_COUNT; i++)
        pith_free(job->choices[i].module);
    pith_free(job->choices);
    pith_free(job->linears);
    pith_free(job->outer_names);
    job->choices = NULL;
    job->linears = NULL;
    job->outer_names = NULL;
    job->choice_count = 0;
}
