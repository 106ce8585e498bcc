/* pipe/foresee.h: while one rank rehearses a block, what the same block would take 2, 4, 8, ...
 * ranks: each step of pipe/site.c, pipe/cut.c and calib/relay.c as several ranks would do it, with
 * the seconds that it takes here and the bytes that it would send (plan/ranks_time.h). */
#ifndef PITH_PIPE_FORESEE_H
#define PITH_PIPE_FORESEE_H

#include "pipe/output.h"
#include "pipe/phases.h"
#include "plan/ranks_time.h"
#include "quant/transform.h"

enum { PITH_FORESEE_ROWS = 7 }; /* 1, 2, 4, ... 64 ranks */

struct pith_foresee {
    const struct pith_job *job;
    const char *why;         /* nothing is told, and why; else NULL */
    struct pith_cable cable; /* the job's --link */
    struct pith_phases last; /* what was counted already */
    struct pith_crew crew[PITH_FORESEE_ROWS];
    uint32_t *first; /* owned: who rounds which rows of a site's linears; NULL: nothing is told */
};

/* For a rehearsal: before its block. pith_foresee_end() is due, also after a failure. */
enum pith_status pith_foresee_begin(const struct pith_job *job, struct pith_foresee *f,
                                    struct pith_error *err);
void pith_foresee_end(struct pith_foresee *f);
/* Of block 0, f NULL elsewhere: a site's statistics have been gathered; their Hessian has been
 * factored (NULL: each linear does that); that linear of it has been rounded to q; all of the
 * site's have been. */
void pith_foresee_site(struct pith_foresee *f, const struct pith_phases *now,
                       const struct pith_site_spec *site);
/* Before, where there is a transform: statistics for it of sites [0, count); windows of what a site
 * reads that all look at, so many bytes each; a part of its search (ctx: the foresee). */
void pith_foresee_sites(struct pith_foresee *f, const struct pith_phases *now,
                        const struct pith_site_spec *site, uint32_t count);
void pith_foresee_windows(struct pith_foresee *f, size_t count, uint64_t bytes);
void pith_foresee_told(void *ctx, const struct pith_searched *t);
void pith_foresee_factor(struct pith_foresee *f, const struct pith_phases *now,
                         const struct pith_site_spec *site, const struct pith_factor *factor);
void pith_foresee_linear(struct pith_foresee *f, const struct pith_phases *now,
                         const struct pith_site_spec *site, uint32_t which,
                         const struct pith_qmat *q);
void pith_foresee_meet(struct pith_foresee *f);

/* The account: {"link": {"bits_per_second", "delay_seconds"}, "why" (null when told),
 * "rows": [{"ranks", "seconds_expected": for all, "speedup", "seconds_per_block",
 * "divided", ...: seconds of a block (plan/ranks_time.h), "limit": where ("": nowhere yet),
 * "bytes_received_per_block": the most of any rank, "rank_bytes_received": of the whole run, as
 * pith.json's timing has it}]}. `block` seconds of a block that `now` counts, `other` before. NULL:
 * memory is out. */
json_t *pith_foresee_report(struct pith_foresee *f, const struct pith_phases *now, double block,
                            double other);

#endif
