#include "plan/roofline.h"

#include <math.h>

/* hardware.json, efficiency_hints: links nvlink4_copy_fraction (stasnet), p2p_latency_s
 * (aiconfigurator). */
const struct pith_links_reached pith_links_reached = {.share = 0.88, .step = 1e-5};

const char *pith_bound_name(enum pith_roof_bound b)
{
    static const char *const names[] = {"memory", "arithmetic", "links"};
    return names[b];
}

double pith_roofline_seconds(const struct pith_hardware *h, unsigned devices,
                             const struct pith_roof_work *w, struct pith_reached reached,
                             enum pith_roof_bound *bound)
{
    const double n = devices ? devices : 1;
    const double read = (w->weight_bytes + w->cache_bytes) / (n * h->bandwidth * reached.memory);
    const double multiply = w->ops <= 0 ? 0
                            : h->ops[w->unit] > 0
                                ? w->ops / (n * h->ops[w->unit] * reached.arithmetic)
                                : (double)INFINITY;
    double send = 0;
    if (devices > 1 && w->link_steps > 0)
        send = w->link_steps * pith_links_reached.step +
               (h->link > 0 ? w->link_bytes / (h->link * pith_links_reached.share) : 0);
    if (bound)
        *bound = send > read && send > multiply ? PITH_BOUND_LINK
                 : multiply > read              ? PITH_BOUND_ARITHMETIC
                                                : PITH_BOUND_MEMORY;
    return fmax(read, multiply) + send;
}
