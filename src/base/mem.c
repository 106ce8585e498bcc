#define _DEFAULT_SOURCE /* madvise() */
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

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

void *pith_alloc(size_t count, size_t size)
{
    size_t bytes;
    if (!pith_mul_size(count, size, &bytes)) return NULL;
    return malloc(bytes ? bytes : 1);
}

void *pith_zalloc(size_t count, size_t size)
{
    size_t bytes;
    if (!pith_mul_size(count, size, &bytes)) return NULL;
    return calloc(1, bytes ? bytes : 1);
}

void *pith_alloc_aligned(size_t count, size_t size)
{
    size_t bytes;
    if (!pith_mul_size(count, size, &bytes) || !pith_add_size(bytes, 63, &bytes)) return NULL;
    bytes &= ~(size_t)63;
    return aligned_alloc(64, bytes ? bytes : 64);
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
