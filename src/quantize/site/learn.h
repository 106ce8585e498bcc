/* quantize/site/learn.h: what a rounder that works on whole blocks needs of a run: the float
 * model's activations as well as those of the quantized one, and a block that can be
 * differentiated. */
#ifndef PITH_QUANTIZE_SITE_LEARN_H
#define PITH_QUANTIZE_SITE_LEARN_H

#include "base/file.h"
#include "calib/collect.h"
#include "model/chain.h"
#include "quant/recipe.h"

struct pith_job;
struct pith_run;

/* Lives as long as the run; all zero when the rounder works by matrices. */
struct pith_learn {
    struct pith_scratch_file file[2];
    struct pith_acts acts[2];          /* what enters the float model's block, and what leaves it */
    struct pith_scratch_file whole[2]; /* with several ranks: the inputs and the targets of all
                                          windows of a block */
    struct pith_chain chain;           /* through the blocks that are learned together */
    /* [chain.most][experts]: tokens that take each in the float model's block of that place among
     * those that are learned together; NULL: no mixture. */
    size_t *taken;
};

/* PITH_UNSUPPORTED for stages that such a rounder cannot go with. */
enum pith_status pith_learn_check(const struct pith_job *job, struct pith_error *err);

/* After the activations and the collector are there. */
enum pith_status pith_learn_open(struct pith_run *r, struct pith_error *err);
void pith_learn_close(struct pith_learn *l);
/* Takes over the embedded calibration text from r->acts[0]. */
void pith_learn_embedded(struct pith_run *r);
/* Makes the output of blocks that were learned together the next ones' input. */
void pith_learn_swap(struct pith_learn *l);
/* Runs the float model's block, as it was loaded, of that place among those that are learned
 * together, in their order: acts[1] receives what it is to give. */
enum pith_status pith_learn_targets(struct pith_run *r, const struct pith_block *b, uint32_t place,
                                    struct pith_error *err);
/* One of the blocks that are learned together: every linear of it that has a grid is rounded into
 * q[] (by its place in the plan; the others stay empty). global[] is as in struct pith_round_job.
 * The block is as before. */
struct pith_learn_part {
    struct pith_block *block;
    const float *global;
    struct pith_qmat *q;
};
/* Rounds `parts` blocks that follow each other by what the last gives. The report is of all. On
 * failure no q owns anything. */
enum pith_status pith_learn_blocks(struct pith_run *r, const struct pith_learn_part *part,
                                   unsigned parts, struct pith_round_block_report *report,
                                   struct pith_error *err);

/* Bytes in use all the time, and for the layers that are learned together from `layer` on; what the
 * work of one layer weighs in the progress, in windows through a block. */
uint64_t pith_learn_bytes(const struct pith_job *job, unsigned threads);
uint64_t pith_learn_blocks_bytes(const struct pith_job *job, uint32_t layer, unsigned threads);
double pith_learn_effort(const struct pith_job *job);

#endif
