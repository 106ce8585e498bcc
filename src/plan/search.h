/* plan/search.h: the search for a plan: what is tried, which deployments that makes, what becomes
 * of each. Which engine loads what is known above (export/), and the caller that fills in
 * candidates looks it up there. */
#ifndef PITH_PLAN_SEARCH_H
#define PITH_PLAN_SEARCH_H

#include <pith/plan.h>

#include "base/json.h"
#include "base/str.h"
#include "plan/hardware/hardware.h"
#include "plan/split.h"
#include "quant/recipe.h"
#include "report/report.h"

enum {
    PITH_PLAN_ENGINES = 8,
    PITH_PLAN_CANDIDATES = 64,
    PITH_PLAN_TEXT = 80,
    PITH_PLAN_WHY = 320,
    PITH_PLAN_LIST = 32,
    PITH_PLAN_WEIGHED = 24,
    PITH_PLAN_OWN = 16,
    PITH_PLAN_GROUPS = 4,
    PITH_PLAN_KV_OPTIONS = 128
};

/* One way to hold the weights. */
struct pith_plan_candidate {
    char name[PITH_PLAN_TEXT]; /* the recipe; "none": as the model is; "stored": as it lies there */
    char weights[PITH_PLAN_TEXT]; /* "int4:g128:asym", "bf16" */
    char acts[PITH_PLAN_TEXT];    /* "none" */
    char option[PITH_PLAN_TEXT];  /* what pith quantize needs besides the recipe: "--weights
                                     int3:g128" */
    struct pith_recipe recipe;
    struct pith_weight_form form;
    bool quantizes;
    bool stored;                       /* the model is quantized, and stays as it lies there ... */
    const struct pith_container *lies; /* ... in that */
    double kld;             /* of this model or published for its class, NAN: not known */
    double likened;         /* of a small model by which all are compared, NAN: not known */
    const char *likened_to; /* where that is from */
    char source[160];       /* of kld */
    const char *published;
    /* By number of pith_engine_needs(), of requested engines: the container that the engine loads
     * (NULL for weights as they are), or why it loads none. */
    unsigned requested[PITH_PLAN_ENGINES]; /* for that compute capability, 1 more; 0: not yet */
    const struct pith_container *container[PITH_PLAN_ENGINES];
    char why[PITH_PLAN_ENGINES][PITH_PLAN_WHY];
    struct pith_plan_weighed { /* what was weighed before, the latest over the oldest */
        size_t engine;
        struct pith_spread_over over;
        struct pith_weighed weights;
    } weighed[PITH_PLAN_WEIGHED];
    size_t weighings;
};

/* One combination. */
struct pith_plan_case {
    struct pith_plan_candidate *c;
    size_t engine; /* number of its row */
    const struct pith_engine_need *need;
    const struct pith_container *container; /* that the engine loads; NULL: weights as they are */
    struct pith_weight_form form;
    struct pith_kv_format kv;
    char kv_name[PITH_KV_TEXT];
    char kv_options[PITH_PLAN_KV_OPTIONS]; /* what the engine is started with for it, or "" */
    uint32_t group[PITH_PLAN_GROUPS];      /* sizes of groups that linears have, least first ... */
    size_t groups;                         /* ... and how many; 0: the grid has no groups */
    struct pith_demand demand;
    unsigned devices;
};

/* Where a deployment is looked at. */
struct pith_plan_place {
    const struct pith_hardware *h; /* NULL: nowhere in particular */
    unsigned devices;              /* 0: as few as it fits on */
    double memory;                 /* of a device, 0: any */
};

/* A case that runs somewhere, and what becomes of it there. */
struct pith_plan_row {
    struct pith_plan_case k;
    struct pith_deployment d; /* of k, with the weights of r */
    struct pith_room r;
    const struct pith_hardware *h; /* NULL: nowhere in particular */
    struct pith_forecast f;        /* where there is hardware */
    /* Prompts that are read elsewhere. */
    bool pooled;
    struct pith_plan_place reads;
    unsigned reading; /* devices of a group there */
    struct pith_spread_over read_over;
    struct pith_pools pools;
    /* Caches in the host's memory. */
    bool offloads;
    struct pith_offload offload;
    double reread;     /* seconds that reading a prompt takes, in place of its cache's way back */
    const char *round; /* in place of the recipe's rounder; NULL: the recipe's */
    double score;      /* by which rows are ranked */
};

/* A case that does not run there, and why. */
struct pith_plan_ruled_out {
    const struct pith_plan_candidate *c;
    const char *engine;            /* NULL: none in particular */
    char kv[PITH_KV_TEXT];         /* "": any */
    const struct pith_hardware *h; /* NULL: nowhere in particular */
    char why[PITH_PLAN_WHY];
};

