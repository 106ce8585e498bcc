/* quantize/job.h: what a run is to do: everything that is decided before its work, and const from
 * then on.
 *
 *   job.c           from options to a job       select.c    which linear gets which grid
 *   options.c       the options alone           inputs.c    what becomes of activations
 *   ends.c          the embedding and the head  convert.c   what goes over with its codes
 *   layout.c        where which tensor will lie work_folder.c  which folders, when
 *   error_limits.c  which errors are refused    memory_estimate.c  memory, before the start */
#ifndef PITH_QUANTIZE_JOB_H
#define PITH_QUANTIZE_JOB_H

#include <pith/quantize.h>

#include "base/hash.h"
#include "calib/corpus.h"
#include "calib/routed.h"
#include "export/mixture.h"
#include "export/preflight.h"
#include "model/fused.h"
#include "quant/recipe.h"
#include "quantize/site/change_basis.h"

/* What stands outside the blocks and may be quantized too. */
enum pith_end { PITH_END_EMBED, PITH_END_HEAD, PITH_END_COUNT };

/* One linear of the model and what becomes of it. */
struct pith_choice {
    char *module;           /* "model.layers.0.mlp.up_proj" */
    uint32_t layer, linear; /* its place in that layer's plan */
    uint32_t rows, cols;
    struct pith_grid grid; /* format NULL: not quantized */
    uint32_t hadamard;     /* its input is rotated online in blocks of that width; 0: it is not */
    bool prune;            /* no grid, but zeros where the split makes them */
    struct pith_grid from; /* of the input, whose values are quantized anew; format NULL: none */
    bool keeps;            /* the codes of `from`, which is on the grid already */
    const char *reason; /* why it is not quantized; NULL when it is. Static, or the option's text */
    /* When converting: */
    struct pith_grid stored; /* in the input; format NULL: not quantized there */
    bool anew;               /* the container cannot hold that: rounded to `grid` */
    bool planned;            /* its tensors have their place in the layout */
    /* The requested format, where rows are no whole blocks of it; else NULL. */
    const struct pith_format *wanted;
    bool usual;            /* the grid is the recipe's, of which nobody named the groups */
    uint32_t wanted_group; /* the recipe's, where that does not divide the rows; else 0 */
};
/* Whether its matrix is rounded or pruned. */
static inline bool pith_choice_changes(const struct pith_choice *c)
{
    return c->grid.format || c->prune;
}

/* A tensor of the output that holds several linears' matrices or biases. */
struct pith_whole {
    uint32_t layer;
    struct pith_fused_whole as;
    enum pith_dtype dtype;
    bool planned; /* it has its place in the layout */
};

struct pith_job {
    const struct pith_quantize_options *options;
    bool fast;    /* calibration multiplies bfloat16 */
    bool convert; /* the input is quantized already */
    bool dense;   /* converting: to the values that the input's codes stand for */
    bool recast;  /* ... in container_opts.model_dtype, where the model's weights have another */
    bool senses;  /* calibration text is wanted whatever the recipe needs (choose/sense.h) */
    const struct pith_guide_pass *guide_pass; /* who fills a guide (site/guide.h), or NULL */
    struct pith_backend *backend;
    struct pith_model *model;
    json_t *adapter;                  /* what was merged into it, or NULL */
    struct pith_tokenizer *tokenizer; /* NULL when nothing is calibrated */
    struct pith_recipe recipe;
    json_t *more;      /* what else its file states (quant/recipe.h), or NULL */
    bool groups_named; /* --weights names the size of groups: no other is taken */
    enum pith_experts_rule experts;
    const struct pith_container *container;
    const struct pith_mixture *mixture; /* of types, or NULL */
    struct pith_container_opts container_opts;
    struct pith_choice *choices; /* of all linears, in the order of the plans */
    size_t choice_count;
    struct pith_choice *ends;  /* [PITH_END_COUNT], behind the choices; rows 0: a tied head */
    struct pith_whole *wholes; /* tensors of several linears that the output has, by layer */
    size_t whole_count;
    struct pith_linear_grid *linears;      /* the same for the container, and lm_head ... */
    size_t linear_count;                   /* ... and unquantized matrices outside the layers */
    char *outer_names;                     /* of the latter */
    unsigned needs_transform, needs_round; /* enum pith_needs */
    bool whole_layers;                     /* experts' matrices are all in memory as floats */
    bool quantizes; /* some linear has a grid: without, the output is an ordinary checkpoint */
    struct pith_basis_plan basis_plan; /* of a transform that changes the model's basis */
    struct pith_basis basis;           /* all of its rotations empty: none does */
    struct pith_calib_set calib;
    struct pith_calib_set judge; /* held out of it where a forecast is checked; else no windows */
    /* Of a job that makes a forecast: what the run that it is for draws of the text. tokens 0: this
     * is no forecast. */
    struct pith_calib_draw other;
    struct pith_layout layout;
    uint64_t own_memory; /* the process's own memory and its heaps' holes when that was decided */
    uint64_t expected; /* the most of it that the run will hold, that included */
    char *partial;     /* "<out>.partial" */
    char *journal_path;
    char fingerprint[PITH_SHA256_HEX];
};

