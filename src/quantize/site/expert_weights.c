/* Matrices of experts, which are there for as long as they are worked on. */
#include "quantize/work.h"

#include "base/mem.h"

bool pith_work_is_late(const struct pith_work *w, uint32_t linear)
{
    return !w->run->job->whole_layers && w->plan->linear[linear].expert != PITH_NO_PART;
}

/* What was done to it before it was dropped. */
static void redo(const struct pith_work *w, uint32_t linear)
{
    const struct pith_work_redo *d = &w->redo[linear];
    const struct pith_choice *c = pith_job_choice(w->run->job, w->layer, linear);
    const struct pith_transform_linear l = {.w = w->block.linear[linear].dense,
                                            .rows = c->rows,
                                            .cols = c->cols,
                                            .grid = c->grid,
                                            .pick = d->pick};
    if (d->by) pith_transform_redo(w->run->job->backend, &l, d->by);
    if (d->over) pith_transform_redo_rows(l.w, l.rows, l.cols, d->over);
}

/* As floats, in the block's basis. */
static enum pith_status load(struct pith_work *w, uint32_t linear, struct pith_error *err)
{
    struct pith_linear_weights *l = &w->block.linear[linear];
    if (!w->rotated)
        return pith_block_fetch(w->run->job->model, &w->block, linear, PITH_LOAD_FLOAT, err);
    const struct pith_basis_change t = pith_job_basis_change(w->run->job);
    PITH_TRY(pith_rotated_linear(&t, w->layer, linear, l->hadamard > 1, &l->dense, err));
    l->w.dtype = PITH_F32;
    l->w.dense = l->dense;
    return PITH_OK;
}

enum pith_status pith_work_fetch(struct pith_work *w, uint32_t linear, struct pith_error *err)
{
    const struct pith_linear_weights *l = &w->block.linear[linear];
    if (l->w.dense || l->w.quant) return PITH_OK;
    PITH_TRY(load(w, linear, err));
    redo(w, linear);
    return PITH_OK;
}

enum pith_status pith_work_fetch_expert(struct pith_work *w, uint32_t expert,
                                        struct pith_error *err)
{
    if (expert == w->loaded || w->run->job->whole_layers) return PITH_OK;
    const struct pith_node *node = pith_plan_experts(w->plan);
    const uint32_t each = node ? node->u.experts.each : 0;
    for (uint32_t i = 0; i < each && w->loaded != PITH_NO_PART; i++)
        pith_block_drop(&w->block, node->u.experts.first + w->loaded * each + i);
    w->loaded = expert;
    for (uint32_t i = 0; i < each && expert != PITH_NO_PART; i++)
        PITH_TRY(pith_work_fetch(w, node->u.experts.first + expert * each + i, err));
    return PITH_OK;
}

enum pith_status pith_work_begin(struct pith_work *w, struct pith_error *err)
{
    w->loaded = PITH_NO_PART;
    w->changes = pith_zalloc(w->plan->linears, sizeof *w->changes);
    w->regain = pith_zalloc(w->plan->vectors, sizeof *w->regain);
    w->redo = pith_zalloc(w->plan->linears, sizeof *w->redo);
    w->scale = pith_zalloc(w->plan->sites, sizeof *w->scale);
    const bool good = w->changes && w->regain && w->redo && w->scale;
    return good ? pith_experts_begin(w, err) : pith_fail_nomem(err, "a block");
}

void pith_work_end(struct pith_work *w)
{
    pith_block_free(&w->block);
    pith_free(w->changes);
    pith_free(w->regain);
    for (uint32_t i = 0; w->redo && i < w->plan->linears; i++) {
        pith_free(w->redo[i].pick);
        pith_free(w->redo[i].over);
    }
    for (uint32_t i = 0; w->scale && i < w->plan->sites; i++) pith_free(w->scale[i]);
    for (uint32_t i = 0; w->learned.q && i < w->plan->linears; i++)
        pith_qmat_free(&w->learned.q[i]);
    pith_free(w->learned.q);
    pith_free(w->learned.global);
    pith_free(w->redo);
    pith_free(w->scale);
    pith_free(w->waiting);
}
