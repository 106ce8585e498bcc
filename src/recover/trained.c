/* What of a quantized model is trained: scales and points of linears, biases, gains of norms. */
#include "recover/recover.h"

#include "backend/adamw.h"
#include "base/mem.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* --- vectors ---------------------------------------------------------------------------------- */

/* One that lies by itself, as its numbers are. */
static bool is_plain(const struct pith_tensor *t)
{
    return t && !t->slice && t->dims == 1 && pith_tensor_plain(t) && t->as == PITH_AS_SHOWN &&
           (t->dtype == PITH_F32 || t->dtype == PITH_F16 || t->dtype == PITH_BF16);
}

static struct pith_recover_vector named(const struct pith_recover *r, const char *name, float plus)
{
    const struct pith_tensor *t = pith_checkpoint_find(r->model->checkpoint, name);
    return (struct pith_recover_vector){is_plain(t) ? t : NULL, plus};
}

/* Whether a norm of the layer reads that vector. */
static bool of_norm(const struct pith_layer_plan *l, uint32_t vector)
{
    for (uint32_t i = 0; i < l->nodes; i++) {
        const struct pith_node *n = &l->node[i];
        if (n->kind == PITH_NODE_NORM && (n->u.norm.vector == vector || n->u.norm.bias == vector))
            return true;
    }
    return false;
}

struct pith_recover_vector pith_recover_vector_of(const struct pith_recover *r, uint32_t layer,
                                                  uint32_t vector)
{
    const struct pith_layer_plan *l = pith_plan(&r->model->plans, layer);
    const struct pith_vector_spec *v = &l->vector[vector];
    char name[PITH_MAX_NAME];
    if (v->rows || v->times != 0 || !of_norm(l, vector)) return (struct pith_recover_vector){0};
    pith_plan_name(&r->model->plans, layer, v->name, name, sizeof name);
    return named(r, name, v->plus);
}

struct pith_recover_vector pith_recover_bias_of(const struct pith_recover *r, uint32_t layer,
                                                uint32_t linear)
{
    const struct pith_layer_plan *l = pith_plan(&r->model->plans, layer);
    char name[PITH_MAX_NAME], module[PITH_MAX_NAME - 8];
    if (!l->linear[linear].bias) return (struct pith_recover_vector){0};
    pith_plan_linear_name(&r->model->plans, layer, linear, module, sizeof module);
    (void)snprintf(name, sizeof name, "%s.bias", module);
    return named(r, name, 0);
}

struct pith_recover_vector pith_recover_last_of(const struct pith_recover *r, bool bias)
{
    const struct pith_model *m = r->model;
    char name[PITH_MAX_NAME];
    if (!(bias ? m->final_bias : m->final_norm)) return (struct pith_recover_vector){0};
    (void)snprintf(name, sizeof name, "%s.%s", m->arch->names.norm, bias ? "bias" : "weight");
    return named(r, name, bias ? 0 : m->arch->norm.plus);
}

/* A parameter of 1 moves a number by the root of the mean square of what there is. */
static float unit_of(const float *v, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += (double)v[i] * (double)v[i];
    return sum > 0 ? (float)sqrt(sum / (double)n) : 1.0f;
}

static void recover_place(const struct pith_recover_vector *t, const float *p, size_t n, float *v)
{
    const float unit = unit_of(v, n);
    for (size_t i = 0; i < n; i++)
        if (p[i] != 0.0f)
            v[i] = pith_round_to(t->tensor->dtype, v[i] + p[i] * unit - t->plus) + t->plus;
}

/* --- the list --------------------------------------------------------------------------------- */

static struct pith_recover_span take(struct pith_recover *r, size_t count)
{
    const struct pith_recover_span s = {r->count, count};
    r->count += count;
    return s;
}

static enum pith_status list_linear(struct pith_recover *r, const struct pith_block *b, uint32_t i,
                                    struct pith_error *err)
{
    const struct pith_linear_weights *w = &b->linear[i];
    struct pith_trained t;
    char name[PITH_MAX_NAME];
    const size_t bias = pith_recover_bias_of(r, b->layer, i).tensor ? b->plan->linear[i].rows : 0;
    *pith_recover_bias_at(r, b->layer, i) = take(r, bias);
    if (!w->w.quant) return PITH_OK;
    pith_plan_linear_name(&r->model->plans, b->layer, i, name, sizeof name);
    const struct pith_trained_case c = {
        .container = r->model->container, .q = w->w.quant, .weights = r->weights};
    enum pith_status s = pith_trained_open(&t, r->backend, &c, err);
    if (s != PITH_OK) return pith_fail_in(err, s, name);
    *pith_recover_linear_at(r, b->layer, i) = take(r, pith_trained_count(&t));
    r->codes += (size_t)w->w.rows * w->w.cols;
    pith_trained_free(&t);
    return PITH_OK;
}

