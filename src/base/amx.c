/* The bits are those of Intel's manual, volume 2, CPUID: leaf 7, EDX; and volume 1, chapter 13, for
 * the state that the system saves. */
#define _DEFAULT_SOURCE /* syscall() */
#include "base/amx.h"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    OSXSAVE = 1 << 27, /* leaf 1, ECX */
    AMX_BF16 = 1 << 22,
    AMX_TILE = 1 << 24,
    AMX_INT8 = 1 << 25, /* leaf 7, EDX */
    STATES = 3 << 17,   /* tiles and their shapes */
    ASK_PERMISSION = 0x1023,
    TILE_DATA = 18 /* arch_prctl(2) */
};

static uint32_t saved_states(void)
{
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

bool pith_amx_usable(void)
{
    const unsigned wanted = AMX_BF16 | AMX_TILE | AMX_INT8;
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & OSXSAVE)) return false;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & wanted) != wanted) return false;
    if ((saved_states() & STATES) != STATES) return false;
    return syscall(SYS_arch_prctl, ASK_PERMISSION, TILE_DATA) == 0;
}
#else
bool pith_amx_usable(void)
{
    return false;
}
#endif
