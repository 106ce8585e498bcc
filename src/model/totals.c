#include "model/totals.h"

#include "backend/pack.h"

uint64_t pith_model_parameters(const struct pith_model *m)
{
    const struct pith_shape *s = &m->shape;
    uint64_t layers = 0;
    for (uint32_t i = 0; i < s->layers; i++)
        layers += pith_block_float_bytes(pith_plan(&m->plans, i)) / sizeof(float);
    return layers + (uint64_t)s->vocab * s->hidden * (s->ends.tied ? 1 : 2) + s->hidden;
}

double pith_model_bits_per_weight(const struct pith_model *m)
{
    double bits = 0, weights = 0;
    for (uint32_t i = 0; i < m->shape.layers; i++) {
        for (uint32_t j = 0; j < pith_plan(&m->plans, i)->linears; j++) {
            const struct pith_weight *w = &m->blocks[i].linear[j].w;
            const double n = (double)w->rows * w->cols;
            weights += n;
            bits += n * (w->pack    ? w->pack->bits_per_weight
                         : w->quant ? pith_qmat_bits_per_weight(w->quant)
                                    : pith_dtype_bits(w->dtype));
        }
    }
    return weights > 0 ? bits / weights : 0;
}

json_t *pith_kv_report(const struct pith_plans *p, const struct pith_kv_format *f)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < p->layers; i++) {
        char text[PITH_KV_TEXT];
        const struct pith_kv_format *l = pith_kv_of(f, i);
        const bool cached = pith_kv_position_bytes(l, &pith_plan(p, i)->state) > 0;
        pith_kv_name(l, text);
        pith_json_add(&list, cached ? json_string(text) : json_null());
    }
    return list;
}
