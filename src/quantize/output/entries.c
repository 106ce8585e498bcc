#include "quantize/output/entries.h"

#include "base/grow.h"
#include "base/hash.h"
#include "base/mem.h"
#include "io/json_members.h"

#include <string.h>

#define ENTRY_LIMIT ((size_t)1 << 20) /* real ones: a KB */
#define WINDOW_BITS 22

/* --- one entry -------------------------------------------------------------------------------- */

/* Pages that were read and are far behind go back to the kernel. */
static void move_window(struct pith_entries *e, uint64_t at)
{
    const size_t window = (size_t)(at >> WINDOW_BITS), size = (size_t)1 << WINDOW_BITS;
    if (window == e->window) return;
    pith_map_release(e->map, e->window * size, size);
    e->window = window;
}

static enum pith_status parse(struct pith_members *walk, const struct pith_member *item,
                              json_t **out, struct pith_error *err)
{
    json_t *list;
    PITH_TRY(pith_members_parse(walk, item, ENTRY_LIMIT, &list, err));
    *out = json_incref(json_array_get(list, 0));
    json_decref(list);
    return PITH_OK;
}

enum pith_status pith_entries_get(struct pith_entries *e, size_t i, json_t **out,
                                  struct pith_error *err)
{
    const struct pith_entry *row = &e->rows[i];
    const struct pith_member item = {.value = (const char *)e->map->data + row->at,
                                     .value_size = row->size};
    struct pith_members walk = {.text = (const char *)e->map->data, .size = e->map->size};
    move_window(e, row->at);
    const enum pith_status s = parse(&walk, &item, out, err);
    pith_members_end(&walk);
    return s;
}

static const char *name_of(const json_t *entry)
{
    return json_string_value(json_object_get(entry, "name"));
}

/* --- by name ---------------------------------------------------------------------------------- */

static uint32_t hash_of(const char *name)
{
    return (uint32_t)pith_hash64(name, strlen(name));
}

/* The slot of an entry of that name, or the free one where it belongs. */
static enum pith_status find_slot(struct pith_entries *e, const char *name, uint32_t hash,
                                  size_t *slot, json_t **entry, struct pith_error *err)
{
    *entry = NULL;
    for (*slot = hash % e->slot_count; e->slots[*slot]; *slot = (*slot + 1) % e->slot_count) {
        const size_t i = e->slots[*slot] - 1;
        if (e->rows[i].hash != hash) continue;
        PITH_TRY(pith_entries_get(e, i, entry, err));
        const char *is = name_of(*entry);
        if (is && strcmp(is, name) == 0) return PITH_OK;
        json_decref(*entry);
        *entry = NULL;
    }
    return PITH_OK;
}

enum pith_status pith_entries_find(struct pith_entries *e, const char *name,
                                   struct pith_entry **row, json_t **out, struct pith_error *err)
{
    size_t slot;
    *row = NULL;
    *out = NULL;
    if (!e->slot_count) return PITH_OK;
    PITH_TRY(find_slot(e, name, hash_of(name), &slot, out, err));
    if (*out) *row = &e->rows[e->slots[slot] - 1];
    return PITH_OK;
}

/* Gives row i its slot, or sets why it gets none. */
static enum pith_status place(struct pith_entries *e, size_t i, struct pith_error *err)
{
    struct pith_entry *row = &e->rows[i];
    size_t slot;
    json_t *other;
    if (row->fault == PITH_ENTRY_NAMELESS) return PITH_OK;
    for (slot = row->hash % e->slot_count; e->slots[slot]; slot = (slot + 1) % e->slot_count)
        if (e->rows[e->slots[slot] - 1].hash == row->hash) break;
    if (e->slots[slot]) { /* hashes are alike: perhaps names are */
        json_t *entry;
        PITH_TRY(pith_entries_get(e, i, &entry, err));
        const enum pith_status s = find_slot(e, name_of(entry), row->hash, &slot, &other, err);
        json_decref(entry);
        PITH_TRY(s);
        if (other) row->fault = PITH_ENTRY_TWICE;
        json_decref(other);
    }
    if (row->fault == PITH_ENTRY_TWICE) return PITH_OK;
    e->slots[slot] = (uint32_t)i + 1;
    e->names++;
    return PITH_OK;
}

static enum pith_status place_all(struct pith_entries *e, struct pith_error *err)
{
    e->slot_count = e->count * 2;
    e->slots = pith_zalloc(e->slot_count, sizeof *e->slots);
    if (!e->slots) return pith_fail_nomem(err, "pith.json");
    for (size_t i = 0; i < e->count; i++) PITH_TRY(place(e, i, err));
    return PITH_OK;
}

/* --- the list --------------------------------------------------------------------------------- */

static enum pith_status add(struct pith_entries *e, struct pith_members *walk,
                            const struct pith_member *item, size_t *cap, struct pith_error *err)
{
    json_t *entry;
    const bool full = e->count > UINT32_MAX / 2;
    struct pith_entry *rows = full ? NULL : pith_grow(e->rows, e->count, cap, 64, sizeof *rows);
    if (!rows) return pith_fail_nomem(err, "pith.json");
    e->rows = rows;
    struct pith_entry *row = &e->rows[e->count];
    *row = (struct pith_entry){.at = (uint64_t)(item->value - (const char *)e->map->data)};
    move_window(e, row->at);
    PITH_TRY(parse(walk, item, &entry, err));
    row->size = (uint32_t)item->value_size;
    const char *name = name_of(entry);
    if (name) row->hash = hash_of(name);
    else row->fault = PITH_ENTRY_NAMELESS;
    json_decref(entry);
    e->count++;
    return PITH_OK;
}

enum pith_status pith_entries_open(const struct pith_map *map, const char *text, size_t size,
                                   struct pith_entries *out, struct pith_error *err)
{
    struct pith_entries e = {.map = map};
    struct pith_members walk;
    struct pith_member item;
    bool more = true;
    size_t cap = 0;
    enum pith_status s = pith_items_begin(&walk, text, size, err);
    while (s == PITH_OK && (s = pith_members_next(&walk, &item, &more, err)) == PITH_OK && more)
        s = add(&e, &walk, &item, &cap, err);
    pith_members_end(&walk);
    if (s == PITH_OK && e.count) s = place_all(&e, err);
    if (s == PITH_OK) *out = e;
    else pith_entries_close(&e);
    return s;
}

void pith_entries_close(struct pith_entries *e)
{
    pith_free(e->rows);
    pith_free(e->slots);
    *e = (struct pith_entries){0};
}
