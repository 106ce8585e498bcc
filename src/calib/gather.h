/* calib/gather.h: statistics of sites' inputs, added up window by window. Inside calib/ only. */
#ifndef PITH_CALIB_GATHER_H
#define PITH_CALIB_GATHER_H

#include "calib/collect.h"
#include "calib/guide.h"
#include "calib/token_limit.h"
#include "quant/stats.h"

/* What is wanted: see pith_collect(). */
struct pith_gather_plan {
    const struct pith_layer_plan *layer;
    uint32_t first, count; /* sites */
    unsigned needs;
    size_t tokens, samples;
    double mass;                      /* what the tokens' weights add up to; 0: each counts once */
    const struct pith_guided *guided; /* what PITH_NEED_GUIDED goes by; there may be no more rows */
    size_t rows;                      /* in a window than these */
    double token_limit;               /* struct pith_collector's */
};

/* Of |x| and of x^2: averages of millions of values need more than float32. */
struct pith_gather_sums {
    double *absolute, *squares;
    double mass; /* of the tokens so far */
};

struct pith_gather {
    struct pith_backend *backend;
    const struct pith_relay *relay; /* NULL: all windows are here, rows are added as they come */
    size_t from, here;              /* else which tokens are: the first, how many */
    struct pith_guide_view *view;  /* [stats->views], guided: of one site; else NULL */
    const uint32_t *token;         /* which tokens come, [n]; NULL: from number `seen` on */
    float *weighed;                /* [rows][dim], guided, limited or for the drift */
    struct pith_token_limit limit; /* of the rows of pith_gather_limit() */
    const float *other;            /* what the model as it was has in place of the rows that come */
    struct pith_stats *stats;      /* [count], the caller's */
    struct pith_gather_sums *sums; /* [count] */
    uint32_t first, count;
    size_t step; /* every step-th token is a sample */
    size_t seen; /* tokens of the windows before this one: the caller that passes windows counts
                    them */
    double weight; /* of the tokens that come; 1 until it is changed */
    float alpha;   /* 2 / mass */
    size_t sample_limit;
    double hessian_seconds;
};

/* Takes memory for what the plan says into stats[plan->count]; pith_gather_end() and
 * pith_stats_free() are due also after a failure. */
enum pith_status pith_gather_begin(struct pith_gather *g, struct pith_backend *be,
                                   const struct pith_gather_plan *plan, struct pith_stats *stats,
                                   struct pith_error *err);
/* Adds a site's inputs of a window: a pith_tap_fn. True after the last site of the plan. */
bool pith_gather_tap(void *ctx, uint32_t site, const float *x, size_t n, size_t dim);
/* Bytes that a site's sums take in addition to its statistics while they are gathered. */
uint64_t pith_gather_bytes(uint32_t dim, unsigned needs);
/* What more views than one take of a site's statistics; and what windows of so many rows take while
 * these and drifts are gathered. */
uint64_t pith_guided_bytes(const struct pith_site_spec *site, unsigned needs,
                           const struct pith_guided *guided);
uint64_t pith_gather_rows_bytes(const struct pith_site_spec *site, unsigned needs,
                                const struct pith_guided *guided, size_t rows);
/* And what they take besides where the length of tokens is limited (token_limit.h). */
uint64_t pith_gather_limited_bytes(uint32_t dim, unsigned needs, size_t rows);
/* relay.c: with several ranks, lets pith_gather_tap() keep rows instead of adding them. Between
 * pith_gather_begin() and the first window. */
enum pith_status pith_gather_spread(struct pith_gather *g, const struct pith_relay *relay,
                                    const struct pith_acts *acts,
                                    const struct pith_gather_plan *plan, struct pith_error *err);
/* relay.c: after the last window: the statistics over the windows of all ranks, everywhere. */
enum pith_status pith_gather_meet(struct pith_gather *g, const struct pith_acts *acts,
                                  struct pith_error *err);
/* relay.c: the rows of a site in the window that begins with token g->seen. */
void pith_gather_keep(const struct pith_gather *g, uint32_t site, const float *x, size_t n);
/* Adds what of a site's rows is no Hessian's. */
void pith_gather_add(const struct pith_gather *g, uint32_t site, const float *x, size_t n);
/* Finds which of the rows that are added to products next are above the limit of a token. */
void pith_gather_limit(struct pith_gather *g, const float *x, size_t n, size_t dim);
/* A site's rows of the window that begins with token g->seen, as a view of it weighs them, and no
 * longer than the limit: x, or in g->weighed, until the next. Adds those of a guided site, which
 * are there, to that view's squares. */
const float *pith_gather_weigh(const struct pith_gather *g, const struct pith_stats *st,
                               uint32_t view, const float *x, size_t n);
void pith_gather_add_weighed(const struct pith_gather *g, const struct pith_stats *st,
                             double *squares, size_t n);
/* Adds to rows [first, first + rows) of a site's drift what its rows x differ from `other`, which
 * the model as it was has in their place. */
struct pith_gather_drift {
    const float *x, *other;
    size_t n, first, rows;
};
void pith_gather_add_drift(const struct pith_gather *g, const struct pith_stats *st,
                           const struct pith_gather_drift *d);
/* Finishes the averages when `good`, and frees what only the sums needed. */
void pith_gather_end(struct pith_gather *g, bool good);

#endif
