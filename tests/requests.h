/* tests/requests.h: stands in front of the C library's allocator: counts requests, and makes the
 * n-th one fail. A program includes this once. Under a sanitizer, which stands there already,
 * PITH_REQUESTS is 0 and nothing is counted or fails.
 *
 * Only requests made from the program's own code fail, not those of libraries: jansson 2.14 writes
 * past its token buffer when that cannot grow (valgrind shows it with json_loadb alone). */
#ifndef PITH_TEST_REQUESTS_H
#define PITH_TEST_REQUESTS_H

#include "sanitized.h"
#include "test.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if SANITIZED || !defined(__GLIBC__)
#define PITH_REQUESTS 0
#else
#define PITH_REQUESTS 1
#endif

/* Not every program looks at them where nothing is counted. */
#define PITH_COUNTER __attribute__((unused)) static atomic_long
PITH_COUNTER requests;       /* so far */
PITH_COUNTER live;           /* not yet freed */
PITH_COUNTER countdown = -1; /* requests until one fails; negative: none will */

#if PITH_REQUESTS
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *p, size_t size);
extern void *__libc_memalign(size_t align, size_t size);
extern void __libc_free(void *p);

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

/* Makes request 0, 1, 2, ... of a call fail until one call makes it through undisturbed. Each call
 * says PITH_NOMEM, or PITH_OK when nothing failed or when `harmless` and it could do without; and
 * none leaks. Returns how many requests failed; at most 100,000 are tried. */
static inline long fail_each_request(enum pith_status (*call)(void *ctx, struct pith_error *err),
                                     void *ctx, bool harmless)
{
    for (long n = 0; n < 100000; n++) {
        struct pith_error err = {0};
        const long before = atomic_load(&live);
        atomic_store(&countdown, n);
        const enum pith_status s = call(ctx, &err);
        const bool failed = atomic_exchange(&countdown, -1) < 0;
        const long leaked = atomic_load(&live) - before;
        if (s != (failed ? PITH_NOMEM : PITH_OK) && !(harmless && s == PITH_OK))
            fail_msg("request %ld: status %d, %s", n, (int)s, err.text);
        if (leaked != 0) fail_msg("request %ld: %ld blocks leaked", n, leaked);
        if (!failed) return n;
    }
    fail_msg("no end of requests");
    return -1;
}

#endif
