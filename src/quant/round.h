/* quant/round.h: stage 4, which grid point each weight takes. One row of quant/rounders.def a rounder. */
#ifndef PITH_QUANT_ROUND_H
#define PITH_QUANT_ROUND_H

#include "backend/backend.h"
#include "num/grid.h"
#include "num/qmat.h"
#include "quant/stats.h"

/* How GPTQ orders columns. static: by decreasing diag(H), groups stay contiguous and are fitted on the
 * original weights, nothing extra is stored. group: the same order, groups formed on the permuted columns,
 * g_idx stored. */
enum pith_act_order { PITH_ORDER_NONE, PITH_ORDER_STATIC, PITH_ORDER_GROUP };

struct pith_round_options {
    double damp;                   /* fraction of mean(diag H) added to the diagonal; default 0.01 */
    enum pith_act_order act_order; /* default static */
};

struct pith_round_job {
    struct pith_backend *backend;
    struct pith_grid grid;
    enum pith_dtype scale_dtype;
    struct pith_round_options options;
    uint32_t rows, cols;
    float *w;                      /* [rows][cols]; may be overwritten */
    const struct pith_stats *stats; /* of the site; NULL when the rounder needs nothing */
};

/* What happened, for pith.json and for the user: nothing is silent. */
struct pith_round_report {
    double loss;          /* tr((W-Q) H (W-Q)^T) / rows when H is known, else mean squared error sum/rows */
    double nearest_loss;  /* the same measure for round-to-nearest on the same grid */
    double damp;          /* fraction that was finally used */
    uint32_t damp_retries;
    uint32_t dead_columns; /* inputs that were always zero */
};

struct pith_rounder {
    const char *name; /* "gptq" */
    const char *summary;
    unsigned needs;
    /* Makes q from w; the caller frees q. Same bytes for any thread count. PITH_NUMERIC when H is not
     * finite or stays singular after all damping retries: never a silent fall-back. */
    enum pith_status (*run)(const struct pith_round_job *job, struct pith_qmat *q,
                            struct pith_round_report *report, struct pith_error *err);
    /* Scratch bytes for one matrix, H itself not counted. */
    uint64_t (*scratch)(uint32_t rows, uint32_t cols);
};
const struct pith_rounder *const *pith_rounders(size_t *count);
const struct pith_rounder *pith_rounder_find(const char *name);

#endif