static enum pith_status list_layer(struct pith_recover *r, uint32_t layer, struct pith_error *err)
{
    struct pith_block b;
    enum pith_status s = PITH_OK;
    PITH_TRY(pith_block_load(r->model, layer, PITH_LOAD_MAPPED, &b, err));
    for (uint32_t i = 0; i < b.plan->linears && s == PITH_OK; i++) s = list_linear(r, &b, i, err);
    for (uint32_t i = 0; i < b.plan->vectors; i++) {
        const bool on = pith_recover_vector_of(r, layer, i).tensor != NULL;
        *pith_recover_vector_at(r, layer, i) = take(r, on ? b.plan->vector[i].length : 0);
    }
    pith_block_free(&b);
    return s;
}

static enum pith_status keep_last_norm(struct pith_recover *r, struct pith_error *err)
{
    const struct pith_model *m = r->model;
    const size_t hidden = m->shape.hidden;
    r->last_norm = pith_zalloc(2 * hidden, sizeof *r->last_norm);
    r->norms = pith_zalloc(2 * hidden, sizeof *r->norms);
    if (!r->last_norm || !r->norms) return pith_fail_nomem(err, "the last norm");
    if (m->final_norm) memcpy(r->last_norm, m->final_norm, hidden * sizeof *r->last_norm);
    if (m->final_bias) memcpy(r->last_norm + hidden, m->final_bias, hidden * sizeof *r->last_norm);
    r->last_gain = take(r, pith_recover_last_of(r, false).tensor ? hidden : 0);
    r->last_bias = take(r, pith_recover_last_of(r, true).tensor ? hidden : 0);
    return PITH_OK;
}

enum pith_status pith_recover_list(struct pith_recover *r, struct pith_error *err)
{
    const struct pith_plans *p = &r->model->plans;
    const size_t linears = (size_t)p->layers * p->most_linears;
    r->linear = pith_zalloc(linears, sizeof *r->linear);
    r->bias = pith_zalloc(linears, sizeof *r->bias);
    if (!r->moved) r->moved = pith_zalloc(linears, sizeof *r->moved);
    r->vector = pith_zalloc((size_t)p->layers * p->most_vectors, sizeof *r->vector);
    if (!r->linear || !r->bias || !r->vector || !r->moved)
        return pith_fail_nomem(err, "the parameters");
    size_t matrices = 0;
    for (uint32_t l = 0; l < p->layers; l++) PITH_TRY(list_layer(r, l, err));
    for (size_t i = 0; i < linears; i++) matrices += r->linear[i].count;
    PITH_TRY(keep_last_norm(r, err));
    if (matrices) return PITH_OK;
    return pith_fail(err, PITH_UNSUPPORTED,
                     "%s: no scale of these grids has small steps; `train=all` trains the weights",
                     r->options->model);
}

/* --- a block ---------------------------------------------------------------------------------- */

/* p: the parameters of all. */
static enum pith_status open_linear(struct pith_recover *r, float *p, bool gradients,
                                    struct pith_recover_block *b, uint32_t i,
                                    struct pith_error *err)
{
    struct pith_linear_weights *w = &b->block.linear[i];
    struct pith_recover_linear *l = &b->linear[i];
    const uint32_t layer = b->block.layer;
    const size_t n = (size_t)w->w.rows * w->w.cols;
    const struct pith_trained_case c = {
        .container = r->model->container, .q = w->w.quant, .weights = r->weights};
    PITH_TRY(pith_trained_open(&l->matrix, r->backend, &c, err));
    l->on = true;
    l->values = pith_alloc_aligned((gradients ? 2 * n : n) + l->matrix.scales, sizeof *l->values);
    if (!l->values) return pith_fail_nomem(err, "a matrix");
    l->scales = l->values + n;
    l->grad = gradients ? l->scales + l->matrix.scales : NULL;
    if (l->grad) memset(l->grad, 0, n * sizeof *l->grad);
    pith_trained_values(&l->matrix, r->backend, p + pith_recover_linear_at(r, layer, i)->at,
                        l->values);
    w->w = (struct pith_weight){
        .rows = w->w.rows, .cols = w->w.cols, .dtype = PITH_F32, .dense = l->values};
    return PITH_OK;
}

