/* Which grids come into question, and a job to measure them with. */
#include "choose/candidates.h"

#include "base/mem.h"
#include "base/str.h"
#include "export/groups.h"
#include "quant/scale.h"

#include <string.h>

static const char *const usual[] = {
#define PITH_TRY_GRID(name) name,
#define PITH_TRY_SPARE(name)
#define PITH_TRY_TRANSFORM(name)
#include "choose/candidates.def"
#undef PITH_TRY_GRID
#undef PITH_TRY_SPARE
#undef PITH_TRY_TRANSFORM
};
static const char *const spare[] = {
#define PITH_TRY_GRID(name)
#define PITH_TRY_SPARE(name) name,
#define PITH_TRY_TRANSFORM(name)
#include "choose/candidates.def"
#undef PITH_TRY_GRID
#undef PITH_TRY_SPARE
#undef PITH_TRY_TRANSFORM
};
static const char *const transforms[] = {
#define PITH_TRY_GRID(name)
#define PITH_TRY_SPARE(name)
#define PITH_TRY_TRANSFORM(name) name,
#include "choose/candidates.def"
#undef PITH_TRY_GRID
#undef PITH_TRY_SPARE
#undef PITH_TRY_TRANSFORM
};

const char *pith_try_transform(size_t i)
{
    return i < PITH_COUNT(transforms) ? transforms[i] : NULL;
}

static bool takes(const struct pith_job *job, const struct pith_choice *c,
                  const struct pith_grid *g)
{
    struct pith_error ignored = {0};
    return job->container->accepts(g, c->rows, c->cols, &job->container_opts, &ignored) == PITH_OK;
}

/* Whether one of the first n candidates would save more than eight bits do. */
static bool is_served(const struct pith_job *job, const struct pith_choice *c,
                      const struct pith_candidates *t, size_t n)
{
    enum { EIGHT = 8 };
    for (size_t i = 0; i < n; i++)
        if (t->grid[i].format->bits < EIGHT && takes(job, c, &t->grid[i])) return true;
    return false;
}

static struct pith_group_rule candidate_rule(const struct pith_job *job)
{
    const struct pith_list *targets = &job->options->targets;
    return (struct pith_group_rule){&job->model->plans, job->container, &job->container_opts,
                                    targets->item, targets->count};
}

static bool stays(const struct pith_job *job, const struct pith_choice *c)
{
    return pith_job_plan(job, c->layer)->linear[c->linear].stays;
}

/* Each linear's size of groups on a grid, by choice; of other grids, and where a person named the
 * grid, its own. */
static void find_sizes(const struct pith_job *job, const struct pith_candidates *t,
                       const struct pith_grid *g, uint32_t *size)
{
    const struct pith_group_rule rule = candidate_rule(job);
    const bool vary = !t->named && pith_groups_vary(g);
    struct pith_group_fit all;
    pith_group_fit_begin(&all, g);
    for (size_t i = 0; i < job->choice_count; i++) {
        const struct pith_choice *c = &job->choices[i];
        size[i] = g->group;
        if (!vary || stays(job, c)) continue;
        const struct pith_layer_plan *l = pith_job_plan(job, c->layer);
        if (t->mixed) size[i] = pith_group_size(&rule, g, l, c->linear);
        else pith_group_fit_add(&rule, &all, &l->linear[c->linear]);
    }
    for (size_t i = 0; i < job->choice_count && vary && !t->mixed; i++)
        size[i] = pith_group_fit_end(&all);
}

bool pith_tries_suit(const struct pith_job *job, const struct pith_candidates *t, size_t i,
                     const struct pith_choice *c)
{
    const struct pith_group_rule rule = candidate_rule(job);
    struct pith_grid wanted = t->grid[i];
    if (t->named || !t->mixed || !pith_groups_vary(&wanted)) return true;
    if (t->instead[i]) wanted.group = t->instead[i];
    return pith_group_size(&rule, &wanted, pith_job_plan(job, c->layer), c->linear) ==
           t->grid[i].group;
}

static struct pith_grid sized(const struct pith_grid *g, uint32_t size)
{
    struct pith_grid own = *g;
    own.group = size;
    return own;
}

/* Whether a linear's matrix can be on it, one alone is enough; of a spare grid, one that the
 * candidates so far do not serve. */
static bool some_can(const struct pith_job *job, const struct pith_candidates *t, size_t at,
                     const struct pith_candidates *others, const uint32_t *size)
{
    if (!pith_gridder_for(&t->grid[at])) return false;
    for (size_t i = 0; i < job->choice_count; i++) {
        const struct pith_choice *c = &job->choices[i];
        const struct pith_grid own = sized(&t->grid[at], size[i]);
        if (!takes(job, c, &own)) continue;
        if (at < t->spare || !is_served(job, c, others, others->spare)) return true;
    }
    return false;
}