/* What would fit of a demand for which nothing does. */
enum { PITH_NEAR_USERS, PITH_NEAR_CONTEXT, PITH_NEAR_DEVICES, PITH_PLAN_NEAR };
struct pith_plan_near {
    const struct pith_plan_candidate *c; /* NULL: nothing */
    const char *engine;
    char kv[PITH_KV_TEXT];
    const struct pith_hardware *h; /* NULL: nowhere in particular */
    size_t users, context, devices;
};

struct pith_plan_search {
    const struct pith_plan_model_options *options;
    struct pith_plan_subject model;
    char name[256];
    struct pith_census census;
    struct pith_plan_candidate *candidate; /* [candidates] */
    size_t candidates;
    struct pith_plan_stored *stored; /* NULL: the model is not quantized */
    size_t context[PITH_PLAN_LIST], user_count[PITH_PLAN_LIST];
    size_t contexts, user_counts;
    struct pith_hardware *own; /* [owns]: of others, with the trees that their texts are in */
    json_t *own_text[PITH_PLAN_OWN];
    size_t owns, own_texts;
    struct pith_plan_row **row; /* [rows]: what is ranked */
    size_t rows, row_cap;
    struct pith_plan_ruled_out *out; /* [outs] */
    size_t outs, out_cap;
    struct pith_plan_near near[PITH_PLAN_NEAR]; /* what would fit of what was ruled out */
    const char *(*harm)(double kld); /* what a divergence of so many nats a token is called */
    bool failed;                     /* memory ran out for rows, or for what was ruled out */
};

/* What a quantized model has: the grid of each linear, in the order of the plans. */
struct pith_plan_stored {
    struct pith_grid *grid; /* [count] */
    size_t count;
    struct pith_grid most, embed, head; /* most: what most weights of linears have */
    struct pith_container_opts opts;
    char text[200]; /* "q4_1 91%, q6_k 9%" */
    double bits;    /* a weight of linears */
    bool lossy;     /* --requantize must be given for some (quantize/job.h) */
    double kld;     /* as its pith.json has it measured (quantize/prediction.h), else NaN */
};

/* The recipe that a plan tries by itself, from *i of the table on; NULL: no more. */
const char *pith_plan_recipe_tried(size_t *i);
/* What is known of a candidate's loss: its kld, likened, source and published. */
void pith_plan_quality_set(const struct pith_plan_search *p, struct pith_plan_candidate *c);
/* The cache that a plan tries for an engine, from *i of the table on; NULL: no more. */
const char *pith_plan_cache_tried(size_t *i, const char *engine);
/* What is expected of a cache, NAN where it was not measured. */
double pith_plan_cache_kld(const char *name);

/* The hardware of that name, of the options' own, of the file of that name, or of the table; or
 * NULL. "name" with a file of several is the first of them. */
enum pith_status pith_plan_hardware_find(struct pith_plan_search *p, const char *name,
                                         const struct pith_hardware **out, struct pith_error *err);
void pith_plan_hardware_free(struct pith_plan_search *p);
/* The same with how many, or without: "h100-sxmx8". PITH_ARG names what there is. */
enum pith_status pith_plan_place_find(struct pith_plan_search *p, const char *option,
                                      const char *text, struct pith_plan_place *out,
                                      struct pith_error *err);

/* With as few devices as it fits on (k->devices is their number), or as many as requested. */
struct pith_deployment pith_plan_deploy(const struct pith_plan_search *p, struct pith_plan_case *k,
                                        const struct pith_plan_place *at, struct pith_room *r);
/* Whether it runs there, else why not: what the engine computes of such weights. */
bool pith_plan_runs(const struct pith_plan_case *k, const struct pith_hardware *h,
                    char why[PITH_PLAN_WHY]);

/* Why the engine does not load the candidate, or computes nothing of its inputs by units of the
 * device; "" when neither. */
void pith_plan_find_reason(const struct pith_plan_candidate *c, size_t engine,
                           const struct pith_hardware *h, char why[PITH_PLAN_WHY]);
/* Whether the engine has a device of that kind; without hardware a GPU is meant. */
bool pith_plan_runs_on(const struct pith_engine_need *e, const struct pith_hardware *h);

/* Every context and number of users as a row, or as ruled out. */
enum pith_status pith_plan_demands_add(struct pith_plan_search *p, struct pith_plan_case *k,
                                       const struct pith_plan_place *at, struct pith_error *err);
