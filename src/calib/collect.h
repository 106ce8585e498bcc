/* calib/collect.h: runs a block over the calibration windows and gathers just what a stage needs.
 */
#ifndef PITH_CALIB_COLLECT_H
#define PITH_CALIB_COLLECT_H

#include "base/progress.h"
#include "calib/guide.h"
#include "calib/relay.h"
#include "model/model.h"
#include "quant/stats.h"

/* What enters a block, window by window: the stream [length][hidden], then what layers carry
 * (pith_plans_lay()), `carried` floats a token. In files each window begins at a new page
 * (pith_acts_stride()): of several ranks, which fill theirs of one file, no two write to a page. */
struct pith_acts {
    float *x;
    size_t windows, length, hidden;
    size_t carried;
    size_t stride; /* floats from one window to the next; 0: they follow each other */
    /* Where ranks share the text: the place of the first of these windows in it, and how many it
     * has; all 0: these are all. */
    size_t first, all;
};
static inline size_t pith_acts_all(const struct pith_acts *a) /* windows of the text */
{
    return a->all ? a->all : a->windows;
}
static inline size_t pith_acts_floats(const struct pith_acts *a) /* of a window */
{
    return a->length * (a->hidden + a->carried);
}
static inline size_t pith_acts_step(const struct pith_acts *a) /* from a window to the next */
{
    return a->stride ? a->stride : pith_acts_floats(a);
}
static inline size_t pith_acts_stride(size_t floats) /* whole pages */
{
    enum { PAGE = 4096 / sizeof(float) };
    return (floats + PAGE - 1) / PAGE * PAGE;
}
static inline float *pith_acts_window(const struct pith_acts *a, size_t window)
{
    return a->x + window * pith_acts_step(a);
}
/* A token's row of the stream. */
static inline float *pith_acts_row(const struct pith_acts *a, size_t token)
{
    return pith_acts_window(a, token / a->length) + token % a->length * a->hidden;
}

/* What a pass over the windows uses; its memory is made once and serves every block. */
struct pith_collector {
    struct pith_backend *backend;
    const struct pith_model *model;
    struct pith_scratch scratch;
    struct pith_kv kv; /* one layer, one window */
    float *row;        /* a window on its way through a block, as in struct pith_acts */
    size_t length;
    /* Called after each window of pith_collect() and pith_propagate(); a failure (the caller wants
     * to stop) ends the pass. NULL: none. */
    enum pith_status (*step)(void *ctx, struct pith_error *err);
    void *step_ctx;
    double hessian_seconds; /* spent so far on PITH_NEED_HESSIAN */
    double token_limit;     /* calib/token_limit.h: of a Hessian's rows; 0: none */
    struct pith_relay relay; /* between ranks; all 0: there is one */
    /* [2][heads], or NULL: pith_collect() raises them to the largest magnitude of the keys (after
     * rope) and of the values of each head; to NaN when one is not finite. */
    float *kv_most;
};
enum pith_status pith_collector_init(struct pith_collector *c, struct pith_backend *be,
                                     const struct pith_model *m, size_t length,
                                     struct pith_error *err);
void pith_collector_free(struct pith_collector *c);
uint64_t pith_collector_bytes(const struct pith_model *m, size_t length);

/* What is gathered: for sites [first, first + count) of a layer's plan `needs` (enum pith_needs);
 * `samples` limits PITH_NEED_SAMPLES: at most that many vectors, at equal distances. */
struct pith_collect {
    uint32_t first, count;
    unsigned needs;
    size_t samples;
    const struct pith_guided *guided; /* with PITH_NEED_GUIDED, which is for one site at a time */
};
/* Gathers over all windows into stats[what->count]. Sums are taken in the order of the windows: the
 * same bits for any thread count. Free with pith_stats_free(), also after a failure. */
enum pith_status pith_collect(struct pith_collector *c, const struct pith_block *b,
                              const struct pith_acts *acts, const struct pith_collect *what,
                              struct pith_stats *stats, struct pith_error *err);
void pith_stats_free(struct pith_stats *stats, uint32_t count);
uint64_t pith_stats_bytes(uint32_t dim, unsigned needs, size_t samples);

/* out = block(in), window by window; in and out may not overlap. */
enum pith_status pith_propagate(struct pith_collector *c, const struct pith_block *b,
                                const struct pith_acts *in, const struct pith_acts *out,
                                struct pith_error *err);

/* The input of one site for some whole windows, for judging a module: out[count][length][dim] where
 * dim is the site's. Windows are taken at equal distances. */
enum pith_status pith_collect_windows(struct pith_collector *c, const struct pith_block *b,
                                      const struct pith_acts *acts, uint32_t site, size_t count,
                                      float *out, struct pith_error *err);

#endif
