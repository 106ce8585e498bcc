/* api/plan.h: the parts of pith plan: what is tried, and what becomes of it. */
#ifndef PITH_API_PLAN_H
#define PITH_API_PLAN_H

#include <pith/plan.h>

#include "base/json.h"
#include "base/str.h"
#include "export/preflight.h"
#include "plan/hardware.h"
#include "plan/split.h"
#include "quant/recipe.h"

enum {
    PLAN_ENGINES = 8,
    PLAN_CANDIDATES = 64,
    PLAN_TEXT = 80,
    PLAN_WHY = 320,
    PLAN_LIST = 32,
    PLAN_WEIGHED = 24,
    PLAN_OWN = 16
};

/* One way to hold the weights. */
struct plan_candidate {
    char name[PLAN_TEXT];    /* the recipe; "none": as the model is; "stored": as it lies there */
    char weights[PLAN_TEXT]; /* "int4:g128:asym", "bf16" */
    char acts[PLAN_TEXT];    /* "none" */
    char
        option[PLAN_TEXT]; /* what pith quantize is told beside the recipe: "--weights int3:g128" */
    struct pith_recipe recipe;
    struct pith_weight_form form;
    bool quantizes;
    bool stored;                       /* the model is quantized, and stays as it lies there ... */
    const struct pith_container *lies; /* ... in that */
    double kld;       /* of this model or published for its class, NAN: not known */
    double likened;   /* of a model that all are compared on, NAN: not measured */
    char source[160]; /* of kld */
    const char *published;
    /* By number of pith_engine_needs(), filled in by plan_candidate_ask(): the container that the
     * engine loads (NULL for weights as they are), or why it loads none. */
    unsigned asked[PLAN_ENGINES]; /* for that compute capability, 1 more; 0: not yet */
    const struct pith_container *container[PLAN_ENGINES];
    char why[PLAN_ENGINES][PLAN_WHY];
    struct plan_weighed { /* what was weighed before, the latest over the oldest */
        size_t engine;
        struct pith_spread_over over;
        struct pith_weighed weights;
    } weighed[PLAN_WEIGHED];
    size_t weighings;
};

/* One combination. */
struct plan_case {
    struct plan_candidate *c;
    size_t engine; /* number of its row */
    const struct pith_engine_need *need;
    struct pith_weight_form form;
    struct pith_kv_format kv;
    char kv_name[PITH_KV_TEXT];
    struct pith_demand demand;
    unsigned devices;
};

struct plan_made {
    const struct pith_plan_model_options *options;
    struct pith_plan_subject model;
    char name[256];
    struct pith_census census;
    struct plan_candidate *candidate; /* [candidates] */
    size_t candidates;
    struct plan_stored *stored; /* NULL: the model is not quantized */
    size_t context[PLAN_LIST], user_count[PLAN_LIST];
    size_t contexts, user_counts;
    struct pith_hardware *own; /* [owns]: of others, with the trees that their texts are in */
    json_t *own_text[PLAN_OWN];
    size_t owns, own_texts;
    json_t *rows, *out; /* what is ranked, and what was ruled out */
    json_t *near;       /* what would fit of what does not */
};

/* Where a deployment is looked at. */
struct plan_place {
    const struct pith_hardware *h; /* NULL: nowhere in particular */
    unsigned devices;              /* 0: as few as it fits on */
    double memory;                 /* of a device, 0: any */
};

/* A row as it comes to be. */
struct plan_row {
    struct pith_deployment d;
    struct pith_room r;
    const struct pith_hardware *h; /* NULL: nowhere in particular */
    struct pith_forecast f;        /* where there is hardware */
    /* Prompts that are read elsewhere. */
    bool pooled;
    struct plan_place reads;
    unsigned reading; /* devices of a group there */
    struct pith_spread_over read_over;
    struct pith_pools pools;
    /* Caches in the host's memory. */
    bool offloads;
    struct pith_offload offload;
    double reread; /* seconds that reading a prompt takes, in place of its cache's way back */
};

/* What a quantized model has: the grid of each linear, in the order of the plans. */
struct plan_stored {
    struct pith_grid *grid; /* [count] */
    size_t count;
    struct pith_grid most, embed, head; /* most: what most weights of linears have */
    struct pith_container_opts opts;
    char text[200];  /* "q4_1 91%, q6_k 9%" */
    double bits;     /* a weight of linears */
    bool lossy;      /* --requantize must be said of some (quantize/job.h) */
    json_t *account; /* pith.json, where it has one, else NULL */
};
/* Fills p->stored, NULL when the model is not quantized. */
enum pith_status plan_stored_open(struct plan_made *p, struct pith_error *err);
void plan_stored_free(struct plan_made *p);
/* The form of its weights, or of what pith convert makes of it in another container. */
void plan_stored_form(const struct plan_made *p, const struct pith_container *container,
                      struct pith_weight_form *out);