static inline const struct pith_choice *pith_job_choice(const struct pith_job *job, uint32_t layer,
                                                        uint32_t linear)
{
    return &job->choices[job->model->plans.first[layer] + linear];
}
static inline const struct pith_layer_plan *pith_job_plan(const struct pith_job *job,
                                                          uint32_t layer)
{
    return pith_plan(&job->model->plans, layer);
}

/* True when any stage looks at activations. */
static inline bool pith_job_calibrates(const struct pith_job *job)
{
    return (job->needs_transform | job->needs_round) != 0;
}

/* True when the recipe says what it expects to lose. */
static inline bool pith_job_predicts(const struct pith_job *job)
{
    return json_is_number(json_object_get(json_object_get(job->more, "predicted"), "kld"));
}

/* True when the recipe's rounder works on whole blocks. */
static inline bool pith_job_learns(const struct pith_job *job)
{
    return job->recipe.round->by->block != NULL;
}

/* How many layers are rounded together, of which `layer` is the first: the last of a model may be
 * fewer. */
static inline uint32_t pith_job_together(const struct pith_job *job, uint32_t layer)
{
    const uint32_t remaining = job->model->shape.layers - layer;
    const uint32_t most = pith_job_learns(job) && job->recipe.round_options.blocks
                              ? job->recipe.round_options.blocks
                              : 1;
    return most < remaining ? most : remaining;
}

/* True when the float model's activations go along with those of the quantized one. */
static inline bool pith_job_keeps_float(const struct pith_job *job)
{
    return pith_job_learns(job) || (job->needs_round & PITH_NEED_DRIFT);
}

/* True when tensors are stored in another basis than the input's. */
static inline bool pith_job_rotates(const struct pith_job *job)
{
    const struct pith_basis *b = &job->basis;
    return b->stream.dim || b->head.dim || b->o.dim || b->down.dim;
}
static inline struct pith_basis_change pith_job_basis_change(const struct pith_job *job)
{
    return (struct pith_basis_change){&job->basis, job->model, job->backend};
}
/* True when the output has a separate head where the input's is its embedding. */
static inline bool pith_job_unties(const struct pith_job *job)
{
    return job->basis.stream.dim && job->model->shape.ends.tied;
}

/* What the numbers of a tensor that stays one are rounded to: those of codes have no dtype. */
static inline enum pith_dtype pith_job_weight_dtype(const struct pith_job *job,
                                                    const struct pith_tensor *t)
{
    const bool recast = job->recast && t->dtype == job->model->shape.dtype;
    return t->lazy || recast ? job->container_opts.model_dtype : t->dtype;
}
/* The whole but for its layout; the caller sets options, convert, fast and backend before,
 * and calls pith_job_close() whether it fails or not. */
enum pith_status pith_job_open(struct pith_job *job, struct pith_error *err);
void pith_job_close(struct pith_job *job);
/* Refuses at once what could fail after hours: by the target engines' rules; and, after the layout
 * is there, by the memory ceiling, for which it sets job->own_memory and job->expected. */
enum pith_status pith_job_preflight(const struct pith_job *job, struct pith_error *err);
enum pith_status pith_job_fit(struct pith_job *job, struct pith_error *err);
/* What the job makes, as engines see it; borrowed from the job. */
struct pith_offer pith_job_offer(const struct pith_job *job);
/* What the transform of one site weighs in the progress, in windows through a block. */
double pith_job_site_effort(const struct pith_job *job);
/* Work in those units: each pass, each site's transform, and each matrix rounded. */
double pith_job_block_effort(const struct pith_job *job);

/* Fills job->recipe, job->more and job->container from the options, and what the stages
 * need. */
enum pith_status pith_job_recipe(struct pith_job *job, struct pith_error *err);
/* The recipe in full with what else its file states; a new reference, NULL when memory is out. */
json_t *pith_job_recipe_json(const struct pith_job *job);

#endif
