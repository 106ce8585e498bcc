/* base/hash.h: SHA-256 (FIPS 180-4, by libcrypto) for what is recorded, and a fast 64-bit mix for
 * tables. */
#ifndef PITH_BASE_HASH_H
#define PITH_BASE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PITH_SHA256_HEX 65 /* 64 hex digits and NUL */

/* Looks the method up, which is done once for the process; false when memory is out. Contexts call
 * it, so that no later digest has to. */
bool pith_sha256_ready(void);

/* A running digest; NULL when memory is out. */
struct pith_sha256;
struct pith_sha256 *pith_sha256_new(void);
/* The same by SHA-1, whose digest has 40 digits: only for what others name by it, as git does. */
struct pith_sha256 *pith_sha1_new(void);
void pith_sha256_update(struct pith_sha256 *h, const void *data, size_t size);
/* Writes the hex digest and frees h (NULL gives an empty string). */
void pith_sha256_finish(struct pith_sha256 *h, char hex[PITH_SHA256_HEX]);
/* One buffer at once; false when memory is out. */
bool pith_sha256_hex(const void *data, size_t size, char hex[PITH_SHA256_HEX]);

/* FNV-1a with a final mix; for hash tables in memory, never stored. */
uint64_t pith_hash64(const void *data, size_t size);

#endif
