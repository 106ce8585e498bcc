/* quant/round.h: stage 4, which grid point each weight takes. The table of rounders is
 * quant/rounders.c. */
#ifndef PITH_QUANT_ROUND_H
#define PITH_QUANT_ROUND_H

#include "backend/backend.h"
#include "num/grid.h"
#include "num/qmat.h"
#include "quant/scale.h"
#include "quant/split.h"
#include "quant/stats.h"

/* How GPTQ orders columns. none: as they are; a group's scale is fitted when its first column is
 * reached, on weights that carry the error of all columns before. static: by decreasing diag(H),
 * groups stay contiguous and are fitted on the original weights, nothing extra is stored. group:
 * the same order, groups formed on the permuted columns and fitted as for none, g_idx stored.
 * GGUF's types go block by block, each fitted when its first column is reached; static orders the
 * columns inside, and group is not for them.
 * Per channel and per tensor all three fit on the original weights. */
enum pith_act_order { PITH_ORDER_NONE, PITH_ORDER_STATIC, PITH_ORDER_GROUP };

struct pith_round_options {
    double damp;          /* 0..1: fraction of mean(diag H) added to the diagonal; default 0.01 */
    double shrink;        /* pith_round_damp(): 0, damp alone; recipes have 1 */
    uint32_t token_limit; /* of the Hessian's tokens (calib/token_limit.h); 0: none */
    enum pith_act_order act_order; /* default static */
    bool range_search;  /* gptq: pith_hessian_searches(); recipes do */
    double drift;       /* gptaq: how much of the drift of the inputs is made up for */
    double output_damp; /* kron: as damp, of the Hessian over outputs */
    uint32_t output_block; /* kron: outputs that are felt together */
    uint32_t row_groups;   /* gptq:guided: Hessians of a matrix, each for a run of its rows */
    /* learned: */
    uint32_t iterations;  /* steps; 0: 200 */
    double learning_rate; /* of the first step; 0: 1 / iterations, twice that for at most 3 bits and
                             from 1000 iterations on */
    uint32_t batch;       /* samples a step; 0: 8 */
    bool float_input;     /* a block reads the float model's activations */
    uint32_t blocks;      /* learned together; 0: 1 */
};

/* What each row of a matrix loses: the report's are the sums, in order, times `times`, of a mean
 * row. So rows that were rounded apart have the report of the whole. */
struct pith_round_lost {
    double *loss, *nearest; /* [rows] */
    double times;
};

/* H's factor, made once for the linears that read one input. */
struct pith_factor;

struct pith_round_job {
    struct pith_backend *backend;
    struct pith_grid grid;
    enum pith_dtype scale_dtype;
    struct pith_round_options options;
    float global; /* what fused linears share, by pith_round_shared(); 0: w's own */
    uint32_t rows, cols;
    float *w; /* [rows][cols]; on success receives the error W - Q, 0 at GPTQ's dead inputs */
    const struct pith_stats *stats; /* of the site; NULL when the rounder needs nothing */
    const struct pith_off_grid
        *off_grid; /* what stays off the grid; NULL: nothing. See pith_round() */
    /* pith_round_factor()'s of the same statistics, which a rounder takes where it would make the
     * same; NULL: it makes its own. */
    const struct pith_factor *factor;
    struct pith_round_lost *lost; /* receives that; NULL: it is not wanted. See part() */
};

/* The damping of a job: the columns over the tokens of its Hessian, times `shrink`, where that is
 * more than `damp`. With few tokens a Hessian is that of these tokens, and one pulled towards its
 * mean diagonal is nearer to that of all (Ledoit, Wolf 2004). At most 1; a negative damp stays. */
static inline double pith_round_damp(const struct pith_round_job *job)
{
    const double tokens = job->stats ? (double)job->stats->tokens : 0;
    const double damp = job->options.damp;
    const double few = tokens > 0 ? job->options.shrink * job->cols / tokens : 0;
    return damp >= 0 && few > damp ? (few < 1 ? few : 1) : damp;
}

