/* plan/split.h: prompts that are read on separate devices (DistServe, Zhong et al. 2024; Splitwise,
 * Patel et al. 2024), and caches that wait in the memory of the host. */
#ifndef PITH_PLAN_SPLIT_H
#define PITH_PLAN_SPLIT_H

#include "plan/forecast.h"

/* --- pools ------------------------------------------------------------------------------------ */

/* A deployment on devices, which a pool has some of: groups. */
struct pith_pool_group {
    const struct pith_deployment *d;
    const struct pith_hardware *h;
    const struct pith_forecast *f; /* of the deployment there */
};

struct pith_pools {
    unsigned read, answer; /* groups that read prompts, groups that answer */
    double ratio;          /* of groups, if they could be divided */
    double busy;           /* the share of the time that those that read work */
    double sent;           /* bytes of the cache of a prompt, which go from one pool to the other */
    double link, send;     /* bytes a second of a device's link, and seconds that takes */
};
/* So many groups that prompts are read as fast as answers end, the cheapest (without prices: the
 * fewest devices) for what is answered, of those with up to 8 that answer. `link`: bytes a second
 * between the pools, of each device; 0: that to its neighbours where all are of one kind and may be
 * linked, else at most a network's. */
void pith_pools_find(const struct pith_pool_group *read, const struct pith_pool_group *answer,
                     double link, struct pith_pools *out);
/* What of a forecast for the group that answers is another one with them: first token, rates, cost
 * and energy of all groups together. */
void pith_pools_forecast(const struct pith_pools *p, const struct pith_pool_group *read,
                         const struct pith_pool_group *answer, struct pith_forecast *out);

/* --- the host's memory ------------------------------------------------------------------------ */

struct pith_offload {
    size_t at_work; /* users whose caches the devices hold, at most all */
    size_t waiting; /* whose caches the host's memory has room for */
    double bytes;   /* of the cache of a prompt */
    double fetch; /* seconds until it is back; reading the prompt anew takes the forecast's first */
    bool fits;    /* all users do */
};
/* `host`: bytes there for all devices of the deployment; r as pith_room_find() gave it. */
void pith_offload_find(const struct pith_deployment *d, const struct pith_room *r,
                       const struct pith_hardware *h, double host, struct pith_offload *out);
/* The forecast where the users alternate: each answer's prompt comes from the host while others are
 * at work. `out` is for those at work on entry. */
void pith_offload_forecast(const struct pith_offload *o, const struct pith_deployment *d,
                           const struct pith_hardware *h, struct pith_forecast *out);

#endif
