#include "api/measure.h"

#include "backend/pack.h"

uint64_t pith_model_parameters(const struct pith_model *m)
{
    const struct pith_shape *s = &m->shape;
    uint64_t layer = 0;
    for (int role = 0; role < PITH_ROLE_COUNT; role++) {
        uint32_t rows, cols;
        pith_role_dims(s, (enum pith_role)role, &rows, &cols);
        layer += (uint64_t)rows * cols;
        if (pith_role_has_bias(s, (enum pith_role)role)) layer += rows;
    }
    for (int norm = 0; norm < PITH_NORM_COUNT; norm++)
        layer += pith_norm_length(s, (enum pith_norm)norm);
    return layer * s->layers + (uint64_t)s->vocab * s->hidden * (s->tied ? 1 : 2) + s->hidden;
}

double pith_model_bits_per_weight(const struct pith_model *m)
{
    double bits = 0, weights = 0;
    for (uint32_t i = 0; i < m->shape.layers; i++) {
        for (int role = 0; role < PITH_ROLE_COUNT; role++) {
            const struct pith_weight *w = &m->blocks[i].linear[role].w;
            const double n = (double)w->rows * w->cols;
            weights += n;
            bits += n * (w->pack    ? w->pack->bits_per_weight
                         : w->quant ? pith_qmat_bits_per_weight(w->quant)
                                    : pith_dtype_bits(w->dtype));
        }
    }
    return weights > 0 ? bits / weights : 0;
}
