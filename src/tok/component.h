/* tok/component.h: reading the parts of a tokenizer.json, each a JSON object with a "type". */
#ifndef PITH_TOK_COMPONENT_H
#define PITH_TOK_COMPONENT_H

#include "base/json.h"
#include "base/status.h"
#include "tok/regex/regex.h"

/* Nested Sequence components deeper than this are refused. */
#define PITH_COMPONENT_DEPTH 8

/* How long a text of len bytes may become by the steps of a component: real rules stay far below,
 * and a file whose rules let it grow without end must not take all memory. */
static inline size_t pith_text_limit(size_t len)
{
    return len * 64 + 4096;
}

/* The JSON file dir/name; *out, a new reference, stays NULL when there is none. */
enum pith_status pith_component_file(const char *dir, const char *name, json_t **out,
                                     struct pith_error *err);
/* The "type" of a component; `what` ("normalizer", ...) names it in messages. */
enum pith_status pith_component_type(const json_t *json, const char *what, const char **type,
                                     struct pith_error *err);
/* {"String": s} or {"Regex": s} under "pattern". */
enum pith_status pith_component_pattern(const json_t *json, const char *what,
                                        struct pith_regex **out, struct pith_error *err);
/* A string that must be there; text points into json. */
enum pith_status pith_component_text(const json_t *json, const char *key, const char *what,
                                     const char **text, size_t *len, struct pith_error *err);
/* A token as the files of a tokenizer name it, a text or {"content": text}: the text, borrowed;
 * NULL for anything else. */
const json_t *pith_component_token(const json_t *json);
/* PITH_UNSUPPORTED, naming the component. */
enum pith_status pith_component_unsupported(const char *what, const char *type,
                                            struct pith_error *err);

#endif
