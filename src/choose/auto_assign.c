#include "choose/auto_assign.h"

#include "base/mem.h"
#include "choose/candidates.h"
#include "choose/kv_auto.h"
#include "export/file.h"
#include "export/preflight.h"
#include "plan/assign.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

bool pith_auto_takes_caches(const struct pith_auto_wish *w)
{
    return w->bound == PITH_AUTO_FIT && strcmp(w->kv, "auto") == 0;
}

/* --- parts ------------------------------------------------------------------------------------ */

/* Linears that share a grid, with the options that all of them have. */
struct group {
    size_t first; /* its choice of the smallest number */
    uint64_t weights;
    struct pith_assign_option option[PITH_TRIES + 1];
    size_t grid[PITH_TRIES + 1]; /* of an option; PITH_TRIES: 16 bits */
    double fixed[PITH_TRIES + 1], sway[PITH_TRIES + 1]; /* of an option: choose/sense.h */
    uint32_t from; /* the first router that it sways */
    size_t options;
};

struct search {
    const struct pith_job *job;
    const struct pith_sense *sense;
    bool fused;       /* what reads one input, and the experts of a layer, share a grid */
    size_t *group_of; /* [job->choice_count]: SIZE_MAX: of none */
    struct group *group;
    size_t groups;
    struct pith_kv_menu menu;          /* of the layers' caches; empty: they are given */
    struct pith_assign_option *caches; /* their options, one layer after the other */
    size_t *chosen;                    /* [parts]: of the groups, then of the caches */
    struct pith_assign_part *part;     /* the same */
    size_t parts;
    uint64_t weights; /* of the layers' linears */
    uint64_t fixed;   /* bytes of those that nothing is chosen for: routers */
    double *room;     /* [routers]: variances, or what they are priced at */
    struct pith_assigned got;
};

/* Whether one of the engines that the model is for holds such linears as one; where none is named,
 * one of all that load the container. Caches of each layer's own are pith's alone. */
static bool is_fused(const struct pith_job *job, const struct pith_auto_wish *w)
{
    const struct pith_list *targets = &job->options->targets;
    const bool any = targets->count == 0 && !pith_auto_takes_caches(w);
    size_t count;
    const struct pith_target_engine *const *e = pith_engines(&count);
    for (size_t i = 0; i < count && any; i++)
        if (pith_engine_fuses(e[i], job->container)) return true;
    for (size_t i = 0; i < targets->count; i++) {
        struct pith_target t;
        struct pith_error ignored = {0};
        if (pith_target_parse(targets->item[i], &t, &ignored) == PITH_OK &&
            pith_engine_fuses(t.engine, job->container))
            return true;
    }
    return false;
}

/* In a file experts lie side by side in one tensor of one type. */
static size_t leader_of(const struct search *s, const struct pith_choice *c)
{
    const struct pith_layer_plan *l = pith_job_plan(s->job, c->layer);
    const struct pith_node *node = pith_plan_experts(l);
    const size_t first = s->job->model->plans.first[c->layer];
    const bool file = s->job->container->file != NULL;
    if (l->linear[c->linear].expert != PITH_NO_PART && node) {
        const uint32_t at = c->linear - node->u.experts.first;
        const uint32_t own = file ? at % node->u.experts.each : at;
        return first + node->u.experts.first + (s->fused ? 0 : own);
    }
    return first + (s->fused ? l->site[l->linear[c->linear].site].first : c->linear);
}

static bool can_any(const struct search *s, size_t choice)
{
    for (size_t g = 0; g < s->sense->grids; g++)
        if (pith_sense_at(s->sense, choice, g)->can) return true;
    return false;
}

/* A linear that stays in floats, as it will be stored. */
static uint64_t plain_bytes(const struct search *s, const struct pith_choice *c)
{
    const struct pith_job *job = s->job;
    const struct pith_file_export *file = pith_file_export_of(job->container);
    char name[320];
    (void)snprintf(name, sizeof name, "%s.weight", c->module);
    const struct pith_tensor *t = pith_checkpoint_find(job->model->checkpoint, name);
    const enum pith_dtype dtype = !t     ? job->container_opts.model_dtype
                                  : file ? file->stored_dtype(job->model, t)
                                         : t->dtype;
    return (uint64_t)c->rows * c->cols * pith_dtype_bits(dtype) / 8;
}

