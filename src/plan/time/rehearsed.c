#include "plan/time/rehearsed.h"

/* Whether the same work is done for both. */
static bool is_alike(const struct pith_layer_plan *a, const struct pith_layer_plan *b)
{
    if (a->linears != b->linears || a->sites != b->sites || a->carried != b->carried) return false;
    for (uint32_t i = 0; i < a->linears; i++) {
        const struct pith_linear_spec *x = &a->linear[i], *y = &b->linear[i];
        if (x->rows != y->rows || x->cols != y->cols || x->expert != y->expert) return false;
    }
    return true;
}

static uint32_t find(const struct pith_plans *plans, const struct pith_layer_plan *l,
                     const struct pith_rehearsed *list, uint32_t count)
{
    uint32_t i = 0;
    while (i < count && !is_alike(l, pith_plan(plans, list[i].layer))) i++;
    return i;
}

/* Of those there are, what is nearest. */
static uint32_t nearest(const struct pith_plans *plans, const struct pith_layer_plan *l,
                        const struct pith_rehearsed *list, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (!pith_plan_experts(l) == !pith_plan_experts(pith_plan(plans, list[i].layer))) return i;
    return 0;
}

uint32_t pith_rehearsed_blocks(const struct pith_plans *plans,
                               struct pith_rehearsed out[PITH_REHEARSED_MOST])
{
    const bool shared = plans->carried & ~(1u << PITH_REG_TOKEN);
    uint32_t count = 0;
    for (uint32_t layer = 0; layer < plans->layers; layer++) {
        const struct pith_layer_plan *l = pith_plan(plans, layer);
        uint32_t i = find(plans, l, out, count);
        if (i == PITH_REHEARSED_MOST && shared) {
            out[0].like = plans->layers;
            return 1;
        }
        if (i == PITH_REHEARSED_MOST) i = nearest(plans, l, out, count);
        else if (i == count) out[count++] = (struct pith_rehearsed){.layer = layer};
        out[i].like++;
    }
    return count;
}
