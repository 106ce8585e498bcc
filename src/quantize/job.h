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
#include "quantize/change_basis.h"

/* What stands outside the blocks and may be quantized too. */
enum pith_end { PITH_END_EMBED, PITH_END_HEAD, PITH_END_COUNT };

/* One linear of the model and what becomes of it. */
struct pith_choice {
    char *module;           /* "model.layers.0.mlp.up_proj" */
    uint32_t layer, linear; /* its place in that layer's plan */
    uint32_t rows, cols;
    struct pith_grid grid; /* format NULL: left alone */
    uint32_t hadamard;     /* its input is rotated online in blocks of that width; 0: it is not */
    bool prune;            /* no grid, but zeros where the split makes them */
    struct pith_grid from; /* of the input, whose values are quantized anew; format NULL: none */
    bool keeps; /* the codes of `from`, which is on the grid already */
    const char
        *reason; /* why it is left alone; NULL when quantized. Static, or the option's text */
    /* When converting: */
    struct pith_grid stored; /* in the input; format NULL: not quantized there */
    bool anew;               /* the container cannot hold that: rounded to `grid` */
    bool planned;            /* its tensors have their place in the layout */
    /* What was asked for, where rows are no whole blocks of it; else NULL. */
    const struct pith_format *wanted;
    bool usual;            /* the grid is the recipe's, of which nobody named the groups */
    uint32_t wanted_group; /* the recipe's, where that does not divide the rows; else 0 */
};

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
    const struct pith_guide_pass *guide_pass; /* who fills a guide (quantize/guide.h), or NULL */
    struct pith_backend *backend;
    struct pith_model *model;
    json_t *adapter;                  /* what was merged into it, or NULL */
    struct pith_tokenizer *tokenizer; /* NULL when nothing is calibrated */
    struct pith_recipe recipe;
    json_t *more;      /* what its file says beside it (quant/recipe.h), or NULL */
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
    size_t linear_count;                   /* ... and matrices beside the layers, left alone */
    char *beside_names;                    /* of the latter */
    unsigned needs_transform, needs_round; /* enum pith_needs */
    bool whole_layers;                     /* experts' matrices are held as floats all at once */
    bool quantizes; /* some linear has a grid: without, the output is an ordinary checkpoint */
    struct pith_basis_plan basis_plan; /* of a transform that changes the model's basis */
    struct pith_basis basis;           /* all of its rotations empty: none does */
    struct pith_calib_set calib;
    struct pith_calib_set judge; /* held out of it where a forecast is checked; else no windows */
    /* Of a job that makes a forecast: what the run that it is for draws of the text. tokens 0: this
     * is no forecast. */
    struct pith_calib_draw other;
    struct pith_layout layout;
    uint64_t held;     /* the process's own memory and its heaps' holes when that was decided */
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
static inline bool pith_job_foretells(const struct pith_job *job)
{
    return json_is_number(json_object_get(json_object_get(job->more, "predicted"), "kld"));
}

/* True when the recipe's rounder works on whole blocks. */
static inline bool pith_job_learns(const struct pith_job *job)
{
    return job->recipe.round->block != NULL;
}

/* How many layers are rounded together, of which `layer` is the first: the last of a model may be
 * fewer. */
static inline uint32_t pith_job_together(const struct pith_job *job, uint32_t layer)
{
    const uint32_t left = job->model->shape.layers - layer;
    const uint32_t most = pith_job_learns(job) && job->recipe.round_options.blocks
                              ? job->recipe.round_options.blocks
                              : 1;
    return most < left ? most : left;
}

/* True when the float model's activations go along with those of the quantized one. */
static inline bool pith_job_keeps_float(const struct pith_job *job)
{
    return pith_job_learns(job) || (job->needs_round & PITH_NEED_DRIFT);
}

/* True when tensors are stored in another basis than the input's. */
static inline bool pith_job_turns(const struct pith_job *job)
{
    const struct pith_basis *b = &job->basis;
    return b->stream.dim || b->head.dim || b->o.dim || b->down.dim;
}
static inline struct pith_turn pith_job_turn(const struct pith_job *job)
{
    return (struct pith_turn){&job->basis, job->model, job->backend};
}
/* Whether the output has a head of its own where the input's is its embedding. */
static inline bool pith_job_unties(const struct pith_job *job)
{
    return job->basis.stream.dim && job->model->shape.tied;
}

