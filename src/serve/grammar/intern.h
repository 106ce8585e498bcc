/* serve/grammar/intern.h: sequences of numbers, each stored once, numbered as they come. */
#ifndef PITH_SERVE_GRAMMAR_INTERN_H
#define PITH_SERVE_GRAMMAR_INTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pith_interned {
    uint32_t *data; /* sequence i is data[at[i]] .. data[at[i + 1]] */
    size_t *at;     /* [cap + 1] */
    size_t cap, data_cap;
    uint32_t count;
    uint32_t *slot; /* hash table of number + 1; `slots` is a power of two, or 0 */
    size_t slots;
};

#define PITH_INTERN_NONE UINT32_MAX

/* The number of a sequence, stored from now on; PITH_INTERN_NONE when memory is out. */
uint32_t pith_intern(struct pith_interned *t, const uint32_t *seq, size_t n);
/* Sequence i; valid until the next pith_intern(). */
const uint32_t *pith_interned_get(const struct pith_interned *t, uint32_t i, size_t *n);
/* Forgets all, and gives the memory back. */
void pith_interned_free(struct pith_interned *t);
/* Bytes of memory. */
size_t pith_interned_size(const struct pith_interned *t);

#endif
