/* plan/model_bytes.h: what a model's weights and its cache take, from the layouts that are written
 * and run: a container's own tensors, or the engine's packed form. */
#ifndef PITH_PLAN_MODEL_BYTES_H
#define PITH_PLAN_MODEL_BYTES_H

#include "io/container/container.h"
#include "plan/subject.h"

/* How weights are stored in memory. */
struct pith_weight_form {
    struct pith_grid linears, embed, head;  /* format NULL: in the model's own precision */
    struct pith_grid acts;                  /* of the linears' inputs; NULL: 16 bits */
    const struct pith_container *container; /* whose tensors are counted; NULL: the grid's own */
    struct pith_container_opts opts;
    bool packed; /* as pith's engine holds them in memory, in place of a container */
    /* The grid of a linear where not all have that of `linears`; NULL: they have. */
    struct pith_grid (*grid)(const struct pith_weight_form *f, const struct pith_model *m,
                             const struct pith_matrix *of);
    const void *grid_ctx;
    const char *engine;  /* that is to load it, by whose rules groups are chosen; NULL: any */
    unsigned plain_bits; /* of vectors and routers, where these have others than the model: 32 */
};
/* The grid of a matrix in that form. */
struct pith_grid pith_form_grid(const struct pith_weight_form *f, const struct pith_plan_subject *p,
                                const struct pith_matrix *m);
/* What stands for it there, where that is a grid. */
struct pith_qspec pith_form_spec(const struct pith_weight_form *f,
                                 const struct pith_plan_subject *p, const struct pith_matrix *m);
/* Bytes of one of the matrices, scales, zero points and padding with it. */
double pith_form_bytes(const struct pith_weight_form *f, const struct pith_plan_subject *p,
                       const struct pith_matrix *m);

/* Over how many devices the model lies: each layer's matrices over `tensor` of them (of experts so
 * many each), layers over `pipeline` groups. */
struct pith_spread_over {
    unsigned tensor, pipeline;
};

struct pith_weighed {
    double class[PITH_PLAN_CLASSES], all;
    double device;  /* what the fullest device holds */
    double copies;  /* what all devices together hold more than once */
    double read;    /* what every step reads, without the experts, copies read by each device */
    double experts; /* all of them */
    double quantized_bits, quantized; /* bits of matrices on a grid, and their numbers */
};
void pith_weigh(const struct pith_plan_subject *p, const struct pith_weight_form *f,
                struct pith_spread_over over, struct pith_weighed *out);

/* How many devices a layer's matrices may lie on, at most `devices` and a divisor of it: whole
 * heads, and whole rows of every matrix. */
unsigned pith_tensor_most(const struct pith_plan_subject *p, unsigned devices);

/* Of the cache, in bytes. */
struct pith_cache_sums {
    double position; /* another position of a sequence, where no window is full */
    double sequence; /* one of `context` positions, all devices together, copies once */
    double device;   /* what the fullest device holds of it */
    double read;     /* what a step at that depth reads of it, all devices */
};
void pith_weigh_cache(const struct pith_plan_subject *p, const struct pith_kv_format *f,
                      struct pith_spread_over over, size_t context, struct pith_cache_sums *out);

/* Multiply-adds, twice: of a token through the linears and the head, and of its attention at a
 * depth. */
double pith_linear_operations(const struct pith_plan_subject *p);
double pith_attention_operations(const struct pith_plan_subject *p, double depth);
/* The share of the experts' bytes that a step of so many tokens reads, each taking some by lot. */
double pith_experts_read(const struct pith_plan_subject *p, double tokens);

#endif
