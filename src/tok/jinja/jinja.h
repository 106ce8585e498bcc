/* tok/jinja/jinja.h: chat templates: the part of Jinja that they use, rendered as jinja2 3.1 does
 * it in the environment of transformers (trim_blocks, lstrip_blocks, loop controls, tojson without
 * escapes for HTML, raise_exception, strftime_now). Two things that transformers refuses are there,
 * since llama.cpp has them: the filter from_json, and methods that change lists and dicts.
 *
 * A template can do nothing but compute: no files, no environment, no clock but the time that it is
 * given; its steps, memory, output and depth are bounded. */
#ifndef PITH_TOK_JINJA_JINJA_H
#define PITH_TOK_JINJA_JINJA_H

#include "base/json.h"
#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

struct pith_jinja;

/* Reads a template (UTF-8). PITH_FORMAT with the line when it is none. */
enum pith_status pith_jinja_new(const char *text, size_t size, struct pith_jinja **out,
                                struct pith_error *err);
void pith_jinja_free(struct pith_jinja *t);

/* What a template is rendered with: the members of two objects. Later ones win. */
struct pith_jinja_input {
    const json_t *own;   /* of the model: its special tokens; may be NULL */
    const json_t *given; /* the conversation: its strings are marked */
    int64_t now;         /* seconds since 1970 */
    uint64_t steps;      /* at most; 0: as many as conversations need */
    size_t memory;       /* bytes at most; 0: likewise */
};

/* Text and where its bytes came from; both owned by the caller, pith_rendered_free(). */
struct pith_rendered {
    char *text; /* NUL-terminated */
    size_t size;
    uint8_t *marks; /* [size]: 1 where a byte came from `given`; NULL: none did */
};
void pith_rendered_free(struct pith_rendered *r);

/* PITH_FORMAT with the line and what jinja2 says, also of the template's own raise_exception();
 * PITH_LIMIT when it takes too many steps or too much memory, or nests too deeply. */
enum pith_status pith_jinja_render(const struct pith_jinja *t, const struct pith_jinja_input *in,
                                   struct pith_rendered *out, struct pith_error *err);

#endif
