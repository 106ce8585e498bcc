/* How fast a thread hashes what is not in its caches: SHA-256, which is recorded, and the keyed
 * hash by which ranks find out whether they have the same (base/keyed.h).
 *
 *     bench_hashes [RUNS]
 *
 * The best of RUNS (5), of 256 MiB. */
#include "base/file.h"
#include "base/keyed.h"
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 256 << 20 };

static void by_sha256(const void *data, const struct pith_keyed_key *key, char hex[PITH_SHA256_HEX])
{
    (void)key;
    if (!pith_sha256_hex(data, BYTES, hex)) exit(1);
}

static void by_key(const void *data, const struct pith_keyed_key *key, char hex[PITH_SHA256_HEX])
{
    struct pith_keyed *k = pith_keyed_new(key);
    if (!k) exit(1);
    pith_keyed_update(k, data, BYTES);
    pith_keyed_finish(k, hex);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*hash)(const void *data, const struct pith_keyed_key *key, char hex[PITH_SHA256_HEX]);
    } hashes[] = {{"sha256", by_sha256}, {"keyed", by_key}};
    const int runs = argc > 1 ? atoi(argv[1]) : 5;
    struct pith_keyed_key key;
    unsigned char *data = pith_alloc(BYTES, 1);
    if (!data || !pith_keyed_draw(&key)) return 1;
    memset(data, 1, BYTES);
    for (size_t i = 0; i < PITH_COUNT(hashes); i++) {
        double best = 0;
        char hex[PITH_SHA256_HEX];
        for (int run = 0; run < runs; run++) {
            const double start = pith_clock();
            hashes[i].hash(data, &key, hex);
            const double speed = BYTES / (pith_clock() - start);
            if (speed > best) best = speed;
        }
        printf("%-8s %6.2f GB/s\n", hashes[i].name, best * 1e-9);
    }
    pith_free(data);
    return 0;
}
