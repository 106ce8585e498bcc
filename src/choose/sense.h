/* choose/sense.h: what a linear on a grid would cost the whole model, each linear on each of
 * several grids, from one forward and one backward pass.
 *
 * With W + D in place of a matrix W, the mean divergence of the model's output is, to second order
 * in D,
 *
 *     KL = 1/2 mean over tokens t of E[(sum over i, j of D_ij dlog p_t(y) / dW_ij)^2]
 *
 * where y is drawn from the model's own p_t: the Fisher information (Amari 1998, "Natural gradient
 * works efficiently in learning"). Tokens of a window go back together, each with a random sign,
 * so that the square of their sum is on average the sum of their squares (Hutchinson 1990). Errors
 * of different rows and of different linears count as independent, so that their squares add up.
 * The first-order term is zero: the model is where its divergence from itself is least. Which
 * experts tokens take is fixed in it; what errors cost by changing that comes on top
 * (choose/sense_routes.h). */
#ifndef PITH_CHOOSE_SENSE_H
#define PITH_CHOOSE_SENSE_H

#include "calib/guide.h"
#include "choose/candidates.h"
#include "choose/sense_reads.h"
#include "choose/sense_routes.h"
#include "quantize/site/guide.h"

/* A linear on a grid. */
struct pith_sense_cell {
    bool can;       /* the container holds it */
    double kld;     /* nats a token that the model's divergence grows by, choices as they are; with
                     * `made_up` what remains of them */
    double sway;    /* what each router behind it has its margins' variance grow by */
    double error;   /* ||D|| / ||W|| */
    uint64_t bytes; /* of the matrix, scales counted */
};

struct pith_sense {
    const struct pith_grid *grid; /* borrowed */
    size_t grids;
    const struct pith_candidates *tries; /* these, which say what each is for; borrowed */
    struct pith_sense_cell *cell;        /* [job->choice_count][grids], owned */
    struct pith_routes routes;           /* what swaying the routers costs, owned */
    struct pith_reads *reads;            /* what else is measured; NULL: nothing. The caller's */
    /* Or, without grids: what linears give, for rounding by it. Filled, and made safe; the
     * caller's. Its journal stays in the folder ("pith.guide.journal") until the caller removes
     * it. */
    struct pith_guide *guide;
    /* The run that the losses are for rounds a linear for the inputs that it gets of the rounded
     * model: pith_sense_left(). */
    bool made_up;
    struct pith_ranks *ranks; /* NULL, or who shares the windows: all make the call */
    double effort, whole; /* with a guide: what a layer weighs in the progress, one way; and all */
};
static inline struct pith_sense_cell *pith_sense_at(const struct pith_sense *s, size_t choice,
                                                    size_t grid)
{
    return &s->cell[choice * s->grids + grid];
}
/* The first router that a choice sways. */
static inline uint32_t pith_sense_from(const struct pith_sense *s, const struct pith_job *job,
                                       size_t choice)
{
    const struct pith_choice *c = &job->choices[choice];
    return pith_routes_from(&s->routes, &job->model->plans, c->layer, c->linear);
}

/* How many grids a linear is tried on: those that stand for others do so one at a time. */
static inline size_t pith_sense_tried(const struct pith_sense *s)
{
    size_t count = 0;
    for (size_t i = 0; i < s->grids; i++) count += !s->tries || !s->tries->instead[i];
    return count;
}

/* Fills s->cell and s->routes for the job's model, calibration text, rounder and container;
 * `folder`, which is there, has the activations of every layer while it runs. Linears that stay in
 * 16 bits unless they are named have no cell that can. The job's statistics are those of its
 * rounder and of all grids. An interrupted call for the same job is resumed from the folder, to the
 * same bits; PITH_IO when it is another job's. After success, and where the same would
 * fail again, nothing of it stays there. Errors as those of quantizing; PITH_UNSUPPORTED where a
 * gradient is not made. */
enum pith_status pith_sense_run(const struct pith_job *job, const char *folder,
                                struct pith_sense *s, struct pith_error *err);
/* The ranks that share this job's windows, or NULL: rank 0 does it alone. */
struct pith_ranks *pith_sense_shares(const struct pith_job *job);
/* PITH_UNSUPPORTED for a recipe that does more than round linears one by one. */
enum pith_status pith_sense_check(const struct pith_job *job, struct pith_error *err);
void pith_sense_free(struct pith_sense *s);
static inline const char *pith_sense_journal(const struct pith_sense *s)
{
    return s->guide ? "pith.guide.journal" : "pith.journal";
}
/* For runs that are guided by the loss: the pass fills a guide. */
extern const struct pith_guide_pass pith_sense_guide_pass;
/* *most = bytes of errors to hold at once, of what --memory leaves when statistics are those of
 * `needs` (enum pith_needs); PITH_LIMIT when it does not do. */
enum pith_status pith_sense_fit(const struct pith_job *job, const struct pith_sense *s,
                                unsigned needs, uint64_t *most, struct pith_error *err);
/* Whether there is something in the folder to go on with; removes it. */
bool pith_sense_is_begun(const char *folder);
void pith_sense_forget(const char *folder);

#endif
