/* quantize/run.h: a quantization run: a job, what it writes, what it calibrates on, what of it is
 * done.
 *
 *   run.c           the order of steps         block.c    one block: transform, split, grid, round
 *   change_basis.c  the model in another basis learn.c    blocks that are rounded as a whole
 *   stream.c        a block that needs no more than its weights, some rows at a time
 *   convert.c       a block that is quantized already, for another container
 *   outer.c         what stands outside the blocks
 *   account.c       pith.json */
#ifndef PITH_QUANTIZE_RUN_H
#define PITH_QUANTIZE_RUN_H

#include "quantize/calibration.h"
#include "quantize/foresee.h"
#include "quantize/journal.h"
#include "quantize/output.h"
#include "quantize/rank_pace.h"
#include "quantize/rank_writers.h"
#include "quantize/ranks.h"
#include "quantize/time_estimate.h"

struct pith_run {
    const struct pith_job *job;
    struct pith_ranks *ranks; /* that share the work; NULL: this one alone does it */
    struct pith_output out;
    struct pith_calibration cal;
    struct pith_journal journal;

    size_t unit_now;            /* the unit at work */
    uint32_t together;          /* of so many blocks that are learned together; 0: alone */
    struct pith_async *reading; /* of the next units' weights, ahead of their use */
    size_t reading_layer;
    struct pith_phases phases;
    struct pith_foresee *foresee; /* borrowed, of a rehearsal's block; NULL: nobody asks */
    const struct pith_frame *frame;
    double started; /* of the frame */
    double work_done, work_total;
    struct pith_paces paces;
    uint64_t peak_anonymous, peak_mapped; /* bytes, as seen at each step */
};

/* At the end: what is in the folder that was worked in gets its final place, so that a kill at any
 * point leaves something that --resume completes. The account is sealed and saved by it. */
enum pith_status pith_place_publish(struct pith_run *r, json_t *account, struct pith_error *err);
/* Makes the folder, or takes the one that is there, and locks it. */
enum pith_status pith_place_make(struct pith_run *r, struct pith_error *err);
/* At the end of a run: removes the folder when nobody can go on with it (a rehearsal's, or after a
 * failure that would come again), else lets the message say how to go on. */
void pith_place_leave(const struct pith_run *r, enum pith_status s, struct pith_error *err);

/* ends.c: stores the ends that are quantized, here or in the input. */
enum pith_status pith_ends_store(struct pith_run *r, json_t *linears, json_t *tensors,
                                 struct pith_error *err);

/* stream.c: rounds and stores all of a layer's linears that have a grid, a linear a task, and
 * appends their entries. */
enum pith_status pith_stream_layer(struct pith_run *r, uint32_t layer, json_t *linears,
                                   struct pith_error *err);
/* The same for the ends, to nearest. */
enum pith_status pith_stream_ends(struct pith_run *r, json_t *linears, struct pith_error *err);

/* convert.c: converts those of the list that have a grid and appends their entries, each with
 * "from" (its grid in the input) and "lossless" (whether it stands for the same weights, to the
 * bit). */
enum pith_status pith_convert_linears(struct pith_run *r, const struct pith_choice *list,
                                      size_t count, json_t *linears, struct pith_error *err);

/* convert.c: the codes of a linear that the input has on the choice's grid already (`keeps`), with
 * its scales and zero points as the container stores them. On failure *q owns nothing. */
enum pith_status pith_convert_keep(const struct pith_job *job, const struct pith_choice *c,
                                   struct pith_qmat *q, struct pith_error *err);

/* run.c: tells the listener that `effort` more steps are done, and looks at the memory in use. */
enum pith_status pith_run_step(struct pith_run *r, const char *what, double effort,
                               struct pith_error *err);
/* rank_pace.c: one unit of the work, with several ranks told apart: one that takes much longer
 * than the others is named with the steps of the next. */
enum pith_status pith_pace_unit(struct pith_run *r, size_t unit,
                                enum pith_status (*run)(struct pith_run *, size_t,
                                                        struct pith_error *),
                                struct pith_error *err);
/* rank_pace.c: pith_guiding_open(), which counts as a unit does. */
enum pith_status pith_pace_guiding(struct pith_run *r, struct pith_error *err);
/* outer.c: everything outside the blocks: embedding, final norm, head. Appends its account. */
enum pith_status pith_run_outer(struct pith_run *r, json_t *tensors, struct pith_error *err);
/* block.c: layers [first, first + count) that are rounded together, or one. pith_blocks_open() does
 * what looks at all of them: where rounding is learned they are loaded and learned. Then each is
 * finished, in order, with what lies in cal.acts[0]; when `propagate`, cal.acts[1] receives the
 * quantized block's output (both may be the same). Each appends its account to its unit:
 * "linears", "transforms", "tensors". pith_blocks_close() is due, also after a failure. */
struct pith_work;
struct pith_blocks {
    struct pith_run *run;
    struct pith_work *work; /* [count] */
    json_t *const *unit;    /* [count], borrowed */
    uint32_t first, count;
};
enum pith_status pith_blocks_open(struct pith_blocks *b, struct pith_error *err);
enum pith_status pith_blocks_finish(struct pith_blocks *b, uint32_t place, bool propagate,
                                    struct pith_error *err);
void pith_blocks_close(struct pith_blocks *b);

/* run.c: the whole. *report is a new reference. With `convert`, the recipe's weights (or none) are
 * for those linears only that the container cannot hold as they are. The frame is told what is
 * expected before the first block. */
enum pith_status pith_quantize_model(struct pith_backend *be, const struct pith_quantize_options *o,
                                     bool convert, const struct pith_frame *frame, json_t **report,
                                     struct pith_error *err);
/* account.c: pith.json of a finished run; new reference, NULL when memory is out. */
json_t *pith_run_account(const struct pith_run *r);
/* Adds its list of files ("files": io/digest.h), as they lie on the disk now. */
enum pith_status pith_account_files(const struct pith_run *r, json_t *account,
                                    struct pith_error *err);
/* What a rehearsal tells about the whole. */
struct pith_rehearsal {
    struct pith_rehearsed block[PITH_REHEARSED_MOST];
    uint32_t count, together;                   /* blocks that are learned together, 1: none */
    double seconds[PITH_REHEARSED_MOST], other; /* of each of them, before */
    struct pith_phases phases;                  /* of a block on average */
};
json_t *pith_run_rehearsal(struct pith_run *r, const struct pith_rehearsal *all);

#endif
