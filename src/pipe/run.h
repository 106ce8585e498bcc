/* pipe/run.h: the state of one quantization run, shared by the files of pipe/.
 *
 *   run.c      the order of steps            select.c   which linear gets which grid
 *   check.c    the options alone
 *   outer.c    what stands outside the blocks
 *   turn.c     the model in another basis
 *   output.c   layout, config, side files    block.c    one block: transform, split, grid, round
 *   learn.c    a block that is rounded as a whole
 *   stream.c   a block that needs no more than its weights, some rows at a time
 *   ends.c     the embedding and the head, where they are quantized
 *   convert.c  a block that is quantized already, for another container
 *   store.c    pack, write, read back        journal.c  what is done, for --resume
 *   intact.c   the files against the journal source.c   the input against the journal
 *   estimate.c memory, before the start      account.c  pith.json
 *   inputs.c   what becomes of activations   judge.c    which errors are refused
 *   place.c    which folders, when           verify.c   the same questions, asked of a finished
 *                                                       folder */
#ifndef PITH_PIPE_RUN_H
#define PITH_PIPE_RUN_H

#include <pith/quantize.h>

#include "base/async.h"
#include "base/file.h"
#include "base/hash.h"
#include "calib/corpus.h"
#include "calib/stages.h"
#include "export/mixture.h"
#include "export/preflight.h"
#include "pipe/learn.h"
#include "pipe/phases.h"
#include "pipe/turn.h"
#include "quant/recipe.h"

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
    const char
        *reason; /* why it is left alone; NULL when quantized. Static, or the option's text */
    /* When converting: */
    struct pith_grid stored; /* in the input; format NULL: not quantized there */
    bool anew;               /* the container cannot hold that: rounded to `grid` */
    bool planned;            /* its tensors have their place in the layout */
    /* What was asked for, where rows are no whole blocks of it; else NULL. */
    const struct pith_format *wanted;
};

/* A tensor as it lies in the output. */
struct pith_stored {
    const char *name; /* the layout's */
    uint64_t bytes;
    char sha256[PITH_SHA256_HEX];
};

/* What became of one linear, from rounding to reading back. */
struct pith_linear_result {
    struct pith_round_report report;
    double relative_error, bits_per_weight;
    char sha256[PITH_SHA256_HEX]; /* of the dequantized weights */
    struct pith_stored stored[PITH_MAX_PACKED];
    unsigned stored_count;
    uint64_t memory, mapped; /* bytes, anonymous and of mapped files, when the most was held */
};

/* A tensor of the input on its way to the output, unchanged. */
struct pith_copy {
    const struct pith_tensor *tensor;
    const char *reason;
    struct pith_stored stored;
    enum pith_status status;
    struct pith_error err;
};

/* The last finished unit, while it is being made safe: activations hashed, shards synced, the
 * journal's line written, beside the next unit's work. */
struct pith_finish {
    struct pith_async *job;
    json_t *unit;                      /* owned; the job's alone while it runs */
    const struct pith_acts *acts;      /* what the unit leaves behind, or NULL */
    struct pith_acts left, left_float; /* left_float.x: NULL when there is none */
};

struct pith_run {
    const struct pith_quantize_options *options;
    bool fast;    /* calibration multiplies bfloat16 */
    bool convert; /* the input is quantized already */
    struct pith_backend *backend;
    struct pith_model *model;
    struct pith_tokenizer *tokenizer; /* NULL when nothing is calibrated */
    struct pith_recipe recipe;
    enum pith_experts_rule experts;
    const struct pith_container *container;
    const struct pith_mixture *mixture; /* of types, or NULL */
    struct pith_container_opts container_opts;
    struct pith_choice *choices; /* of all linears, in the order of the plans */
    size_t choice_count;
    struct pith_choice *ends; /* [PITH_END_COUNT], behind the choices; rows 0: a tied head */
    struct pith_linear_grid *linears;      /* the same for the container, and lm_head */
    unsigned needs_transform, needs_round; /* enum pith_needs */
    bool quantizes; /* some linear has a grid: without, the output is an ordinary checkpoint */
    struct pith_basis_plan basis_plan; /* of a transform that changes the model's basis */
    struct pith_basis basis;           /* all of its rotations empty: none does */