/* The gradient's room has the vector's unit behind it. */
static enum pith_status open_vector(const struct pith_recover_vector *t,
                                    const struct pith_recover_span *at, const float *p, float *v,
                                    float **grad, struct pith_error *err)
{
    if (!at->count) return PITH_OK;
    const float unit = unit_of(v, at->count);
    recover_place(t, p + at->at, at->count, v);
    if (!grad) return PITH_OK;
    *grad = pith_zalloc(at->count + 1, sizeof **grad);
    if (!*grad) return pith_fail_nomem(err, "a gradient");
    (*grad)[at->count] = unit;
    return PITH_OK;
}

static enum pith_status open_parts(struct pith_recover *r, float *p, bool gradients,
                                   struct pith_recover_block *b, struct pith_error *err)
{
    const uint32_t layer = b->block.layer;
    for (uint32_t i = 0; i < b->block.plan->linears; i++) {
        struct pith_linear_weights *w = &b->block.linear[i];
        r->tape.input[i] = w->w.quant ? w->w.quant->input : (struct pith_input){0};
        if (w->w.quant)
            PITH_TRY(open_linear(r, p, gradients, b, i, err));
        if (gradients) b->weight[i] = b->linear[i].grad;
        const struct pith_recover_vector t = pith_recover_bias_of(r, layer, i);
        PITH_TRY(open_vector(&t, pith_recover_bias_at(r, layer, i), p, w->bias,
                             gradients ? &b->bias[i] : NULL, err));
    }
    for (uint32_t i = 0; i < b->block.plan->vectors; i++) {
        const struct pith_recover_vector t = pith_recover_vector_of(r, layer, i);
        PITH_TRY(open_vector(&t, pith_recover_vector_at(r, layer, i), p, b->block.vector[i],
                             gradients ? &b->vector[i] : NULL, err));
    }
    return PITH_OK;
}

enum pith_status pith_recover_open(struct pith_recover *r, uint32_t layer, float *p, bool gradients,
                                   struct pith_recover_block *b, struct pith_error *err)
{
    *b = (struct pith_recover_block){0};
    PITH_TRY(pith_block_load(r->model, layer, PITH_LOAD_FLOAT, &b->block, err));
    const struct pith_layer_plan *l = b->block.plan;
    b->linear = pith_zalloc(l->linears, sizeof *b->linear);
    b->weight = pith_zalloc(l->linears, sizeof *b->weight);
    b->bias = pith_zalloc(l->linears, sizeof *b->bias);
    b->vector = pith_zalloc(l->vectors, sizeof *b->vector);
    const bool room = b->linear && b->weight && b->bias && b->vector;
    enum pith_status s = room ? PITH_OK : pith_fail_nomem(err, "a block");
    if (s == PITH_OK) s = open_parts(r, p, gradients, b, err);
    if (s != PITH_OK) pith_recover_close(b);
    return s;
}

void pith_recover_close(struct pith_recover_block *b)
{
    const struct pith_layer_plan *l = b->block.plan;
    for (uint32_t i = 0; b->linear && i < l->linears; i++) {
        struct pith_recover_linear *t = &b->linear[i];
        if (t->on) b->block.linear[i].w.quant = t->matrix.from; /* what the block owns */
        if (t->on) pith_trained_free(&t->matrix);
        pith_free(t->values);
    }
    for (uint32_t i = 0; b->bias && i < l->linears; i++) pith_free(b->bias[i]);
    for (uint32_t i = 0; b->vector && i < l->vectors; i++) pith_free(b->vector[i]);
    pith_free(b->linear);
    pith_free(b->weight);
    pith_free(b->bias);
    pith_free(b->vector);
    pith_block_free(&b->block);
    *b = (struct pith_recover_block){0};
}

/* Weights of one block, from those of the original. */
static enum pith_status start_block(struct pith_recover *r, const struct pith_block *b,
                                    const struct pith_block *original, struct pith_error *err)
{
    for (uint32_t i = 0; i < b->plan->linears; i++) {
        const struct pith_trained_case c = {
            .container = r->model->container, .q = b->linear[i].w.quant, .weights = true};
        struct pith_trained t;
        if (!c.q || r->moved[(size_t)b->layer * r->model->plans.most_linears + i]) continue;
        PITH_TRY(pith_trained_open(&t, r->backend, &c, err));
        pith_trained_begin(&t, r->backend, &original->linear[i].w,
                           pith_recover_state(r, 0) +
                               pith_recover_linear_at(r, b->layer, i)->at + t.scales);
        pith_trained_free(&t);
    }
    return PITH_OK;
}

