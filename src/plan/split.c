#include "plan/split.h"

#include <math.h>

/* Between pools that are not linked: a network card of 400 Gb/s a device, as NVIDIA's HGX machines
 * have. */
static const double network = 50e9;
enum { GROUPS = 8 };

static double devices_of(const struct pith_pool_group *g)
{
    return (double)g->d->over.tensor * g->d->over.pipeline;
}

/* A quantity of both pools together, which is known where it is of both. */
static double both(double reads, double answers)
{
    return reads > 0 && answers > 0 ? reads + answers : 0;
}

/* Prompts a second that a group reads, answers a second that one makes. */
static double prompts(const struct pith_pool_group *g)
{
    return (double)g->d->demand.users / g->f->fill;
}
static double answers(const struct pith_pool_group *g)
{
    const struct pith_demand *q = &g->d->demand;
    return (double)q->users / (fmax(1, (double)q->gen) * g->f->step);
}

static void choose_groups(const struct pith_pool_group *read, const struct pith_pool_group *answer,
                          struct pith_pools *out)
{
    const bool priced = read->h->price > 0 && answer->h->price > 0;
    const double one = devices_of(read) * (priced ? read->h->price : 1);
    const double other = devices_of(answer) * (priced ? answer->h->price : 1);
    double least = (double)INFINITY;
    for (unsigned n = 1; n <= GROUPS; n++) {
        const double needed = fmax(1, ceil(out->ratio * n - 1e-9));
        const double cost = (needed * one + n * other) / n;
        if (cost >= least * (1 - 1e-9)) continue;
        least = cost;
        out->answer = n;
        out->read = (unsigned)fmin(needed, 1e9);
    }
    out->busy = out->ratio * out->answer / out->read;
}

void pith_pools_find(const struct pith_pool_group *read, const struct pith_pool_group *answer,
                     double link, struct pith_pools *out)
{
    const struct pith_deployment *d = answer->d;
    struct pith_cache_sums sums;
    *out = (struct pith_pools){.ratio = answers(answer) / prompts(read), .link = link};
    choose_groups(read, answer, out);
    const double all = out->read * devices_of(read) + out->answer * devices_of(answer);
    if (out->link <= 0) {
        const bool linked = read->h == answer->h && all <= answer->h->most && answer->h->link > 0;
        const double known = fmin(read->h->link > 0 ? read->h->link : network,
                                  answer->h->link > 0 ? answer->h->link : network);
        out->link = linked ? answer->h->link : fmin(known, network);
    }
    pith_weigh_cache(d->model, d->kv, d->over, d->demand.prompt, &sums);
    out->sent = sums.sequence;
    out->send = pith_links_reached.step + out->sent / fmin(devices_of(read), devices_of(answer)) /
                                              (out->link * pith_links_reached.share);
}

void pith_pools_forecast(const struct pith_pools *p, const struct pith_pool_group *read,
                         const struct pith_pool_group *answer, struct pith_forecast *out)
{
    const double readers = p->read * devices_of(read), others = p->answer * devices_of(answer);
    *out = *answer->f;
    out->first = read->f->first + p->send;
    out->rate = out->served = p->answer * answer->f->rate;
    pith_forecast_bill(out, both(read->h->watts * readers, answer->h->watts * others),
                       both(read->h->price * readers, answer->h->price * others));
}

/* --- the host's memory ------------------------------------------------------------------------ */

void pith_offload_find(const struct pith_deployment *d, const struct pith_room *r,
                       const struct pith_hardware *h, double host, struct pith_offload *out)
{
    struct pith_cache_sums sums;
    const size_t users = d->demand.users;
    pith_weigh_cache(d->model, d->kv, d->over, d->demand.prompt, &sums);
    *out = (struct pith_offload){.at_work = r->most_users < users ? r->most_users : users,
                                 .bytes = sums.sequence};
    if (r->cache.sequence > 0) out->waiting = (size_t)fmin(floor(host / r->cache.sequence), 1e9);
    out->fits = out->at_work > 0 && users - out->at_work <= out->waiting;
    out->fetch = h->host > 0 ? sums.device / (h->host * pith_links_reached.share)
                             : (double)INFINITY;
}

void pith_offload_forecast(const struct pith_offload *o, const struct pith_deployment *d,
                           const struct pith_hardware *h, struct pith_forecast *out)
{
    const double devices = (double)d->over.tensor * d->over.pipeline;
    const double gen = fmax(1, (double)d->demand.gen), n = (double)o->at_work;
    if (o->at_work >= d->demand.users) return; /* nobody waits */
    out->first = o->fetch + out->step;
    out->rate = out->served = gen / fmax(gen * out->step / n, o->fetch);
    pith_forecast_bill(out, h->watts * devices, h->price * devices);
}