    char *partial; /* "<out>.partial" */
    char *journal_path;
    bool owns_partial; /* what is in it is this job's */
    int lock;          /* on the folder, -1 when it is not held */
    char fingerprint[PITH_SHA256_HEX];
    char chain[PITH_SHA256_HEX]; /* of the journal's last line */
    struct pith_layout layout;
    struct pith_out *shards;         /* [layout.shards] */
    struct pith_stamp *reread;       /* [layout.shards], from before they were read back, or NULL */
    struct pith_checkpoint *written; /* the partial folder, open for reading back */
    void *written_state;             /* its container's */

    struct pith_calib_set calib;
    struct pith_collector collector;
    struct pith_scratch_file acts_file[2];
    struct pith_acts acts[2]; /* a block reads one and writes the other */
    struct pith_learn learn;
    struct pith_scratch_file between; /* for struct pith_stages; no data: computed again */

    json_t *units;   /* journal entries of finished units: "outer", then a block each */
    size_t unit_now; /* the unit at work */
    struct pith_finish finish;
    struct pith_async *reading; /* of the next unit's weights, ahead of their use */
    size_t reading_layer;
    struct pith_phases phases;
    double started;
    double work_done, work_total;
    uint64_t peak_anonymous, peak_mapped; /* bytes, as seen at each step */
};

static inline struct pith_choice *pith_run_choice(const struct pith_run *r, uint32_t layer,
                                                  uint32_t linear)
{
    return &r->choices[r->model->plans.first[layer] + linear];
}
static inline const struct pith_layer_plan *pith_run_plan(const struct pith_run *r, uint32_t layer)
{
    return pith_plan(&r->model->plans, layer);
}

/* True when any stage looks at activations. */
static inline bool pith_run_calibrates(const struct pith_run *r)
{
    return (r->needs_transform | r->needs_round) != 0;
}

/* True when a block's matrices are held as floats all at once, experts and all. */
static inline bool pith_run_whole_layers(const struct pith_run *r)
{
    const struct pith_basis *b = &r->basis;
    return r->needs_transform || b->stream.dim || b->head.dim || b->o.dim || b->down.dim ||
           pith_learn_needed(&r->recipe);
}

/* True when tensors are stored in another basis than the input's. */
static inline bool pith_run_turns(const struct pith_run *r)
{
    const struct pith_basis *b = &r->basis;
    return b->stream.dim || b->head.dim || b->o.dim || b->down.dim;
}
static inline struct pith_turn pith_run_turn(const struct pith_run *r)
{
    return (struct pith_turn){&r->basis, r->model, r->backend};
}
/* Whether the output has a head of its own where the input's is its embedding. */
static inline bool pith_run_unties(const struct pith_run *r)
{
    return r->basis.stream.dim && r->model->shape.tied;
}

/* place.c: names the folder to work in: "<out>.partial" or "<out>.rehearsal". */
enum pith_status pith_place_name(struct pith_run *r, struct pith_error *err);
/* Where the account of a finished model lies: in its folder, or beside its file
 * ("NAME.pith.json"); pith_free() it, NULL when memory is out. */
char *pith_account_path(const char *model);
/* At the end: what is in the folder that was worked in gets its final place, so that a kill at any
 * point leaves something that --resume completes. The account is sealed and saved by it. */
enum pith_status pith_place_publish(struct pith_run *r, json_t *account, struct pith_error *err);
/* PITH_ARG when what is there already forbids this run. */
enum pith_status pith_place_check(const struct pith_run *r, struct pith_error *err);
/* When `out` is this very job's finished result (a run may be killed after its last step), *report
 * receives its account, a new reference, and what the run left beside it goes. PITH_ARG when `out`
 * is anything else; no report when there is none. */