/* requantize.c: says of a linear whose grid is chosen what the input has it on (`from`), and
 * whether its codes stay (`keeps`). PITH_UNSUPPORTED for one of few bits that nobody asked to
 * quantize again. */
enum pith_status pith_job_requantize(const struct pith_job *job, struct pith_choice *c,
                                     struct pith_error *err);
/* Whether that many weights on a grid (format NULL: on none) have lost so much that nobody is to
 * quantize them again unasked: --requantize. */
bool pith_grid_is_lossy(const struct pith_grid *grid, uint32_t rows, uint32_t cols);
/* What the numbers of a tensor that stays one are rounded to: those of codes have no dtype. */
static inline enum pith_dtype pith_job_weight_dtype(const struct pith_job *job,
                                                    const struct pith_tensor *t)
{
    const bool recast = job->recast && t->dtype == job->model->shape.dtype;
    return t->lazy || recast ? job->container_opts.model_dtype : t->dtype;
}
/* layout.c: what a tensor is stored as that the output has from the input. */
enum pith_dtype pith_job_copy_dtype(const struct pith_job *job, const struct pith_tensor *t);
/* job.c: the whole but for its layout; the caller says options, convert, fast and backend before,
 * and calls pith_job_close() whether it fails or not. */
enum pith_status pith_job_open(struct pith_job *job, struct pith_error *err);
void pith_job_close(struct pith_job *job);
/* Refuses at once what could fail after hours: the target engines' rules; after the layout is
 * there, the memory ceiling, of which job->held and job->expected are told. */
enum pith_status pith_job_preflight(const struct pith_job *job, struct pith_error *err);
enum pith_status pith_job_fit(struct pith_job *job, struct pith_error *err);
/* What the job makes, as engines see it; borrowed from the job. */
struct pith_offer pith_job_offer(const struct pith_job *job);
/* What the transform of one site weighs in the progress, in windows through a block. */
double pith_job_site_effort(const struct pith_job *job);
/* Work in those units: each pass, each site's transform, and each matrix rounded. */
double pith_job_block_effort(const struct pith_job *job);

/* journal.c: identifies the job: input, recipe, options, calibration, version. */
enum pith_status pith_journal_fingerprint(struct pith_job *job, struct pith_error *err);

/* work_folder.c: names the folder to work in: "<out>.partial" or "<out>.rehearsal". */
enum pith_status pith_place_name(struct pith_job *job, struct pith_error *err);
/* Whether `out`, or an unfinished run on the way to it, is there; true when memory is out. */
bool pith_place_is_begun(const struct pith_quantize_options *o);
/* Where the account of a finished model lies: in its folder, or beside its file
 * ("NAME.pith.json"); pith_free() it, NULL when memory is out. */
char *pith_account_path(const char *model);
/* PITH_IO when what is there already forbids this run. */
enum pith_status pith_place_check(const struct pith_job *job, struct pith_error *err);
/* When `out` is this very job's finished result (a run may be killed after its last step), *report
 * receives its account, a new reference, and what the run left beside it goes. PITH_IO when `out`
 * is anything else; no report when there is none. */
enum pith_status pith_place_published(const struct pith_job *job, json_t **report,
                                      struct pith_error *err);
/* Removes from `dir` what only an unfinished run needs; the journal only when asked. */
enum pith_status pith_place_sweep(const struct pith_job *job, const char *dir, bool journal,
                                  struct pith_error *err);

/* options.c: what can be said of the options without looking at a model; *plan receives
 * {"recipe": in full, "container", "calibrates", "file"}. Statuses as of pith_quantize(). */
enum pith_status pith_job_check_options(const struct pith_quantize_options *o, bool convert,
                                       json_t **plan, struct pith_error *err);
/* The names in job->options->targets: PITH_ARG. */
enum pith_status pith_job_check_targets(const struct pith_job *job, struct pith_error *err);
/* job.c: fills job->recipe, job->more and job->container from the options, and what the stages
 * need. */
enum pith_status pith_job_recipe(struct pith_job *job, struct pith_error *err);
/* The recipe in full with what its file says beside it; a new reference, NULL without memory. */
json_t *pith_job_recipe_json(const struct pith_job *job);

