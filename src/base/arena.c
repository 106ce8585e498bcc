#include "base/arena.h"

#include "base/mem.h"

#include <string.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PITH_POISONS 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define PITH_POISONS 1
#endif
#ifdef PITH_POISONS
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#endif

enum { ALIGN = 64 };

void *pith_arena_take(struct pith_arena *a, size_t count, size_t size)
{
    size_t bytes, padded, end;
    if (a->failed || count == 0 || size == 0) return NULL;
    if (!pith_mul_size(count, size, &bytes) || !pith_add_size(bytes, ALIGN - 1, &padded) ||
        !pith_add_size(a->used, padded / ALIGN * ALIGN, &end) || (a->base && end > a->size)) {
        a->failed = true;
        return NULL;
    }
    void *part = a->base ? a->base + a->used : NULL;
    if (part) ASAN_UNPOISON_MEMORY_REGION(part, bytes);
    a->used = end;
    if (a->most < end) a->most = end;
    return part;
}

void *pith_arena_take_rows(struct pith_arena *a, size_t rows, size_t width, size_t size)
{
    size_t count;
    if (pith_mul_size(rows, width, &count)) return pith_arena_take(a, count, size);
    a->failed = true;
    return NULL;
}

void *pith_arena_take_zeros(struct pith_arena *a, size_t rows, size_t width, size_t size)
{
    void *part = pith_arena_take_rows(a, rows, width, size);
    return part ? memset(part, 0, rows * width * size) : NULL;
}

void pith_arena_return(struct pith_arena *a, size_t used)
{
    if (used > a->used) return;
    if (a->base) ASAN_POISON_MEMORY_REGION(a->base + used, a->used - used);
    a->used = used;
}

uint64_t pith_arena_bytes(const struct pith_arena *a)
{
    return a->failed ? UINT64_MAX : a->most;
}

bool pith_arena_open(struct pith_arena *a)
{
    unsigned char *base = a->failed ? NULL : pith_alloc_aligned(a->most, 1);
    if (!base) return false;
    *a = (struct pith_arena){.base = base, .size = a->most};
    ASAN_POISON_MEMORY_REGION(base, a->size); /* until it is taken */
    return true;
}

uint64_t pith_sum_bytes(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

uint64_t pith_times_bytes(uint64_t count, uint64_t bytes)
{
    return bytes && count > UINT64_MAX / bytes ? UINT64_MAX : count * bytes;
}

void pith_meter_take(struct pith_meter *m, uint64_t bytes)
{
    m->now = pith_sum_bytes(m->now, bytes);
    if (m->most < m->now) m->most = m->now;
}

void pith_meter_give(struct pith_meter *m, uint64_t bytes)
{
    if (m->now != UINT64_MAX) m->now -= bytes < m->now ? bytes : m->now;
}

void pith_meter_touch(struct pith_meter *m, uint64_t bytes)
{
    const uint64_t now = m->now;
    pith_meter_take(m, bytes);
    m->now = now;
}