/* Into p->out: the case, and why. */
void pith_plan_rule_out(struct pith_plan_search *p, const struct pith_plan_case *k,
                        const struct pith_plan_place *at, const char *why);

/* Prompts on those devices: row->f is another one then. `why` says that there are none. */
void pith_plan_pool(const struct pith_plan_search *p, const struct pith_plan_place *reads,
                    struct pith_plan_row *row, char why[PITH_PLAN_WHY]);
/* Whether the users fit where the host holds caches, on so many devices: then how, to *out. */
bool pith_plan_offloads(const struct pith_plan_search *p, const struct pith_deployment *d,
                        const struct pith_room *r, const struct pith_plan_place *at,
                        struct pith_offload *out);
/* Caches in the host's memory, where the options have some. `why` says that there are none. */
void pith_plan_offload(const struct pith_plan_search *p, const struct pith_plan_place *at,
                       struct pith_plan_row *row, char why[PITH_PLAN_WHY]);

/* Sorts p->row, the best first: speed (or tokens for money), reduced by what weights and cache
 * lose. */
void pith_plan_rank(struct pith_plan_search *p);
/* Appends why row number i of those has its place. */
void pith_plan_reason(const struct pith_plan_search *p, size_t i, struct pith_str *out);
/* What a row buys: tokens for money, or where no price is known tokens a second; NaN without. */
double pith_plan_gain(const struct pith_plan_row *row);
/* What is known of a row's loss. */
struct pith_plan_loss {
    double kld;         /* of this model or published for its class; NaN: not known */
    double likened;     /* of a small model by which all are compared; NaN: not known */
    const char *source; /* of kld */
};
struct pith_plan_loss pith_plan_loss_of(const struct pith_plan_row *row);
/* Bits a weight: the mean of the quantized ones, or the model's if none is. */
double pith_plan_bits(const struct pith_plan_row *row);
/* Whether it has the weights as they are, in 16 bits or stored quantized. */
bool pith_plan_is_plain(const struct pith_plan_row *row);
/* Whether groups have another size than the recipe's, or several, as the lengths of rows allow. */
bool pith_plan_fell_back(const struct pith_plan_case *k);
/* The grid of most weights, as text. */
void pith_plan_weights_name(const struct pith_plan_row *row, char out[PITH_PLAN_TEXT]);
/* The container of a recipe, or that in which a quantized model lies; NULL: neither. */
const struct pith_container *pith_plan_own_container(const struct pith_plan_candidate *c);
/* The container that the engine loads, if it is another than that; else NULL. */
const struct pith_container *pith_plan_other_container(const struct pith_plan_case *k);
/* Notes in p->near what part of the demand would fit where a row was refused. */
void pith_plan_near_add(struct pith_plan_search *p, const struct pith_plan_place *at,
                        const struct pith_plan_row *row);

/* What was measured of a row, in place of what is expected. */
struct pith_plan_measured {
    double kld, least, most;
    const char *harm;
};
/* Adds the members of a row, except "reason"; m may be NULL. */
void pith_plan_row_set(struct pith_report *r, const struct pith_plan_search *p,
                       const struct pith_plan_row *row, const struct pith_plan_measured *m);
/* Adds the members of the list "ruled_out". */
void pith_plan_ruled_out_set(struct pith_report *r, const struct pith_plan_search *p);
/* The report of pith plan. NULL when memory is out. */
struct pith_report *pith_plan_report(const struct pith_plan_search *p);
/* Its text. */
void pith_plan_say(struct pith_report *r, const struct pith_plan_search *p);
/* The commands that make a row's weights and serve them. */
enum pith_plan_command {
    PITH_COMMAND_MAKE, /* quantize or convert */
    PITH_COMMAND_SERVE,
    PITH_COMMAND_PREFILL, /* a server of the pool that reads prompts */
    PITH_COMMAND_ROUTE,   /* what stands before the pools */
    PITH_PLAN_COMMANDS
};
/* Appends a command's line to *out; returns its key in a report, NULL if the row has no such
 * command. */
const char *pith_plan_command(const struct pith_plan_search *p, const struct pith_plan_row *row,
                              enum pith_plan_command which, struct pith_str *out);
/* A row of the table in plan/commands.c: options for servers that read prompts, for those that
 * answer, the command of what stands before them; options for the host's memory, with the amount in
 * units of so many bytes, and whether each device is given its own part. */
struct pith_plan_serving {
    const char *engine, *read, *answer, *route, *offload;
    double unit;
    bool each;
};
/* NULL: the engine has neither. */
const struct pith_plan_serving *pith_plan_serving_find(const char *engine);

#endif
