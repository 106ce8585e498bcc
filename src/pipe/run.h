/* pipe/run.h: the state of one quantization run, shared by the files of pipe/.
 *
 *   run.c      the order of steps            select.c   which linear gets which grid
 *   output.c   layout, config, side files    block.c    one block: transform, split, grid, round
 *   store.c    pack, write, read back        journal.c  what is done, for --resume
 *   estimate.c memory, before the start      account.c  pith.json
 *   place.c    which folders, when           verify.c   the same questions, asked of a finished
 *                                                       folder */
#ifndef PITH_PIPE_RUN_H
#define PITH_PIPE_RUN_H

#include <pith/quantize.h>

#include "base/hash.h"
#include "calib/collect.h"
#include "calib/corpus.h"
#include "export/preflight.h"
#include "quant/recipe.h"

/* One linear of the model and what becomes of it. */
struct pith_choice {
    char *module; /* "model.layers.0.mlp.up_proj" */
    uint32_t layer;
    enum pith_role role;
    uint32_t rows, cols;
    struct pith_grid grid; /* format NULL: left alone */
    const char
        *reason; /* why it is left alone; NULL when quantized. Static, or the option's text */
};

struct pith_run {
    const struct pith_quantize_options *options;
    struct pith_backend *backend;
    struct pith_model *model;
    struct pith_tokenizer *tokenizer; /* NULL when nothing is calibrated */
    struct pith_recipe recipe;
    const struct pith_container *container;
    struct pith_container_opts container_opts;
    struct pith_choice *choices; /* layers x PITH_ROLE_COUNT, by layer then role */
    size_t choice_count;
    struct pith_linear_grid *linears;      /* the same for the container, and lm_head */
    unsigned needs_transform, needs_round; /* enum pith_needs */

    char *partial; /* "<out>.partial" */
    char *journal_path;
    bool owns_partial; /* what is in it is this job's */
    int lock;          /* on the folder, -1 when it is not held */
    char fingerprint[PITH_SHA256_HEX];
    struct pith_layout layout;
    struct pith_out *shards;         /* [layout.shards] */
    struct pith_checkpoint *written; /* the partial folder, open for reading back */
    void *written_state;             /* its container's */

    struct pith_calib_set calib;
    struct pith_collector collector;
    struct pith_scratch_file acts_file[2];
    struct pith_acts acts[2]; /* a block reads one and writes the other */

    json_t *units; /* journal entries of finished units: "outer", then a block each */
    double started;
    double work_done, work_total;
    uint64_t peak_anonymous; /* bytes, as seen at each step */
};

static inline struct pith_choice *pith_run_choice(const struct pith_run *r, uint32_t layer,
                                                  enum pith_role role)
{
    return &r->choices[(size_t)layer * PITH_ROLE_COUNT + role];
}

/* True when any stage looks at activations. */
static inline bool pith_run_calibrates(const struct pith_run *r)
{
    return (r->needs_transform | r->needs_round) != 0;
}

/* place.c: names the folder to work in: "<out>.partial" or "<out>.rehearsal". */
enum pith_status pith_place_name(struct pith_run *r, struct pith_error *err);
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

/* select.c: fills r->choices from the recipe, --ignore and --override; checks that the container
 * can hold each. PITH_ARG for a pattern that matches no linear. */
enum pith_status pith_run_select(struct pith_run *r, struct pith_error *err);

/* estimate.c: the largest number of bytes that will be allocated at once. */
uint64_t pith_run_estimate(const struct pith_run *r);

/* output.c: makes or reopens the partial folder: layout, shard files with headers, config.json,
 * side files; opens it for reading back. */
enum pith_status pith_output_open(struct pith_run *r, struct pith_error *err);
/* Everything that is decided before the work: written into the layout. Called by
 * pith_output_open(), and by itself to know sizes. */
enum pith_status pith_output_layout(struct pith_run *r, struct pith_error *err);
void pith_output_close(struct pith_run *r);

