#include "base/hash.h"

#include <openssl/evp.h>
#include <stdio.h>

struct pith_sha256 *pith_sha256_new(void)
{
    EVP_MD_CTX *c = EVP_MD_CTX_new();
    if (c && EVP_DigestInit_ex(c, EVP_sha256(), NULL) != 1) {
        EVP_MD_CTX_free(c);
        c = NULL;
    }
    return (struct pith_sha256 *)c;
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
    if (EVP_DigestFinal_ex((EVP_MD_CTX *)h, bytes, &n) == 1 && n == 32)
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
