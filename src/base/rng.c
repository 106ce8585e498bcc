#include "base/rng.h"

#include <math.h>

static uint64_t rotate_left(uint64_t x, int k)
{
    return x << k | x >> (64 - k);
}

void pith_rng_seed(struct pith_rng *r, uint64_t seed)
{
    for (int i = 0; i < 4; i++) {
        seed += 0x9e3779b97f4a7c15u;
        uint64_t z = seed;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
        z = (z ^ z >> 27) * 0x94d049bb133111ebu;
        r->s[i] = z ^ z >> 31;
    }
}

uint64_t pith_rng_next(struct pith_rng *r)
{
    uint64_t *s = r->s;
    const uint64_t result = rotate_left(s[0] + s[3], 23) + s[0];
    const uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate_left(s[3], 45);
    return result;
}

uint64_t pith_rng_below(struct pith_rng *r, uint64_t n)
{
    const uint64_t limit = UINT64_MAX - UINT64_MAX % n;
    uint64_t x;
    do x = pith_rng_next(r);
    while (x >= limit);
    return x % n;
}

double pith_rng_unit(struct pith_rng *r)
{
    return (double)(pith_rng_next(r) >> 11) * 0x1p-53;
}

double pith_rng_normal(struct pith_rng *r)
{
    double u, v, q;
    do {
        u = 2 * pith_rng_unit(r) - 1;
        v = 2 * pith_rng_unit(r) - 1;
        q = u * u + v * v;
    } while (q >= 1 || q == 0);
    return u * sqrt(-2 * log(q) / q);
}
