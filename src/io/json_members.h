/* io/json_members.h: walks the members of one JSON object, or the items of one list, without
 * building its tree.
 *
 * A safetensors header or an index may be 100 MB, and a tree of it many times that. Here each
 * member is cut out of the text and parsed on its own, so memory stays a small multiple of the
 * largest member. The walk itself knows only strings, brackets, commas and colons; whether the
 * pieces are JSON is decided when they are parsed. It is not a JSON parser and must not become
 * one. */
#ifndef PITH_IO_JSON_MEMBERS_H
#define PITH_IO_JSON_MEMBERS_H

#include "base/json.h"
#include "base/status.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>

/* A walk over borrowed text. Messages give byte offsets into that text. */
struct pith_members {
    const char *text;
    size_t size;
    size_t at;
    char close;            /* what ends it: '}', or ']' of a list */
    bool started;          /* a member was already returned */
    unsigned flags;        /* PITH_JSON_STRICT or 0, to be set after the start */
    struct pith_str piece; /* the member being parsed, with braces around it */
};

/* One member; both parts point into the text, as they stand there: the key with its quotes. */
struct pith_member {
    const char *key; /* NULL, size 0: an item of a list */
    size_t key_size;
    const char *value; /* without blanks around it; never empty */
    size_t value_size;
};

/* Starts a walk over an object's text, which begins with its '{'. PITH_FORMAT when it does not. */
enum pith_status pith_members_begin(struct pith_members *m, const char *text, size_t size,
                                    struct pith_error *err);
/* The same over a list's text, which begins with its '['; what follows is for both. */
enum pith_status pith_items_begin(struct pith_members *m, const char *text, size_t size,
                                  struct pith_error *err);
/* Moves on; *more becomes false after the last member, when nothing but blanks follows the end.
 * PITH_FORMAT when the text is not of that shape. */
enum pith_status pith_members_next(struct pith_members *m, struct pith_member *out, bool *more,
                                   struct pith_error *err);
/* Parses {key: value}: *out is a new object with exactly that member; of a list's item [value], a
 * list of one. PITH_FORMAT when it is not valid JSON or longer than `limit` bytes. */
enum pith_status pith_members_parse(struct pith_members *m, const struct pith_member *member,
                                    size_t limit, json_t **out, struct pith_error *err);
/* Ends the walk; `m` may have failed to begin. */
void pith_members_end(struct pith_members *m);

/* True when the member's key is spelled "key" in the text, without escapes. */
bool pith_member_is(const struct pith_member *member, const char *key);

/* The text of a JSON string, NULL when v is no string or has a NUL inside. Points into v. */
const char *pith_json_plain(const json_t *v);

#endif
