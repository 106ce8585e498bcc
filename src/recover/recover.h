/* recover/recover.h: distilling the original into a quantized model, shared by the files that do
 * it.
 *
 *     text -> windows -> original, once ------------------> what enters its last norm (on disk)
 *                                                                     |
 *     a step: some windows -> block 1 .. n of the quantized model     v
 *             (what enters each on disk) -> logits -> KL and its gradient -> back through
 *             block n .. 1, each run again -> dW -> of scales, points, gains, biases -> AdamW
 *
 * A block is loaded, made of its parameters, used and dropped: only one block in float32 with its
 * gradients is in memory. Parameters, their two moments and the best so far are in a mapped file.
 *
 *   recover.c  the order of steps   trained.c      what is trained, where it lies
 *   pass.c     there and back       checkpoints.c  files, checkpoints, resuming
 *   write.c    the result           ranks.c        what several ranks share
 *
 * Each of several ranks runs some of a step's windows forward and backward, and some of the
 * held-out ones. Gradients go round (calib/grads.h); then all make the same step, each with its own
 * copy of parameters and moments, so what goes on is the same everywhere. Rank 0 has the folder:
 * checkpoints and the result are its.
 */
#ifndef PITH_RECOVER_RECOVER_H
#define PITH_RECOVER_RECOVER_H

#include <pith/recover.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "calib/collect.h"
#include "calib/corpus.h"
#include "calib/grads.h"
#include "model/grad/block_grad.h"
#include "quant/trained.h"
#include "quantize/ranks/pace.h"
#include "report/report.h"

/* Of so many windows the last is held out, of more where that would be more than so many tokens. */
enum { PITH_RECOVER_VALIDATION = 8, PITH_RECOVER_VALIDATION_TOKENS = 8192 };

/* Where parameters lie in the state; count 0: not trained. */
struct pith_recover_span {
    size_t at, count;
};

/* A linear of an open block while it is trained. */
struct pith_recover_linear {
    bool on; /* it is quantized */
    struct pith_trained matrix;
    float *values, *grad, *scales; /* [rows][cols], likewise, [matrix.scales]; one allocation */
};

/* A block of the quantized model as its parameters make it. */
struct pith_recover_block {
    struct pith_block block;
    struct pith_recover_linear *linear; /* [plan->linears] */
    float **weight, **bias, **vector;   /* as in struct pith_tape_grad; owned but for `weight` */
};

struct pith_recover {
    const struct pith_recover_options *options;
    struct pith_backend *backend;
    struct pith_ranks *ranks; /* that share the work; NULL: one does it */
    struct pith_model *model, *original;
    struct pith_container_opts container_opts;
    char *out, *partial; /* the result's folder, and where it is worked on */
    int lock;            /* on the latter; -1: none */
    bool weights;        /* trained too */
    size_t steps;        /* 0: auto */
    size_t batch;
    struct pith_calib_set text;
    bool self; /* the text is the original's own */

    struct pith_recover_span *linear, *vector, *bias; /* [layers][most], of the plans */
    bool *moved; /* like linear: a transform rescaled its matrix */
    struct pith_recover_span last_gain, last_bias;
    size_t count;     /* parameters */
    size_t codes;     /* points of grids that may change */
    float *last_norm; /* [2][hidden]: the last norm's gain and bias as they were */

    struct pith_scratch_file state;    /* [4][count]: p, m, v, the best p */
    struct pith_scratch_file target;   /* [windows]: what enters the original's last norm */
    struct pith_scratch_file acts;     /* [layers + 1][batch]: what enters each block */
    struct pith_acts target_acts;
    struct pith_tape tape;
    float *grad;   /* [batch][length][hidden] of the stream */
    float *logits; /* [3][PITH_HEAD_ROWS][vocab] */
    float *norms;  /* [2][hidden]: gradients of the last norm's vectors */
    double *each;  /* [held-out windows, 1 at least][length]: divergence of each row */
    struct pith_grads grads; /* with several ranks, as is what follows */
    float *parts;           /* [batch][...]: what each window of a step adds to sums of vectors */
    float **at;             /* [vectors]: where a window does */
    struct pith_paces paces;

