/* The arithmetic of eval/speed/speed.h: what a measurement is set against. */
#include "eval/speed/speed.h"

#include <math.h>

struct pith_spread pith_spread_of(double *values, size_t n)
{
    if (n == 0) return (struct pith_spread){0};
    for (size_t i = 1; i < n; i++) {
        const double v = values[i];
        size_t j = i;
        for (; j > 0 && values[j - 1] > v; j--) values[j] = values[j - 1];
        values[j] = v;
    }
    return (struct pith_spread){.median = (values[(n - 1) / 2] + values[n / 2]) / 2,
                                .least = values[0],
                                .most = values[n - 1]};
}

static double median_field(const struct pith_roof_sample *samples, size_t n, size_t offset,
                           double *scratch)
{
    for (size_t i = 0; i < n; i++)
        scratch[i] = *(const double *)(const void *)((const char *)&samples[i] + offset);
    return pith_spread_of(scratch, n).median;
}

struct pith_roof_sample pith_roof_median(const struct pith_roof_sample *samples, size_t n,
                                         double *scratch)
{
    struct pith_roof_sample m;
#define FIELD(f) m.f = median_field(samples, n, offsetof(struct pith_roof_sample, f), scratch);
    FIELD(read_one)
    FIELD(read_all)
    FIELD(f32)
    FIELD(int8)
    FIELD(bf16)
#undef FIELD
    return m;
}

double pith_speed_matrix_bytes(const struct pith_weight *w)
{
    const double count = (double)w->rows * w->cols;
    const struct pith_qmat *q = w->quant;
    if (w->pack) return (double)w->pack->bytes;
    if (!q) return count * pith_dtype_bits(w->dtype) / 8;
    struct pith_qspec spec = pith_qmat_spec(q);
    spec.grid.double_quant = false; /* what the scales were made of is not read */
    return (double)pith_qspec_bytes(&spec);
}

/* How much of a linear so many tokens read together: of the experts each takes some, as if by lot.
 */
static double share_of(const struct pith_model *m, const struct pith_linear_spec *l, size_t tokens)
{
    const struct pith_moe *moe = &m->shape.moe;
    if (l->expert == PITH_NO_PART) return 1;
    const double one = (double)moe->taken / moe->experts;
    return tokens == 1 ? one : 1 - pow(1 - one, (double)tokens);
}

/* What is read of a latent attention's kv_b instead of the linear itself. */
static double absorbed_bytes(const struct pith_block *b)
{
    if (!b->absorbed) return 0;
    const struct pith_latent_parts *p = &b->absorbed->parts;
    double size = 4.0 * (double)(pith_latent_k_floats(p) + pith_latent_v_floats(p));
    for (uint32_t i = 0; i < b->plan->nodes; i++)
        if (b->plan->node[i].kind == PITH_NODE_ABSORB)
            size -= pith_speed_matrix_bytes(&b->linear[b->plan->node[i].u.latent.linear].w);
    return size;
}

/* Of per-layer embeddings: for each layer the token's embedding again, and its part of the tables.
 */
static double per_layer_bytes(const struct pith_model *m, size_t tokens)
{
    const struct pith_weight *embed = &m->per_layer.embed.w, *project = &m->per_layer.project.w;
    if (!m->shape.tokens.width) return 0;
    const double again = (double)m->shape.layers * pith_speed_matrix_bytes(&m->embed) /
                         m->embed.rows;
    return pith_speed_matrix_bytes(project) +
           (double)tokens * (again + pith_speed_matrix_bytes(embed) / embed->rows);
}

double pith_speed_weight_bytes(const struct pith_model *m, size_t tokens)
{
    const struct pith_shape *s = &m->shape;
    /* Rows of the embedding and the last norm. */
    double bytes = pith_speed_matrix_bytes(&m->head) + 4.0 * s->hidden +
                   (double)tokens * pith_speed_matrix_bytes(&m->embed) / m->embed.rows +
                   2 * 4.0 * (double)s->ends.width * s->hidden + per_layer_bytes(m, tokens);
    for (uint32_t i = 0; i < s->layers; i++) {
        const struct pith_block *b = &m->blocks[i];
        for (uint32_t j = 0; j < b->plan->linears; j++) {
            const struct pith_linear_weights *l = &b->linear[j];
            bytes += share_of(m, &b->plan->linear[j], tokens) *
                     (pith_speed_matrix_bytes(&l->w) + (l->bias ? 4.0 * l->w.rows : 0));
        }
        bytes += absorbed_bytes(b);
        for (uint32_t j = 0; j < b->plan->vectors; j++)
            bytes += 4.0 * (double)pith_vector_count(&b->plan->vector[j]);
    }
    return bytes;
}

static uint32_t window_of(const struct pith_layer_plan *l)
{
    const struct pith_node *node = pith_plan_attend(l);
    return node ? node->u.attend.window : 0;
}

double pith_speed_kv_bytes(const struct pith_plans *p, double position,
                           const struct pith_kv_format *f)
{
    double bytes = 0;
    for (uint32_t i = 0; i < p->layers; i++) {
        const struct pith_layer_plan *l = pith_plan(p, i);
        const double window = window_of(l), seen = position + 1;
        const double rows = window > 0 && window < seen ? window : seen;
        bytes += pith_kv_bytes_of(pith_kv_of(f, pith_plan_rows_of(p, i)), &l->state, rows, true) +
                 (double)pith_kv_state_width(f) * l->state.floats;
    }
    return bytes;
}

double pith_speed_cache_bytes(const struct pith_plans *p, size_t length,
                              const struct pith_kv_format *f)
{
    double bytes = 0;
    for (uint32_t i = 0; i < p->layers; i++) {
        const struct pith_layer_plan *l = pith_plan(p, i);
        bytes += pith_kv_stored_bytes(pith_kv_of(f, i), &l->state, window_of(l), length) +
                 (double)pith_kv_state_width(f) * l->state.floats;
    }
    return bytes;
}

double pith_speed_prefill_operations(const struct pith_model *m, size_t tokens)
{
    double weights = 0;
    if (tokens == 0) return 0;
    for (uint32_t i = 0; i < m->plans.layers; i++) {
        const struct pith_layer_plan *l = pith_plan(&m->plans, i);
        for (uint32_t j = 0; j < l->linears; j++)
            weights += share_of(m, &l->linear[j], 1) * (double)l->linear[j].rows *
                       l->linear[j].cols;
    }
    weights += (double)m->per_layer.project.w.rows * m->per_layer.project.w.cols;
    return 2 * (weights * (double)tokens + (double)m->head.rows * m->head.cols);
}
