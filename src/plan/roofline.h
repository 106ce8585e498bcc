/* plan/roofline.h: how long work takes at least, by what a device can read, multiply and send
 * (Williams et al. 2009), with the share of each that programs reach. */
#ifndef PITH_PLAN_ROOFLINE_H
#define PITH_PLAN_ROOFLINE_H

#include "plan/hardware/hardware.h"

enum pith_roof_bound { PITH_BOUND_MEMORY, PITH_BOUND_ARITHMETIC, PITH_BOUND_LINK };
/* "memory", "arithmetic", "links". */
const char *pith_bound_name(enum pith_roof_bound b);

/* What all devices do together. */
struct pith_roof_work {
    double weight_bytes, cache_bytes; /* read */
    double ops;                       /* a multiply-add is two */
    enum pith_unit unit;
    double link_bytes;   /* each device sends so many */
    unsigned link_steps; /* ... in so many steps that wait for each other */
};

/* The shares of the peaks that are reached, and what waits besides. */
struct pith_reached {
    double memory, arithmetic;
};
/* Of links, for all engines; sources at the definition. */
struct pith_links_reached {
    double share;
    double step; /* seconds that a step between devices takes in addition to its bytes */
};
extern const struct pith_links_reached pith_links_reached;

/* Seconds on so many devices, over which the work lies evenly: the longer of reading and
 * multiplying, and sending after that. *bound (may be NULL) is the longest of these. INFINITY where
 * the device has no such units. */
double pith_roofline_seconds(const struct pith_hardware *h, unsigned devices,
                             const struct pith_roof_work *w, struct pith_reached reached,
                             enum pith_roof_bound *bound);

#endif
