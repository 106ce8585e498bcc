/* quantize/output/entries.h: the lists of pith.json that have an entry for each linear or tensor,
 * read one entry at a time: a table says where each stands in the mapped file. */
#ifndef PITH_QUANTIZE_OUTPUT_ENTRIES_H
#define PITH_QUANTIZE_OUTPUT_ENTRIES_H

#include "base/file.h"
#include "base/json.h"

enum pith_entry_fault { PITH_ENTRY_GOOD, PITH_ENTRY_NAMELESS, PITH_ENTRY_TWICE };

struct pith_entry {
    uint64_t at; /* in the mapping */
    uint32_t size, hash;
    uint8_t fault; /* enum pith_entry_fault */
    bool met;      /* the reader's; false at first */
};

/* One such list; {0} is an empty one. */
struct pith_entries {
    struct pith_entry *rows; /* [count], in the file's order */
    size_t count;
    size_t names;    /* how many different ones the entries have */
    uint32_t *slots; /* [slot_count], the rows by their names' hashes: index + 1, 0 is free */
    size_t slot_count;
    const struct pith_map *map; /* borrowed */
    size_t window;              /* of the mapping, that was read last */
};

/* Reads a list's text, which is part of the mapping: every entry of it is seen to be JSON.
 * PITH_FORMAT when one is not, or is larger than a megabyte; *out then owns nothing. */
enum pith_status pith_entries_open(const struct pith_map *map, const char *text, size_t size,
                                   struct pith_entries *out, struct pith_error *err);
void pith_entries_close(struct pith_entries *e);
/* Entry i < count; *out is a new reference. Fails when memory is out, or the file was changed. */
enum pith_status pith_entries_get(struct pith_entries *e, size_t i, json_t **out,
                                  struct pith_error *err);
/* The first entry of that name: *row, and *out, a new reference; both NULL without one. */
enum pith_status pith_entries_find(struct pith_entries *e, const char *name,
                                   struct pith_entry **row, json_t **out, struct pith_error *err);

#endif
