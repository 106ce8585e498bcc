/* model/place.h: parts of one allocation, one behind the other; inside model/ only. */
#ifndef PITH_MODEL_PLACE_H
#define PITH_MODEL_PLACE_H

#include "base/mem.h"

/* Places [rows][width] floats, from a cache line on, *used floats behind `base` and moves *used
 * behind them. *part is NULL where there is nothing to place, and when base is, which only counts.
 * False when the size overflows. */
static inline bool pith_place_floats(float *base, size_t rows, size_t width, size_t *used,
                                     float **part)
{
    enum { LINE = 16 /* floats of a cache line */ };
    size_t n;
    if (!pith_mul_size(rows, width, &n) || !pith_add_size(n, LINE - 1, &n)) return false;
    *part = base && width ? base + *used : NULL;
    return pith_add_size(*used, n / LINE * LINE, used);
}

#endif
