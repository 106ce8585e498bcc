#include "base/hash.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdatomic.h>
#include <stdio.h>

/* The method, looked up once for the process: when memory is short, libcrypto's look-up of it may
 * crash, while work with one that is at hand fails as it should. Written once; a second writer
 * gives his own back. */
static EVP_MD *method(void)
{
    static EVP_MD *_Atomic found;
    EVP_MD *m = atomic_load(&found), *none = NULL;
    if (m) return m;
    /* When this could not be made, a look-up takes locks that are not there. */
    if (!OSSL_LIB_CTX_get0_global_default()) return NULL;
    m = EVP_MD_fetch(NULL, "SHA256", NULL);
    if (!m || atomic_compare_exchange_strong(&found, &none, m)) return m;
    EVP_MD_free(m);
    return none;
}

bool pith_sha256_ready(void)
{
    return method() != NULL;
}

static struct pith_sha256 *begin(const EVP_MD *m)
{
    EVP_MD_CTX *c = m ? EVP_MD_CTX_new() : NULL;
    if (c && EVP_DigestInit_ex(c, m, NULL) != 1) {
        EVP_MD_CTX_free(c);
        c = NULL;
    }
    return (struct pith_sha256 *)c;
}

struct pith_sha256 *pith_sha256_new(void)
{
    return begin(method());
}

struct pith_sha256 *pith_sha1_new(void)
{
    EVP_MD *m = pith_sha256_ready() ? EVP_MD_fetch(NULL, "SHA1", NULL) : NULL;
    struct pith_sha256 *h = begin(m);
    EVP_MD_free(m); /* the digest holds on to it */
    return h;
}

void pith_sha256_update(struct pith_sha256 *h, const void *data, size_t size)
{
    if (h) EVP_DigestUpdate((EVP_MD_CTX *)h, data, size);
}

void pith_sha256_finish(struct pith_sha256 *h, char hex[PITH_SHA256_HEX])
{
    unsigned char bytes[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    hex[0] = '\0';
    if (!h) return;
    if (EVP_DigestFinal_ex((EVP_MD_CTX *)h, bytes, &n) == 1 && 2 * n < PITH_SHA256_HEX)
        for (unsigned i = 0; i < n; i++) snprintf(hex + 2 * i, 3, "%02x", bytes[i]);
    EVP_MD_CTX_free((EVP_MD_CTX *)h);
}

bool pith_sha256_hex(const void *data, size_t size, char hex[PITH_SHA256_HEX])
{
    struct pith_sha256 *h = pith_sha256_new();
    pith_sha256_update(h, data, size);
    pith_sha256_finish(h, hex);
    return hex[0] != '\0';
}

uint64_t pith_hash64(const void *data, size_t size)
{
    const unsigned char *p = data;
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < size; i++) h = (h ^ p[i]) * 0x100000001b3u;
    h ^= h >> 32;
    h *= 0xd6e8feb86659fd93u;
    return h ^ h >> 32;
}