/* account.c: names of what the calibration text was read from, "builtin" for the text that ships;
 * and which of its tokens, all sources one after the other, a set's windows have: [from, to) each,
 * those that touch as one. New references, NULL without memory. */
json_t *pith_job_sources(const struct pith_job *job);
json_t *pith_job_offsets(const struct pith_calib_set *set);

/* select.c: whether each --override can be read; *needs gains what their grids need. */
enum pith_status pith_select_check(const struct pith_job *job, unsigned *needs,
                                   struct pith_error *err);
/* select.c: fills job->choices from the recipe, --ignore and --override; checks that the container
 * can hold each. PITH_ARG for a pattern that matches no linear. */
enum pith_status pith_job_select(struct pith_job *job, struct pith_error *err);
/* Whether some linear has smaller groups than the recipe's, which do not divide its rows. */
bool pith_job_falls(const struct pith_job *job);
/* Frees what pith_job_select() made, also when it failed half way. */
void pith_job_unselect(struct pith_job *job);

/* inputs.c: takes what the recipe says of the linears' inputs into the container's options and the
 * needs of the job. PITH_ARG when its parts do not go together. */
enum pith_status pith_inputs_settle(struct pith_job *job, struct pith_error *err);
/* PITH_UNSUPPORTED when the inputs of that linear cannot be treated so. */
enum pith_status pith_inputs_check(const struct pith_job *job, const struct pith_choice *c,
                                   struct pith_error *err);
/* True when the scales of keys and values are to be found and stored. */
bool pith_inputs_kv(const struct pith_job *job);
/* ... in a layer that keeps them. */
bool pith_inputs_kv_of(const struct pith_job *job, uint32_t layer);
/* Whether each head has one, and how many of keys there are. */
bool pith_inputs_kv_by_head(const struct pith_job *job);
uint32_t pith_inputs_kv_scales(const struct pith_job *job, uint32_t layer);
/* PITH_UNSUPPORTED when the container cannot hold what the input of a conversion says of inputs,
 * keys and values. */
enum pith_status pith_inputs_converts(const struct pith_job *job, struct pith_error *err);
/* The name of one of them: which is 0 for keys, 1 for values. */
enum { PITH_KV_NAME = 96 };
void pith_inputs_kv_name(const struct pith_job *job, uint32_t layer, int which,
                         char name[PITH_KV_NAME]);
/* What is done to the input of a site's linears; stats as gathered for rounding them, NULL when
 * job->needs_round is 0. */
struct pith_input pith_inputs_make(const struct pith_job *job, const struct pith_choice *c,
                                   const struct pith_stats *stats);

/* ends.c: "model.embed_tokens", "lm_head", as the architecture calls them; and their weights. */
enum { PITH_END_NAME = 64 };
const char *pith_end_module(const struct pith_model *m, enum pith_end end);
void pith_end_tensor(const struct pith_model *m, enum pith_end end, char name[PITH_END_NAME]);
/* The embedding's or head's choice whose tensor that is, or NULL. */
const struct pith_choice *pith_job_end(const struct pith_job *job, const char *tensor);
/* Names and sizes of job->ends, and what the input stores. */
enum pith_status pith_ends_list(struct pith_job *job, struct pith_error *err);
/* Whether the container can hold them quantized; then, what they are by default. */
bool pith_ends_may(const struct pith_job *job);
void pith_ends_default(const struct pith_job *job, struct pith_choice *c);

/* memory_estimate.c: the most own memory (anonymous pages, whoever asked for them) that the process
 * will hold: job->held, which is measured, and what the run takes from then on, asked of those who
 * take it. After pith_job_layout(). What is measured differs by some pages from one start of the
 * program to the next: less than PITH_MEASURED_TO (base/mem.h), which is counted in. */
uint64_t pith_job_estimate(const struct pith_job *job);
/* Of it: the codes of a linear with what is kept beside them; the work of splitting and rounding
 * it, its floats, statistics and codes not counted. */
uint64_t pith_job_made_bytes(const struct pith_job *job, const struct pith_choice *c);
uint64_t pith_job_rounding_bytes(const struct pith_job *job, const struct pith_choice *c);
/* Of it: what transforming a layer takes beside its block. */
uint64_t pith_job_transform_bytes(const struct pith_job *job, uint32_t layer);
/* Bytes of a linear's tensor in the input, and of the copy that its rows are put in order in, 0
 * where they lie so. */