/* Whether the engines that are named load a model all of whose linears are on it. */
static bool engines_can(const struct pith_job *job, const struct pith_grid *g, const uint32_t *size,
                        struct pith_linear_grid *linears)
{
    struct pith_error ignored = {0};
    struct pith_container_opts opts = job->container_opts;
    memcpy(linears, job->linears, job->linear_count * sizeof *linears);
    for (size_t i = 0; i < job->choice_count; i++)
        if (linears[i].grid.format) linears[i].grid = sized(g, size[i]);
    pith_container_settle(job->container, linears, job->choice_count + 1, &opts);
    const struct pith_offer offer = {.plans = &job->model->plans,
                                     .shape = &job->model->shape,
                                     .container = job->container,
                                     .opts = &opts,
                                     .linears = linears,
                                     .count = job->choice_count + 1};
    for (size_t i = 0; i < job->options->targets.count; i++) {
        struct pith_target t;
        if (pith_target_parse(job->options->targets.item[i], &t, &ignored) != PITH_OK ||
            pith_preflight(&t, &offer, &ignored) != PITH_OK)
            return false;
    }
    return true;
}

static enum pith_status add(struct pith_candidates *t, const char *text, struct pith_error *err)
{
    if (t->count == PITH_TRIES)
        return pith_fail(err, PITH_LIMIT, "`tries`: at most %d grids", PITH_TRIES);
    PITH_TRY(pith_grid_parse(text, &t->grid[t->count], err));
    if (!pith_gridder_for(&t->grid[t->count]))
        return pith_fail(err, PITH_UNSUPPORTED, "`tries` %s: weights cannot be put on that grid",
                         text);
    for (size_t i = 0; i < t->count; i++)
        if (pith_grid_equal(&t->grid[i], &t->grid[t->count])) return PITH_OK;
    t->count++;
    return PITH_OK;
}

/* "int4:g128,int3:g128". */
static enum pith_status add_list(struct pith_candidates *t, const char *text,
                                 struct pith_error *err)
{
    while (*text) {
        const size_t n = strcspn(text, ",");
        char *one = pith_strndup(text, n);
        if (!one) return pith_fail_nomem(err, "`tries`");
        const enum pith_status s = n ? add(t, one, err) : PITH_OK;
        pith_free(one);
        if (s != PITH_OK) return s;
        text += n + (text[n] == ',');
    }
    return PITH_OK;
}

enum pith_status pith_tries_parse(const struct pith_list *texts, struct pith_candidates *t,
                                  struct pith_error *err)
{
    *t = (struct pith_candidates){.named = texts->count > 0};
    for (size_t i = 0; i < texts->count; i++) PITH_TRY(add_list(t, texts->item[i], err));
    for (size_t i = 0; i < PITH_COUNT(usual) && !t->named; i++) PITH_TRY(add(t, usual[i], err));
    t->spare = t->count;
    for (size_t i = 0; i < PITH_COUNT(spare) && !t->named; i++) PITH_TRY(add(t, spare[i], err));
    return PITH_OK;
}

static bool is_there(const struct pith_candidates *t, const struct pith_grid *g)
{
    for (size_t i = 0; i < t->count; i++)
        if (pith_grid_equal(&t->grid[i], g)) return true;
    return false;
}

/* The grid, and those with the other sizes that linears have in its place. */
static void keep_candidate(const struct pith_job *job, const struct pith_grid *g,
                           const uint32_t *size, struct pith_candidates *chosen)
{
    bool own = false;
    for (size_t i = 0; i < job->choice_count; i++) own |= size[i] == g->group;
    if (own && chosen->count < PITH_TRIES && !is_there(chosen, g))
        chosen->grid[chosen->count++] = *g;
    for (size_t i = 0; i < job->choice_count; i++) {
        const struct pith_grid other = sized(g, size[i]);
        if (size[i] == g->group || chosen->count == PITH_TRIES || is_there(chosen, &other))
            continue;
        chosen->instead[chosen->count] = g->group;
        chosen->grid[chosen->count++] = other;
    }
}

static enum pith_status settle_candidates(const struct pith_job *job, struct pith_candidates *t,
                                          uint32_t *size, struct pith_linear_grid *linears,
                                          struct pith_error *err)
{
    const struct pith_group_rule rule = candidate_rule(job);
    struct pith_candidates chosen = {.named = t->named, .mixed = pith_groups_mix(&rule)};
    t->mixed = chosen.mixed;
    for (size_t i = 0; i < t->count; i++) {
        char text[PITH_GRID_TEXT];
        const struct pith_grid *g = &t->grid[i];
        find_sizes(job, t, g, size);
        pith_grid_format(g, text);
        if (some_can(job, t, i, &chosen, size) && engines_can(job, g, size, linears))
            keep_candidate(job, g, size, &chosen);
        else if (t->named)
            return pith_fail(err, PITH_UNSUPPORTED,
                             "`tries` %s: container %s, or an engine that is to load it, does not "
                             "take that grid for any linear of this model",
                             text, job->container->name);
        if (i < t->spare) chosen.spare = chosen.count;
    }
    *t = chosen;
    if (t->count) return PITH_OK;
    return pith_fail(err, PITH_UNSUPPORTED, "there is no grid to try that container %s takes here",
                     job->container->name);
}

enum pith_status pith_tries_settle(const struct pith_job *job, struct pith_candidates *t,
                                   struct pith_error *err)
{
    struct pith_linear_grid *linears = pith_alloc(job->linear_count, sizeof *linears);
    uint32_t *size = pith_alloc(job->choice_count + 1, sizeof *size);
    const enum pith_status s = linears && size ? settle_candidates(job, t, size, linears, err)
                                               : pith_fail_nomem(err, "the linears");
    pith_free(linears);
    pith_free(size);
    return s;
}