/* What happened, for pith.json and for the user: nothing is silent. */
struct pith_round_report {
    double loss; /* tr((W-Q) H (W-Q)^T) / rows when H is known, else mean squared error sum/rows */
    double nearest_loss; /* the same measure for round-to-nearest on the same grid */
    double damp;         /* fraction that was finally used */
    uint32_t damp_retries;
    uint32_t dead_columns; /* inputs that were always zero */
    double factor_seconds; /* of the time, what factoring H took */
};

/* Some rows of a matrix, for a rounder that needs no more. What has to be seen before, by
 * pith_fit_scope(), is done: q->global is set, or, when they are not by row, group or block, the
 * scales. */
struct pith_round_rows {
    struct pith_backend *backend; /* for its kernels: nothing is handed out to its threads */
    const struct pith_grid *grid;
    uint32_t first, rows; /* whole blocks, except at the end, where scales are by block */
    float *tile;          /* scratch of [pith_fit_tile()] where scales are by block */
    float *w;             /* [rows][cols], finite; on success the error W - Q */
    uint8_t *codes;       /* [cols] scratch, as are the values */
    float *values;
};

/* One linear of a block that is rounded as a whole. */
struct pith_round_member {
    struct pith_grid grid;
    enum pith_dtype scale_dtype;
    float global; /* as in struct pith_round_job */
    uint32_t rows, cols;
    const float *w; /* [rows][cols] */
    float *values;  /* [rows][cols], the rounder's: what the objective is to compute with */
    float *grad;    /* [rows][cols], the objective's: of a loss with respect to values */
};

/* The linears of a block, and what they are for. */
struct pith_round_block {
    struct pith_backend *backend;
    struct pith_round_options options;
    uint64_t seed;
    const struct pith_round_member *member;
    unsigned count;
    size_t samples; /* sequences that the block was seen with */
    /* loss[count]: the squared error, summed, of the block's output for each of those samples
     * (NULL: the first `count`), with the members' values in place of their weights; `gradient`
     * adds the gradient of it (or of a positive multiple, the same for all samples), in their
     * order, to every member's grad. A failure ends the rounding. */
    enum pith_status (*objective)(void *ctx, const size_t *sample, size_t count, bool gradient,
                                  double *loss, struct pith_error *err);
    void *ctx;
};

struct pith_round_block_report {
    double loss, nearest_loss; /* the objective over all samples; of rounding to nearest */
    uint32_t iterations;
    uint32_t step; /* the step whose values these are; 0: nothing was better than the nearest */
};

/* How rounders of one kind work. `rounder` is the row that is used. */
struct pith_rounder;
struct pith_rounding {
    /* Makes q from w; the caller frees q. Same bytes for any thread count. PITH_NUMERIC when a
     * weight or H is not finite, a scale overflows scale_dtype, no input was ever non-zero, or H
     * stays singular after all damping retries (ten times the fraction each, at most 1): never a
     * silent fall-back. PITH_ARG when the statistics are missing or of another width,
     * PITH_UNSUPPORTED for a grid without a gridder. On failure *q owns nothing. */
    enum pith_status (*run)(const struct pith_rounder *rounder, const struct pith_round_job *job,
                            struct pith_qmat *q, struct pith_round_report *report,
                            struct pith_error *err);
    /* NULL, or, for rounders that need no statistics: the same for some rows alone, by the calling
     * thread, into a q that pith_qmat_init() made; so run() is a loop over this. *squares grows by
     * their squared error, row by row: divided by the matrix's rows it is the report's loss. Errors
     * as for run; q stays the caller's. */
    enum pith_status (*rows)(const struct pith_round_rows *part, struct pith_qmat *q,
                             double *squares, struct pith_error *err);
    /* NULL, or: rows stand alone unless the grid or the statistics couple them (pith_round_cut()).
     * Rounds the job's rows into q, whose rows these are and which stays the caller's; fills
     * job->lost. Without q, as dense(). Errors as for run. */
    enum pith_status (*part)(const struct pith_rounder *rounder, const struct pith_round_job *job,
                             struct pith_qmat *q, struct pith_round_report *report,
                             struct pith_error *err);
    /* NULL, or what pith_round_factor() does for it. */
    enum pith_status (*factor)(const struct pith_round_job *job, struct pith_ranks *ranks,
                               struct pith_factor **out, struct pith_error *err);
    /* Scratch bytes of run(), or of dense() without a grid, for a job of which backend, grid,
     * options, rows, cols and which statistics there are are looked at, with what that split keeps;
     * H, w and q themselves are not counted. */
    uint64_t (*scratch)(const struct pith_rounder *rounder, const struct pith_round_job *job,
                        const struct pith_split *split);
    /* run() handles job->off_grid itself. */
    bool keeps;
    /* NULL, or for weights that stay in 16 bits (job->grid's format is NULL): makes the zeros of
     * job->off_grid; w receives the resulting weights instead of errors, each representable in
     * scale_dtype. Errors as for run. */
    enum pith_status (*dense)(const struct pith_rounder *rounder, const struct pith_round_job *job,
                              struct pith_round_report *report, struct pith_error *err);
    /* NULL, or: rounds the linears of a block together, by what the block gives; used instead of
     * run() where a block is at hand. Makes q[count]; the caller frees them. values and grad are
     * scratch afterwards. Errors as for run(), those of the objective, and PITH_UNSUPPORTED for a
     * grid on which it cannot learn. On failure no q owns anything. */
    enum pith_status (*block)(const struct pith_round_block *job, struct pith_qmat *q,
                              struct pith_round_block_report *report, struct pith_error *err);
    /* With block: bytes that a member adds (all exist at once), by its grid and shape; w, values
     * and grad not counted. */
    uint64_t (*member_scratch)(const struct pith_round_member *member, unsigned threads);
};

