/* eval/scorer.h: a model that reads sequences and gives the logits of chosen positions. */
#ifndef PITH_EVAL_SCORER_H
#define PITH_EVAL_SCORER_H

#include "model/session.h"

struct pith_scorer {
    struct pith_model *model;
    const char *name; /* in messages: "model", "baseline" */
    struct pith_session session;
    size_t capacity;     /* tokens */
    size_t together;     /* sequences that pith_scorer_read_all() takes, at most */
    size_t rows;         /* of logits at a time */
    int32_t *cached;     /* [session.length]: what the session has read */
    float *hidden;       /* [together][capacity][hidden] */
    struct pith_step_span *span; /* [together] */
    const float *source; /* the hidden rows of positions source_first and later */
    size_t source_first;
    const float *logits; /* [rows][vocab]: of the last call, in the following room or elsewhere */
    const double *lse;   /* [rows], the same */
    float *logits_room;
    double *lse_room;
    void *memory;   /* of these lists */
    double seconds; /* spent in the model */
    bool exact;
};

struct pith_scorer_options {
    const char *name;         /* as above; must outlive the scorer */
    size_t capacity;          /* tokens of a sequence at most */
    struct pith_kv_format kv; /* of the model's keys and values */
    bool exact;     /* computes in the exact mode even when the backend is in the fast one */
    uint32_t forks; /* of struct pith_session_options */
    size_t forked;
    size_t together; /* sequences to be read at once (pith_scorer_together()); 0: one */
};
/* Loads the model's blocks when they are not. The model and the backend are borrowed. rows is
 * chosen so that logits take at most 64 MiB (or 16 rows). On failure *s owns nothing. */
enum pith_status pith_scorer_init(struct pith_scorer *s, struct pith_model *model,
                                  struct pith_backend *be,
                                  const struct pith_scorer_options *options,
                                  struct pith_error *err);
void pith_scorer_free(struct pith_scorer *s);
/* Tokens that it computes at once, at most. */
size_t pith_scorer_chunk(size_t capacity, size_t together);
/* How many of `count` sequences of that many tokens are worth reading together: as many as have
 * rows enough for the linears to be at their fastest, as far as that takes about the memory of one
 * sequence of as many tokens as are computed at once. For scorers without forks. */
size_t pith_scorer_together(const struct pith_model *model,
                            const struct pith_scorer_options *options, size_t count);
/* Bytes that it takes in addition to the blocks, which need not be loaded. */
uint64_t pith_scorer_bytes(const struct pith_model *model,
                           const struct pith_scorer_options *options);

/* Makes the session hold exactly these n ids, n <= capacity. What it shares with the last
 * sequence from the start on is not computed again; results depend on that only where a linear's
 * input has one scale over a whole call. */
enum pith_status pith_scorer_read(struct pith_scorer *s, const int32_t *ids, size_t n,
                                  struct pith_error *err);

/* Reads separate sequences in one step, count <= s->together, n <= capacity in each; ids and n are
 * the caller's. span[i].x points to their hidden rows. Bits are those of pith_scorer_read(); where
 * a linear's input has one scale over a whole call, those of a read after another beginning. */
enum pith_status pith_scorer_read_all(struct pith_scorer *s, struct pith_step_span *span,
                                      size_t count, struct pith_error *err);

/* Reads further tokens of sequences that fork from what the session holds, in one step; the session
 * stays as it is. Their numbers are set here, all else by the caller. */
enum pith_status pith_scorer_fork(struct pith_scorer *s, struct pith_step_span *span, size_t count,
                                  struct pith_error *err);

/* Lets the following logits come from these hidden rows, of positions `first` and later, until the
 * next read; they are borrowed. */
void pith_scorer_recall(struct pith_scorer *s, const float *rows, size_t first);

/* Lets s->logits and s->lse be these until the next pith_scorer_logits(); they are borrowed. */
void pith_scorer_recall_logits(struct pith_scorer *s, const float *logits, const double *lse);

/* s->logits and s->lse of positions first .. first + n - 1 of that sequence, n <= s->rows.
 * PITH_NUMERIC when a row is not finite. */
enum pith_status pith_scorer_logits(struct pith_scorer *s, size_t first, size_t n,
                                    struct pith_error *err);

/* -log P(id) at row r of the last pith_scorer_logits(). */
double pith_scorer_nll(const struct pith_scorer *s, size_t r, int32_t id);

#endif
