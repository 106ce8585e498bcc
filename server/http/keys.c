/* API keys. */
#include "server/http/keys.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIGEST = 32, MOST_KEYS = 4096, LONGEST = 1024 };

struct keys {
    size_t count;
    unsigned char digest[][DIGEST];
};

static bool digest_of(const char *text, size_t size, unsigned char out[DIGEST])
{
    unsigned n = 0;
    return EVP_Digest(text, size, out, &n, EVP_sha256(), NULL) == 1 && n == DIGEST;
}

static enum pith_status failed(struct pith_error *err, enum pith_status s, const char *file,
                               const char *what)
{
    err->status = s;
    snprintf(err->text, sizeof err->text, "%s: %s", file, what);
    return s;
}

static enum pith_status add(struct keys **keys, const char *text, size_t size,
                            struct pith_error *err)
{
    const size_t count = *keys ? (*keys)->count : 0;
    struct keys *more = realloc(*keys, sizeof *more + (count + 1) * DIGEST);
    if (!more) return failed(err, PITH_NOMEM, "API keys", "out of memory");
    *keys = more;
    more->count = count + 1;
    if (digest_of(text, size, more->digest[count])) return PITH_OK;
    return failed(err, PITH_IO, "API keys", "cannot be hashed");
}

static enum pith_status read_file(const char *file, struct keys **keys, struct pith_error *err)
{
    char line[LONGEST + 2];
    FILE *f = fopen(file, "r");
    enum pith_status s = PITH_OK;
    size_t n = 0;
    if (!f) return failed(err, PITH_IO, file, strerror(errno));
    while (s == PITH_OK && fgets(line, sizeof line, f)) {
        const size_t all = strlen(line), begin = strspn(line, " \t");
        size_t end = begin + strcspn(line + begin, " \t\r\n");
        if (all == sizeof line - 1 || ++n > MOST_KEYS)
            s = failed(err, PITH_FORMAT, file, "a line or the list of API keys is too long");
        else if (end > begin && line[begin] != '#') s = add(keys, line + begin, end - begin, err);
    }
    if (s == PITH_OK && ferror(f)) s = failed(err, PITH_IO, file, strerror(errno));
    fclose(f);
    OPENSSL_cleanse(line, sizeof line);
    if (s == PITH_OK && !*keys) s = failed(err, PITH_FORMAT, file, "holds no API key");
    return s;
}

enum pith_status keys_read(const char *file, const char *key, struct keys **out,
                           struct pith_error *err)
{
    struct keys *keys = NULL;
    enum pith_status s = file ? read_file(file, &keys, err) : PITH_OK;
    if (s == PITH_OK && key && *key) s = add(&keys, key, strlen(key), err);
    if (s != PITH_OK) {
        keys_free(keys);
        keys = NULL;
    }
    *out = keys;
    return s;
}

bool keys_allow(const struct keys *keys, const char *key, uint64_t *client)
{
    unsigned char digest[DIGEST];
    size_t right = 0;
    if (!digest_of(key, strlen(key), digest)) return false;
    for (size_t i = 0; i < keys->count; i++)
        right += CRYPTO_memcmp(digest, keys->digest[i], DIGEST) == 0;
    if (right > 0) memcpy(client, digest, sizeof *client);
    return right > 0;
}

void keys_free(struct keys *keys)
{
    if (keys) OPENSSL_cleanse(keys->digest, keys->count * DIGEST);
    free(keys);
}
