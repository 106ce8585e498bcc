/* tests/requests.h: stands in front of the C library's allocator: counts requests, and makes the
 * n-th one fail. A folder of unit tests of which one includes this is linked with requests.c.
 * Under a sanitizer, which stands there already, PITH_REQUESTS is 0 and nothing is counted or
 * fails.
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

extern atomic_long requests;  /* so far */
extern atomic_long live;      /* not yet freed */
extern atomic_long countdown; /* requests until one fails; negative: none will */

#if PITH_REQUESTS
/* The C library's own, which nothing counts. */
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *p, size_t size);
extern void *__libc_memalign(size_t align, size_t size);
extern void __libc_free(void *p);
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

/* Skips a test where no request fails. At its beginning: what it holds would leak. */
static inline void need_requests(void)
{
    if (!PITH_REQUESTS) skip();
}

/* A call makes it undisturbed, and with any of its requests failing as fail_each_request() says. */
static inline void try_each_request(enum pith_status (*call)(void *ctx, struct pith_error *err),
                                    void *ctx, bool harmless)
{
    struct pith_error err = {0};
    assert_ok(call(ctx, &err), err);
    assert_true(fail_each_request(call, ctx, harmless) > 0);
}

#endif
