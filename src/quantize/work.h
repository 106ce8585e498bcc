/* quantize/work.h: a block on its way through the stages, shared by the files that do them. */
#ifndef PITH_QUANTIZE_WORK_H
#define PITH_QUANTIZE_WORK_H

#include "quant/transform.h"
#include "quantize/ranks/division.h"
#include "quantize/ranks/experts.h"
#include "quantize/run.h"

/* How a linear's tensors differ from the input's. */
struct pith_work_change {
    bool scaled, rotated;           /* the matrix */
    bool bias_scaled, bias_rotated; /* the bias, if it has one */
    struct pith_linear_result pruned; /* of one without a grid */
};

/* What rounding made of a linear. */
struct pith_rounded {
    struct pith_qmat q; /* no codes: it was not rounded here */
    struct pith_linear_result made;
    struct pith_round_lost lost; /* where it was divided (division.h); loss is owned */
};

/* What a transform did to a matrix, for when it is made again. */
struct pith_work_redo {
    const float *by; /* columns times that, [cols]; NULL: it did nothing to them */
    uint8_t *pick;   /* owned: how their groups were clipped then, or NULL */
    float *over;     /* owned: rows divided by that, [rows], or NULL */
};

/* A block on its way, and which of its tensors no longer equal the input's. */
struct pith_work {
    struct pith_run *run;
    struct pith_block block;
    struct pith_stages stages;
    struct pith_block twin; /* with the unrounded form of rounded linears; else the block's */
    struct pith_stages twin_stages;
    uint32_t layer;
    const struct pith_layer_plan *plan;
    struct pith_work_change *changes; /* [plan->linears] */
    bool *regain;                     /* [plan->vectors]: no longer the input's */
    bool rotated;                     /* the block is in another basis */
    struct pith_work_redo *redo;      /* [plan->linears] */
    float **scale; /* [plan->sites], owned: what redo points to, of the group that begins there */
    uint32_t loaded;                 /* the expert whose matrices are there; PITH_NO_PART: none */
    struct pith_linear_result *waiting; /* [plan->linears]: experts.h; or NULL */
    double each;                     /* of the effort of the transform, what goes to one weight */
    /* Where rounding is learned: of blocks that are learned together. */
    struct pith_learned {
        uint32_t place, blocks;                /* its place among so many */
        float *global;                         /* [plan->linears], owned, as is q[plan->linears] */
        struct pith_qmat *q;                   /* what its linears became */
        struct pith_round_block_report report; /* of all of them, */
        unsigned members;                      /* which have so many linears that were rounded */
    } learned;
    json_t *linears, *transforms, *blocks, *experts, *tensors; /* borrowed from the unit */
};

/* expert_weights.c: memory of all of that but the block's, and its end. */
enum pith_status pith_work_begin(struct pith_work *w, struct pith_error *err);
void pith_work_end(struct pith_work *w);
/* expert_weights.c: an expert's matrix is read when it is worked on, unless whole layers are
 * loaded.
 */
bool pith_work_is_late(const struct pith_work *w, uint32_t linear);
/* expert_weights.c: loads a matrix that is not there, as floats, with all changes so far: rotated,
 * or by w->redo. */
enum pith_status pith_work_fetch(struct pith_work *w, uint32_t linear, struct pith_error *err);
/* expert_weights.c: loads those of one expert; those of the one before (w->loaded) go.
 * PITH_NO_PART: of none. */
enum pith_status pith_work_fetch_expert(struct pith_work *w, uint32_t expert,
                                        struct pith_error *err);
/* block.c: a pass over the windows has ended: its time, and apart from it that of the Hessians. */
void pith_work_mark_pass(struct pith_work *w, enum pith_phase phase);
/* site.c: every linear, site by site; the account in w's lists. */
enum pith_status pith_work_round(struct pith_work *w, struct pith_error *err);
/* site.c: what a rounded linear costs, into *made; frees q on failure. */
enum pith_status pith_work_check(struct pith_work *w, const struct pith_choice *c,
                                 struct pith_qmat *q, struct pith_linear_result *made,
                                 struct pith_error *err);
/* site.c: parts of that: what is done to a matrix before, and how far it is from the input's. */
enum pith_status pith_work_settle(struct pith_work *w, const struct pith_choice *c,
                                  struct pith_qmat *q, struct pith_error *err);
enum pith_status pith_work_distance(const struct pith_work *w, const struct pith_choice *c,
                                    const struct pith_weight *made, double *relative,
                                    struct pith_error *err);
/* site.c: stores it, and the block goes on with it; takes q over, also on failure. */
enum pith_status pith_work_keep(struct pith_work *w, const struct pith_choice *c,
                                struct pith_qmat *q, struct pith_linear_result *made,
                                struct pith_error *err);
/* site.c: what each of a site's linears shares with those of its grid, global[site->count], before
 * the first is rounded. */
void pith_work_globals(const struct pith_work *w, const struct pith_site_spec *site, float *global);
/* site.c: the block computes with q, which is its own then, in place of the linear's floats. */
void pith_work_install(struct pith_work *w, uint32_t linear, const struct pith_qmat *q);
/* site.c: the block as it was, where rounding needs it, sharing everything with the block until a
 * linear is rounded; and its end. */
enum pith_status pith_work_twin(struct pith_work *w, struct pith_error *err);
void pith_work_untwin(struct pith_work *w);
/* site.c: gives it a linear's floats, before these are rounded and lost. */
enum pith_status pith_work_keep_twin(struct pith_work *w, const struct pith_choice *c,
                                     struct pith_error *err);
/* site.c: adds what pruning did to a linear to the account of the tensor that was stored last. */
enum pith_status pith_work_report_pruned(struct pith_work *w, const struct pith_choice *c,
                                         struct pith_error *err);
/* transform.c: the recipe's transform, applied to every site of the block. */
enum pith_status pith_work_transform(struct pith_work *w, struct pith_error *err);

#endif
