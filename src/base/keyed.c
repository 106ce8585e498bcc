#include "base/keyed.h"

#include "base/mem.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

enum { HELD = 64 }; /* blocks whose sums wait, so that SHA-256 is not asked for each */

__extension__ typedef unsigned __int128 wide;

struct pith_keyed {
    const uint64_t *key;
    struct pith_sha256 *over;
    uint64_t size, sum[2 * HELD];
    size_t sums, filled;
    uint8_t block[PITH_KEYED_BLOCK];
};

bool pith_keyed_draw(struct pith_keyed_key *key)
{
    uint8_t *at = (uint8_t *)key->word;
    for (size_t have = 0; have < sizeof key->word;) {
        const ssize_t n = getrandom(at + have, sizeof key->word - have, 0);
        if (n < 0 && errno != EINTR) return false;
        if (n > 0) have += (size_t)n;
    }
    return true;
}

struct pith_keyed *pith_keyed_new(const struct pith_keyed_key *key)
{
    struct pith_keyed *k = pith_zalloc(1, sizeof *k);
    if (!k) return NULL;
    k->key = key->word;
    k->over = pith_sha256_new();
    if (k->over) return k;
    pith_free(k);
    return NULL;
}

static uint64_t word_at(const uint8_t *p)
{
    uint64_t w;
    memcpy(&w, p, sizeof w);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    w = __builtin_bswap64(w);
#endif
    return w;
}

static void flush(struct pith_keyed *k)
{
    pith_sha256_update(k->over, k->sum, k->sums * sizeof *k->sum);
    k->sums = 0;
}

static void add_block(struct pith_keyed *k, const uint8_t *p)
{
    wide sum = 0;
    for (size_t i = 0; i < PITH_KEYED_WORDS; i += 2)
        sum += (wide)(word_at(p + 8 * i) + k->key[i]) *
               (word_at(p + 8 * i + 8) + k->key[i + 1]);
    k->sum[k->sums++] = (uint64_t)sum;
    k->sum[k->sums++] = (uint64_t)(sum >> 64);
    if (k->sums == PITH_COUNT(k->sum)) flush(k);
}

void pith_keyed_update(struct pith_keyed *k, const void *data, size_t size)
{
    const uint8_t *at = data, *end = at + size;
    if (!k) return;
    k->size += size;
    while (at < end) {
        const size_t left = (size_t)(end - at), room = sizeof k->block - k->filled;
        const size_t n = left < room ? left : room;
        if (n == sizeof k->block) {
            add_block(k, at);
        } else {
            memcpy(k->block + k->filled, at, n);
            k->filled += n;
            if (k->filled == sizeof k->block) {
                add_block(k, k->block);
                k->filled = 0;
            }
        }
        at += n;
    }
}

void pith_keyed_finish(struct pith_keyed *k, char hex[PITH_SHA256_HEX])
{
    hex[0] = '\0';
    if (!k) return;
    if (k->filled) {
        memset(k->block + k->filled, 0, sizeof k->block - k->filled);
        add_block(k, k->block);
    }
    flush(k);
    pith_sha256_update(k->over, &k->size, sizeof k->size);
    pith_sha256_finish(k->over, hex);
    pith_free(k);
}