/* What a sweep over columns holds against what. X are the inputs of the model whose earlier layers
 * are quantized, X' those of the model as it was.
 *
 *     plain   Q X against W X
 *     gptaq   against W X', as GPTAQ has it (Li et al. 2025): when a column is reached, what its
 *             input has drifted by is made up for by the columns after it. No grid of whole
 *             matrices allows that
 *     qep     against W X', by all columns at once: GPTQ of W + W (X' - X) X^T H^-1, the matrix
 *             whose outputs are nearest (QEP: Arai, Ichikawa 2025) */
enum pith_sweep_form { PITH_SWEEP_PLAIN, PITH_SWEEP_GPTAQ, PITH_SWEEP_QEP };

/* One row of the table in quant/rounders.c. */
struct pith_rounder {
    const char *name; /* "gptq" */
    const char *summary;
    const struct pith_rounding *by;
    unsigned needs;
    enum pith_sweep_form form; /* of those that sweep */
    /* The rounder that it is to one linear by itself, for those who try linears one by one; NULL:
     * it is that itself, and looks at nothing but that linear. */
    const char *alone;
};

static inline enum pith_status pith_rounder_run(const struct pith_rounder *rounder,
                                                const struct pith_round_job *job,
                                                struct pith_qmat *q,
                                                struct pith_round_report *report,
                                                struct pith_error *err)
{
    return rounder->by->run(rounder, job, q, report, err);
}
/* pith_rounder_run() with job->off_grid, whether the rounder keeps() or not: zeros are exact, and
 * q->sparse has the weights off the grid minus the values of their codes, in F16. The report's loss
 * counts all of it. PITH_UNSUPPORTED also when the grid has no exact zero where one is needed. */
enum pith_status pith_round(const struct pith_rounder *rounder, const struct pith_round_job *job,
                            struct pith_qmat *q, struct pith_round_report *report,
                            struct pith_error *err);
/* A matrix may be cut for pith_round_some() at multiples of so many rows. 0: not at all, since its
 * rows share something that is found from all of them (a scale of the tensor, scales that are
 * quantized again, a trellis, Hessians of groups of rows, what a drift asks), or keep weights off
 * the grid. By the job's grid, options and statistics alone; `split` says what is stored off the
 * grid. */
uint32_t pith_round_cut(const struct pith_rounder *rounder, const struct pith_round_job *job,
                        const struct pith_split *split);
