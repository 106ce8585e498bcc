#include "tok/vocab.h"

#include "base/grow.h"
#include "base/hash.h"
#include "base/mem.h"

#include <string.h>

/* The slot that holds text, or the empty one where it belongs. */
static size_t slot_of(const struct pith_vocab *v, const char *text, size_t len)
{
    const size_t mask = v->slots - 1;
    size_t i = (size_t)pith_hash64(text, len) & mask;
    for (; v->slot[i]; i = (i + 1) & mask) {
        const struct pith_vocab_entry *e = &v->entry[v->slot[i] - 1];
        if (e->len == len && memcmp(v->bytes.data + e->at, text, len) == 0) break;
    }
    return i;
}

/* A table of at least twice `count` slots with all entries in it. */
static bool resize_slots(struct pith_vocab *v, size_t count)
{
    size_t slots = v->slots ? v->slots : 1024;
    while (slots / 2 <= count) slots *= 2;
    if (slots == v->slots) return true;
    uint32_t *slot = pith_zalloc(slots, sizeof *slot);
    if (!slot) return false;
    pith_free(v->slot);
    v->slot = slot;
    v->slots = slots;
    for (size_t i = 0; i < v->count; i++) {
        const struct pith_vocab_entry *e = &v->entry[i];
        v->slot[slot_of(v, v->bytes.data + e->at, e->len)] = (uint32_t)i + 1;
    }
    return true;
}

bool pith_vocab_reserve(struct pith_vocab *v, size_t count)
{
    return count < UINT32_MAX && resize_slots(v, count);
}

static bool grow_entries(struct pith_vocab *v)
{
    struct pith_vocab_entry *entry = pith_grow(v->entry, v->count, &v->cap, 512, sizeof *entry);
    if (!entry) return false;
    v->entry = entry;
    return true;
}

static bool grow_ids(struct pith_vocab *v, size_t ids)
{
    if (ids > v->ids_cap) {
        size_t cap = v->ids_cap ? v->ids_cap : 512;
        while (cap < ids) cap *= 2;
        uint32_t *by_id = pith_realloc(v->by_id, cap, sizeof *by_id);
        if (!by_id) return false;
        memset(by_id + v->ids_cap, 0, (cap - v->ids_cap) * sizeof *by_id);
        v->by_id = by_id;
        v->ids_cap = cap;
    }
    if (ids > v->ids) v->ids = ids;
    return true;
}

enum pith_status pith_vocab_add(struct pith_vocab *v, const char *text, size_t len, int64_t id,
                                struct pith_error *err)
{
    if (id < 0 || id > PITH_VOCAB_ID_MAX)
        return pith_fail(err, PITH_FORMAT, "token id %lld is outside 0..%d", (long long)id,
                         PITH_VOCAB_ID_MAX);
    if (len > UINT32_MAX - 1 - v->bytes.len || v->count >= UINT32_MAX - 1)
        return pith_fail(err, PITH_FORMAT, "the vocabulary is larger than 4 GiB");
    if (!grow_entries(v) || !resize_slots(v, v->count) || !grow_ids(v, (size_t)id + 1))
        return pith_fail_nomem(err, "vocabulary");
    const size_t slot = slot_of(v, text, len);
    if (v->slot[slot])
        return pith_fail(err, PITH_FORMAT, "token \"%.*s\" stands twice in the vocabulary",
                         len > 80 ? 80 : (int)len, text);
    const size_t at = v->bytes.len;
    pith_str_append(&v->bytes, text, len);
    if (v->bytes.failed) return pith_fail_nomem(err, "vocabulary");
    v->entry[v->count++] = (struct pith_vocab_entry){(uint32_t)at, (uint32_t)len, (int32_t)id};
    v->slot[slot] = v->by_id[id] = (uint32_t)v->count;
    if (len > v->longest) v->longest = len;
    return PITH_OK;
}

int32_t pith_vocab_find(const struct pith_vocab *v, const char *text, size_t len)
{
    if (!v->slots || len > v->longest) return -1;
    const uint32_t e = v->slot[slot_of(v, text, len)];
    return e ? v->entry[e - 1].id : -1;
}

const char *pith_vocab_text(const struct pith_vocab *v, int64_t id, size_t *len)
{
    if (id < 0 || (uint64_t)id >= v->ids || !v->by_id[id]) return NULL;
    const struct pith_vocab_entry *e = &v->entry[v->by_id[id] - 1];
    *len = e->len;
    return v->bytes.data + e->at;
}

void pith_vocab_free(struct pith_vocab *v)
{
    pith_str_free(&v->bytes);
    pith_free(v->entry);
    pith_free(v->slot);
    pith_free(v->by_id);
    *v = (struct pith_vocab){0};
}
