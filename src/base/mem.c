#define _DEFAULT_SOURCE /* madvise() */
#include "base/mem.h"

#include <pith/context.h>

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

bool pith_mul_size(size_t a, size_t b, size_t *out)
{
    if (b != 0 && a > SIZE_MAX / b) return false;
    *out = a * b;
    return true;
}

bool pith_add_size(size_t a, size_t b, size_t *out)
{
    if (a > SIZE_MAX - b) return false;
    *out = a + b;
    return true;
}

/* Requests huge pages where whole ones fit into a large request: its first touch costs a fraction
 * then, and so do later look-ups of its addresses. A wish: a system without them gives small ones.
 */
static void *wish_huge(void *p, size_t bytes)
{
#ifdef MADV_HUGEPAGE
    enum { LEAST = 4 * PITH_HUGE_PAGE };
    if (p && bytes >= LEAST) {
        const uintptr_t first = ((uintptr_t)p + PITH_HUGE_PAGE - 1) &
                                ~(uintptr_t)(PITH_HUGE_PAGE - 1);
        const uintptr_t end = ((uintptr_t)p + bytes) & ~(uintptr_t)(PITH_HUGE_PAGE - 1);
        (void)madvise((void *)first, end - first, MADV_HUGEPAGE);
    }
#endif
    return p;
}

void *pith_alloc(size_t count, size_t size)
{
    size_t bytes;
    if (!pith_mul_size(count, size, &bytes)) return NULL;
    return wish_huge(malloc(bytes ? bytes : 1), bytes);
}

void *pith_zalloc(size_t count, size_t size)
{
    size_t bytes;
    if (!pith_mul_size(count, size, &bytes)) return NULL;
    return wish_huge(calloc(1, bytes ? bytes : 1), bytes);
}

void *pith_alloc_aligned(size_t count, size_t size)
{
    size_t bytes;
    if (!pith_mul_size(count, size, &bytes) || !pith_add_size(bytes, 63, &bytes)) return NULL;
    bytes &= ~(size_t)63;
    return wish_huge(aligned_alloc(64, bytes ? bytes : 64), bytes);
}

void *pith_alloc_huge(size_t count, size_t size)
{
    size_t bytes;
    if (!pith_mul_size(count, size, &bytes)) return NULL;
    if (bytes < PITH_HUGE_PAGE) return pith_alloc_aligned(count, size);
    if (!pith_add_size(bytes, PITH_HUGE_PAGE - 1, &bytes)) return NULL;
    bytes &= ~(size_t)(PITH_HUGE_PAGE - 1);
    void *p = aligned_alloc(PITH_HUGE_PAGE, bytes);
#ifdef MADV_HUGEPAGE
    /* A wish: a system without huge pages gives small ones. */
    if (p) (void)madvise(p, bytes, MADV_HUGEPAGE);
#endif
    return p;
}

uint64_t pith_huge_bytes(uint64_t bytes)
{
    const uint64_t page = PITH_HUGE_PAGE;
    if (bytes < page || bytes > UINT64_MAX - page) return bytes;
    return (bytes + page - 1) / page * page;
}

void *pith_realloc(void *p, size_t count, size_t size)
{
    size_t bytes;
    if (!pith_mul_size(count, size, &bytes)) return NULL;
    return realloc(p, bytes ? bytes : 1);
}

char *pith_strndup(const char *s, size_t n)
{
    if (n == SIZE_MAX) return NULL;
    char *p = pith_alloc(n + 1, 1);
    if (!p) return NULL;
    memcpy(p, s, n);
    p[n] = '\0';
    return p;
}

char *pith_strdup(const char *s)
{
    return pith_strndup(s, strlen(s));
}

void pith_free(void *p)
{
    free(p);
}

void *pith_lend(size_t size, void *unused)
{
    (void)unused;
    return pith_alloc(size, 1);
}

void pith_take_back(void *p, void *unused)
{
    (void)unused;
    pith_free(p);
}

void pith_return_memory(void)
{
#if defined(__GLIBC__)
    mallopt(M_MMAP_THRESHOLD, PITH_HEAP_LARGE);
    mallopt(M_TRIM_THRESHOLD, PITH_HEAP_TRIM);
    mallopt(M_TOP_PAD, PITH_HEAP_TRIM / 4);
#endif
}

uint64_t pith_heap_bytes(uint64_t bytes)
{
    enum { PAGE = 4096, HEADER = 64 /* of an aligned request */ };
    if (bytes < PITH_HEAP_LARGE || bytes > UINT64_MAX - PAGE - HEADER) return bytes;
    return (bytes + HEADER + PAGE - 1) / PAGE * PAGE;
}

uint64_t pith_heap_holes(void)
{
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 33)
    const struct mallinfo2 m = mallinfo2();
    return m.fordblks - m.keepcost;
#else
    return 0;
#endif
}

void pith_heap_trim(void)
{
#if defined(__GLIBC__)
    malloc_trim(0);
#endif
}