    size_t step, best_step; /* done so far; that of the best */
    size_t decay_from, until; /* auto: the steps begin to shrink there, and end there; 0: not yet */
    double before, best;    /* held-out KL */
    json_t *curve;
    unsigned slot;          /* of the last checkpoint */
    double saved;           /* clock */
    char fingerprint[PITH_SHA256_HEX];
    char target_hash[PITH_SHA256_HEX];
    uint64_t expected, peak; /* bytes of own memory: estimated, and seen */
    double started;
};

/* Of so many windows the last is held out. */
static inline size_t pith_recover_validation(const struct pith_recover *r)
{
    const size_t tokens = r->text.windows * r->text.length;
    const size_t n = (tokens + PITH_RECOVER_VALIDATION_TOKENS - 1) / PITH_RECOVER_VALIDATION_TOKENS;
    if (n <= PITH_RECOVER_VALIDATION) return PITH_RECOVER_VALIDATION;
    return n < r->text.windows ? n : r->text.windows; /* one at least */
}
static inline float *pith_recover_state(const struct pith_recover *r, unsigned part)
{
    return (float *)r->state.data + part * r->count;
}
static inline struct pith_recover_span *pith_recover_linear_at(const struct pith_recover *r,
                                                               uint32_t layer, uint32_t linear)
{
    return &r->linear[(size_t)layer * r->model->plans.most_linears + linear];
}
static inline struct pith_recover_span *pith_recover_bias_at(const struct pith_recover *r,
                                                             uint32_t layer, uint32_t linear)
{
    return &r->bias[(size_t)layer * r->model->plans.most_linears + linear];
}
static inline struct pith_recover_span *pith_recover_vector_at(const struct pith_recover *r,
                                                               uint32_t layer, uint32_t vector)
{
    return &r->vector[(size_t)layer * r->model->plans.most_vectors + vector];
}

/* trained.c: what of the model is trained, and where it lies in the state. PITH_UNSUPPORTED
 * names what of it cannot be. */
enum pith_status pith_recover_list(struct pith_recover *r, struct pith_error *err);
/* Loads a block as the parameters `p` make it; with `gradients`, room for these, zeroed. On failure
 * *b owns nothing. */
enum pith_status pith_recover_open(struct pith_recover *r, uint32_t layer, float *p, bool gradients,
                                   struct pith_recover_block *b, struct pith_error *err);
void pith_recover_close(struct pith_recover_block *b);
/* Fills the parameters, which are 0, with where training begins. */
enum pith_status pith_recover_start(struct pith_recover *r, struct pith_error *err);
/* The last norm as `p` makes it. */
void pith_recover_last_norm(struct pith_recover *r, const float *p);
/* A vector's numbers as they are stored and read back: v[n] becomes that of the parameters. */
struct pith_recover_vector {
    const struct pith_tensor *tensor;
    float plus; /* is added to what is stored */
};
/* The tensor of a vector, or of a linear's bias; tensor NULL: it is not trained. */
struct pith_recover_vector pith_recover_vector_of(const struct pith_recover *r, uint32_t layer,
                                                  uint32_t vector);
struct pith_recover_vector pith_recover_bias_of(const struct pith_recover *r, uint32_t layer,
                                                uint32_t linear);
struct pith_recover_vector pith_recover_last_of(const struct pith_recover *r, bool bias);
/* After pith_recover_meet(): a step of AdamW for a block's parameters, and for the last norm's. */
struct pith_recover_rates {
    float scales, weights, vectors; /* scales: of pith_trained_reach() */
    size_t step;                    /* from 1 */
};
void pith_recover_step_block(struct pith_recover *r, uint32_t layer, struct pith_recover_block *b,
                             const struct pith_recover_rates *rates);
