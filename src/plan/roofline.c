#include "plan/roofline.h"

#include <math.h>

/* hardware.json, efficiency_hints: decode_bandwidth_fraction bf16, prefill_mfu dense (both capmd,
 * measured with vLLM), links nvlink4_copy_fraction (stasnet), p2p_latency_s (aiconfigurator). */
const struct pith_reached pith_roofline_reached = {
    .memory = 0.7, .arithmetic = 0.4, .link = 0.88, .link_step = 1e-5};

const char *pith_bound_name(enum pith_roof_bound b)
{
    static const char *const names[] = {"memory", "arithmetic", "links"};
    return names[b];
}

double pith_roofline_seconds(const struct pith_hardware *h, unsigned devices,
                             const struct pith_roof_work *w, enum pith_roof_bound *bound)
{
    const struct pith_reached *r = &pith_roofline_reached;
    const double n = devices ? devices : 1;
    const double read = (w->weight_bytes + w->cache_bytes) / (n * h->bandwidth * r->memory);
    const double multiply = w->ops <= 0           ? 0
                            : h->ops[w->unit] > 0 ? w->ops / (n * h->ops[w->unit] * r->arithmetic)
                                                  : (double)INFINITY;
    double send = 0;
    if (devices > 1 && w->link_steps > 0)
        send = w->link_steps * r->link_step +
               (h->link > 0 ? w->link_bytes / (h->link * r->link) : 0);
    if (bound)
        *bound = send > read && send > multiply ? PITH_BOUND_LINK
                 : multiply > read              ? PITH_BOUND_ARITHMETIC
                                                : PITH_BOUND_MEMORY;
    return fmax(read, multiply) + send;
}
