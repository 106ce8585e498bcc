#include "api/measure.h"

#include "backend/pack.h"

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