/* What the job makes of a linear takes while nothing is chosen. */
static uint64_t base_bytes(const struct search *s, const struct pith_choice *c)
{
    const struct pith_job *job = s->job;
    const struct pith_qspec spec = {
        .rows = c->rows,
        .cols = c->cols,
        .grid = c->grid,
        .scale_dtype = job->container->scale_dtype(&c->grid, job->container_opts.model_dtype)};
    return c->grid.format ? (uint64_t)(pith_qspec_bits(&spec) * c->rows * c->cols / 8)
                          : plain_bytes(s, c);
}

struct sums {
    uint64_t bytes;
    double fixed, sway;
};

static void add_option(struct group *g, size_t grid, const struct sums *s)
{
    g->grid[g->options] = grid;
    g->fixed[g->options] = s->fixed;
    g->sway[g->options] = s->sway;
    g->option[g->options++] = (struct pith_assign_option){s->bytes, s->fixed};
}

/* The sums over the linears of a group, in the order of the choices. */
static void fill_group(const struct search *s, size_t number)
{
    struct group *group = &s->group[number];
    for (size_t grid = 0; grid <= s->sense->grids; grid++) {
        const bool plain = grid == s->sense->grids;
        struct sums sums = {0};
        bool can = true;
        for (size_t i = group->first; i < s->job->choice_count; i++) {
            if (s->group_of[i] != number) continue;
            const struct pith_choice *c = &s->job->choices[i];
            const struct pith_sense_cell *cell = plain ? NULL : pith_sense_at(s->sense, i, grid);
            can = can && (plain || cell->can);
            sums.bytes += plain ? plain_bytes(s, c) : cell->bytes;
            sums.fixed += plain ? 0 : cell->kld;
            sums.sway += plain ? 0 : cell->sway;
        }
        if (can) add_option(group, plain ? PITH_TRIES : grid, &sums);
    }
}

static enum pith_status find_groups(struct search *s, struct pith_error *err)
{
    const size_t n = s->job->choice_count, parts = n + s->menu.parts;
    s->group_of = pith_alloc(n, sizeof *s->group_of);
    size_t *number = pith_alloc(n, sizeof *number); /* of a leader's group */
    s->group = pith_zalloc(n, sizeof *s->group);
    s->part = pith_alloc(parts, sizeof *s->part);
    s->chosen = pith_alloc(parts, sizeof *s->chosen);
    s->room = pith_alloc(s->sense->routes.routers + 1, sizeof *s->room);
    const bool there = s->group_of && number && s->group && s->part && s->chosen && s->room;
    for (size_t i = 0; i < n && there; i++) number[i] = s->group_of[i] = SIZE_MAX;
    for (size_t i = 0; i < n && there; i++) {
        const struct pith_choice *c = &s->job->choices[i];
        const size_t leader = leader_of(s, c);
        s->weights += (uint64_t)c->rows * c->cols;
        if (!can_any(s, i)) {
            s->fixed += base_bytes(s, c);
            continue;
        }
        if (number[leader] == SIZE_MAX) {
            s->group[s->groups].first = i;
            s->group[s->groups].from = pith_sense_from(s->sense, s->job, i);
            number[leader] = s->groups++;
        }
        s->group_of[i] = number[leader];
        s->group[number[leader]].weights += (uint64_t)c->rows * c->cols;
    }
    pith_free(number);
    if (!there) return pith_fail_nomem(err, "the groups of linears");
    for (size_t i = 0; i < s->groups; i++) {
        fill_group(s, i);
        s->part[i] = (struct pith_assign_part){s->group[i].option, s->group[i].options};
    }
    s->parts = s->groups;
    return s->groups ? PITH_OK
                     : pith_fail(err, PITH_UNSUPPORTED, "there is no linear to choose a grid for");
}

/* The caches of so many users compete for the same bytes. */
static enum pith_status add_caches(struct search *s, size_t users, struct pith_error *err)
{
    size_t count = 0, at = 0;
    for (size_t i = 0; i < s->menu.parts; i++) count += s->menu.part[i].options;
    s->caches = pith_alloc(count, sizeof *s->caches);
    if (!s->caches) return pith_fail_nomem(err, "caches");
    for (size_t i = 0; i < s->menu.parts; i++) {
        const struct pith_kv_menu_part *m = &s->menu.part[i];
        s->part[s->parts++] = (struct pith_assign_part){s->caches + at, m->options};
        for (size_t k = 0; k < m->options; k++)
            s->caches[at++] =
                (struct pith_assign_option){users * m->option[k].bytes, m->option[k].loss};
    }
    return PITH_OK;
}

