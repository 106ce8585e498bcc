/* What a layer receives of each token in addition to the stream (Gemma 4): with e the token's
 * embedding and d the width,
 *
 *     out = (norm(W e / sqrt(hidden)) + E[token] sqrt(d)) / sqrt(2)
 *
 * where W and E have `d` rows and columns for each layer. It depends on the token alone, so it is
 * computed where it is read, from the token's number, and nothing is carried through the layers. */
#include "model/grad/tape.h"

#include "backend/input.h"
#include "base/mem.h"
#include "model/load.h"

#include <math.h>
#include <stdio.h>

/* --- loading ---------------------------------------------------------------------------------- */

/* Some rows of it are multiplied with at a time, which only a dense matrix has. */
static enum pith_status make_dense(const struct pith_model *m, struct pith_linear_weights *l,
                                   struct pith_error *err)
{
    const struct pith_input in = pith_weight_input(&l->w);
    size_t count;
    if (!l->w.quant) return PITH_OK;
    if (in.grid.format || in.hadamard > 1)
        return pith_fail(err, PITH_UNSUPPORTED, "%s: the input of \"%s\" is quantized",
                         m->checkpoint->dir, m->arch->names.per_layer_project);
    if (pith_mul_size(l->w.rows, l->w.cols, &count))
        l->dense = pith_alloc_aligned(count, sizeof *l->dense);
    if (!l->dense) return pith_fail_nomem(err, m->arch->names.per_layer_project);
    pith_weight_decode(&l->w, 0, l->w.rows, l->dense);
    pith_qmat_free(&l->q);
    l->w.quant = NULL;
    l->w.dtype = PITH_F32;
    l->w.dense = l->dense;
    return PITH_OK;
}

enum pith_status pith_per_layer_load(struct pith_model *m, struct pith_error *err)
{
    const struct pith_shape *s = &m->shape;
    const struct pith_arch_names *names = &m->arch->names;
    const struct pith_vector_spec gain = {.length = s->tokens.width, .plus = m->arch->norm.plus};
    struct pith_per_layer *t = &m->per_layer;
    char norm[PITH_TENSOR_NAME];
    PITH_TRY(pith_linear_load(m, names->per_layer_embed, s->tokens.vocab,
                              s->layers * s->tokens.width, false, PITH_LOAD_MAPPED, &t->embed,
                              err));
    PITH_TRY(pith_linear_load(m, names->per_layer_project, s->layers * s->tokens.width, s->hidden,
                              false, PITH_LOAD_MAPPED, &t->project, err));
    PITH_TRY(make_dense(m, &t->project, err));
    (void)snprintf(norm, sizeof norm, "%s.weight", names->per_layer_norm);
    PITH_TRY(pith_vector_load(m, norm, &gain, &t->norm, err));
    t->row = pith_alloc_aligned((size_t)s->layers * s->tokens.width, sizeof *t->row);
    return t->row ? PITH_OK : pith_fail_nomem(err, "a model");
}

void pith_per_layer_free(struct pith_per_layer *t)
{
    pith_linear_free(&t->embed);
    pith_linear_free(&t->project);
    pith_free(t->norm);
    pith_free(t->row);
    *t = (struct pith_per_layer){0};
}

/* --- computing -------------------------------------------------------------------------------- */

/* A layer's rows of W. */
static struct pith_weight rows_of(const struct pith_weight *w, uint32_t first, uint32_t count)
{
    struct pith_weight some = *w;
    const size_t bytes = (size_t)w->cols * (pith_dtype_bits(w->dtype) / 8);
    some.rows = count;
    some.dense = (const char *)w->dense + first * bytes;
    return some;
}

/* Its columns of a token's row of E. */
static void embed_part(const struct pith_per_layer *t, uint32_t token, uint32_t first,
                       uint32_t count, float *out)
{
    const struct pith_weight *w = &t->embed.w;
    const size_t at = (size_t)token * w->cols + first;
    if (w->dense) {
        const char *from = (const char *)w->dense + at * (pith_dtype_bits(w->dtype) / 8);
        (void)pith_dtype_decode(w->dtype, from, count, out);
        return;
    }
    pith_weight_decode(w, token, 1, t->row);
    for (uint32_t i = 0; i < count; i++) out[i] = t->row[first + i];
}

enum pith_status pith_per_layer_rows(const struct pith_model *m, struct pith_backend *be,
                                     uint32_t layer, const struct pith_per_layer_rows *r,
                                     struct pith_error *err)
{
    const struct pith_per_layer *t = &m->per_layer;
    const uint32_t dim = m->shape.tokens.width, hidden = m->shape.hidden, first = layer * dim;
    const struct pith_weight w = rows_of(&t->project.w, first, dim);
    const float narrow = (float)pow(hidden, -0.5), wide = (float)sqrt(dim), half = (float)sqrt(0.5);
    for (size_t i = 0; i < r->n; i++) {
        const int32_t token = (int32_t)r->token[i];
        PITH_TRY(pith_model_embed(m, &token, 1, r->work + i * hidden, err));
    }
    struct pith_site_input in = {.x = r->work, .n = r->n, .cols = hidden, .work = r->work};
    pith_linear_site(be, &w, NULL, &in, r->out);
    for (size_t i = 0; i < r->n * dim; i++) r->out[i] *= narrow;
    pith_rmsnorm(be, r->out, r->n, dim, t->norm, m->shape.eps, r->out);
    for (size_t i = 0; i < r->n; i++) {
        float *out = r->out + i * dim;
        embed_part(t, (uint32_t)r->token[i], first, dim, r->work);
        for (uint32_t j = 0; j < dim; j++) out[j] = (out[j] + r->work[j] * wide) * half;
    }
    return PITH_OK;
}

enum pith_status pith_node_per_layer(struct pith_node_run *r, const struct pith_node *node,
                                     struct pith_error *err)
{
    const struct pith_per_layer_rows rows = {.n = r->n,
                                             .token = r->reg[node->in],
                                             .work = r->reg[node->u.per_layer.work],
                                             .out = r->reg[node->out]};
    return pith_per_layer_rows(r->pass->model, r->pass->backend, r->block->layer, &rows, err);
}

void pith_tape_per_layer(struct pith_tape_forward *f, const struct pith_node *node,
                         struct pith_tape_step *s)
{
    struct pith_error ignored = {0}; /* the tokens were embedded before */
    const struct pith_per_layer_rows rows = {
        .n = f->t->n, .token = f->reg[node->in], .work = f->t->grad_spare, .out = s->out};
    (void)pith_per_layer_rows(f->t->model, f->t->backend, f->b->layer, &rows, &ignored);
}

void pith_back_per_layer(struct pith_tape_backward *k, const struct pith_node *node,
                         const struct pith_tape_step *s)
{
    (void)s;
    k->d[node->out] = NULL;
}
