/* base/keyed.h: a fast hash under a key (GMAC, NIST SP 800-38D, by libcrypto), by which several
 * that hold the same key find out whether they have the same bytes. Several times as fast as
 * SHA-256; never stored.
 *
 * Of two contents of n bytes that were there before the key was drawn, by whomever they were made,
 * the hashes are the same with a probability of (n / 16 + 2) / 2^128 at most: 2^-91 for a TiB. */
#ifndef PITH_BASE_KEYED_H
#define PITH_BASE_KEYED_H

#include "base/hash.h"

struct pith_keyed_key {
    unsigned char byte[32];
};
/* A key that nobody knows; false when the system gives no random numbers. */
bool pith_keyed_draw(struct pith_keyed_key *key);

/* A running hash; NULL when memory is out. */
struct pith_keyed;
struct pith_keyed *pith_keyed_new(const struct pith_keyed_key *key);
void pith_keyed_update(struct pith_keyed *k, const void *data, size_t size);
/* Writes the hex digest and frees k (NULL gives an empty string). */
void pith_keyed_finish(struct pith_keyed *k, char hex[PITH_SHA256_HEX]);

#endif
