/* Which grids come into question, and a job to measure them with. */
#include "pipe/tries.h"

#include "base/mem.h"
#include "base/str.h"
#include "quant/scale.h"

#include <string.h>

static const char *const usual[] = {
#define PITH_TRY_GRID(name) name,
#define PITH_TRY_SPARE(name)
#define PITH_TRY_TRANSFORM(name)
#include "pipe/tries.def"
#undef PITH_TRY_GRID
#undef PITH_TRY_SPARE
#undef PITH_TRY_TRANSFORM
};
static const char *const spare[] = {
#define PITH_TRY_GRID(name)
#define PITH_TRY_SPARE(name) name,
#define PITH_TRY_TRANSFORM(name)
#include "pipe/tries.def"
#undef PITH_TRY_GRID
#undef PITH_TRY_SPARE
#undef PITH_TRY_TRANSFORM
};
static const char *const transforms[] = {
#define PITH_TRY_GRID(name)
#define PITH_TRY_SPARE(name)
#define PITH_TRY_TRANSFORM(name) name,
#include "pipe/tries.def"
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

/* Whether a linear's matrix can be on it, one alone is enough; of a spare grid, one that the first
 * `others` candidates do not serve. */
static bool some_can(const struct pith_job *job, const struct pith_candidates *t, size_t at,
                     size_t others)
{
    if (!pith_gridder_for(&t->grid[at])) return false;
    for (size_t i = 0; i < job->choice_count; i++) {
        const struct pith_choice *c = &job->choices[i];
        if (!takes(job, c, &t->grid[at])) continue;
        if (at < t->spare || !is_served(job, c, t, others)) return true;
    }
    return false;
}

/* Whether the engines that are named load a model all of whose linears are on it. */
static bool engines_can(const struct pith_job *job, const struct pith_grid *g,
                        struct pith_linear_grid *linears)
{
    struct pith_error ignored = {0};
    struct pith_container_opts opts = job->container_opts;
    memcpy(linears, job->linears, job->linear_count * sizeof *linears);
    for (size_t i = 0; i < job->choice_count; i++)
        if (linears[i].grid.format) linears[i].grid = *g;
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
        return pith_fail(err, PITH_LIMIT, "--try: at most %d grids", PITH_TRIES);
    PITH_TRY(pith_grid_parse(text, &t->grid[t->count], err));
    if (!pith_gridder_for(&t->grid[t->count]))
        return pith_fail(err, PITH_UNSUPPORTED, "--try %s: weights cannot be put on that grid",
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
        if (!one) return pith_fail_nomem(err, "--try");
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
    t->count = 0;
    t->named = texts->count > 0;
    for (size_t i = 0; i < texts->count; i++) PITH_TRY(add_list(t, texts->item[i], err));
    for (size_t i = 0; i < PITH_COUNT(usual) && !t->named; i++) PITH_TRY(add(t, usual[i], err));
    t->spare = t->count;
    for (size_t i = 0; i < PITH_COUNT(spare) && !t->named; i++) PITH_TRY(add(t, spare[i], err));
    return PITH_OK;
}

enum pith_status pith_tries_settle(const struct pith_job *job, struct pith_candidates *t,
                                   struct pith_error *err)
{
    size_t kept = 0, others = 0; /* others: kept ones that are not spare */
    struct pith_linear_grid *linears = pith_alloc(job->linear_count, sizeof *linears);
    if (!linears) return pith_fail_nomem(err, "the linears");
    for (size_t i = 0; i < t->count; i++) {
        char text[PITH_GRID_TEXT];
        const struct pith_grid g = t->grid[i];
        const bool can = some_can(job, t, i, others) && engines_can(job, &g, linears);
        pith_grid_format(&g, text);
        if (can) t->grid[kept++] = g;
        else if (t->named) {
            pith_free(linears);
            return pith_fail(err, PITH_UNSUPPORTED,
                             "--try %s: container %s, or an engine that is to load it, does not "
                             "take that grid for any linear of this model",
                             text, job->container->name);
        }
        if (i < t->spare) others = kept;
    }
    pith_free(linears);
    t->count = kept;
    t->spare = others;
    if (kept) return PITH_OK;
    return pith_fail(err, PITH_UNSUPPORTED, "there is no grid to try that container %s takes here",
                     job->container->name);
}
