/* base/integer.h: arithmetic of whole numbers that several folders need. */
#ifndef PITH_BASE_INTEGER_H
#define PITH_BASE_INTEGER_H

#include <stdint.h>

/* The greatest common divisor, by Euclid's algorithm; of a number and 0 the number. */
static inline uint64_t pith_common_divisor(uint64_t a, uint64_t b)
{
    while (b) {
        const uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static inline uint64_t pith_larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

#endif
