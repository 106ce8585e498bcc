/* The ceiling that the kernel keeps on the process's memory. */
#include <pith/context.h>

#include "base/async.h"
#include "base/mem.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

/* Bytes of a line of /proc/self/status such as "VmData:". False when there is none. */
static bool status_bytes(const char *key, uint64_t *bytes)
{
    FILE *f = fopen("/proc/self/status", "re");
    char line[128];
    unsigned long long kib = 0;
    bool found = false;
    while (f && !found && fgets(line, sizeof line, f))
        found = strncmp(line, key, strlen(key)) == 0 &&
                sscanf(line + strlen(key), "%llu", &kib) == 1;
    if (f) fclose(f);
    *bytes = (uint64_t)kib * 1024;
    return found;
}

enum pith_status pith_limit_memory(uint64_t bytes, struct pith_error *err)
{
    struct rlimit limit;
    uint64_t mapped, used;
    pith_heap_trim(); /* what was freed is not in use */
    pith_async_reserve();
    if (!status_bytes("VmData:", &mapped) || !status_bytes("RssAnon:", &used) ||
        getrlimit(RLIMIT_DATA, &limit) != 0)
        return pith_fail(err, PITH_IO, "the kernel does not say how much memory is mapped");
    const uint64_t most = bytes + (mapped > used ? mapped - used : 0);
    if (most < bytes || (limit.rlim_max != RLIM_INFINITY && most > limit.rlim_max))
        return pith_fail(err, PITH_LIMIT, "a lower limit on memory is set already");
    limit.rlim_cur = (rlim_t)most;
    if (setrlimit(RLIMIT_DATA, &limit) != 0) return pith_fail_errno(err, "cannot limit", "memory");
    return PITH_OK;
}
