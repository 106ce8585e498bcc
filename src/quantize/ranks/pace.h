/* quantize/ranks/pace.h: how ranks keep pace: what each has worked, and what came to it. */
#ifndef PITH_QUANTIZE_RANKS_PACE_H
#define PITH_QUANTIZE_RANKS_PACE_H

#include "base/json.h"
#include "base/ranks/ranks.h"

struct pith_run;

/* Begins zeroed. */
struct pith_paces {
    double *busy, *received; /* [ranks]: seconds at work, and bytes, so far; NULL: nothing added */
    double *last;            /* [ranks]: seconds at work of what was added last */
    char note[64];           /* for the listener: which was slow in the unit before, or "" */
};

/* Adds what every rank, of several, has done since its own `start` (pith_clock()) and `before`;
 * everyone learns it. PITH_NOMEM, and what messages between ranks say. */
enum pith_status pith_paces_add(struct pith_paces *p, struct pith_ranks *ranks, double start,
                                const struct pith_rank_pace *before, struct pith_error *err);
/* To an account: "rank_busy_seconds" and "rank_bytes_received", where there are several ranks.
 * False: no memory. */
bool pith_paces_report(const struct pith_paces *p, const struct pith_ranks *ranks, json_t *j);
void pith_paces_free(struct pith_paces *p);
/* pith_paces_report() and pith_writers_report() of a run. */
bool pith_pace_report(const struct pith_run *r, json_t *j);
typedef enum pith_status pith_unit_fn(struct pith_run *r, size_t unit, struct pith_error *err);
/* One unit of the work, with each rank's time: a rank that takes much longer than the others is
 * named with the steps of the next. */
enum pith_status pith_pace_unit(struct pith_run *r, size_t unit, pith_unit_fn *run,
                                struct pith_error *err);
/* pith_guiding_open(), which counts as a unit does. */
enum pith_status pith_pace_guiding(struct pith_run *r, struct pith_error *err);

#endif
