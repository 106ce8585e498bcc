/* choose/candidates.h: the grids that are weighed against each other, and the transforms. */
#ifndef PITH_CHOOSE_CANDIDATES_H
#define PITH_CHOOSE_CANDIDATES_H

#include "quantize/job.h"

enum { PITH_TRIES = 24 };
struct pith_candidates {
    struct pith_grid grid[PITH_TRIES];
    size_t count;
    size_t spare; /* from there on: only for linears that no other of fewer than eight bits fits */
    bool named;   /* by a person: each has to fit */
    /* Where groups of a grid of candidates.def do not divide rows, those with smaller ones come in:
     * the size that each stands for, else 0; `mixed`: for these rows alone. */
    uint32_t instead[PITH_TRIES];
    bool mixed;
};
/* The transforms of candidates.def, static texts; the first leaves the model as it is. NULL: no
 * more. */
const char *pith_try_transform(size_t i);
/* Each text may list several, with commas; without any those of candidates.def. PITH_ARG,
 * PITH_UNSUPPORTED for a text that is no grid of weights, PITH_LIMIT for too many. */
enum pith_status pith_tries_parse(const struct pith_list *texts, struct pith_candidates *t,
                                  struct pith_error *err);
/* Leaves those that the job's container takes for some linear and its engines for all;
 * PITH_UNSUPPORTED when there are none, or, of named ones, for the first that they do not take. */
enum pith_status pith_tries_settle(const struct pith_job *job, struct pith_candidates *t,
                                   struct pith_error *err);

/* Whether grid number i is one for that linear, as far as its groups go. */
bool pith_tries_suit(const struct pith_job *job, const struct pith_candidates *t, size_t i,
                     const struct pith_choice *c);

#endif
