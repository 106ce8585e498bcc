/* base/keyed.h: a fast hash under a key, by which several that hold the same key find out whether
 * they have the same bytes. Many times as fast as SHA-256; never stored.
 *
 * Blocks of PITH_KEYED_BLOCK bytes (the last filled up with zeros) go through NH: of little-endian
 * words m and k of the block and of the key, the sum of (m[2i] + k[2i]) * (m[2i+1] + k[2i+1]), sums
 * in brackets modulo 2^64, all modulo 2^128. What comes of all blocks, and the size, go through
 * SHA-256. Of two contents that were there before the key was drawn, whoever made them, the hashes
 * are the same with a probability of 2^-64 at most, unless SHA-256 fails. (Black, Halevi, Krawczyk,
 * Krovetz, Rogaway, UMAC: Fast and Secure Message Authentication, CRYPTO 1999, section 4.) */
#ifndef PITH_BASE_KEYED_H
#define PITH_BASE_KEYED_H

#include "base/hash.h"

enum { PITH_KEYED_BLOCK = 4096, PITH_KEYED_WORDS = PITH_KEYED_BLOCK / 8 };

struct pith_keyed_key {
    uint64_t word[PITH_KEYED_WORDS];
};
/* A key that nobody knows; false when the system gives no random numbers. */
bool pith_keyed_draw(struct pith_keyed_key *key);

/* A running hash, which borrows the key; NULL when memory is out. */
struct pith_keyed;
struct pith_keyed *pith_keyed_new(const struct pith_keyed_key *key);
void pith_keyed_update(struct pith_keyed *k, const void *data, size_t size);
/* Writes the hex digest and frees k (NULL gives an empty string). */
void pith_keyed_finish(struct pith_keyed *k, char hex[PITH_SHA256_HEX]);

#endif
