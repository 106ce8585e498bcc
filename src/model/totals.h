/* model/totals.h: facts about a loaded model that several reports state. */
#ifndef PITH_MODEL_TOTALS_H
#define PITH_MODEL_TOTALS_H

#include "base/json.h"
#include "model/model.h"

/* Parameters of the model, whatever it is stored in: linears with their biases, norms, embedding,
 * and the head where it is not the embedding. */
uint64_t pith_model_parameters(const struct pith_model *m);
/* Bits that a weight of the linear layers costs on average, scales and zeros counted. Needs
 * m->blocks. */
double pith_model_bits_per_weight(const struct pith_model *m);
/* The names of a cache's formats by layer, a new reference; null where a layer keeps none. */
json_t *pith_kv_report(const struct pith_plans *p, const struct pith_kv_format *f);

#endif
