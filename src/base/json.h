/* base/json.h: reading JSON (by jansson) with errors that say which key of which file is wrong.
 *
 * `where` in these calls names the file for messages. A missing key gives the default and PITH_OK;
 * a key of the wrong type or out of range gives PITH_FORMAT. JSON null counts as missing. */
#ifndef PITH_BASE_JSON_H
#define PITH_BASE_JSON_H

#include "base/status.h"
#include "base/str.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Parses a file of at most `limit` bytes; duplicate keys are refused. *out is a new reference. */
enum pith_status pith_json_load(const char *path, size_t limit, json_t **out,
                                struct pith_error *err);
/* The same from memory. */
enum pith_status pith_json_parse(const char *text, size_t size, const char *where, json_t **out,
                                 struct pith_error *err);
/* Appends the text of a tree, with jansson's flags. That memory ran out is remembered in *out:
 * json_dumps() of jansson 2.14 leaves keys out then, and gives the rest as if it were the whole. */
void pith_json_dump(const json_t *json, size_t flags, struct pith_str *out);
/* A string of a path, a name or a message, which may be no UTF-8: bytes above 0x7f then stand as
 * \xE9, so that such names are told apart. NULL when memory is out. */
json_t *pith_json_name(const char *bytes);
/* Sets a key, appends to a list; both take the reference. When the value is NULL or memory is out,
 * what was built so far goes and becomes NULL, to be looked at once, at the end. */
void pith_json_set(json_t **object, const char *key, json_t *value);
void pith_json_add(json_t **list, json_t *value);
/* The text with two-space indentation and a final newline, pith_free() it; `what` is for
 * messages. */
enum pith_status pith_json_text(const char *what, const json_t *json, char **out, size_t *size,
                                struct pith_error *err);
/* Writes that text, atomically. */
enum pith_status pith_json_save(const char *path, const json_t *json, struct pith_error *err);

/* The value of a key, within lo..hi; finite; true or false. Unchanged when the key is missing or
 * null; PITH_FORMAT, with `where` in front, when it is of another kind. */
enum pith_status pith_json_get_int(const json_t *obj, const char *key, int64_t lo, int64_t hi,
                                   int64_t *value, const char *where, struct pith_error *err);
enum pith_status pith_json_get_real(const json_t *obj, const char *key, double *value,
                                    const char *where, struct pith_error *err);
enum pith_status pith_json_get_bool(const json_t *obj, const char *key, bool *value,
                                    const char *where, struct pith_error *err);
/* *value points into obj and lives as long as it; unchanged when the key is missing. */
enum pith_status pith_json_get_str(const json_t *obj, const char *key, const char **value,
                                   const char *where, struct pith_error *err);

/* About what a tree of that text takes, by what is counted in it: members, strings, numbers, lists.
 * Their sizes are those of jansson 2.14 with glibc's malloc. */
uint64_t pith_json_tree_bytes(const char *text, size_t size);

#endif
