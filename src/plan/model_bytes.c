#include "plan/model_bytes.h"

#include "backend/pack.h"
#include "base/integer.h"
#include "io/safetensors.h"

#include <math.h>

/* --- one matrix ------------------------------------------------------------------------------- */

struct pith_grid pith_form_grid(const struct pith_weight_form *f, const struct pith_plan_subject *p,
                                const struct pith_matrix *m)
{
    const struct pith_grid none = {0};
    if (m->class == PITH_PLAN_VECTOR || m->class == PITH_PLAN_ROUTER) return none;
    if (!m->spec) {
        if (m->rows == 1) return none; /* tables that no grid concerns */
        return m->reads_out ? f->head : f->embed;
    }
    if (!f->linears.format || !f->grid) return f->linears;
    return f->grid(f, p->model, m);
}

/* What the container would write; 0 where it holds no such matrix. */
static double container_bytes(const struct pith_weight_form *f, const struct pith_grid *g,
                              const struct pith_matrix *m)
{
    struct pith_packed_set set = {0};
    struct pith_error err = {0};
    double bytes = 0;
    if (!f->container || !f->container->plan) return 0;
    if (f->container->plan(g, m->rows, m->cols, &f->opts, &set, &err) == PITH_OK)
        for (unsigned i = 0; i < set.count; i++) {
            uint64_t each;
            const struct pith_packed *t = &set.item[i];
            if (pith_tensor_size(t->dtype, t->dims, t->shape, &each)) bytes += (double)each;
        }
    pith_packed_free(&set);
    return bytes;
}

struct pith_qspec pith_form_spec(const struct pith_weight_form *f,
                                 const struct pith_plan_subject *p, const struct pith_matrix *m)
{
    const enum pith_dtype dtype = p->model->shape.dtype;
    const struct pith_grid g = pith_form_grid(f, p, m);
    return (struct pith_qspec){.rows = m->rows,
                               .cols = m->cols,
                               .grid = g,
                               .scale_dtype = f->container ? f->container->scale_dtype(&g, dtype)
                                              : dtype == PITH_F16 ? PITH_F16
                                                                  : PITH_BF16};
}

double pith_form_bytes(const struct pith_weight_form *f, const struct pith_plan_subject *p,
                       const struct pith_matrix *m)
{
    const enum pith_dtype dtype = p->model->shape.dtype;
    const struct pith_grid g = pith_form_grid(f, p, m);
    const bool small = m->class == PITH_PLAN_VECTOR || m->class == PITH_PLAN_ROUTER;
    const unsigned bits_each = small && f->plain_bits ? f->plain_bits : pith_dtype_bits(dtype);
    const double plain = (double)m->rows * m->cols * bits_each / 8;
    if (!g.format) return plain;
    const struct pith_qspec spec = pith_form_spec(f, p, m);
    if (f->packed) {
        const size_t packed = pith_pack_spec_bytes(&spec, f->acts.format ? &f->acts : NULL);
        if (packed) return (double)packed;
    }
    const double written = container_bytes(f, &g, m);
    if (written > 0) return written;
    const double bits = pith_qspec_bits(&spec);
    return bits > 0 ? bits * (double)m->rows * m->cols / 8 : plain;
}

/* --- all weights ------------------------------------------------------------------------------ */

struct scale {
    const struct pith_plan_subject *p;
    const struct pith_weight_form *f;
    struct pith_spread_over over;
    struct pith_weighed *out;
    double embed, head, layers; /* of a device */
};

/* Of a matrix, the part that each of the devices holds. */
static double share_of(const struct pith_matrix *m, unsigned tensor)
{
    const struct pith_linear_spec *l = m->spec;
    if (m->class == PITH_PLAN_VECTOR || m->class == PITH_PLAN_ROUTER) return 1;
    if (!l) return m->rows == 1 ? 1 : 1.0 / tensor;
    if (l->whole) return 1;
    if (l->copied && l->heads < tensor) return l->heads ? 1.0 / l->heads : 1;
    return 1.0 / tensor;
}

static void weigh_one(void *ctx, const struct pith_matrix *m)
{
    struct scale *s = ctx;
    struct pith_weighed *out = s->out;
    const struct pith_grid g = pith_form_grid(s->f, s->p, m);
    const double bytes = pith_form_bytes(s->f, s->p, m) * (double)m->count;
    const double device = bytes * share_of(m, s->over.tensor);
    const double stored = device * s->over.tensor;
    out->class[m->class] += bytes;
    out->all += bytes;
    out->copies += stored - bytes;
    if (m->class == PITH_PLAN_EMBED) s->embed += device;
    else if (m->class == PITH_PLAN_HEAD) s->head += device;
    else s->layers += device;
    if (m->class == PITH_PLAN_EXPERTS) out->experts += bytes;
    else if (m->class != PITH_PLAN_EMBED || m->reads_out) out->read += stored;
    if (!g.format) return;
    out->quantized_bits += 8 * bytes;
    out->quantized += (double)m->rows * m->cols * (double)m->count;
}