struct pith_round_span {
    uint32_t first, rows;
};
/* pith_round() of some rows of a matrix that can be cut there. q is of the whole
 * and the caller frees it, with other rows all zero; job->lost, of the whole too, and *report have
 * these rows' part. No rows at all are fine. With every row and its losses in place, the losses of
 * the whole are pith_round_mean() of either; all else in the report is the same in each part. */
enum pith_status pith_round_some(const struct pith_rounder *rounder,
                                 const struct pith_round_job *job, struct pith_round_span span,
                                 struct pith_qmat *q, struct pith_round_report *report,
                                 struct pith_error *err);
/* What the job and others that differ in rows, weights and scales alone can take as job->factor;
 * *out stays NULL where the rounder takes none. Those ranks (NULL: this one), which have the same
 * statistics, make it together and all have it then. Its bytes are part of the rounder's scratch().
 * Errors as for run(). */
enum pith_status pith_round_factor(const struct pith_rounder *rounder,
                                   const struct pith_round_job *job, struct pith_ranks *ranks,
                                   struct pith_factor **out, struct pith_error *err);
void pith_round_factor_free(struct pith_factor *f);
double pith_round_mean(const double *row, uint32_t rows, double times);
/* The same without a grid, for rounders without dense() too: w receives the weights. */
enum pith_status pith_round_dense(const struct pith_rounder *rounder,
                                  const struct pith_round_job *job,
                                  struct pith_round_report *report, struct pith_error *err);
/* Scratch bytes of either and of the split with that option, with the weights off the grid, but
 * without those of the rounder. */
uint64_t pith_round_off_grid_scratch(const struct pith_split *split, double value, uint32_t rows,
                                     uint32_t cols);
/* Fits scales or levels of q to job->w: what stands between pith_round_begin() and choosing
 * codes. */
enum pith_status pith_round_fit(const struct pith_round_job *job, struct pith_qmat *q,
                                struct pith_error *err);
/* PITH_NUMERIC names the first weight that is not finite. *most receives the largest magnitude. */
enum pith_status pith_round_check_weights(const struct pith_round_job *job, float *most,
                                          struct pith_error *err);
/* q->sparse from total, the value that a weight off the grid must have: in F16, minus the value of
 * its code. total[] is in the order of off_grid->col. PITH_NUMERIC when F16 is too narrow. */
enum pith_status pith_round_attach(struct pith_qmat *q, const struct pith_sparse *off_grid,
                                   const float *total, struct pith_error *err);
/* The scale of the tensor that suits weights up to that magnitude: nvfp4's; 1 for other grids. */
float pith_round_global(const struct pith_grid *grid, float most);
/* What linears that engines fuse into one have to share, for weights up to that magnitude: nvfp4's
 * scale of the tensor, and of floats by tensor the scale itself, since engines would round all but
 * one of them again to the largest of the scales. 0 where nothing is shared; scales that are
 * searched are each linear's own. */
float pith_round_shared(const struct pith_grid *grid, float most);
/* What every rounder begins with: checks the job (sizes, grid, finite weights, width of the
 * statistics) and makes an empty q. Errors as for run. */
enum pith_status pith_round_begin(const struct pith_round_job *job, struct pith_qmat *q,
                                  struct pith_error *err);

/* tr(D H D^T) / rows for d[rows][cols] and the Hessian h[cols][cols]: the squared error of the
 * linear's outputs, times the 2 in H, averaged over tokens and summed over a mean row. Products
 * in float, sums in double. */
enum pith_status pith_round_loss(struct pith_backend *b, const float *d, uint32_t rows,
                                 uint32_t cols, const float *h, double *loss,
                                 struct pith_error *err);
/* The same by row, row[rows]: pith_round_mean() of them, times 2, is that loss. False: no memory.
 */
bool pith_round_losses(struct pith_backend *b, const float *d, uint32_t rows, uint32_t cols,
                       const float *h, double *row);
/* Scratch bytes of pith_round_loss(). */
uint64_t pith_round_loss_scratch(uint32_t rows);

/* All of them, *count; one by its name, NULL when there is none. */
const struct pith_rounder *pith_rounders(size_t *count);
const struct pith_rounder *pith_rounder_find(const char *name);

#endif
