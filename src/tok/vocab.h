/* tok/vocab.h: token texts and their ids, both ways. Texts are bytes with a length (NUL is
 * allowed). */
#ifndef PITH_TOK_VOCAB_H
#define PITH_TOK_VOCAB_H

#include "base/status.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Ids beyond this are refused: a hostile file must not make tables larger than itself times a
 * constant. */
#define PITH_VOCAB_ID_MAX 0xffffff

struct pith_vocab_entry {
    uint32_t at, len; /* in bytes.data */
    int32_t id;
};

/* Start with {0}. */
struct pith_vocab {
    struct pith_str bytes;
    struct pith_vocab_entry *entry;
    size_t count, cap;
    uint32_t *slot;  /* hash table of entry index + 1 */
    size_t slots;    /* a power of two, or 0 */
    uint32_t *by_id; /* entry index + 1, 0 where no token has the id */
    size_t ids;      /* largest id + 1 */
    size_t ids_cap;
    size_t longest; /* bytes of the longest text */
};

/* Makes room for `count` tokens in all, which is faster than growing; false when memory is out. */
bool pith_vocab_reserve(struct pith_vocab *v, size_t count);
/* Adds a text, which must not be there yet (PITH_FORMAT), under an id in 0..PITH_VOCAB_ID_MAX. When
 * two texts share an id, both are found and the later one is the id's text. */
enum pith_status pith_vocab_add(struct pith_vocab *v, const char *text, size_t len, int64_t id,
                                struct pith_error *err);
/* The id of a text, -1 when there is none. */
int32_t pith_vocab_find(const struct pith_vocab *v, const char *text, size_t len);
/* The text of an id and its length, NULL when no token has it. Valid until the next add. */
const char *pith_vocab_text(const struct pith_vocab *v, int64_t id, size_t *len);
void pith_vocab_free(struct pith_vocab *v);

#endif