enum pith_status pith_recover_start(struct pith_recover *r, struct pith_error *err)
{
    for (uint32_t l = 0; r->weights && l < r->model->shape.layers; l++) {
        struct pith_block b, original;
        PITH_TRY(pith_block_load(r->model, l, PITH_LOAD_MAPPED, &b, err));
        enum pith_status s = pith_block_load(r->original, l, PITH_LOAD_MAPPED, &original, err);
        if (s == PITH_OK) {
            s = start_block(r, &b, &original, err);
            pith_block_free(&original);
            pith_model_shed(r->original, l);
        }
        pith_block_free(&b);
        PITH_TRY(s);
    }
    return PITH_OK;
}

void pith_recover_last_norm(struct pith_recover *r, const float *p)
{
    struct pith_model *m = r->model;
    const size_t hidden = m->shape.hidden;
    const struct pith_recover_vector gain = pith_recover_last_of(r, false);
    const struct pith_recover_vector bias = pith_recover_last_of(r, true);
    if (r->last_gain.count) {
        memcpy(m->final_norm, r->last_norm, hidden * sizeof *r->last_norm);
        recover_place(&gain, p + r->last_gain.at, hidden, m->final_norm);
    }
    if (r->last_bias.count) {
        memcpy(m->final_bias, r->last_norm + hidden, hidden * sizeof *r->last_norm);
        recover_place(&bias, p + r->last_bias.at, hidden, m->final_bias);
    }
}

/* --- steps ------------------------------------------------------------------------------------ */

static void step_span(struct pith_recover *r, size_t at, size_t count, const float *g, float rate,
                      size_t step)
{
    pith_adamw(r->backend, &(struct pith_adamw){.p = pith_recover_state(r, 0) + at,
                                                .m = pith_recover_state(r, 1) + at,
                                                .v = pith_recover_state(r, 2) + at,
                                                .g = g,
                                                .n = count,
                                                .step = step,
                                                .rate = rate,
                                                .beta1 = 0.9f,
                                                .beta2 = 0.95f,
                                                .eps = 1e-15f});
}

/* Of numbers to those of parameters. */
static void step_vector(struct pith_recover *r, const struct pith_recover_span *s, float *g,
                        float unit, const struct pith_recover_rates *rates)
{
    for (size_t i = 0; i < s->count; i++) g[i] *= unit;
    step_span(r, s->at, s->count, g, rates->vectors, rates->step);
}

void pith_recover_step_block(struct pith_recover *r, uint32_t layer, struct pith_recover_block *b,
                             const struct pith_recover_rates *rates)
{
    const struct pith_layer_plan *l = b->block.plan;
    for (uint32_t i = 0; i < l->linears; i++) {
        struct pith_recover_linear *w = &b->linear[i];
        const struct pith_recover_span *bias = pith_recover_bias_at(r, layer, i);
        if (bias->count)
            step_vector(r, bias, b->bias[i], b->bias[i][bias->count], rates);
        if (!w->on) continue;
        const size_t at = pith_recover_linear_at(r, layer, i)->at;
        step_span(r, at, w->matrix.scales, w->scales,
                  rates->scales * pith_trained_reach(&w->matrix), rates->step);
        step_span(r, at + w->matrix.scales, w->matrix.weights, w->grad, rates->weights,
                  rates->step);
    }
    for (uint32_t i = 0; i < l->vectors; i++) {
        const struct pith_recover_span *v = pith_recover_vector_at(r, layer, i);
        if (v->count) step_vector(r, v, b->vector[i], b->vector[i][v->count], rates);
    }
}

void pith_recover_step_last(struct pith_recover *r, const struct pith_recover_rates *rates)
{
    const size_t hidden = r->model->shape.hidden;
    step_vector(r, &r->last_gain, r->norms, unit_of(r->last_norm, hidden), rates);
    step_vector(r, &r->last_bias, r->norms + hidden, unit_of(r->last_norm + hidden, hidden), rates);
}

/* --- memory ----------------------------------------------------------------------------------- */

uint64_t pith_recover_block_bytes(const struct pith_recover *r)
{
    const struct pith_plans *plans = &r->model->plans;
    const unsigned threads = pith_pool_threads(pith_backend_pool(r->backend));
    uint64_t most = 0;
    for (uint32_t l = 0; l < plans->layers; l++) {
        const struct pith_layer_plan *plan = pith_plan(plans, l);
        /* Each matrix as it is stored at most in a byte a weight and a scale for 16. */
        uint64_t bytes = 2 * pith_block_float_bytes(plan);
        for (uint32_t i = 0; i < plan->linears; i++) {
            const uint64_t n = (uint64_t)plan->linear[i].rows * plan->linear[i].cols;
            bytes += n + n / 16 * 3 * sizeof(float) + (uint64_t)threads * plan->linear[i].cols;
        }
        most = bytes > most ? bytes : most;
    }
    return most;
}