enum pith_status pith_place_published(const struct pith_run *r, json_t **report,
                                      struct pith_error *err);
/* Makes the folder, or takes the one that is there, and locks it. */
enum pith_status pith_place_make(struct pith_run *r, struct pith_error *err);
/* Removes from `dir` what only an unfinished run needs; the journal only when asked. */
enum pith_status pith_place_sweep(const struct pith_run *r, const char *dir, bool journal,
                                  struct pith_error *err);
/* At the end of a run: removes the folder when nobody can go on with it (a rehearsal's, or after a
 * failure that would come again), else lets the message say how to go on. */
void pith_place_leave(const struct pith_run *r, enum pith_status s, struct pith_error *err);

/* check.c: what can be said of the options without looking at a model; *plan receives
 * {"recipe": in full, "container", "calibrates", "file"}. Statuses as of pith_quantize(). */
enum pith_status pith_pipe_check(const struct pith_quantize_options *o, bool convert, json_t **plan,
                                 struct pith_error *err);
/* The names in r->options->targets: PITH_ARG. */
enum pith_status pith_run_check_targets(const struct pith_run *r, struct pith_error *err);
/* run.c: fills r->recipe and r->container from the options, and what the stages need. */
enum pith_status pith_run_recipe(struct pith_run *r, struct pith_error *err);

/* select.c: whether each --override can be read; *needs gains what their grids need. */
enum pith_status pith_select_check(const struct pith_run *r, unsigned *needs,
                                   struct pith_error *err);
/* select.c: fills r->choices from the recipe, --ignore and --override; checks that the container
 * can hold each. PITH_ARG for a pattern that matches no linear. */
enum pith_status pith_run_select(struct pith_run *r, struct pith_error *err);
/* Frees what pith_run_select() made, also when it failed half way. */
void pith_run_unselect(struct pith_run *r);

/* inputs.c: takes what the recipe says of the linears' inputs into the container's options and the
 * needs of r. PITH_ARG when its parts do not go together. */
enum pith_status pith_inputs_settle(struct pith_run *r, struct pith_error *err);
/* PITH_UNSUPPORTED when the inputs of that linear cannot be treated so. */
enum pith_status pith_inputs_check(const struct pith_run *r, const struct pith_choice *c,
                                   struct pith_error *err);
/* True when the scales of keys and values are to be found and stored. */
bool pith_inputs_kv(const struct pith_run *r);
/* ... in a layer that keeps them. */
bool pith_inputs_kv_of(const struct pith_run *r, uint32_t layer);
/* PITH_UNSUPPORTED when the container cannot hold what the input of a conversion says of inputs,
 * keys and values. */
enum pith_status pith_inputs_converts(const struct pith_run *r, struct pith_error *err);
/* Whether a tensor is a scale of attention's keys, values or queries, by its name. */
bool pith_is_kv_scale(const char *tensor);
/* The name of one of them: which is 0 for keys, 1 for values. */
enum { PITH_KV_NAME = 96 };
void pith_inputs_kv_name(const struct pith_run *r, uint32_t layer, int which,
                         char name[PITH_KV_NAME]);
/* Runs a block, in its final form, up to its attention over the calibration windows, and gives the
 * scales for the largest key and value. */
enum pith_status pith_inputs_measure_kv(struct pith_run *r, const struct pith_block *b,
                                        float scale[2], struct pith_error *err);
/* What is done to the input of a site's linears; stats as gathered for rounding them, NULL when
 * r->needs_round is 0. */
struct pith_input pith_inputs_make(const struct pith_run *r, const struct pith_choice *c,
                                   const struct pith_stats *stats);

