#include "serve/grammar/intern.h"

#include "base/mem.h"

#include <string.h>

static uint64_t mix(const uint32_t *seq, size_t n)
{
    uint64_t h = 0x9e3779b97f4a7c15u ^ n;
    for (size_t i = 0; i < n; i++) {
        h = (h ^ seq[i]) * 0xff51afd7ed558ccdu;
        h ^= h >> 32;
    }
    return h;
}

const uint32_t *pith_interned_get(const struct pith_interned *t, uint32_t i, size_t *n)
{
    *n = t->at[i + 1] - t->at[i];
    return t->data + t->at[i];
}

static bool grow_slots(struct pith_interned *t)
{
    const size_t slots = t->slots ? t->slots * 2 : 64;
    uint32_t *slot = pith_zalloc(slots, sizeof *slot);
    if (!slot) return false;
    for (uint32_t i = 0; i < t->count; i++) {
        size_t n;
        const uint32_t *seq = pith_interned_get(t, i, &n);
        size_t k = mix(seq, n) & (slots - 1);
        while (slot[k]) k = (k + 1) & (slots - 1);
        slot[k] = i + 1;
    }
    pith_free(t->slot);
    t->slot = slot;
    t->slots = slots;
    return true;
}

static bool grow(struct pith_interned *t, size_t n)
{
    if (t->count + 1 >= t->cap) {
        const size_t cap = t->cap ? t->cap * 2 : 64;
        size_t *at = pith_realloc(t->at, cap + 1, sizeof *at);
        if (!at) return false;
        t->at = at;
        t->cap = cap;
        if (t->count == 0) at[0] = 0;
    }
    const size_t used = t->at[t->count];
    if (used + n > t->data_cap) {
        const size_t cap = (used + n) * 2 + 64;
        uint32_t *data = pith_realloc(t->data, cap, sizeof *data);
        if (!data) return false;
        t->data = data;
        t->data_cap = cap;
    }
    return ((size_t)t->count + 1) * 2 <= t->slots || grow_slots(t);
}

uint32_t pith_intern(struct pith_interned *t, const uint32_t *seq, size_t n)
{
    if (t->count >= PITH_INTERN_NONE - 2 || !grow(t, n)) return PITH_INTERN_NONE;
    size_t k = mix(seq, n) & (t->slots - 1);
    for (; t->slot[k]; k = (k + 1) & (t->slots - 1)) {
        size_t len;
        const uint32_t *old = pith_interned_get(t, t->slot[k] - 1, &len);
        if (len == n && (n == 0 || memcmp(old, seq, n * sizeof *seq) == 0)) return t->slot[k] - 1;
    }
    const size_t used = t->at[t->count];
    if (n) memcpy(t->data + used, seq, n * sizeof *seq);
    t->at[t->count + 1] = used + n;
    t->slot[k] = ++t->count;
    return t->count - 1;
}

void pith_interned_free(struct pith_interned *t)
{
    pith_free(t->data);
    pith_free(t->at);
    pith_free(t->slot);
    *t = (struct pith_interned){0};
}

size_t pith_interned_size(const struct pith_interned *t)
{
    return t->data_cap * sizeof *t->data + (t->cap + 1) * sizeof *t->at +
           t->slots * sizeof *t->slot;
}
