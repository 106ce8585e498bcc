/* quantize/units.h: the parts of a model that a run finishes one after the other: what stands
 * outside the blocks, then each block. */
#ifndef PITH_QUANTIZE_UNITS_H
#define PITH_QUANTIZE_UNITS_H

#include "model/model.h"

/* "outer" for unit 0, then "block 0" and so on. */
enum { PITH_UNIT_NAME = 32 };
void pith_unit_name(size_t index, char name[PITH_UNIT_NAME]);
/* The unit that a tensor belongs to, by its name. */
size_t pith_unit_of(const struct pith_plans *plans, const char *tensor);
/* The tensors of m's checkpoint that a unit reads: index of the first, and *count that follow each
 * other. Of unit 0, which has the rest, all of them: its own are those of pith_unit_of() 0. */
size_t pith_unit_tensors(const struct pith_model *m, size_t unit, size_t *count);

#endif