void pith_weigh(const struct pith_plan_subject *p, const struct pith_weight_form *f,
                struct pith_spread_over over, struct pith_weighed *out)
{
    struct scale s = {.p = p, .f = f, .over = over, .out = out};
    const uint32_t layers = p->model->shape.layers;
    *out = (struct pith_weighed){0};
    pith_plan_subject_walk(p, weigh_one, &s);
    /* A tied embedding is on the first and on the last group. */
    const bool apart = over.pipeline > 1;
    const double tied = p->model->shape.ends.tied ? s.embed : s.head;
    const double most = (double)((layers + over.pipeline - 1) / over.pipeline) / layers;
    if (apart && p->model->shape.ends.tied) out->copies += s.embed * over.tensor;
    out->device = s.layers * (apart ? most : 1) + (apart ? fmax(s.embed, tied) : s.embed + s.head);
}

/* Keys and values may be copied, experts lie on devices whole. */
static void limit_tensor(void *ctx, const struct pith_matrix *m)
{
    unsigned *most = ctx;
    const struct pith_linear_spec *l = m->spec;
    if (!l || l->whole || l->copied || m->class == PITH_PLAN_ROUTER) return;
    const unsigned parts = m->class == PITH_PLAN_EXPERTS ? (unsigned)m->count
                           : l->heads                    ? l->heads
                           : l->by_cols                  ? l->cols
                                                         : l->rows;
    *most = (unsigned)pith_common_divisor(*most, parts);
}

unsigned pith_tensor_most(const struct pith_plan_subject *p, unsigned devices)
{
    unsigned most = devices;
    pith_plan_subject_walk(p, limit_tensor, &most);
    return most;
}

/* --- the cache -------------------------------------------------------------------------------- */

static uint32_t window_of(const struct pith_layer_plan *l)
{
    const struct pith_node *node = pith_plan_attend(l);
    return node ? node->u.attend.window : 0;
}

void pith_weigh_cache(const struct pith_plan_subject *p, const struct pith_kv_format *f,
                      struct pith_spread_over over, size_t context, struct pith_cache_sums *out)
{
    const struct pith_plans *plans = &p->model->plans;
    double device = 0;
    *out = (struct pith_cache_sums){0};
    for (uint32_t i = 0; i < plans->layers; i++) {
        const struct pith_layer_plan *l = pith_plan(plans, i);
        const struct pith_state_spec *s = &l->state;
        const struct pith_kv_format *own = pith_kv_of(f, pith_plan_rows_of(plans, i));
        const uint32_t window = window_of(l);
        const size_t seen = window && window < context ? window : context;
        const double stored = pith_kv_stored_bytes(own, s, window, context) + 4.0 * s->floats;
        const double read = pith_kv_bytes_of(own, s, (double)seen, true) + 4.0 * s->floats;
        const uint32_t heads = s->kind == PITH_STATE_LATENT ? 1 : s->heads;
        const double part = s->kind == PITH_STATE_RECURRENT || heads >= over.tensor
                                ? 1.0 / over.tensor
                                : 1.0 / (heads ? heads : 1);
        out->position += pith_kv_position_bytes(own, s);
        out->sequence += stored;
        out->read += read * part * over.tensor;
        device += stored * part;
    }
    out->device = device * ((plans->layers + over.pipeline - 1) / over.pipeline) / plans->layers;
}

/* --- arithmetic ------------------------------------------------------------------------------- */

double pith_linear_operations(const struct pith_plan_subject *p)
{
    struct pith_census n;
    pith_plan_subject_count(p, &n);
    return 2 * (n.active - (double)n.class[PITH_PLAN_VECTOR]);
}

double pith_attention_operations(const struct pith_plan_subject *p, double depth)
{
    const struct pith_plans *plans = &p->model->plans;
    double sum = 0;
    for (uint32_t i = 0; i < plans->layers; i++) {
        const struct pith_layer_plan *l = pith_plan(plans, i);
        const struct pith_node *node = pith_plan_attend(l);
        if (!node) continue;
        const double window = node->u.attend.window;
        const double seen = window > 0 && window < depth ? window : depth;
        sum += 2.0 * node->u.attend.heads * (l->state.key + l->state.value) * seen;
    }
    return sum;
}

double pith_experts_read(const struct pith_plan_subject *p, double tokens)
{
    const struct pith_plans *plans = &p->model->plans;
    if (plans->experts == 0) return 0;
    return 1 - pow(1 - (double)plans->taken / plans->experts, tokens);
}
