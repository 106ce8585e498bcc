/* tok/unicode/charsmap.h: the normalization rules of a SentencePiece model
 * ("precompiled_charsmap"): texts and what they become, stored as a double array (Darts-clone)
 * whose values point into a list of NUL-terminated texts. */
#ifndef PITH_TOK_UNICODE_CHARSMAP_H
#define PITH_TOK_UNICODE_CHARSMAP_H

#include "base/json.h"
#include "base/status.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The longest text, in bytes, that a rule may make, and that it may be made of. */
#define PITH_CHARSMAP_TEXT 1024

/* Start with {0}: no rules. */
struct pith_charsmap {
    uint32_t *unit;
    size_t units;
    char *texts;
    size_t texts_len;
};

/* Reads <size of the double array in bytes: u32> <double array> <texts>, little-endian; no bytes at
 * all are no rules. */
enum pith_status pith_charsmap_read(struct pith_charsmap *m, const uint8_t *data, size_t size,
                                    struct pith_error *err);
/* The same from base64. */
enum pith_status pith_charsmap_read_base64(struct pith_charsmap *m, const char *text, size_t len,
                                           struct pith_error *err);
void pith_charsmap_free(struct pith_charsmap *m);

/* Length of the longest rule that the text begins with, 0 when there is none; *to is what it
 * becomes, NUL-terminated. */
size_t pith_charsmap_longest(const struct pith_charsmap *m, const char *text, size_t len,
                             const char **to);

/* Appends well-formed text, normalized as Hugging Face tokenizers does it ("Precompiled"): a
 * grapheme of less than six bytes that begins with a rule becomes what the shortest such rule
 * says, all of it; other characters become it each alone. Stops once out is longer than `limit`. */
void pith_charsmap_apply(const struct pith_charsmap *m, const char *text, size_t len, size_t limit,
                         struct pith_str *out);

#endif
