/* quantize/ranks/foresee.h: while one rank rehearses a block of each kind, what these, and what
 * goes before them, would take 2, 4, 8, ... ranks: each step as several ranks would do it, with the
 * seconds that it takes here and the bytes that it would send (plan/time/ranks_time.h).
 *
 *   foresee.c        the steps of a block, and the report
 *   foresee_stats.c  what goes round of statistics, and rows of experts' tokens
 *   foresee_units.c  what goes with each unit, whatever its steps: rows of a table
 *
 * Steps are told as they are done; a NULL foresee is told nothing. */
#ifndef PITH_QUANTIZE_RANKS_FORESEE_H
#define PITH_QUANTIZE_RANKS_FORESEE_H

#include "calib/routed.h"
#include "plan/time/ranks_time.h"
#include "plan/time/rehearsed.h"
#include "quant/transform.h"
#include "quantize/output/output.h"
#include "quantize/phases.h"
#include "quantize/ranks/ranks.h"

enum { PITH_FORESEE_ROWS = 7 }; /* 1, 2, 4, ... 64 ranks */
enum pith_foresee_stage { PITH_FORESEE_BEFORE, PITH_FORESEE_BLOCK, PITH_FORESEE_STAGES };

struct pith_foresee {
    const struct pith_job *job;
    const char *why;         /* nothing is told, and why; else NULL */
    struct pith_cable cable; /* the job's --link */
    enum pith_foresee_stage stage;
    struct pith_phases last; /* what was counted already */
    double before;           /* seconds before the block that its crews have */
    struct pith_rehearsed block; /* the one that is done now */
    struct pith_crew crew[PITH_FORESEE_STAGES][PITH_FORESEE_ROWS];
    struct pith_crew whole[PITH_FORESEE_ROWS]; /* all blocks that were stood for so far */
    double alone;                              /* and seconds of one rank */
    uint32_t *first; /* owned: who rounds which rows of a site's linears; NULL: nothing is told */
    unsigned *owner; /* owned: [PITH_FORESEE_ROWS][linears of the block], of what streams */
    size_t *taken;   /* owned: [experts][PITH_CREW_MOST], tokens of a rank's windows */
};

/* For a rehearsal, before all else. pith_foresee_end() is due, also after a failure. */
enum pith_status pith_foresee_begin(const struct pith_job *job, struct pith_foresee *f,
                                    struct pith_error *err);
void pith_foresee_end(struct pith_foresee *f);
/* All windows went there and back, for guided rounding, in so many seconds. */
void pith_foresee_guided(struct pith_foresee *f, double seconds);
/* What comes now is that block; phases begin at 0. */
void pith_foresee_block(struct pith_foresee *f, const struct pith_rehearsed *block);
/* It is done, in `seconds`, which `now` counts. */
void pith_foresee_done(struct pith_foresee *f, const struct pith_phases *now, double seconds);

/* A unit's input has been hashed: a tensor is one rank's to hash, and so much of the bytes (0 to 1)
 * is the largest's. */
void pith_foresee_source(struct pith_foresee *f, const struct pith_phases *now, double largest);

/* Of what needs nothing but its own weights (quantize/stream.c): a linear of the block or one of
 * the ends, and the seconds of its task, of so many side by side. */
struct pith_streamed {
    bool end;       /* of the model; then `which` is enum pith_end, else the linear's number */
    uint32_t which;
    bool shares; /* its least and largest weight were looked at before, for all of its site */
    const struct pith_route_sizes *sent;
    const struct pith_phases *time;
    unsigned threads;
};
void pith_foresee_streamed(struct pith_foresee *f, const struct pith_streamed *s);

/* The embedding is quantized, and windows are of what it became. */
void pith_foresee_embedded(struct pith_foresee *f, const struct pith_qmat *q);

/* Of the block: a site's statistics have been gathered (NULL: none are needed); their Hessian has
 * been factored (NULL: each linear does that); that linear of it has been rounded to q (NULL: it
 * has zeros in it now). */
void pith_foresee_site(struct pith_foresee *f, const struct pith_phases *now,
                       const struct pith_site_spec *site, const struct pith_stats *stats);
void pith_foresee_factor(struct pith_foresee *f, const struct pith_phases *now,
                         const struct pith_site_spec *site, const struct pith_factor *factor);
void pith_foresee_linear(struct pith_foresee *f, const struct pith_phases *now,
                         const struct pith_site_spec *site, uint32_t which,
                         const struct pith_qmat *q);
/* Tokens have chosen their experts; `width` floats of a row are brought to who reads it. */
void pith_foresee_routed(struct pith_foresee *f, const struct pith_routed *r, size_t width);
/* Where there is a transform: statistics for it of those sites, all tokens'; windows of what a site
 * reads that all look at, so many bytes each; a part of its search (ctx: the foresee); an expert's
 * search is over; and what was found there, in messages of so many bytes. */
void pith_foresee_sites(struct pith_foresee *f, const struct pith_phases *now,
                        const struct pith_site_spec *site, uint32_t count);
void pith_foresee_windows(struct pith_foresee *f, size_t count, uint64_t bytes);
void pith_foresee_told(void *ctx, const struct pith_searched *t);
void pith_foresee_expert(struct pith_foresee *f, const struct pith_phases *now,
                         const struct pith_site_spec *site);
void pith_foresee_found(struct pith_foresee *f, const struct pith_site_spec *site, uint64_t bytes);
/* Where rounding is learned: windows of a step have gone through the block, and back when there is
 * a gradient of w[linears] (calib/grads.h); what a linear became has been measured. */
void pith_foresee_step(struct pith_foresee *f, size_t windows, float *const *w, double seconds);
void pith_foresee_measured(struct pith_foresee *f, const struct pith_phases *now, uint32_t linear);
/* Ranks wait here for each other: all of a site's linears are rounded, all experts are. */
void pith_foresee_meet(struct pith_foresee *f);

/* The account: {"link": {"bits_per_second", "delay_seconds"}, "why" (null when told),
 * "rows": [{"ranks", "seconds_expected": for all, "speedup", "seconds_per_block",
 * "divided", ...: seconds of a block (plan/time/ranks_time.h), "limit": where ("": nowhere yet),
 * "bytes_received_per_block": the most of any rank, "rank_bytes_received": of the whole run, as
 * pith.json's timing has it}]}. `other` seconds before the blocks. NULL: memory is out. */
json_t *pith_foresee_report(struct pith_foresee *f, double other);

#endif
