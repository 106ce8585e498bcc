/* What several ranks do together on a recovery. Sums over a step's windows are in the order of the
 * windows: those of matrices and biases go round (calib/grads.h); to the vectors of a norm each
 * window adds once, or the last norm's once a run of rows, so these parts are handed to all. */
#include "recover/recover.h"

#include "base/mem.h"
#include "quantize/ranks/route.h"

#include <string.h>

size_t pith_recover_own(const struct pith_recover *r, size_t windows, size_t *from)
{
    const unsigned own = pith_ranks_own(r->ranks);
    *from = pith_ranks_from(r->ranks, own, windows);
    return pith_ranks_from(r->ranks, own + 1, windows) - *from;
}

/* --- room ------------------------------------------------------------------------------------- */

static size_t norms_width(const struct pith_recover *r)
{
    const size_t runs = (r->text.length + PITH_HEAD_ROWS - 1) / PITH_HEAD_ROWS;
    return runs * 2 * r->model->shape.hidden;
}

static size_t vectors_width(const struct pith_recover *r, uint32_t layer)
{
    const struct pith_layer_plan *l = pith_plan(&r->model->plans, layer);
    size_t width = 0;
    for (uint32_t i = 0; i < l->vectors; i++) width += pith_recover_vector_at(r, layer, i)->count;
    return width;
}

static size_t parts_width(const struct pith_recover *r)
{
    size_t most = norms_width(r);
    for (uint32_t l = 0; l < r->model->shape.layers; l++) {
        const size_t width = vectors_width(r, l);
        most = width > most ? width : most;
    }
    return most;
}

static struct pith_grads_room room_of(const struct pith_recover *r, uint32_t layer)
{
    const size_t ranks = pith_ranks_count(r->ranks);
    return (struct pith_grads_room){.model = r->model,
                                    .plan = pith_plan(&r->model->plans, layer),
                                    .windows = (r->batch + ranks - 1) / ranks,
                                    .length = r->text.length,
                                    .biases = true};
}

static size_t each_count(const struct pith_recover *r)
{
    const size_t period = r->text.windows / pith_recover_validation(r);
    return (period ? period : 1) * r->text.length;
}

uint64_t pith_recover_share_bytes(const struct pith_recover *r)
{
    uint64_t most = 0;
    for (uint32_t l = 0; r->ranks && l < r->model->shape.layers; l++) {
        const struct pith_grads_room room = room_of(r, l);
        const uint64_t bytes = pith_grads_bytes(&room);
        most = bytes > most ? bytes : most;
    }
    if (r->ranks) most += r->batch * (uint64_t)parts_width(r) * sizeof *r->parts;
    return most + each_count(r) * sizeof *r->each;
}

static size_t readers_of(const struct pith_layer_plan *l, uint32_t vector)
{
    size_t n = 0;
    for (uint32_t i = 0; i < l->nodes; i++) {
        const struct pith_node *node = &l->node[i];
        n += node->kind == PITH_NODE_NORM &&
             (node->u.norm.vector == vector || node->u.norm.bias == vector);
    }
    return n;
}

/* Where two norms read one vector, a window adds to it twice. */
static enum pith_status check_vectors(const struct pith_recover *r, struct pith_error *err)
{
    for (uint32_t l = 0; l < r->model->shape.layers; l++) {
        const struct pith_layer_plan *plan = pith_plan(&r->model->plans, l);
        for (uint32_t i = 0; i < plan->vectors; i++)
            if (pith_recover_vector_at(r, l, i)->count && readers_of(plan, i) > 1)
                return pith_fail(err, PITH_UNSUPPORTED,
                                 "layer %u: norms that share a gain are for one rank; say `ranks`"
                                 " none",
                                 l);
    }
    return PITH_OK;
}

enum pith_status pith_recover_share_room(struct pith_recover *r, struct pith_error *err)
{
    r->each = pith_alloc(each_count(r), sizeof *r->each);
    if (!r->each) return pith_fail_nomem(err, "divergences");
    if (!r->ranks) return PITH_OK;
    const struct pith_grads_room room = room_of(r, 0);
    PITH_TRY(check_vectors(r, err));
    r->parts = pith_alloc_aligned(r->batch * parts_width(r), sizeof *r->parts);
    r->at = pith_zalloc(r->model->plans.most_vectors, sizeof *r->at);
    if (!r->parts || !r->at) return pith_fail_nomem(err, "what windows add");
    return pith_grads_open(&r->grads, r->backend, r->ranks, &room, err);
}

void pith_recover_share_free(struct pith_recover *r)
{
    pith_grads_close(&r->grads);
    pith_free(r->each);
    pith_free(r->parts);
    pith_free(r->at);
    pith_paces_free(&r->paces);
}

/* --- the head --------------------------------------------------------------------------------- */

void pith_recover_begin_norms(struct pith_recover *r)
{
    memset(r->norms, 0, 2 * (size_t)r->model->shape.hidden * sizeof *r->norms);
    if (r->ranks) memset(r->parts, 0, r->batch * norms_width(r) * sizeof *r->parts);
}

