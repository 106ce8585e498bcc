/* base/amx.h: the matrix unit of x86 (AMX), which a process must ask the system for. */
#ifndef PITH_BASE_AMX_H
#define PITH_BASE_AMX_H

#include <stdbool.h>

/* Whether the CPU multiplies tiles of bytes and of bfloat16, and the system lets this process use
 * them (it is requested; threads started later may as well). */
bool pith_amx_usable(void);

#endif
