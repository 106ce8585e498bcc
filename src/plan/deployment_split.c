/* Rows whose prompts are read on other devices, or whose caches wait in the host's memory. */
#include "plan/search.h"

#include "base/mem.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* --- pools ------------------------------------------------------------------------------------ */

/* What a group that reads has to do: as many prompts at once as the engine takes, and no answers.
 */
static struct pith_demand prompts_alone(const struct pith_plan_case *k)
{
    const size_t prompt = k->demand.prompt ? k->demand.prompt : 1, chunk = k->need->chunk;
    return (struct pith_demand){.context = prompt,
                                .users = prompt < chunk ? chunk / prompt : 1,
                                .prompt = prompt,
                                .gen = 1};
}

void pith_plan_pool(const struct pith_plan_search *p, const struct pith_plan_place *reads,
                    struct pith_plan_row *row, char why[PITH_PLAN_WHY])
{
    const struct pith_plan_case *k = &row->k;
    struct pith_plan_case reader = *k;
    struct pith_room room;
    struct pith_forecast reading;
    if (!pith_plan_serving_find(k->need->name)) {
        (void)snprintf(why, PITH_PLAN_WHY, "%s has no separate pools for prompts", k->need->name);
        return;
    }
    if (!pith_plan_runs(k, reads->h, why)) return;
    reader.demand = prompts_alone(k);
    const struct pith_deployment d = pith_plan_deploy(p, &reader, reads, &room);
    if (!room.fits) {
        (void)snprintf(why, PITH_PLAN_WHY, "reading prompts needs %.2f GB of each of %u %.60s",
                       room.device / 1e9, reader.devices, reads->h->name);
        return;
    }
    pith_forecast_make(&d, &room, reads->h, &reading);
    row->pooled = true;
    row->reads = *reads;
    row->reading = reader.devices;
    row->read_over = d.over;
    const struct pith_forecast alone = row->f;
    const struct pith_pool_group read = {&d, reads->h, &reading};
    const struct pith_pool_group answer = {&row->d, row->h, &alone};
    pith_pools_find(&read, &answer, (double)p->options->pool_link, &row->pools);
    pith_pools_forecast(&row->pools, &read, &answer, &row->f);
}

/* --- the host's memory ------------------------------------------------------------------------ */

bool pith_plan_offloads(const struct pith_plan_search *p, const struct pith_deployment *d,
                        const struct pith_room *r, const struct pith_plan_place *at,
                        struct pith_offload *out)
{
    if (!p->options->offload || !at->h || at->h->host <= 0) return false;
    if (!pith_plan_serving_find(d->engine->name)) return false;
    pith_offload_find(d, r, at->h, (double)p->options->offload, out);
    return out->fits;
}

void pith_plan_offload(const struct pith_plan_search *p, const struct pith_plan_place *at,
                       struct pith_plan_row *row, char why[PITH_PLAN_WHY])
{
    const char *engine = row->d.engine->name;
    if (!p->options->offload) return;
    if (!pith_plan_serving_find(engine))
        (void)snprintf(why, PITH_PLAN_WHY, "%s keeps no caches in the host's memory", engine);
    else if (at->h && at->h->host <= 0)
        (void)snprintf(why, PITH_PLAN_WHY,
                       "its memory is the host's: there is no other for caches");
    if (*why || !pith_plan_offloads(p, &row->d, &row->r, at, &row->offload)) return;
    struct pith_deployment d = row->d;
    struct pith_room r;
    row->offloads = true;
    d.demand.users = row->offload.at_work;
    pith_room_find(&d, &r);
    pith_forecast_make(&d, &r, at->h, &row->f);
    row->reread = row->f.first;
    pith_offload_forecast(&row->offload, &row->d, at->h, &row->f);
    row->r = r; /* what lies on the devices */
}
