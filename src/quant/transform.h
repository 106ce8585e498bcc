/* quant/transform.h: stage 1, a change of basis that leaves the model's function as it was. The
 * table of transforms is in quant/tables.c.
 *
 * A transform sees at one time the linears that read the same input x (a site's, or those of all
 * sites behind one norm), and the tensors that make x (a norm's gain, or rows of the linear
 * before). It multiplies the linears' columns by s and divides what makes x by s. */
#ifndef PITH_QUANT_TRANSFORM_H
#define PITH_QUANT_TRANSFORM_H

#include "backend/backend.h"
#include "num/grid.h"
#include "num/qmat.h"
#include "quant/basis.h"
#include "quant/stats.h"

struct pith_transform_linear {
    float *w; /* [rows][cols], changed in place */
    uint32_t rows, cols;
    struct pith_grid grid; /* format NULL: not quantized, but scaled all the same */
    bool clip;             /* the clip search may touch it (llm-awq: not q and k) */
    /* w is there between the job's hold and drop only, each time with the original weights: in the
     * end nothing is changed, and the caller that lends it does what pith_transform_redo() does. */
    bool lent;
    /* [pith_transform_picks()], the caller's, zeroed, or NULL: receives by how many steps the range
     * of each group was shrunk. */
    uint8_t *pick;
};

/* What a search tries just now. */
struct pith_trial {
    /* Linear i, which is lent and loaded by the caller: its original weights become those of the
     * trial. */
    enum pith_status (*make)(void *ctx, unsigned i, struct pith_error *err);
    void *ctx;
};

struct pith_transform_job {
    struct pith_backend *backend;
    struct pith_ranks *ranks; /* NULL, or who shares the search: all run the same job */
    enum pith_dtype scale_dtype;
    struct pith_transform_linear *linear; /* [count], the caller's */
    unsigned count;
    const struct pith_stats *stats;
    /* Where 1/s goes. gain: a norm's weight [dim]. Else rows of the linear before: w[dim /
     * repeat][cols] and its bias (may be NULL). With repeat > 1 (grouped-query attention: each
     * value head feeds `repeat` query heads; tie_block = head_dim) s must be equal across the
     * heads that share a row. */
    float *gain;
    /* F16 or BF16: gain / s is rounded to it, and s then moved by that rounding, so that the stored
     * gain and the scaled weights belong together. Others: nothing is rounded. */
    enum pith_dtype gain_dtype;
    float gain_plus; /* what is stored is the gain less that */
    float *prev_w;
    float *prev_bias;
    uint32_t prev_cols;
    uint32_t repeat, tie_block;
    /* Neither gain nor prev_w: there is nothing to fold into, s stays 1. */
    /* Makes linear[i].w the weights of one that is lent, as they were; takes them away again. */
    enum pith_status (*hold)(void *ctx, unsigned i, struct pith_error *err);
    void (*drop)(void *ctx, unsigned i);
    void *lender;
    /* Mean squared error of the inspected module's output when the linears hold what linear[].w
     * holds now, or what `trial` makes of those that are lent, against its output with the original
     * weights. awq stores Q(W s) / s in w, to which the undivided input belongs; linears without a
     * grid hold their original weights. NULL: judge by the linears' own outputs over
     * stats->samples, mean squared error an output. */
    enum pith_status (*loss)(void *ctx, const struct pith_trial *trial, double *loss,
                             struct pith_error *err);
    void *loss_ctx;
    double ratio_step; /* awq: grid of ratios 0, step, ... < 1; 0: the default, 1/20 */
    bool clip_search;  /* awq: shrink group ranges afterwards; default on */
    double value;      /* of the option */
    bool feeds_back;   /* the rounder makes up for errors: stats has the Hessian it will use */
    struct pith_input input; /* what becomes of the linears' input; its scale is not known yet */
};

struct pith_transform_report {
    double ratio;                   /* awq, smooth: the chosen exponent, 0 without one */
    double loss_before, loss_after; /* at s = 1, at the chosen s (before clipping) */
    double clipped;                 /* fraction of groups whose range was shrunk */
};

struct pith_transform {
    const char *name;
    const char *summary;
    unsigned needs;
    unsigned also; /* what it makes use of when the rounder needs it */
    /* NULL: the name takes no option. Else the value of what follows the name and a colon, "" when
     * nothing does; PITH_ARG says what is right. */
    enum pith_status (*option)(const char *text, double *value, struct pith_error *err);
    /* NULL, or: the transform changes the whole model's basis before anything else is done. Chooses
     * the blocks of *plan, whose widths are given, for the option's value. */
    void (*basis)(double value, struct pith_basis_plan *plan);
    /* Applies itself to one site. s[dim] (caller's) receives the scales used. Same bytes for any
     * thread count, as long as job->loss gives the same. On failure the linears hold their
     * original weights and nothing is folded. PITH_ARG: shapes, or statistics that are missing;
     * PITH_NUMERIC: weights or statistics that are not finite, or no scale with a finite loss. */
    enum pith_status (*run)(const struct pith_transform_job *job, float *s,
                            struct pith_transform_report *report, struct pith_error *err);
    /* Scratch bytes for a job of these shapes and that many samples (the arrays may be absent). */
    uint64_t (*scratch)(const struct pith_transform_job *job);
};
/* run() and scratch() of one that has nothing to do at a site. */
enum pith_status pith_transform_nothing(const struct pith_transform_job *job, float *s,
                                        struct pith_transform_report *report,
                                        struct pith_error *err);
uint64_t pith_transform_no_scratch(const struct pith_transform_job *job);
/* Does to l->w, weights as they were before, what a transform did to its columns: times s, and by
 * l->pick (NULL: nothing) what was clipped. To the bit what a linear that is not lent holds. */
void pith_transform_redo(struct pith_backend *b, const struct pith_transform_linear *l,
                         const float *s);
/* What the rows of a linear before were divided by, over[rows], of the scales that run() gave. */
void pith_transform_over(const struct pith_transform_job *job, const float *s, float *over);
/* Does so again: w[rows][cols]. */
void pith_transform_redo_rows(float *w, uint32_t rows, uint32_t cols, const float *over);
/* How many groups of a linear a transform may clip, 0 for one whose `clip` or grid forbids it. */
size_t pith_transform_picks(const struct pith_transform_linear *l);
/* All of them, *count; one by its name, NULL when there is none. */
const struct pith_transform *const *pith_transforms(size_t *count);
const struct pith_transform *pith_transform_find(const char *name);

#endif
