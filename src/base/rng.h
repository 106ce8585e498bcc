/* base/rng.h: reproducible random numbers: xoshiro256++ (Blackman and Vigna 2019, public domain
 * algorithm), seeded by SplitMix64. The same seed gives the same numbers everywhere. */
#ifndef PITH_BASE_RNG_H
#define PITH_BASE_RNG_H

#include <stdint.h>

struct pith_rng {
    uint64_t s[4];
};

/* Any seed is good, also 0. */
void pith_rng_seed(struct pith_rng *r, uint64_t seed);
/* 64 random bits. */
uint64_t pith_rng_next(struct pith_rng *r);
/* Uniform in [0, n), n > 0, without modulo bias. */
uint64_t pith_rng_below(struct pith_rng *r, uint64_t n);
/* Uniform in [0, 1) with 53 bits. */
double pith_rng_unit(struct pith_rng *r);
/* Standard normal (polar method). */
double pith_rng_normal(struct pith_rng *r);

#endif