/* store.c: writes one tensor at its place; adds {"name", "sha256"} to `stored`. */
enum pith_status pith_store_tensor(struct pith_run *r, const char *name, const void *data,
                                   size_t bytes, json_t *stored, struct pith_error *err);
/* Packs a matrix, writes it, reads it back through the container's own reader and compares. Adds to
 * the linear's entry: "stored", "sha256" of the dequantized weights, "bits_per_weight". */
enum pith_status pith_store_linear(struct pith_run *r, const char *module,
                                   const struct pith_qmat *q, json_t *entry,
                                   struct pith_error *err);
/* True when the written files hold every tensor that the units in r->units name, to the byte. */
bool pith_store_intact(const struct pith_run *r);
/* Copies a tensor of the input unchanged and appends its account {"name", "action", "reason",
 * "stored"}. */
enum pith_status pith_store_copy(struct pith_run *r, const char *name, const char *reason,
                                 json_t *tensors, struct pith_error *err);
/* Stores float32 values in place of an input tensor, in its dtype; appends its account. */
enum pith_status pith_store_values(struct pith_run *r, const char *name, const float *values,
                                   const char *action, const char *reason, json_t *tensors,
                                   struct pith_error *err);

/* PITH_NUMERIC when a tensor holds a value that is not finite; tensors of integers hold none. */
enum pith_status pith_tensor_check_finite(const struct pith_tensor *t, struct pith_error *err);
/* The SHA-256 of a matrix's dequantized values, row-major float32. PITH_NUMERIC when one is not
 * finite. */
enum pith_status pith_weights_digest(const struct pith_weight *w, char hex[PITH_SHA256_HEX],
                                     struct pith_error *err);

/* run.c: tells the listener that `effort` more steps are done, and looks at the memory in use. */
enum pith_status pith_run_step(struct pith_run *r, const char *what, double effort,
                               struct pith_error *err);

/* block.c: does one block and appends its account to *unit: "linears", "transforms", "tensors".
 * When `propagate`, acts[1] receives the quantized block's output. */
enum pith_status pith_run_block(struct pith_run *r, uint32_t layer, bool propagate, json_t *unit,
                                struct pith_error *err);

/* run.c: what the transform of one site weighs in the progress, in windows through a block. */
double pith_run_site_effort(const struct pith_run *r);

/* journal.c: reads what an earlier run finished into r->units (an empty array when there is none).
 * PITH_ARG when it was another job. */
enum pith_status pith_journal_open(struct pith_run *r, struct pith_error *err);
/* Appends one unit, after everything it names is on disk. */
enum pith_status pith_journal_add(struct pith_run *r, json_t *unit, struct pith_error *err);
/* "outer" for unit 0, then "block 0" and so on. */
enum { PITH_UNIT_NAME = 32 };
void pith_unit_name(size_t index, char name[PITH_UNIT_NAME]);
/* Forgets all units: the journal begins anew. */
enum pith_status pith_journal_restart(struct pith_run *r, struct pith_error *err);
/* Identifies the job: input, recipe, options, calibration, version. */
enum pith_status pith_journal_fingerprint(struct pith_run *r, struct pith_error *err);

/* run.c: the whole. *report is a new reference. */
enum pith_status pith_pipe_quantize(struct pith_backend *be, const struct pith_quantize_options *o,
                                    json_t **report, struct pith_error *err);
/* account.c: pith.json of a finished run; new reference, NULL when memory is out. */
json_t *pith_run_account(const struct pith_run *r);
/* What a rehearsal of one block tells about the whole. */
json_t *pith_run_rehearsal(const struct pith_run *r, double block_seconds, double other_seconds);

/* verify.c */
enum pith_status pith_pipe_verify(struct pith_backend *be, const struct pith_verify_options *o,
                                  json_t **report, struct pith_error *err);

#endif
