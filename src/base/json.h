/* base/json.h: JSON as trees of jansson, with errors that say which key of which file is wrong.
 *
 * The reader is our own. It takes what Python's json module writes and reads: integers of any size
 * (of 4300 digits at most, as there), NaN, Infinity and -Infinity, 1e999 for Infinity, members that
 * come twice (the last one holds), \u0000 in names and strings, and a byte order mark of UTF-8
 * before it all. Half of a surrogate pair becomes U+FFFD. Lists and objects nest 2048 deep at most.
 *
 * A number that jansson's types do not hold (an integer of more than 64 bits, NaN, an infinity)
 * stands in the tree as an object with one member whose name is the byte 0xFF, which no text has
 * in a name, and whose value is the number's text. So it is no string and no list to code that uses
 * jansson, copies and compares as it should, and is lost nowhere; the calls for numbers below know
 * it, and pith_json_dump() writes it as it came. Use them wherever a number from outside is read.
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

enum {
    PITH_JSON_ANY = 1,   /* the whole may be any value, not only a list or an object */
    PITH_JSON_FRONT = 2, /* what follows the value is not looked at */
    PITH_JSON_STRICT = 4, /* RFC 8259 alone, members once, 64 bits, no \u0000 in names */
    PITH_JSON_NAMES = 8   /* with STRICT: members may come twice, with any name */
};

/* Reads a text; *out is a new reference, set on PITH_OK alone. */
enum pith_status pith_json_read(const char *text, size_t size, unsigned flags, const char *where,
                                json_t **out, struct pith_error *err);
/* The same without flags. */
enum pith_status pith_json_parse(const char *text, size_t size, const char *where, json_t **out,
                                 struct pith_error *err);
/* The same of a file of at most `limit` bytes. */
enum pith_status pith_json_load(const char *path, size_t limit, json_t **out,
                                struct pith_error *err);

/* --- numbers ---------------------------------------------------------------------------------- */

enum pith_json_odd {
    PITH_JSON_NAN,
    PITH_JSON_INFINITY,
    PITH_JSON_MINUS_INFINITY,
    PITH_JSON_ODD_COUNT
};

/* "NaN", "Infinity", "-Infinity". */
const char *pith_json_odd_text(enum pith_json_odd which);
/* A node for a number with this text, one that jansson cannot hold. NULL when memory is out. */
json_t *pith_json_marked(const char *text, size_t size);
/* The text of such a node, which lives as long as it; NULL for every other value. */
const char *pith_json_marked_text(const json_t *json);
/* Whether a value is a number, NaN included; an integer of any size. */
bool pith_json_is_number(const json_t *json);
bool pith_json_is_integer(const json_t *json);
/* An integer, the nearest of 64 bits; 0 for what is none. */
int64_t pith_json_integer(const json_t *json);
/* A number as the nearest double, which may be infinite or NaN; 0 for what is none. */
double pith_json_number(const json_t *json);
/* Appends the text of a tree, as jansson's json_dump() does with the flags JSON_INDENT(),
 * JSON_COMPACT, JSON_SORT_KEYS, JSON_REAL_PRECISION() and JSON_ENCODE_ANY; others have no effect.
 * That memory ran out is remembered in *out. */
void pith_json_dump(const json_t *json, size_t flags, struct pith_str *out);
/* A string of a path, a name or a message, which may be no UTF-8: bytes above 0x7f then stand as
 * \xE9, so that such names stay distinct. NULL when memory is out. */
json_t *pith_json_name(const char *bytes);
/* A number, or null where it is infinite or NaN, which JSON does not have. NULL when memory is out.
 */
json_t *pith_json_finite(double x);
/* Sets a key, appends to a list; both take the reference. When the value is NULL or memory is out,
 * what was built so far goes and becomes NULL, to be looked at once, at the end. */
void pith_json_set(json_t **object, const char *key, json_t *value);
void pith_json_add(json_t **list, json_t *value);
/* The same as pith_json_set() of an object or a list that may be empty: then it is dropped. */
void pith_json_set_some(json_t **object, const char *key, json_t *value);
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
/* The same of a bound from 1 on, which may be of any size: hi stands for what is above it. */
enum pith_status pith_json_get_most(const json_t *obj, const char *key, int64_t hi,
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