float *pith_recover_norms_at(const struct pith_recover *r, size_t window, size_t row)
{
    const size_t run = row / PITH_HEAD_ROWS * 2 * r->model->shape.hidden;
    return r->ranks ? r->parts + window * norms_width(r) + run : r->norms;
}

enum pith_status pith_recover_meet_norms(struct pith_recover *r, struct pith_error *err)
{
    const size_t width = norms_width(r), sums = 2 * (size_t)r->model->shape.hidden;
    if (!r->ranks) return PITH_OK;
    PITH_TRY(pith_ranks_share_parts(r->ranks, r->parts, r->batch, width * sizeof *r->parts, err));
    for (size_t i = 0; i < r->batch * width; i++) r->norms[i % sums] += r->parts[i];
    return PITH_OK;
}

/* --- a block ---------------------------------------------------------------------------------- */

enum pith_status pith_recover_begin_block(struct pith_recover *r,
                                          const struct pith_recover_block *b,
                                          struct pith_error *err)
{
    const struct pith_grads_room room = room_of(r, b->block.layer);
    if (!r->ranks) return PITH_OK;
    memset(r->parts, 0, r->batch * vectors_width(r, b->block.layer) * sizeof *r->parts);
    return pith_grads_fit(&r->grads, &room, err);
}

struct pith_tape_grad pith_recover_grads(struct pith_recover *r, struct pith_recover_block *b,
                                         size_t window)
{
    struct pith_tape_grad g = {.w = b->weight, .vector = b->vector, .bias = b->bias};
    if (!r->ranks) return g;
    float *at = r->parts + window * vectors_width(r, b->block.layer);
    for (uint32_t i = 0; i < b->block.plan->vectors; i++) {
        r->at[i] = b->vector[i] ? at : NULL;
        at += pith_recover_vector_at(r, b->block.layer, i)->count;
    }
    g.vector = r->at;
    g.product = pith_grads_keep;
    g.product_ctx = &r->grads;
    return g;
}

static enum pith_status meet_vectors(struct pith_recover *r, struct pith_recover_block *b,
                                     struct pith_error *err)
{
    const uint32_t layer = b->block.layer;
    const size_t width = vectors_width(r, layer);
    const float *part = r->parts;
    PITH_TRY(pith_ranks_share_parts(r->ranks, r->parts, r->batch, width * sizeof *part, err));
    for (size_t w = 0; w < r->batch; w++)
        for (uint32_t i = 0; i < b->block.plan->vectors; i++) {
            const size_t n = pith_recover_vector_at(r, layer, i)->count;
            for (size_t k = 0; k < n; k++) b->vector[i][k] += part[k];
            part += n;
        }
    return PITH_OK;
}

/* A linear's, of whose matrix the last rank has the gradient: what is trained of it is less. */
static enum pith_status meet_linear(struct pith_recover *r, struct pith_recover_block *b,
                                    uint32_t linear, struct pith_error *err)
{
    struct pith_recover_linear *l = &b->linear[linear];
    const struct pith_linear_spec *of = &b->block.plan->linear[linear];
    const unsigned last = pith_ranks_count(r->ranks) - 1;
    if (b->bias[linear])
        PITH_TRY(pith_ranks_share(r->ranks, last, b->bias[linear],
                                  of->rows * sizeof *b->bias[linear], err));
    if (!l->on) return PITH_OK;
    if (pith_ranks_own(r->ranks) == last)
        pith_trained_gradient(&l->matrix, r->backend, l->values, l->grad, l->scales);
    PITH_TRY(pith_ranks_share(r->ranks, last, l->scales, l->matrix.scales * sizeof *l->scales,
                              err));
    return pith_ranks_share(r->ranks, last, l->grad, l->matrix.weights * sizeof *l->grad, err);
}

enum pith_status pith_recover_meet(struct pith_recover *r, struct pith_recover_block *b,
                                   struct pith_error *err)
{
    const struct pith_layer_plan *l = b->block.plan;
    const struct pith_grads_sums sums = {b->weight, b->bias};
    if (r->ranks) PITH_TRY(pith_grads_pass(&r->grads, l, &sums, err));
    for (uint32_t i = 0; i < l->linears; i++) PITH_TRY(meet_linear(r, b, i, err));
    return r->ranks ? meet_vectors(r, b, err) : PITH_OK;
}

/* --- what rank 0 sends to all ----------------------------------------------------------------- */

static enum pith_status share_numbers(struct pith_recover *r, struct pith_error *err)
{
    json_t *j = pith_ranks_first(r->ranks) ? pith_recover_numbers(r, "") : NULL;
    if (pith_ranks_first(r->ranks) && !j) return pith_fail_nomem(err, "a checkpoint");
    const enum pith_status s = pith_ranks_share_json(r->ranks, &j, err);
    if (s == PITH_OK && !pith_ranks_first(r->ranks)) pith_recover_take_numbers(r, j);
    json_decref(j);
    return s;
}

enum pith_status pith_recover_share(struct pith_recover *r, struct pith_error *err)
{
    if (!r->ranks) return PITH_OK;
    PITH_TRY(pith_ranks_share(r->ranks, 0, r->state.data, r->state.size, err));
    return share_numbers(r, err);
}
