/* Which tensors belong to which unit. */
#include "quantize/units.h"

#include <stdio.h>

enum { PITH_UNIT_PREFIX = 128 };

size_t pith_unit_of(const struct pith_plans *plans, const char *tensor)
{
    uint32_t layer;
    return pith_plan_layer_of(plans, tensor, &layer) ? (size_t)layer + 1 : 0;
}

size_t pith_unit_tensors(const struct pith_model *m, size_t unit, size_t *count)
{
    char prefix[PITH_UNIT_PREFIX];
    *count = m->checkpoint->count;
    if (unit == 0) return 0;
    pith_plan_name(&m->plans, (uint32_t)(unit - 1), "", prefix, sizeof prefix);
    return pith_checkpoint_range(m->checkpoint, prefix, count);
}

void pith_unit_name(size_t index, char name[PITH_UNIT_NAME])
{
    if (index == 0) snprintf(name, PITH_UNIT_NAME, "outer");
    else snprintf(name, PITH_UNIT_NAME, "block %zu", index - 1);
}