/* ends.c: the embedding's or head's choice whose tensor that is, or NULL. */
/* "model.embed_tokens", "lm_head", as the architecture calls them; and their weights. */
enum { PITH_END_NAME = 64 };
const char *pith_end_module(const struct pith_model *m, enum pith_end end);
void pith_end_tensor(const struct pith_model *m, enum pith_end end, char name[PITH_END_NAME]);
struct pith_choice *pith_run_end(const struct pith_run *r, const char *tensor);
/* Names and sizes of r->ends, and what the input stores. */
enum pith_status pith_ends_list(struct pith_run *r, struct pith_error *err);
/* Whether the container can hold them quantized; then, what they are by default. */
bool pith_ends_may(const struct pith_run *r);
void pith_ends_default(const struct pith_run *r, struct pith_choice *c);
/* Stores those that are quantized, here or in the input. */
enum pith_status pith_ends_store(struct pith_run *r, json_t *linears, json_t *tensors,
                                 struct pith_error *err);

/* estimate.c: the largest number of bytes that will be allocated at once. */
uint64_t pith_run_estimate(const struct pith_run *r);

/* output.c: makes or reopens the partial folder: layout, shard files with headers, config.json,
 * side files; opens it for reading back. */
enum pith_status pith_output_open(struct pith_run *r, struct pith_error *err);
/* Everything that is decided before the work: written into the layout. Called by
 * pith_output_open(), and by itself to know sizes. */
enum pith_status pith_output_layout(struct pith_run *r, struct pith_error *err);
/* The choice whose tensor of the input that is, biases aside, or NULL. */
struct pith_choice *pith_output_choice(const struct pith_run *r, const char *tensor);
void pith_output_close(struct pith_run *r);

/* store.c: hashes `bytes` bytes, writes them at the place of the tensor `name` and compares what
 * the file then holds. With `checked`, whose bytes these are: PITH_NUMERIC when a value is not
 * finite. For tasks too: tensors do not touch each other. */
enum pith_status pith_store_bytes(const struct pith_run *r, const char *name, const void *data,
                                  size_t bytes, const struct pith_tensor *checked,
                                  struct pith_stored *out, struct pith_error *err);
/* Packs a matrix, writes it, reads it back through the container's own reader and compares. Fills
 * what out says of the stored tensors. For tasks too. */
enum pith_status pith_store_linear(const struct pith_run *r, const char *module,
                                   const struct pith_qmat *q, struct pith_linear_result *out,
                                   struct pith_phases *time, struct pith_error *err);
/* Bytes that it takes beside q: the packed form, and what is read back. */
uint64_t pith_store_linear_bytes(const struct pith_run *r, const struct pith_choice *c);
/* A linear's entry in the account; a new reference, NULL when memory is out. */
json_t *pith_linear_json(const struct pith_choice *c, const struct pith_linear_result *l,
                         bool transformed);
/* Copies a tensor of the input unchanged and appends its account {"name", "action", "reason",
 * "stored"}. */
enum pith_status pith_store_copy(struct pith_run *r, const char *name, const char *reason,
                                 json_t *tensors, struct pith_error *err);
/* The same for several tensors (list[i].tensor and reason), over all threads. */
enum pith_status pith_store_copies(struct pith_run *r, struct pith_copy *list, size_t count,
                                   json_t *tensors, struct pith_error *err);
/* Stores float32 values in place of an input tensor, in its dtype; appends its account. */
enum pith_status pith_store_values(struct pith_run *r, const char *name, const float *values,
                                   const char *action, const char *reason, json_t *tensors,
                                   struct pith_error *err);

/* Stores one number under a name that the input has not, as F32; appends its account. */
enum pith_status pith_store_scale(struct pith_run *r, const char *name, float scale,
                                  json_t *tensors, struct pith_error *err);

/* Gives rows [first, first + n) of a tensor as float32. */
typedef enum pith_status pith_rows_fn(void *ctx, uint32_t first, uint32_t n, float *out,
                                      struct pith_error *err);
