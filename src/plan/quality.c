/* What recipes and caches are known to lose, as tables, and which of them a plan tries by itself.
 */
#include "plan/search.h"

#include "base/mem.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The published models that recipes were measured on; the first orders them. */
static const struct measured {
    const char *name;
    uint64_t numbers; /* by which a model of that shape is known */
} measured[] = {{"SmolLM2-135M-Instruct", 134515008}, {"Gemma 3 270M", 268098176}};

static const struct quality {
    const char *recipe;
    double kld[PITH_COUNT(measured)];
    bool tried;
    const char *published;
    double of_class; /* KL */
} qualities[] = {
#define PITH_PLAN_QUALITY(recipe, smollm2, gemma3, tried, published, of_class)                     \
    {recipe, {(double)smollm2, (double)gemma3}, tried, published, (double)of_class},
#include "plan/quality.def"
#undef PITH_PLAN_QUALITY
};

static const struct cache_quality {
    const char *name;
    double kld[PITH_COUNT(measured)];
    const char *engines;
} cache_qualities[] = {
#define PITH_PLAN_CACHE(name, smollm2, gemma3, engines)                                            \
    {name, {(double)smollm2, (double)gemma3}, engines},
#include "plan/caches.def"
#undef PITH_PLAN_CACHE
};

/* How many times as much SmolLM2, by whose losses rows are compared, loses as Llama-3-8B does
 * (docs/planning.md has both). */
static const double small_loses = 3;

double pith_plan_cache_kld(const char *name)
{
    for (size_t i = 0; i < PITH_COUNT(cache_qualities); i++)
        if (strcmp(cache_qualities[i].name, name) == 0) return cache_qualities[i].kld[0];
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

/* Whether a figure of Llama-3-8B applies to it: dense, and half to twice as large. */
static bool of_class(const struct pith_plan_search *p)
{
    const double all = (double)p->census.all;
    return p->model.model->plans.experts == 0 && all > 4e9 && all < 16e9;
}

/* By what a recipe is compared with others: what the first model loses; where that was not
 * measured, what is published of Llama-3-8B, as such a small model would lose it. */
static void set_likened(const struct quality *q, struct pith_plan_candidate *c)
{
    c->likened = q->kld[0];
    if (!isnan(q->kld[0])) return;
    c->likened = small_loses * q->of_class;
    c->likened_to = "three times what is published of Llama-3-8B (docs/planning.md)";
}

/* What the model itself loses: measured on one of its shape, or published for its class. */
static void set_known(const struct pith_plan_search *p, const struct quality *q,
                      struct pith_plan_candidate *c)
{
    for (size_t i = 0; i < PITH_COUNT(measured); i++) {
        if (p->stored || p->census.all != measured[i].numbers || isnan(q->kld[i])) continue;
        c->kld = q->kld[i];
        (void)snprintf(c->source, sizeof c->source, "measured on %s (docs/techniques.md)",
                       measured[i].name);
    }
    if (isnan(q->of_class) || !of_class(p)) return;
    c->kld = q->of_class;
    (void)snprintf(c->source, sizeof c->source, "published for its class: %s", q->published);
}

void pith_plan_quality_set(const struct pith_plan_search *p, struct pith_plan_candidate *c)
{
    c->kld = c->likened = (double)NAN;
    c->published = "";
    c->likened_to = "SmolLM2-135M-Instruct (docs/planning.md)";
    (void)snprintf(c->source, sizeof c->source,
                   "not measured on this model: pith advise or pith eval --baseline measures it");
    for (size_t i = 0; i < PITH_COUNT(qualities) && !*c->option; i++) {
        const struct quality *q = &qualities[i];
        if (strcmp(q->recipe, c->name) != 0) continue;
        set_likened(q, c);
        c->published = q->published;
        set_known(p, q, c);
    }
    if (c->quantizes || c->stored) return;
    c->kld = c->likened = 0;
    (void)snprintf(c->source, sizeof c->source, "the model itself");
}
