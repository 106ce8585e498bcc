/* serve/lookup.h: what may come next, guessed from the text so far: where its last tokens stood
 * before, what followed them there (prompt lookup decoding). */
#ifndef PITH_SERVE_LOOKUP_H
#define PITH_SERVE_LOOKUP_H

#include <stddef.h>
#include <stdint.h>

/* At most `most` guesses to guess[]; the longest run of last tokens (3, then 2) that stood before
 * is looked for, its newest place first. Returns how many. */
size_t pith_lookup(const int32_t *ids, size_t count, size_t most, int32_t *guess);

#endif