uint64_t pith_job_tensor_bytes(const struct pith_job *job, const struct pith_choice *c);
uint64_t pith_job_straight_bytes(const struct pith_job *job, const struct pith_choice *c);

/* joined_tensors.c: finds job->wholes: where no linear of a tensor of several is quantized or
 * pruned, the output has it as the input does, or, when that is a file with a form of its own, as
 * the architecture is published if that is in one way. None in an output that is one file. */
enum pith_status pith_job_wholes(struct pith_job *job, struct pith_error *err);
/* That which a linear's matrix, or bias, goes into; NULL: it stands by itself. The same of a tensor
 * of the input. */
struct pith_whole *pith_job_whole(const struct pith_job *job, uint32_t layer, uint32_t linear,
                                  bool bias);
struct pith_whole *pith_job_tensor_whole(const struct pith_job *job, const char *tensor);
/* Bytes that storing one of a layer's takes when it is made anew, 0: it has none. */
uint64_t pith_store_whole_bytes(const struct pith_job *job, uint32_t layer);
/* What a matrix outside of the blocks takes whose values are stored and whose codes are read. */
uint64_t pith_store_outer_bytes(const struct pith_job *job);

/* layout.c: what the output will hold, and where: job->layout. */
enum pith_status pith_job_layout(struct pith_job *job, struct pith_error *err);
/* Whether a tensor of the input has no place in the output: nobody reads it, or it is a buffer that
 * can be computed, where that is one file. */
bool pith_job_leaves_out(const struct pith_job *job, const char *tensor);
/* The choice whose tensor of the input that is, biases aside, or NULL. */
const struct pith_choice *pith_job_tensor_choice(const struct pith_job *job, const char *tensor);

/* stream.c: true when the run's linears can be rounded some rows at a time: nothing looks at
 * activations, nothing is transformed or split, no scale is for a whole matrix. */
bool pith_job_streams(const struct pith_job *job);
/* Whether products with what is made want pith_backend_take_prepared(). */
bool pith_job_prepares(const struct pith_job *job);
/* Bytes that they take at most. */
uint64_t pith_stream_end_bytes(const struct pith_job *job, unsigned threads);
uint64_t pith_stream_layer_bytes(const struct pith_job *job, uint32_t layer, unsigned threads);
/* Bytes that storing a linear takes beside its codes: the packed form, or what is read back. */
uint64_t pith_store_linear_bytes(const struct pith_job *job, const struct pith_choice *c);

/* convert.c: finds out what the input stores: choices[].stored, and what it says of the container's
 * options. PITH_UNSUPPORTED for a quantized head. */
enum pith_status pith_convert_describe(struct pith_job *job, struct pith_error *err);
/* A matrix on a grid, and what is told of the whole model. */
struct pith_convert_case {
    const struct pith_grid *from;
    uint32_t rows, cols;
    const struct pith_container_opts *opts;
};
/* Whether the container can hold such a matrix with its codes: on its own grid, or on the one of
 * least bits to which they can go (num/recode.h). *out is that grid. */
bool pith_convert_holds(const struct pith_container *c, const struct pith_convert_case *x,
                        struct pith_grid *out);
/* Decides whether the container takes a linear as it is stored or as the recipe's grid.
 * PITH_UNSUPPORTED when neither is possible. */
enum pith_status pith_convert_choose(const struct pith_job *job, struct pith_choice *c,
                                     struct pith_error *err);
/* Bytes that it takes at most. */
uint64_t pith_convert_bytes(const struct pith_job *job);

/* error_limits.c: PITH_NUMERIC for a linear that is further from its original (||W - Q|| / ||W||)
 * than the options allow; 0.5 where they say nothing. */
enum pith_status pith_judge(const struct pith_job *job, const struct pith_choice *c, double error,
                            struct pith_error *err);
/* What is told and not refused of linears: where their losses are those of outputs {"linear",
 * "loss_share", "limit"} of those that carry far more than their share, else {"linear",
 * "relative_error", "limit"} of those above 0.3. A new reference. */
json_t *pith_judge_warnings(const json_t *linears, bool outputs);

#endif
