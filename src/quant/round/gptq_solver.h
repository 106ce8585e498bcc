/* quant/round/gptq_solver.h: what the sweep of GPTQ and its report (gptq_report.c) share. */
#ifndef PITH_QUANT_ROUND_GPTQ_SOLVER_H
#define PITH_QUANT_ROUND_GPTQ_SOLVER_H

#include "quant/round/factor.h"
#include "quant/round/gptq.h"
#include "quant/round/kron.h"

enum { PITH_GPTQ_TILE = 64 }; /* rows */

struct pith_gptq_solver {
    const struct pith_round_job *job;
    const struct pith_gridder *gridder;
    struct pith_grid_rule rule;
    struct pith_pool *pool;
    const struct pith_kern *kern;
    struct pith_qmat *q;
    uint32_t rows, cols;
    size_t ld;    /* rows, rounded up to tiles, plus a little so that no stride is a power of 2 */
    bool dynamic; /* groups are fitted on the way */
    uint32_t segment; /* columns that are fitted together: a group, or a block of GGUF's */
    size_t groups;    /* of a row */
    bool offsets;     /* the grid has them */
    enum pith_sweep_form form;
    bool choose; /* zeros are chosen on the way */
    /* Bits of the rows of a tile, [cols][tiles] in solving order: what becomes 0, and what is
     * stored off the grid; or NULL. */
    uint64_t *zeros, *off;
    size_t tiles;
    float *values;  /* [rows][cols], without a grid: what becomes of the weights */
    uint32_t *step; /* the reverse; made when there are weights off the grid */
    struct pith_factor f;
    bool lent; /* f is the job's */
    /* Unless the form is plain: [cols][cols], see pith_factor_drift(); and [cols][ld]: the
     * correction of each weight for the drift, or (GPTAQ) the solved weights before they were
     * rounded. */
    float *drift, *correction;
    float *felt; /* pith_pivot_square() of each step, for groups searched on the way; or NULL */
    struct pith_outputs outputs; /* rows 0: each row for itself */
    float *swept;                /* with them: [threads][block], of one column */
    double fixed_loss;           /* what is lost with all weights as they are, a row */
    float *wt, *u;
    float *scale, *zero, *offset; /* [groups][ld]; offset NULL where there are none */
    uint8_t *codes;
    uint8_t *packing; /* [threads][PACK][cols] */
    float *moved;     /* [threads][moved_size], moved_size = segment * PITH_GPTQ_TILE */
    size_t moved_size;
    void *memory;          /* behind all of these but values */
    uint32_t first, end;   /* steps of the present block */
    uint32_t sub, sub_end; /* of the present sub-block */
};

/* Whether a weight of solving step k is in such bits. */
static inline bool pith_gptq_is_set(const struct pith_gptq_solver *s, const uint64_t *bits,
                                    uint32_t k, size_t row)
{
    return bits && (bits[k * s->tiles + row / PITH_GPTQ_TILE] >> row % PITH_GPTQ_TILE & 1);
}

/* Both losses from what is stored, not from the solver's estimates; w receives the errors.
 * wt is lost. PITH_NUMERIC: the loss is no number. */
enum pith_status pith_gptq_measure(struct pith_gptq_solver *s, struct pith_round_report *report,
                                   struct pith_error *err);
/* The same without a grid, for what s->values has; w stays unchanged. */
enum pith_status pith_gptq_measure_values(struct pith_gptq_solver *s,
                                          struct pith_round_report *report, struct pith_error *err);

#endif
