/* server/refusal.h: why a request gets no answer, as OpenAI's clients expect it. */
#ifndef PITH_SERVER_REFUSAL_H
#define PITH_SERVER_REFUSAL_H

#include <jansson.h>
#include <pith/status.h>

#include <stdbool.h>

struct refusal {
    unsigned status; /* of HTTP; 0: nothing was refused */
    char code[32];   /* "" for null */
    char param[64];  /* the field that is meant; "" for null */
    char message[1100];
};

/* Fills in a refusal and returns false. param may be NULL. The code is the status' own
 * (refusals.def). */
bool refuse(struct refusal *r, unsigned status, const char *param, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* There is no model of that name; `own` is what the server has. */
bool refuse_model(struct refusal *r, const char *name, const char *own);
/* What the library reported, with the status of HTTP that belongs to it. */
bool refuse_failure(struct refusal *r, enum pith_status status, const struct pith_error *err);
/* The same, of a request whose prompt stands in that field: it is what is too long. */
bool refuse_prompt(struct refusal *r, enum pith_status status, const struct pith_error *err,
                   const char *field);
/* The same of a constraint: what is too large has the code schema_too_large. param: the field that
 * it comes from. */
bool refuse_constraint(struct refusal *r, enum pith_status status, const char *param,
                       const struct pith_error *err);
/* {"error": {"message", "type", "param", "code"}}; NULL when memory is out. */
json_t *refusal_json(const struct refusal *r);
/* A string as JSON whatever its bytes are: what is not UTF-8 becomes '?'. */
json_t *json_any_text(const char *text, size_t size);
/* A token's bytes as a list of numbers. */
json_t *json_bytes(const char *bytes, size_t size);
/* The same as a text: what is no text by itself is written as OpenAI does, "bytes:\xf0\x9f". */
json_t *json_token(const char *bytes, size_t size);

#endif