static enum pith_status measure_caches(struct search *s, const struct pith_auto_wish *w,
                                       struct pith_error *err)
{
    const struct pith_job *job = s->job;
    const struct pith_kv_auto_job kv = {.backend = job->backend,
                                        .model = job->model,
                                        .tokenizer = job->tokenizer,
                                        .progress = &job->options->progress};
    if (!pith_auto_takes_caches(w)) return PITH_OK;
    return pith_kv_auto_menu(&kv, w->context, &s->menu, err);
}

/* --- choosing --------------------------------------------------------------------------------- */

/* The variance of each router's margins under what is chosen, or at most, into the room. */
static void sum_sways(const struct search *s, bool most)
{
    const uint32_t routers = s->sense->routes.routers;
    for (uint32_t r = 0; r < routers; r++) s->room[r] = 0;
    for (size_t i = 0; i < s->groups; i++) {
        const struct group *g = &s->group[i];
        double sway = most ? 0 : g->sway[s->chosen[i]];
        for (size_t k = 0; k < g->options && most; k++) sway = fmax(sway, g->sway[k]);
        for (uint32_t r = g->from; r < routers; r++) s->room[r] += sway;
    }
}

/* What the chosen grids cost; their variances are in the room. */
static double cost_of_weights(const struct search *s)
{
    double sum = 0;
    for (size_t i = 0; i < s->groups; i++) sum += s->group[i].fixed[s->chosen[i]];
    sum_sways(s, false);
    for (uint32_t r = 0; r < s->sense->routes.routers; r++)
        sum += pith_router_kld(&s->sense->routes.router[r], s->room[r]);
    return sum;
}

static double cost_of_caches(const struct search *s)
{
    double sum = 0;
    for (size_t i = 0; i < s->menu.parts; i++)
        sum += s->menu.part[i].option[s->chosen[s->groups + i]].loss;
    return sum;
}

/* Options lose what they cost while choices of experts stay, and their share of what swaying the
 * routers costs, each variance at its price. */
static void price_options(struct search *s)
{
    for (size_t i = 0; i < s->groups; i++) {
        struct group *g = &s->group[i];
        double sum = 0;
        for (uint32_t r = g->from; r < s->sense->routes.routers; r++) sum += s->room[r];
        for (size_t k = 0; k < g->options; k++)
            g->option[k].loss = g->fixed[k] + sum * g->sway[k];
    }
}

/* Chords of the curves, from 0 to the most that there can be, lie below them: what is best by these
 * bounds all others from below. */
static void price_by_chords(struct search *s)
{
    const struct pith_routes *routes = &s->sense->routes;
    sum_sways(s, true);
    for (uint32_t r = 0; r < routes->routers; r++) {
        const struct pith_router_curve *c = &routes->router[r];
        const double most = s->room[r];
        s->room[r] = most > 0 ? pith_router_kld(c, most) / most : pith_router_slope(c, 0);
    }
    price_options(s);
}

static void price_by_tangents(struct search *s)
{
    const struct pith_routes *routes = &s->sense->routes;
    sum_sways(s, false);
    for (uint32_t r = 0; r < routes->routers; r++)
        s->room[r] = pith_router_slope(&routes->router[r], s->room[r]);
    price_options(s);
}

/* Tangents of concave curves lie above them: what is better by the tangents at what was found is
 * better, so that costs fall until nothing changes. */
static enum pith_status descend(struct search *s, const struct pith_assign *a,
                                struct pith_error *err)
{
    enum { ROUNDS = 20 };
    size_t *before = pith_alloc(s->parts, sizeof *before);
    if (!before) return pith_fail_nomem(err, "an assignment");
    double cost = cost_of_weights(s) + cost_of_caches(s);
    struct pith_assigned got;
    enum pith_status r = PITH_OK;
    for (int i = 0; i < ROUNDS && r == PITH_OK; i++) {
        memcpy(before, s->chosen, s->parts * sizeof *before);
        price_by_tangents(s);
        r = pith_assign(a, s->chosen, &got, err);
        const double now = r == PITH_OK ? cost_of_weights(s) + cost_of_caches(s) : cost;
        if (now >= cost) {
            memcpy(s->chosen, before, s->parts * sizeof *before);
            break;
        }
        cost = now;
    }
    pith_free(before);
    s->got.loss = cost;
    s->got.exact = false;
    return r;
}

static enum pith_status assign(struct search *s, uint64_t budget, size_t cells,
                               struct pith_error *err)
{
    const struct pith_assign a = {
        .part = s->part, .parts = s->parts, .budget = budget, .cells = cells};
    if (s->sense->routes.routers == 0) return pith_assign(&a, s->chosen, &s->got, err);
    price_by_chords(s);
    PITH_TRY(pith_assign(&a, s->chosen, &s->got, err));
    return descend(s, &a, err);
}

