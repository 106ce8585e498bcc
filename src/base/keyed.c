#include "base/keyed.h"

#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/rand.h>
#include <stdio.h>

bool pith_keyed_draw(struct pith_keyed_key *key)
{
    return pith_sha256_ready() && RAND_bytes(key->byte, sizeof key->byte) == 1;
}

/* The same nonce under each key: a hash shows whether two are the same, and proves nothing to
 * anybody without the key. */
struct pith_keyed *pith_keyed_new(const struct pith_keyed_key *key)
{
    char cipher[] = "AES-256-GCM";
    unsigned char nonce[12] = {0};
    const OSSL_PARAM how[] = {OSSL_PARAM_utf8_string("cipher", cipher, sizeof cipher - 1),
                              OSSL_PARAM_octet_string("iv", nonce, sizeof nonce), OSSL_PARAM_END};
    EVP_MAC *m = pith_sha256_ready() ? EVP_MAC_fetch(NULL, "GMAC", NULL) : NULL;
    EVP_MAC_CTX *c = m ? EVP_MAC_CTX_new(m) : NULL;
    EVP_MAC_free(m); /* the hash holds on to it */
    if (c && EVP_MAC_init(c, key->byte, sizeof key->byte, how) != 1) {
        EVP_MAC_CTX_free(c);
        c = NULL;
    }
    return (struct pith_keyed *)c;
}

void pith_keyed_update(struct pith_keyed *k, const void *data, size_t size)
{
    if (k) EVP_MAC_update((EVP_MAC_CTX *)k, data, size);
}

void pith_keyed_finish(struct pith_keyed *k, char hex[PITH_SHA256_HEX])
{
    unsigned char bytes[(PITH_SHA256_HEX - 1) / 2];
    size_t n = 0;
    hex[0] = '\0';
    if (!k) return;
    if (EVP_MAC_final((EVP_MAC_CTX *)k, bytes, &n, sizeof bytes) == 1)
        for (size_t i = 0; i < n; i++) snprintf(hex + 2 * i, 3, "%02x", bytes[i]);
    EVP_MAC_CTX_free((EVP_MAC_CTX *)k);
}
