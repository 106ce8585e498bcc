/* quantize/run.h: a quantization run: a job, what it writes, what it calibrates on, what of it is
 * done.
 *
 *   run.c           the order of steps         block.c    one block: transform, split, grid, round
 *   change_basis.c  the model in another basis learn.c    blocks that are rounded as a whole
 *   stream.c        a block that needs no more than its weights, some rows at a time
 *   convert.c       a block that is quantized already, for another container
 *   outer.c         what stands outside the blocks
 *   account.c       pith.json                  summary.c  its text
 *   ranks/          what of it several processes share (ranks/ranks.h) */
#ifndef PITH_QUANTIZE_RUN_H
#define PITH_QUANTIZE_RUN_H

#include "quantize/calibration.h"
#include "quantize/output/journal.h"
#include "quantize/output/output.h"
#include "quantize/ranks/input_hashes.h"
#include "quantize/ranks/makers.h"
#include "quantize/ranks/pace.h"
#include "quantize/ranks/ranks.h"
#include "quantize/ranks/rehearsed_cost.h"
#include "quantize/ranks/windows.h"
#include "quantize/ranks/writers.h"
#include "quantize/time_estimate.h"
#include "report/report.h"

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
    double hashing;  /* seconds of PITH_PHASE_READ in which the input was hashed */
    double stepping; /* seconds of PITH_PHASE_ROUND in which windows went through a block */
    const struct pith_frame *frame;
    double started; /* of the frame */
    double work_done, work_total;
    struct pith_paces paces;
    struct pith_writers writers;
    uint64_t peak_anonymous, peak_mapped; /* bytes, as seen at each step */
};

/* Reports `effort` more finished steps to the listener, and checks the memory in use. */
enum pith_status pith_run_step(struct pith_run *r, const char *what, double effort,
                               struct pith_error *err);

/* The whole. *report is new, NULL where another rank has it. With `convert`, the recipe's weights
 * (or none) are for those linears only that the container cannot hold as they are. Reports the
 * expected time to the frame before the first block. */
enum pith_status pith_quantize_model(struct pith_backend *be, const struct pith_quantize_options *o,
                                     bool convert, const struct pith_frame *frame,
                                     struct pith_report **report, struct pith_error *err);

#endif
