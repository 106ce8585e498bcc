/* plan/hardware/hardware.h: what devices can do, as rows of hardware.def. */
#ifndef PITH_PLAN_HARDWARE_HARDWARE_H
#define PITH_PLAN_HARDWARE_HARDWARE_H

#include "base/json.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

/* What multiplies. */
enum pith_unit {
    PITH_UNIT_F32,
    PITH_UNIT_BF16,
    PITH_UNIT_FP8,
    PITH_UNIT_INT8,
    PITH_UNIT_INT4,
    PITH_UNIT_FP4,
    PITH_UNITS
};
/* "bf16". */
const char *pith_hardware_unit(enum pith_unit u);

struct pith_hardware {
    const char *name, *vendor, *title;
    double memory_bytes;    /* that programs see; 0: any */
    double bandwidth;       /* bytes a second */
    double link;            /* bytes a second to a neighbour, each direction; 0: not known */
    double host;            /* ... to and from its host's memory; 0: that is its own */
    double ops[PITH_UNITS]; /* dense operations a second; 0: it has no such units */
    unsigned most;          /* linked at most */
    double watts;           /* at most; 0: not known */
    double price;           /* USD an hour; 0: not known */
    const char *price_source, *source;
    bool fnuz; /* its FP8 has no negative zero, and half the range */
    bool cpu;
    /* What programs reach of its bandwidth and of its operations, and what a layer takes in
     * addition to its bytes, where that was measured; 0: what the engine reaches. */
    double reached_memory, reached_arithmetic, layer_seconds;
    unsigned capability;   /* compute capability times ten: 89; 0: no CUDA */
    unsigned threads;      /* of pith on a CPU; 0: not known */
    const json_t *kernels; /* of pith, as measured there (kernels.h); borrowed, or NULL */
};
/* By name in any case, or the first whose name goes on behind it with a "-" ("h100": h100-sxm);
 * NULL when there is none. */
const struct pith_hardware *pith_hardware_find(const char *name);
/* The same; PITH_ARG names what there is. */
enum pith_status pith_hardware_get(const char *name, const struct pith_hardware **out,
                                   struct pith_error *err);
size_t pith_hardware_count(void);
/* Row i, below the count. */
const struct pith_hardware *pith_hardware_at(size_t i);

#endif
