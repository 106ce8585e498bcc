#include "serve/lookup.h"

#include <string.h>

/* Looked back so far at most: a search a token must stay small next to a step. */
enum { LONGEST = 3, SHORTEST = 2, WINDOW = 16384 };

size_t pith_lookup(const int32_t *ids, size_t count, size_t most, int32_t *guess)
{
    for (size_t n = LONGEST; n >= SHORTEST; n--) {
        if (count <= n) continue;
        const int32_t *last = ids + count - n;
        const size_t first = count > WINDOW ? count - WINDOW : 0;
        for (size_t at = count - n; at-- > first;) {
            if (memcmp(ids + at, last, n * sizeof *ids) != 0) continue;
            const size_t from = at + n, there = count - from, take = there < most ? there : most;
            memcpy(guess, ids + from, take * sizeof *ids);
            return take;
        }
    }
    return 0;
}