/* Bytes of the model's other weights, and of each position's keys and values. */
static enum pith_status other_bytes(const struct search *s, const struct pith_auto_wish *w,
                                    uint64_t *bytes, struct pith_error *err)
{
    const struct pith_job *job = s->job;
    const struct pith_plans *plans = &job->model->plans;
    uint64_t linears = 0;
    for (size_t i = 0; i < job->choice_count; i++)
        if (s->group_of[i] != SIZE_MAX) linears += base_bytes(s, &job->choices[i]);
    *bytes = job->layout.total_bytes > linears ? job->layout.total_bytes - linears : 0;
    if (w->bound != PITH_AUTO_FIT || s->menu.parts) return PITH_OK;
    struct pith_kv_format kv;
    double position = 0;
    PITH_TRY(pith_kv_parse(w->kv, PITH_BF16, job->model, &kv, err));
    for (uint32_t i = 0; i < plans->layers; i++)
        position +=
            pith_kv_position_bytes(kv.layer ? &kv.layer[i] : &kv, &pith_plan(plans, i)->state);
    pith_kv_format_free(&kv);
    *bytes += (uint64_t)(position * (double)w->context * (double)w->users);
    return PITH_OK;
}

/* Bytes of the smallest options, and of the largest. */
static void find_range(const struct search *s, uint64_t *low, uint64_t *high)
{
    *low = *high = 0;
    for (size_t i = 0; i < s->parts; i++) {
        uint64_t least = UINT64_MAX, most = 0;
        for (size_t k = 0; k < s->part[i].options; k++) {
            const uint64_t cost = s->part[i].option[k].cost;
            if (cost < least) least = cost;
            if (cost > most) most = cost;
        }
        *low += least;
        *high += most;
    }
}

/* The smallest budget whose best assignment loses at most that. */
static enum pith_status choose_by_loss(struct search *s, double most, struct pith_error *err)
{
    enum { HALVINGS = 40, FEW = 1 << 21 };
    uint64_t low, high;
    find_range(s, &low, &high);
    for (int i = 0; i < HALVINGS && low < high; i++) {
        const uint64_t middle = low + (high - low) / 2;
        PITH_TRY(assign(s, middle, FEW, err));
        if (s->got.loss <= most) high = middle;
        else low = middle + 1;
    }
    return assign(s, high, FEW, err);
}

/* A weight of all linears, where those that are chosen for take so many bytes. */
static double assigned_bits(const struct search *s, uint64_t bytes)
{
    return 8 * (double)(bytes + s->fixed) / (double)s->weights;
}

static enum pith_status choose(struct search *s, const struct pith_auto_wish *w,
                               struct pith_error *err)
{
    const uint64_t all = (uint64_t)(w->bits / 8 * (double)s->weights);
    uint64_t other = 0, budget = all > s->fixed ? all - s->fixed : 0;
    if (w->bound == PITH_AUTO_MAX_KL) return choose_by_loss(s, w->most, err);
    if (w->bound != PITH_AUTO_BITS) {
        PITH_TRY(other_bytes(s, w, &other, err));
        if (other >= w->bytes)
            return pith_fail(
                err, PITH_LIMIT, "the rest of the model%s takes %llu MiB of %llu MiB already",
                w->bound == PITH_AUTO_FIT && !s->menu.parts ? " and its cache" : "",
                (unsigned long long)(other >> 20), (unsigned long long)(w->bytes >> 20));
        budget = w->bytes - other;
    }
    uint64_t least, most;
    find_range(s, &least, &most);
    if (budget < least && s->menu.parts)
        return pith_fail(err, PITH_LIMIT,
                         "the smallest grids and caches that were tried take %llu MiB, and the "
                         "rest of the model leaves %llu",
                         (unsigned long long)(least >> 20), (unsigned long long)(budget >> 20));
    if (budget < least)
        return pith_fail(err, PITH_LIMIT,
                         "the smallest grids that were tried need %.2f bits a weight, and the "
                         "budget leaves %.2f; `tries` names others",
                         assigned_bits(s, least), assigned_bits(s, budget));
    return assign(s, budget, 0, err);
}

/* --- the recipe ------------------------------------------------------------------------------- */

static const char *grid_text(const struct search *s, size_t group, char text[PITH_GRID_TEXT])
{
    const size_t grid = s->group[group].grid[s->chosen[group]];
    if (grid == PITH_TRIES) return "none";
    pith_grid_format(&s->sense->grid[grid], text);
    return text;
}

