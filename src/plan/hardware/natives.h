/* plan/hardware/natives.h: what an engine on a device computes by units of the device, what only
 * saves memory there, and what it refuses: rows of natives.def, together with the units of
 * hardware.def.
 */
#ifndef PITH_PLAN_HARDWARE_NATIVES_H
#define PITH_PLAN_HARDWARE_NATIVES_H

#include "num/grid.h"
#include "plan/hardware/hardware.h"

enum pith_native {
    PITH_NATIVE_YES,
    PITH_NATIVE_LESS,   /* it runs, and arithmetic gains nothing by it */
    PITH_NATIVE_REFUSED /* the engine does not run it there */
};

/* The units that multiply inputs on that grid; PITH_UNIT_BF16 for none. */
enum pith_unit pith_native_unit(const struct pith_grid *acts);

struct pith_native_case {
    const char *engine;    /* as --for names it, or "pith" */
    const char *container; /* its name */
    struct pith_grid weights, acts; /* format NULL: as the model has them, in 16 bits */
    const struct pith_hardware *hardware;
};
/* `why` becomes a sentence without a full stop, with its source; "" for PITH_NATIVE_YES. */
enum { PITH_NATIVE_WHY = 320 };
enum pith_native pith_native_ask(const struct pith_native_case *c, char why[PITH_NATIVE_WHY]);

#endif
