/* server/buffer.h: text that grows; a failure to grow is stored for a later check. */
#ifndef PITH_SERVER_BUFFER_H
#define PITH_SERVER_BUFFER_H

#include <jansson.h>

#include <stdbool.h>
#include <stddef.h>

/* Start with {0}. `text` has a NUL behind its `size` bytes, or is NULL while nothing was added. */
struct buffer {
    char *text;
    size_t size, room;
    bool failed; /* memory was out: something is missing */
};

/* Appends; after a failure nothing more is. */
void buffer_add(struct buffer *b, const void *bytes, size_t size);
void buffer_text(struct buffer *b, const char *text);
void buffer_print(struct buffer *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Appends a value as JSON on one line, reals with the nine digits that give a float32 back; NULL
 * counts as a failure. Does not take the value. */
void buffer_json(struct buffer *b, const json_t *value);
/* The text of a value with jansson's flags, its numbers as they came, for free(); NULL when memory
 * is out. */
char *json_written(const json_t *value, size_t flags);
/* Frees what it holds; it is empty again. */
void buffer_free(struct buffer *b);

#endif