/* A matrix that is made some rows at a time; `like` has its shape and dtype. */
struct pith_made {
    const char *name;
    const struct pith_tensor *like;
    pith_rows_fn *rows;
    void *ctx;
    const char *action, *reason;
};
/* Stores it in `like`'s dtype; appends its account. PITH_NUMERIC when a value does not fit. */
enum pith_status pith_store_made(struct pith_run *r, const struct pith_made *m, json_t *tensors,
                                 struct pith_error *err);
/* The rows that pith_store_made() makes at a time, and bytes that it takes. */
uint32_t pith_made_rows(uint32_t cols);
uint64_t pith_made_bytes(uint32_t cols);

/* PITH_NUMERIC when a tensor holds a value that is not finite; tensors of integers hold none. */
enum pith_status pith_tensor_check_finite(const struct pith_tensor *t, struct pith_error *err);
/* The same for `count` of its values. */
enum pith_status pith_tensor_check_part(const struct pith_tensor *t, uint64_t first, uint64_t count,
                                        struct pith_error *err);
/* The SHA-256 of a matrix's dequantized values, row-major float32, by the calling thread.
 * PITH_NUMERIC when one is not finite. */
enum pith_status pith_weights_digest(const struct pith_backend *be, const struct pith_weight *w,
                                     char hex[PITH_SHA256_HEX], struct pith_error *err);

/* stream.c: true when the run's linears can be rounded some rows at a time: nothing looks at
 * activations, nothing is transformed or split, no scale is for a whole matrix. */
bool pith_run_streams(const struct pith_run *r);
/* Rounds and stores all of a layer's linears that have a grid, a linear a task, and appends their
 * entries. */
enum pith_status pith_stream_layer(struct pith_run *r, uint32_t layer, json_t *linears,
                                   struct pith_error *err);
/* The same for r->ends, to nearest. */
enum pith_status pith_stream_ends(struct pith_run *r, json_t *linears, struct pith_error *err);
/* Bytes that they take at most. */
uint64_t pith_stream_end_bytes(const struct pith_run *r, unsigned threads);
uint64_t pith_stream_bytes(const struct pith_run *r, unsigned threads);

/* convert.c: finds out what the input stores: choices[].stored, and what it says of the container's
 * options. PITH_UNSUPPORTED for a quantized head. */
enum pith_status pith_convert_describe(struct pith_run *r, struct pith_error *err);
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
enum pith_status pith_convert_choose(const struct pith_run *r, struct pith_choice *c,
                                     struct pith_error *err);
/* Converts all of a layer's quantized linears and appends their entries, each with "from" (its grid
 * in the input) and "lossless" (whether it stands for the same weights, to the bit). */
/* One linear. */
enum pith_status pith_convert_linear(struct pith_run *r, const struct pith_choice *c,
                                     json_t *linears, struct pith_error *err);
enum pith_status pith_convert_layer(struct pith_run *r, uint32_t layer, json_t *linears,
                                    struct pith_error *err);
/* Bytes that it takes at most. */
uint64_t pith_convert_bytes(const struct pith_run *r);

/* run.c: tells the listener that `effort` more steps are done, and looks at the memory in use. */
enum pith_status pith_run_step(struct pith_run *r, const char *what, double effort,
                               struct pith_error *err);

/* outer.c: everything outside the blocks: embedding, final norm, head. Appends its account. */
enum pith_status pith_run_outer(struct pith_run *r, json_t *tensors, struct pith_error *err);
/* The embedded calibration text into r->acts[0], by the embedding that will be served. */
enum pith_status pith_run_embed(struct pith_run *r, struct pith_error *err);

/* block.c: does one block and appends its account to *unit: "linears", "transforms", "tensors".
 * When `propagate`, acts[1] receives the quantized block's output. */
enum pith_status pith_run_block(struct pith_run *r, uint32_t layer, bool propagate, json_t *unit,
                                struct pith_error *err);

/* run.c: what the transform of one site weighs in the progress, in windows through a block. */
double pith_run_site_effort(const struct pith_run *r);

