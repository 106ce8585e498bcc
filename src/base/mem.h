/* base/mem.h: the only way to allocate memory. Only base/ calls malloc and free; everything else
 * comes here, so that overflow is checked once and tests can make the n-th request fail. */
#ifndef PITH_BASE_MEM_H
#define PITH_BASE_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* count * size bytes, not initialised; NULL when that overflows or memory is out. A request for 0
 * bytes gives a pointer that may be freed. Free with pith_free(). */
void *pith_alloc(size_t count, size_t size);

/* The same, zeroed. */
void *pith_zalloc(size_t count, size_t size);

/* The same, not initialised, aligned to 64 bytes (a cache line and the widest vector). */
void *pith_alloc_aligned(size_t count, size_t size);

/* The same for megabytes that are read over and over (packed weights, a KV cache): aligned to
 * PITH_HUGE_PAGE, and huge pages are requested, which make linear reads faster. A size
 * below one huge page is served as by pith_alloc_aligned(). */
enum { PITH_HUGE_PAGE = 1 << 21 };
void *pith_alloc_huge(size_t count, size_t size);
/* What a request of so many bytes comes to there. */
uint64_t pith_huge_bytes(uint64_t bytes);

/* Resizes p (NULL allowed) to count * size bytes; on failure NULL, and p is still valid. */
void *pith_realloc(void *p, size_t count, size_t size);

/* Copies of a string / of n bytes plus a NUL; NULL when memory is out. */
char *pith_strdup(const char *s);
char *pith_strndup(const char *s, size_t n);

/* Frees what any of the above returned; NULL is allowed. */
void pith_free(void *p);

/* pith_alloc() and pith_free() as libraries call them that pass something of their caller's on. */
void *pith_lend(size_t size, void *unused);
void pith_take_back(void *p, void *unused);

/* Of malloc where pith_return_memory() has been called (pith/context.h): a request of
 * PITH_HEAP_LARGE bytes or more is mapped by itself; smaller ones come from a thread's heap, which
 * retains at most PITH_HEAP_TRIM freed bytes at its end. */
enum { PITH_HEAP_LARGE = 32 << 10, PITH_HEAP_TRIM = 64 << 10 };
/* What such a request comes to: of one that is mapped by itself whole pages, its header with it. */
uint64_t pith_heap_bytes(uint64_t bytes);
/* For estimates: what a thread at work allocates in addition to what it requests by size (the end
 * of its heap, and as much of its stack as the deepest call reaches), and by how much less what a
 * process holds at one start may be than at the next. */
enum { PITH_THREAD_HEAP = PITH_HEAP_TRIM + (32 << 10), PITH_MEASURED_TO = 64 << 10 };
/* Gives the system back what the heaps hold of freed memory. */
void pith_heap_trim(void);
/* Bytes of freed memory between what the heaps hold: given back or not, blocks of any size may come
 * to lie there, and what they leave stays with the heap. */
uint64_t pith_heap_holes(void);

/* Overflow-safe arithmetic: false when the result does not fit (then *out is untouched). */
bool pith_mul_size(size_t a, size_t b, size_t *out);
bool pith_add_size(size_t a, size_t b, size_t *out);

#define PITH_COUNT(array) (sizeof(array) / sizeof((array)[0]))

#endif
