#include "requests.h"

atomic_long requests, live;
atomic_long countdown = -1;

#if PITH_REQUESTS
/* Where the program's own code begins and ends, as the linker says. */
extern const char __executable_start, etext;

static bool request_fails(const void *caller)
{
    const uintptr_t at = (uintptr_t)caller;
    atomic_fetch_add(&requests, 1);
    if (at < (uintptr_t)&__executable_start || at >= (uintptr_t)&etext) return false;
    return atomic_load(&countdown) >= 0 && atomic_fetch_sub(&countdown, 1) == 0;
}

static void *counted(void *p)
{
    if (p) atomic_fetch_add(&live, 1);
    return p;
}

void *malloc(size_t size)
{
    return request_fails(__builtin_return_address(0)) ? NULL : counted(__libc_malloc(size));
}

void *calloc(size_t count, size_t size)
{
    if (request_fails(__builtin_return_address(0))) return NULL;
    return counted(__libc_calloc(count, size));
}

void *aligned_alloc(size_t align, size_t size)
{
    if (request_fails(__builtin_return_address(0))) return NULL;
    return counted(__libc_memalign(align, size));
}

void *realloc(void *old, size_t size)
{
    if (request_fails(__builtin_return_address(0))) return NULL;
    void *p = __libc_realloc(old, size);
    return old ? p : counted(p);
}

void free(void *p)
{
    if (p) atomic_fetch_sub(&live, 1);
    __libc_free(p);
}
#endif
