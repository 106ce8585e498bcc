#include "tok/pairings.h"

#include "base/grow.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "tok/unicode/utf8.h"

#include <stdlib.h>

static bool push(struct pith_pairings *m, const struct pith_pairing *one)
{
    struct pith_pairing *item = pith_grow(m->item, m->count, &m->cap, 4096, sizeof *item);
    if (!item) return false;
    m->item = item;
    m->item[m->count++] = *one;
    return true;
}

/* -1: no token is called so. */
static int64_t id_of(const json_t *vocab, const char *text, size_t length)
{
    const json_t *id = json_object_getn(vocab, text, length);
    return id ? json_integer_value(id) : -1;
}

bool pith_pairings_add(struct pith_pairings *m, const json_t *vocab,
                       const struct pith_pairing *token)
{
    const uint32_t all = (uint32_t)pith_utf8_count(token->text, token->length);
    for (uint32_t at = 0, chars = 1; chars < all; chars++) {
        struct pith_pairing one = *token;
        at += (uint32_t)pith_utf8_len(token->text[at]);
        const int64_t left = id_of(vocab, token->text, at);
        const int64_t right = left < 0 ? -1
                                       : id_of(vocab, token->text + at, token->length - at);
        if (right < 0) continue;
        one.left = at;
        one.left_chars = chars;
        one.right_chars = all - chars;
        one.left_id = (uint32_t)left;
        one.right_id = (uint32_t)right;
        if (!push(m, &one)) return false;
    }
    return true;
}

bool pith_pairings_put(struct pith_pairings *m, int (*compare)(const void *, const void *),
                       json_t *list)
{
    bool good = true;
    if (m->count) qsort(m->item, m->count, sizeof *m->item, compare);
    for (size_t i = 0; good && i < m->count; i++) {
        const struct pith_pairing *k = &m->item[i];
        good = json_array_append_new(list, json_pack("[s%, s%]", k->text, (size_t)k->left,
                                                     k->text + k->left,
                                                     (size_t)(k->length - k->left))) == 0;
    }
    return good;
}

void pith_pairings_free(struct pith_pairings *m)
{
    pith_free(m->item);
    *m = (struct pith_pairings){0};
}