/* Whether pith convert can put all of it there with its codes. */
bool plan_stored_converts(const struct plan_made *p, const struct pith_container *container);
/* {"container", "grids", "bits_per_weight", "bytes", "can_change"}, a new reference. */
json_t *plan_stored_report(const struct plan_made *p);

/* The candidates that the options name, or those that a plan tries by itself. */
enum pith_status plan_candidates_make(struct plan_made *m, struct pith_error *err);

/* Whether that engine loads it there (h NULL: anywhere): c->why is empty then. */
enum pith_status plan_candidate_ask(const struct plan_made *m, struct plan_candidate *c,
                                    size_t engine, const struct pith_hardware *h,
                                    struct pith_error *err);

/* How its weights lie in that container (NULL: in the recipe's) for an engine. */
void plan_form(const struct plan_made *p, const struct plan_candidate *c, const char *engine,
               const struct pith_container *container, struct pith_weight_form *out);
/* Sizes of groups that linears have in that form, least first; none where the grid has no groups.
 */
enum { PLAN_GROUPS = 4 };
size_t plan_groups(const struct plan_made *p, const struct pith_weight_form *f,
                   uint32_t size[PLAN_GROUPS]);

/* The cache that a plan tries for an engine, from *i of the table on; NULL: no more. */
const char *plan_cache_tried(size_t *i, const char *engine);
/* What is expected of a cache, NAN where it was not measured. */
double plan_cache_kld(const char *name);

/* The hardware of that name, of the options' own, of the file of that name, or of the table; or
 * NULL. "name" with a file of several is the first of them. */
enum pith_status plan_hardware_find(struct plan_made *p, const char *name,
                                    const struct pith_hardware **out, struct pith_error *err);
void plan_hardware_free(struct plan_made *p);
/* The same with how many, or without: "h100-sxmx8". PITH_ARG names what there is. */
enum pith_status plan_place_find(struct plan_made *p, const char *option, const char *text,
                                 struct plan_place *out, struct pith_error *err);
/* The model of a path, or where there is none of that name a well-known one. */
enum pith_status plan_model_open(const char *name, struct pith_plan_subject *out,
                                 struct pith_error *err);

/* With as few devices as it fits on (k->devices says how many), or as many as were asked for. */
struct pith_deployment plan_deploy(const struct plan_made *p, struct plan_case *k,
                                   const struct plan_place *at, struct pith_room *r);
/* Whether it runs there, else why not: what the engine computes of such weights. */
bool plan_runs(const struct plan_case *k, const struct pith_hardware *h, char why[PLAN_WHY]);

/* Prompts on those devices: row->f is another one then. `why` says that there are none. */
void plan_pool(const struct plan_made *p, const struct plan_case *k, const struct plan_place *reads,
               struct plan_row *row, char why[PLAN_WHY]);
/* Whether the users fit where the host holds caches, on so many devices: then how, to *out. */
bool plan_offloads(const struct plan_made *p, const struct pith_deployment *d,
                   const struct pith_room *r, const struct plan_place *at,
                   struct pith_offload *out);
/* Caches in the host's memory, where the options have some. `why` says that there are none. */
void plan_offload(const struct plan_made *p, const struct plan_place *at, struct plan_row *row,
                  char why[PLAN_WHY]);
/* "pools" and "offload" of a row, and its other keys that these concern. */
void plan_split_set(json_t **j, const struct plan_made *p, const struct plan_row *row);

/* Fills p->rows and p->out. */
enum pith_status plan_rows_make(struct plan_made *p, struct pith_error *err);
/* Puts the best row first, and a reason in each: the speed (or tokens for money) by what the
 * weights and the cache lose. */
enum pith_status plan_rank(struct plan_made *p, struct pith_error *err);
/* What a row buys: tokens for money, or where no price is known tokens a second; NaN without. */
double plan_gain(const json_t *row);
/* What a divergence of so many nats a token is called. */
const char *plan_harm(double kld);
/* What this model is known or published to lose in a row; NaN: not known. */
double plan_kld(const json_t *row);
/* A text as a word of a command line. */
void plan_quote(const char *text, struct pith_str *out);
/* The container of a recipe, or that in which a quantized model lies; NULL: neither. */
const struct pith_container *plan_own_container(const struct plan_candidate *c);
/* Of a case that was refused, what of the demand would fit: into p->near. */
void plan_near_add(struct plan_made *p, const struct plan_case *k, const struct plan_place *at,
                   const struct plan_row *row);
/* Leaves the most users, the longest context and the fewest devices of it. */
void plan_near_settle(struct plan_made *p);
/* {"quantize", "serve"}, with pools "prefill" and "route": a new reference. */
json_t *plan_commands(const struct plan_made *p, const struct plan_case *k,
                      const struct plan_row *row);
/* A row of plan/serving.def; NULL: the engine has neither. */
struct plan_serving {
    const char *engine, *read, *answer, *route, *offload;
    double unit;
    bool each;
};
const struct plan_serving *plan_serving_find(const char *engine);

#endif
