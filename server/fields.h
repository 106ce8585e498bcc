/* server/fields.h: what becomes of each field of a request: taken, refused by name where it would
 * change the answer, or of no effect. One table for all routes (fields.def). */
#ifndef PITH_SERVER_FIELDS_H
#define PITH_SERVER_FIELDS_H

#include "server/refusal.h"

#include <jansson.h>

#include <stdbool.h>

/* Which request a body is. */
enum field_route {
    FIELD_CHAT = 1,    /* /v1/chat/completions */
    FIELD_TEXT = 2,    /* /v1/completions */
    FIELD_EMBED = 4,   /* /v1/embeddings */
    FIELD_ENCODE = 8,  /* /tokenize */
    FIELD_DECODE = 16, /* /detokenize */
    FIELD_RENDER = 32  /* /apply-template */
};

/* False: a field would change the answer and is not supported, or its name is nearly that of one
 * that is known; *r names it. Fields that nobody knows are listed in *ignored, for json_decref();
 * it stays NULL when there are none. */
bool fields_check(const json_t *body, enum field_route route, json_t **ignored, struct refusal *r);
/* Whether an object within a request has members of these names only, and some that are null or
 * false; `path` is its own name. What is no object has none. */
bool fields_within(const json_t *object, const char *path, const char *const *names, size_t count,
                   struct refusal *r);

#endif