void pith_recover_step_last(struct pith_recover *r, const struct pith_recover_rates *rates);
/* Bytes of anonymous memory of the largest block that is open with its gradients. */
uint64_t pith_recover_block_bytes(const struct pith_recover *r);

/* ranks.c: which of so many windows are this rank's, [*from, *from + that). */
size_t pith_recover_own(const struct pith_recover *r, size_t windows, size_t *from);
/* Room for what is shared, and the bytes of it. PITH_UNSUPPORTED names what is not. */
enum pith_status pith_recover_share_room(struct pith_recover *r, struct pith_error *err);
uint64_t pith_recover_share_bytes(const struct pith_recover *r);
void pith_recover_share_free(struct pith_recover *r);
/* Before a step's windows go through the head. Where rows from `row` on of a window then add the
 * gradients of the last norm's vectors, [2][hidden]; and these sums, in r->norms. */
void pith_recover_begin_norms(struct pith_recover *r);
float *pith_recover_norms_at(const struct pith_recover *r, size_t window, size_t row);
enum pith_status pith_recover_meet_norms(struct pith_recover *r, struct pith_error *err);
/* Before a step's windows go back through a block. The gradients that one of them adds to. */
enum pith_status pith_recover_begin_block(struct pith_recover *r,
                                          const struct pith_recover_block *b,
                                          struct pith_error *err);
struct pith_tape_grad pith_recover_grads(struct pith_recover *r, struct pith_recover_block *b,
                                         size_t window);
/* After all windows: from those to the gradients of what is trained, everywhere. */
enum pith_status pith_recover_meet(struct pith_recover *r, struct pith_recover_block *b,
                                   struct pith_error *err);
/* What rank 0 goes on from becomes everyone's. */
enum pith_status pith_recover_share(struct pith_recover *r, struct pith_error *err);

/* pass.c: what enters the original's last norm, for all windows, or what was found so in
 * the file of an earlier call. */
enum pith_status pith_recover_targets(struct pith_recover *r, struct pith_error *err);
/* One step on these windows of r->text. */
enum pith_status pith_recover_train(struct pith_recover *r, const size_t *windows,
                                    const struct pith_recover_rates *rates,
                                    struct pith_error *err);
/* The mean divergence of the held-out windows, as the parameters `p` make the model. */
enum pith_status pith_recover_measure(struct pith_recover *r, float *p, double *kl,
                                      struct pith_error *err);

/* checkpoints.c: makes or finds the folder and its files; with `resume` takes up the last
 * checkpoint. PITH_IO when another call's work, or something else, lies there. */
enum pith_status pith_recover_begin(struct pith_recover *r, struct pith_error *err);
enum pith_status pith_recover_save(struct pith_recover *r, struct pith_error *err);
/* The numbers of a checkpoint besides the parameters, of which that is the hash (a new reference,
 * NULL when memory is out); and back. */
json_t *pith_recover_numbers(const struct pith_recover *r, const char *hash);
void pith_recover_take_numbers(struct pith_recover *r, const json_t *j);
/* Removes from the folder what only the work needs. */
enum pith_status pith_recover_sweep(const struct pith_recover *r, struct pith_error *err);
/* Text that the original writes itself, or finds in the folder: fills r->text. */
enum pith_status pith_recover_self(struct pith_recover *r, struct pith_error *err);

/* write.c: whether what is stored can be written again by the container as it lies there:
 * PITH_UNSUPPORTED names what cannot. */
enum pith_status pith_recover_check(struct pith_recover *r, struct pith_error *err);
/* Writes the best, reads it back, and gives it its name. *report is new. */
enum pith_status pith_recover_publish(struct pith_recover *r, struct pith_report **report,
                                      struct pith_error *err);

/* recover.c: memory for the passes, once windows and their length are known; and what r owns. */
enum pith_status pith_recover_room(struct pith_recover *r, struct pith_error *err);
void pith_recover_free(struct pith_recover *r);
/* The whole. */
enum pith_status pith_recover_model(struct pith_backend *be, const struct pith_recover_options *o,
                                    struct pith_report **report, struct pith_error *err);

#endif
