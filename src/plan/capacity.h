/* plan/capacity.h: whether a model fits, for how many users and how far. */
#ifndef PITH_PLAN_CAPACITY_H
#define PITH_PLAN_CAPACITY_H

#include "plan/model_bytes.h"

/* A row of the table in plan/capacity.c. */
struct pith_engine_need {
    const char *name;
    double base, mixture;      /* bytes on every device before a weight is loaded; of mixtures */
    double link;               /* ... for talking to others, where there are any */
    size_t chunk;              /* tokens computed at once, at most */
    double memory, arithmetic; /* what it reaches of a device's bandwidth and operations */
    double layer_seconds;      /* that a layer takes in addition to its bytes: starting kernels */
    bool shards;               /* lays matrices over devices, else layers */
    bool gpu, cpu;             /* where it runs */
    const char *source;
};
const struct pith_engine_need *pith_engine_needs(size_t *count);
/* By the name that --for knows, and "pith"; NULL when there is none. */
const struct pith_engine_need *pith_engine_need_find(const char *name);

/* What is to be served. */
struct pith_demand {
    size_t context; /* positions of each user's cache, prompt and answer together */
    size_t users;   /* at once */
    size_t prompt, gen;
};

struct pith_deployment {
    const struct pith_plan_subject *model;
    const struct pith_weight_form *form;
    const struct pith_kv_format *kv;
    const struct pith_engine_need *engine;
    struct pith_demand demand;
    struct pith_spread_over over;
    double memory;                      /* usable bytes of one device; 0: not known */
    unsigned threads;                   /* of pith's there; 0: not known, one */
    const struct pith_weighed *weights; /* of that form over these; NULL: weighed anew */
};

struct pith_room {
    struct pith_weighed weights;
    struct pith_cache_sums cache;
    double scratch, base;       /* work space and the engine's own, of one device */
    double cache_all;           /* of all users, all devices, copies too */
    double overhead_all, total; /* all devices */
    double device;              /* what the fullest device holds */
    bool fits;
    /* With the other as requested; 0: not even one. Of the context at most what the model was made
     * for. Without memory they are 0. */
    size_t most_users, most_context;
};
void pith_room_find(const struct pith_deployment *d, struct pith_room *out);

/* The most users at another context, the rest as it was when r was found. */
size_t pith_room_users(const struct pith_deployment *d, const struct pith_room *r, size_t context);

/* Lays the model over so many devices: what shards gets as many as divide its heads, the rest are
 * groups of layers. */
struct pith_spread_over pith_spread_devices(const struct pith_plan_subject *p,
                                            const struct pith_engine_need *e, unsigned devices);

#endif
