/* kern/template/coded_block.h: what the templates of attention over
 * codes and their tiers share. */
#ifndef PITH_KERN_CODED_BLOCK_H
#define PITH_KERN_CODED_BLOCK_H

#include "kern/coded.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A block of some rows, `ld` blocks apart: q[r * ld * 32], sum[r * ld]. While it is multiplied, as
 * many bytes at `prefetch` as its codes have may be prefetched. */
struct coded_block {
    const int8_t *q;
    const int32_t *sum;
    size_t ld;
    const uint8_t *prefetch;
};

/* Prefetches the line `at` bytes into codes; `second`: into the second cache only. */
static inline void prefetch_at(const uint8_t *codes, size_t at, bool second)
{
    if (!codes) return;
    if (second) __builtin_prefetch(codes + at, 0, 2);
    else __builtin_prefetch(codes + at);
}

/* Prefetches part `part` of `parts` of the codes that c names as next. */
static inline void prefetch_next(const struct pith_coded *c, size_t bytes, size_t part,
                                 size_t parts, bool second)
{
    enum { LINE = 64 };
    const size_t to = bytes * (part + 1) / parts;
    for (size_t at = bytes * part / parts; at < to; at += LINE) prefetch_at(c->next, at, second);
}

#endif
