/* quantize/calibration.h: the calibration text on its way through the blocks. */
#ifndef PITH_QUANTIZE_CALIBRATION_H
#define PITH_QUANTIZE_CALIBRATION_H

#include "base/file.h"
#include "calib/stages.h"
#include "quantize/site/guide.h"
#include "quantize/site/learn.h"

struct pith_run;

struct pith_calibration {
    struct pith_collector collector;
    struct pith_scratch_file acts_file[2];
    struct pith_acts acts[2]; /* a block reads one and writes the other */
    struct pith_learn learn;
    struct pith_guiding guiding;
    /* For struct pith_stages, no data: computed again; and the same of the float model. */
    struct pith_scratch_file between, between_float;
    struct pith_scratch_file sites, sent; /* of the relay, if there is one */
};

/* Room for the activations, in the partial folder. */
enum pith_status pith_calibration_open(struct pith_run *r, struct pith_error *err);
void pith_calibration_close(struct pith_calibration *cal);
/* A file of this process in that folder, which is gone when it is closed or the process ends. */
enum pith_status pith_calibration_own(struct pith_run *r, const char *name, uint64_t bytes,
                                      struct pith_scratch_file *f, struct pith_error *err);
/* Where the journal is written, a file there that stays for a later run; elsewhere as above. */
enum pith_status pith_calibration_keep(struct pith_run *r, const char *name, uint64_t bytes,
                                       struct pith_scratch_file *f, struct pith_error *err);
/* None of its files changed under the run. */
enum pith_status pith_calibration_check(const struct pith_calibration *cal, struct pith_error *err);
/* Makes a block's output the next one's input. */
void pith_calibration_swap(struct pith_calibration *cal);
/* outer.c: the embedded calibration text into acts[0], by the embedding that will be served. */
enum pith_status pith_run_embed(struct pith_run *r, struct pith_error *err);
/* inputs.c: runs a block, in its final form, up to its attention over the calibration windows, and
 * gives the scales for the largest key and value. */
enum pith_status pith_inputs_measure_kv(struct pith_run *r, const struct pith_block *b,
                                        float *scale, struct pith_error *err);

#endif
