/* What recipes and caches are known to lose, as tables, and which of them a plan tries by itself.
 */
#include "plan/search.h"

#include "base/mem.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct quality {
    const char *recipe;
    double probe, outliers; /* KL */
    bool tried;
    const char *published;
    double of_class; /* KL */
} qualities[] = {
#define PITH_PLAN_QUALITY(recipe, probe, outliers, tried, published, of_class)                     \
    {recipe, (double)probe, (double)outliers, tried, published, (double)of_class},
#include "plan/quality.def"
#undef PITH_PLAN_QUALITY
};

static const struct cache_quality {
    const char *name;
    double probe, mixture;
    const char *engines;
} cache_qualities[] = {
#define PITH_PLAN_CACHE(name, probe, mixture, engines) {name, probe, mixture, engines},
#include "plan/caches.def"
#undef PITH_PLAN_CACHE
};

double pith_plan_cache_kld(const char *name)
{
    for (size_t i = 0; i < PITH_COUNT(cache_qualities); i++)
        if (strcmp(cache_qualities[i].name, name) == 0) return cache_qualities[i].probe;
    return (double)NAN;
}

static bool among(const char *list, const char *word)
{
    const size_t n = strlen(word);
    for (const char *at = list; (at = strstr(at, word)) != NULL; at += n)
        if ((at == list || at[-1] == ' ') && (at[n] == ' ' || at[n] == '\0')) return true;
    return false;
}

const char *pith_plan_cache_tried(size_t *i, const char *engine)
{
    for (; *i < PITH_COUNT(cache_qualities); ++*i) {
        const struct cache_quality *c = &cache_qualities[*i];
        if (strcmp(c->engines, "*") == 0 || among(c->engines, engine)) return c->name;
    }
    return NULL;
}

const char *pith_plan_recipe_tried(size_t *i)
{
    while (*i < PITH_COUNT(qualities) && !qualities[*i].tried) ++*i;
    return *i < PITH_COUNT(qualities) ? qualities[*i].recipe : NULL;
}

/* Whether a figure of Llama-3-8B is told of it: dense, and half to twice as large. */
static bool of_class(const struct pith_plan_search *p)
{
    const double all = (double)p->census.all;
    return p->model.model->plans.experts == 0 && all > 4e9 && all < 16e9;
}

/* What was measured of another model compares recipes with each other; only what was published for
 * such models is shown. */
void pith_plan_quality_set(const struct pith_plan_search *p, struct pith_plan_candidate *c)
{
    c->kld = c->likened = (double)NAN;
    c->published = "";
    (void)snprintf(c->source, sizeof c->source,
                   "not measured on this model: pith advise or pith eval --baseline tells");
    for (size_t i = 0; i < PITH_COUNT(qualities) && !*c->option; i++) {
        const struct quality *q = &qualities[i];
        if (strcmp(q->recipe, c->name) != 0) continue;
        c->likened = q->outliers;
        c->published = q->published;
        if (isnan(q->of_class) || !of_class(p)) continue;
        c->kld = q->of_class;
        (void)snprintf(c->source, sizeof c->source, "published for its class: %s", q->published);
    }
    if (c->quantizes || c->stored) return;
    c->kld = c->likened = 0;
    (void)snprintf(c->source, sizeof c->source, "the model itself");
}
