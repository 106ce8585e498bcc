/* server/body.h: bodies of requests as JSON, within limits, and their fields. */
#ifndef PITH_SERVER_BODY_H
#define PITH_SERVER_BODY_H

#include "server/refusal.h"

#include <jansson.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Brackets within brackets, at most. */
enum { BODY_DEPTH = 100 };

/* The object that a body is; NULL, and a refusal of status 400, when it is none. */
json_t *body_read(const char *text, size_t size, struct refusal *r);
/* A field; NULL when it is not there, or null. */
const json_t *body_get(const json_t *body, const char *name);
/* A field that is true or false, `missing` where it is not there. False: it is something else. */
bool body_flag(const json_t *body, const char *name, bool missing, bool *out, struct refusal *r);
/* Whether "model" is missing, or one of these names; NULL: any name will do. False: 404. */
bool body_model(const json_t *body, const char *name, const char *model, struct refusal *r);
/* A whole number, also one that is written as 40.0; one of more than 64 bits is the nearest. False:
 * it is none. */
bool body_whole(const json_t *value, json_int_t *out);
/* A list of token ids as an array that the caller frees; `out` is NULL and the count 0 for an empty
 * one. False: an element is no id. */
bool body_ids(const json_t *list, const char *name, int32_t **out, size_t *count,
              struct refusal *r);

/* Inputs of a request: texts or lists of ids; see each for what it owns. */
struct body_input {
    const char *text; /* borrowed from the body; NULL: ids */
    size_t text_size;
    int32_t *ids; /* owned */
    size_t id_count;
};
/* A field that is a text, a list of ids, or a list of at most `most` of either. *out[*count] is for
 * body_inputs_free(), after a failure too. */
bool body_inputs(const json_t *body, const char *name, size_t most, struct body_input **out,
                 size_t *count, struct refusal *r);
/* Frees the inputs and their ids; NULL is allowed. */
void body_inputs_free(struct body_input *input, size_t count);

#endif
