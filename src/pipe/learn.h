/* pipe/learn.h: what a rounder that works on whole blocks needs of a run: the float model's own
 * activations beside those of the quantized one, and a block that can be differentiated. */
#ifndef PITH_PIPE_LEARN_H
#define PITH_PIPE_LEARN_H

#include "base/file.h"
#include "calib/collect.h"
#include "model/block_grad.h"
#include "quant/recipe.h"

struct pith_job;
struct pith_run;

/* Lives as long as the run; all zero when the rounder works by matrices. */
struct pith_learn {
    struct pith_scratch_file file[2];
    struct pith_acts acts[2]; /* what enters the float model's block, and what leaves it */
    struct pith_scratch_file whole[2]; /* with several ranks: what all windows of a block read, and
                                          are to give */
    struct pith_tape tape;
    size_t
        *taken; /* [experts]: tokens that take each in the float model's block; NULL: no mixture */
};

/* PITH_UNSUPPORTED for stages that such a rounder cannot go with. */
enum pith_status pith_learn_check(const struct pith_job *job, struct pith_error *err);

/* After the activations and the collector are there. */
enum pith_status pith_learn_open(struct pith_run *r, struct pith_error *err);
void pith_learn_close(struct pith_learn *l);
/* Takes over the embedded calibration text from r->acts[0]. */
void pith_learn_embedded(struct pith_run *r);
/* Makes the block's output the next one's input. */
void pith_learn_swap(struct pith_learn *l);
/* Runs the float model's block, as it was loaded: acts[1] receives what the block is to give. */
enum pith_status pith_learn_targets(struct pith_run *r, const struct pith_block *b,
                                    struct pith_error *err);
/* Rounds every linear of b that has a grid into q[] (by its place in
 * the plan; the others stay empty). global[] is as in struct pith_round_job. b is as before. On
 * failure no q owns anything. */
enum pith_status pith_learn_block(struct pith_run *r, struct pith_block *b, const float *global,
                                  struct pith_qmat *q, struct pith_round_block_report *report,
                                  struct pith_error *err);

/* Bytes that are held all the time, and for one layer; what its work weighs in the progress, in
 * windows through a block. */
uint64_t pith_learn_bytes(const struct pith_job *job, unsigned threads);
uint64_t pith_learn_block_bytes(const struct pith_job *job, uint32_t layer, unsigned threads);
double pith_learn_effort(const struct pith_job *job);

#endif