/* journal.c: reads what an earlier run finished into r->units (an empty array when there is none).
 * Of a journal that was changed, the lines before the first that is not as it was written count,
 * and the listener is told. PITH_ARG when it was another job; PITH_IO when a link stands in its
 * place. */
enum pith_status pith_journal_open(struct pith_run *r, struct pith_error *err);
/* Appends one unit's line to the file, after everything it names is on disk. r->units is left to
 * the caller, who may be elsewhere; one call at a time. */
enum pith_status pith_journal_write(struct pith_run *r, const json_t *unit, struct pith_error *err);
/* "outer" for unit 0, then "block 0" and so on. */
enum { PITH_UNIT_NAME = 32 };
void pith_unit_name(size_t index, char name[PITH_UNIT_NAME]);
/* The unit that a tensor belongs to, by its name. */
size_t pith_unit_of(const struct pith_plans *plans, const char *tensor);
/* The tensors of m's checkpoint that a unit reads: index of the first, and *count that follow each
 * other. Of unit 0, which is what is left, all of them: its own are those of pith_unit_of() 0. */
size_t pith_unit_tensors(const struct pith_model *m, size_t unit, size_t *count);
/* Forgets all units but the first `keep`, here and in the file. */
enum pith_status pith_journal_cut(struct pith_run *r, size_t keep, struct pith_error *err);
/* Identifies the job: input, recipe, options, calibration, version. */
enum pith_status pith_journal_fingerprint(struct pith_run *r, struct pith_error *err);

/* intact.c: how many of the first units in r->units are whole: every linear and every tensor that
 * the plan has for them, as long as planned, and in the files as the journal says. */
enum pith_status pith_intact_units(struct pith_run *r, size_t *count, struct pith_error *err);
/* At the end: opens the shards anew, reads all of them from the disk and compares: headers with the
 * layout's, every tensor of the layout with what r->units say was written, what lies between with
 * zeros. PITH_MISMATCH or PITH_IO names the file, and the tensor. */
enum pith_status pith_reread(struct pith_run *r, struct pith_error *err);
/* Just before they get their final name: nobody touched them since. PITH_MISMATCH when not. */
enum pith_status pith_reread_holds(const struct pith_run *r, struct pith_error *err);

/* source.c: hashes the tensors of the input that a unit reads, in full, and notes them in *unit as
 * "source". */
enum pith_status pith_source_note(struct pith_run *r, size_t index, json_t *unit,
                                  struct pith_error *err);
/* True when what the units in r->units read is still what the input holds; PITH_ARG when not. */
enum pith_status pith_source_check(struct pith_run *r, struct pith_error *err);

/* run.c: the whole. *report is a new reference. With `convert`, the recipe's weights (or none) are
 * for those linears only that the container cannot hold as they are. */
enum pith_status pith_pipe_quantize(struct pith_backend *be, const struct pith_quantize_options *o,
                                    bool convert, json_t **report, struct pith_error *err);
/* judge.c: PITH_NUMERIC for a linear that is further from its original (||W - Q|| / ||W||) than the
 * options allow; 0.5 where they say nothing. */
enum pith_status pith_run_judge(const struct pith_run *r, const struct pith_choice *c, double error,
                                struct pith_error *err);
/* {"linear", "relative_error", "limit"} of those entries of linears that are above 0.3: told, not
 * refused. A new reference. */
json_t *pith_run_warnings(const json_t *linears);

/* account.c: pith.json of a finished run; new reference, NULL when memory is out. */
json_t *pith_run_account(const struct pith_run *r);
/* Adds its list of files ("files": io/digest.h), as they lie on the disk now. */
enum pith_status pith_account_files(const struct pith_run *r, json_t *account,
                                    struct pith_error *err);
/* What a rehearsal of one block tells about the whole. */
json_t *pith_run_rehearsal(const struct pith_run *r, double block_seconds, double other_seconds);

/* verify.c */
enum pith_status pith_pipe_verify(struct pith_backend *be, const struct pith_verify_options *o,
                                  json_t **report, struct pith_error *err);

#endif
