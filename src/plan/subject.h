/* plan/subject.h: what a plan is made for: a model known by its config alone, as a list of
 * matrices. Everything that has bytes is in the list once, from the plans that the engine runs. */
#ifndef PITH_PLAN_SUBJECT_H
#define PITH_PLAN_SUBJECT_H

#include "model/model.h"

/* What the numbers of a model are counted as, in the order in which they are shown. */
enum pith_plan_class {
    PITH_PLAN_EMBED,     /* the embedding, positions, and vectors of tokens */
    PITH_PLAN_HEAD,      /* the output matrix, where it is no embedding */
    PITH_PLAN_ATTENTION, /* linears of attention, or of what stands in its place */
    PITH_PLAN_MLP,       /* linears of dense feed-forward parts and of shared experts */
    PITH_PLAN_EXPERTS,   /* linears of experts that tokens choose */
    PITH_PLAN_ROUTER,    /* linears that stay in 16 bits: routers */
    PITH_PLAN_VECTOR,    /* gains of norms, biases, filters of convolutions */
    PITH_PLAN_CLASSES
};
/* "embeddings". */
const char *pith_plan_class_name(enum pith_plan_class c);

struct pith_plan_subject {
    struct pith_model *model; /* owned: opened, or with arch, shape and plans alone */
    bool opened;
    uint64_t stored;     /* bytes of its tensors as they lie there; 0: there is a config alone */
    char shape_name[64]; /* the well-known shape that stands for it, or "" */
};
/* From a config as config.json holds it; `where` names it for messages. Fails as pith_shape_read()
 * and pith_plans_make() do; on failure *out owns nothing. */
enum pith_status pith_plan_subject_read(const json_t *config, const char *where,
                                        struct pith_plan_subject *out, struct pith_error *err);
/* The model of a path, or where there is none of that name a well-known one (plan/shapes.h);
 * PITH_ARG names those that it may mean. */
enum pith_status pith_plan_subject_find(const char *name, struct pith_plan_subject *out,
                                        struct pith_error *err);
/* Frees what p owns and zeroes it. */
void pith_plan_subject_free(struct pith_plan_subject *p);

/* Some matrices of one size, or numbers that no grid concerns. */
struct pith_matrix {
    enum pith_plan_class class;
    uint32_t layer, linear; /* PITH_NO_PART for what is outside the layers, and of vectors */
    uint32_t rows, cols;
    uint64_t count;                      /* how many of them: experts */
    const struct pith_linear_spec *spec; /* NULL: no linear of a layer */
    bool reads_out;                      /* logits are computed from it: the head, or tied */
};
typedef void pith_matrix_fn(void *ctx, const struct pith_matrix *m);
/* Calls fn for everything, in the order of the layers, then what is outside of them. */
void pith_plan_subject_walk(const struct pith_plan_subject *p, pith_matrix_fn *fn, void *ctx);

/* Numbers by class; of `all`, and of those that one token is multiplied with (of experts those that
 * it takes, no embedding unless logits are computed from it). */
struct pith_census {
    uint64_t class[PITH_PLAN_CLASSES], all;
    double active;
};
void pith_plan_subject_count(const struct pith_plan_subject *p, struct pith_census *out);

#endif
