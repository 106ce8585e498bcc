/* kern/template/coded_block.h: what the templates of attention over
 * codes and their tiers share. */
#ifndef PITH_KERN_CODED_BLOCK_H
#define PITH_KERN_CODED_BLOCK_H

#include "kern/coded.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A block of some rows, `ld` blocks apart: q[r * ld * 32], sum[r * ld]. */
struct coded_block {
    const int8_t *q;
    const int32_t *sum;
    size_t ld;
};

/* Asks for part `part` of `parts` of the codes that come after c's; `second`: into the second
 * cache, where a part has more lines than the first can wait for. */
static inline void ask_next(const struct pith_coded *c, size_t bytes, size_t part, size_t parts,
                            bool second)
{
    enum { LINE = 64 };
    if (!c->next) return;
    const size_t to = bytes * (part + 1) / parts;
    for (size_t at = bytes * part / parts; at < to; at += LINE) {
        if (second) __builtin_prefetch(c->next + at, 0, 2);
        else __builtin_prefetch(c->next + at);
    }
}

#endif
