/* base/grow.h: arrays that double. */
#ifndef PITH_BASE_GROW_H
#define PITH_BASE_GROW_H

#include "base/mem.h"

/* Room for one more behind the `count` elements of an array (NULL: none yet) that has room for
 * *cap: the array, perhaps elsewhere, or NULL when memory is out, and then the old one is still
 * valid. `first`: the room that it begins with. */
static inline void *pith_grow(void *array, size_t count, size_t *cap, size_t first, size_t size)
{
    if (count < *cap) return array;
    const size_t more = *cap ? 2 * *cap : first;
    void *p = pith_realloc(array, more, size);
    if (p) *cap = more;
    return p;
}

#endif