static json_t *linears_of(const struct search *s)
{
    json_t *j = json_object();
    for (size_t i = 0; i < s->job->choice_count; i++) {
        char text[PITH_GRID_TEXT];
        if (s->group_of[i] == SIZE_MAX) continue;
        pith_json_set(&j, s->job->choices[i].module,
                      json_string(grid_text(s, s->group_of[i], text)));
    }
    return j;
}

/* The grid of most weights stands for the recipe. */
static const char *usual_grid(const struct search *s, char text[PITH_GRID_TEXT])
{
    uint64_t weights[PITH_TRIES + 1] = {0};
    size_t best = s->sense->grids ? 0 : PITH_TRIES;
    for (size_t i = 0; i < s->groups; i++)
        weights[s->group[i].grid[s->chosen[i]]] += s->group[i].weights;
    for (size_t g = 0; g < s->sense->grids; g++)
        if (weights[g] > weights[best]) best = g;
    pith_grid_format(&s->sense->grid[best], text);
    return text;
}

/* What the chosen caches are, and what they cost. */
static enum pith_status add_cache(struct search *s, json_t *predicted, struct pith_error *err)
{
    const struct pith_job *job = s->job;
    const struct pith_kv_auto_job kv = {.backend = job->backend, .model = job->model};
    double bits;
    if (!s->menu.parts) return PITH_OK;
    PITH_TRY(pith_kv_menu_choose(&s->menu, &kv, s->chosen + s->groups, &bits, err));
    json_t *cache =
        json_pack("{s:f, s:f, s:O}", "bits", bits, "kld", cost_of_caches(s), "record",
                  s->menu.record);
    return json_object_set_new(predicted, "cache", cache) == 0 ? PITH_OK
                                                               : pith_fail_nomem(err, "caches");
}

/* "awq", "smooth:0.5" */
static const char *transform_text(const struct pith_recipe *r, char text[2 * PITH_OPTION_TEXT])
{
    const char *option = r->transform_option;
    (void)snprintf(text, 2 * PITH_OPTION_TEXT, "%s%s%s", r->transform->name, *option ? ":" : "",
                   option);
    return text;
}

static enum pith_status save_assignment(struct search *s, const struct pith_auto_wish *w,
                                        const char *path, struct pith_error *err)
{
    char usual[PITH_GRID_TEXT], transform[2 * PITH_OPTION_TEXT];
    const struct pith_job *job = s->job;
    uint64_t bytes = 0;
    const double loss = cost_of_weights(s);
    for (size_t i = 0; i < s->groups; i++) bytes += s->group[i].option[s->chosen[i]].cost;
    json_t *predicted = json_pack(
        "{s:s, s:f, s:f, s:I, s:f, s:b, s:I, s:{s:I, s:I}}", "budget", w->text, "kld", loss, "bits",
        assigned_bits(s, bytes), "bytes", (json_int_t)(bytes + s->fixed), "bound", s->got.bound,
        "exact", (int)s->got.exact, "tokens", (json_int_t)(job->calib.windows * job->calib.length),
        "draw", "tokens", (json_int_t)job->options->calib_tokens, "seq_len",
        (json_int_t)job->options->seq_len);
    json_t *j = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:o, s:o}", "name", "auto", "base",
                          w->base, "container", job->container->name, "transform",
                          transform_text(&job->recipe, transform), "weights",
                          usual_grid(s, usual), "round", job->recipe.round->name, "predicted",
                          predicted, "linears", linears_of(s));
    if (!j) return pith_fail_nomem(err, path);
    enum pith_status r = add_cache(s, json_object_get(j, "predicted"), err);
    if (r == PITH_OK) r = pith_json_save(path, j, err);
    json_decref(j);
    return r;
}

/* --- the whole -------------------------------------------------------------------------------- */

static void free_search(struct search *s)
{
    pith_free(s->group_of);
    pith_free(s->group);
    pith_free(s->part);
    pith_free(s->chosen);
    pith_free(s->caches);
    pith_free(s->room);
    pith_kv_menu_free(&s->menu);
}

enum pith_status pith_auto_choose(const struct pith_job *job, const struct pith_sense *sense,
                                  const struct pith_auto_wish *w, const char *path,
                                  struct pith_error *err)
{
    struct search s = {.job = job, .sense = sense, .fused = is_fused(job, w)};
    enum pith_status r = measure_caches(&s, w, err);
    if (r == PITH_OK) r = find_groups(&s, err);
    if (r == PITH_OK && s.menu.parts) r = add_caches(&s, w->users, err);
    if (r == PITH_OK) r = choose(&s, w, err);
    if (r == PITH_OK) r = save_assignment(&s, w, path, err);
    free_search(&s);
    return r;
}
