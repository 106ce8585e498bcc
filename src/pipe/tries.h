/* pipe/tries.h: the grids that are weighed against each other, and the transforms. */
#ifndef PITH_PIPE_TRIES_H
#define PITH_PIPE_TRIES_H

#include "pipe/job.h"

enum { PITH_TRIES = 24 };
struct pith_candidates {
    struct pith_grid grid[PITH_TRIES];
    size_t count;
    size_t spare; /* from there on: only for linears that no other of fewer than eight bits fits */
    bool named; /* by a person: each has to fit */
};
/* The transforms of tries.def, static texts; the first leaves the model as it is. NULL: no more. */
const char *pith_try_transform(size_t i);
/* Each text may list several, with commas; without any those of tries.def. PITH_ARG,
 * PITH_UNSUPPORTED for a text that is no grid of weights, PITH_LIMIT for too many. */
enum pith_status pith_tries_parse(const struct pith_list *texts, struct pith_candidates *t,
                                  struct pith_error *err);
/* Leaves those that the job's container takes for some linear and its engines for all;
 * PITH_UNSUPPORTED when there are none, or, of named ones, for the first that they do not take. */
enum pith_status pith_tries_settle(const struct pith_job *job, struct pith_candidates *t,
                                   struct pith_error *err);

#endif
