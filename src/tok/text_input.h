/* tok/text_input.h: the one way by which text from outside comes in: files to score or to
 * calibrate on, JSON lines, task files, prompts. What passes is UTF-8 without NUL bytes and without
 * a byte order mark; what does not is refused with the place and a guess at what it is. */
#ifndef PITH_TOK_TEXT_INPUT_H
#define PITH_TOK_TEXT_INPUT_H

#include "base/file.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

/* How line ends are read, and what was seen; start with {.lf = ...}. */
struct pith_newlines {
    bool lf;     /* in: line ends CR LF become LF */
    size_t crlf; /* out: line ends CR LF, added up over what came in */
};

/* Reads how line ends come in: "keep", "lf", or NULL for keep. PITH_ARG for another name. */
enum pith_status pith_newlines_read(const char *crlf, struct pith_newlines *out,
                                    struct pith_error *err);

/* A text that came in: size bytes at data, valid until pith_text_close(). */
struct pith_text {
    const char *data; /* never NULL */
    size_t size;
    struct pith_map map;
    char *owned; /* data when line ends were changed, else NULL */
};

/* Opens a file; newlines may be NULL (line ends neither changed nor counted). PITH_FORMAT: not
 * UTF-8; PITH_IO: cannot be read. On failure *out owns nothing. */
enum pith_status pith_text_open(const char *path, struct pith_newlines *newlines,
                                struct pith_text *out, struct pith_error *err);
void pith_text_close(struct pith_text *text);
/* Closes it when work with it ended with s: s, or PITH_IO when the file at `path` changed meanwhile
 * (pith_map_check()). */
enum pith_status pith_text_finish(struct pith_text *text, const char *path, enum pith_status s,
                                  struct pith_error *err);

/* The check alone, for text in memory that `name` stands for in messages; a mark at its start is
 * fine. */
enum pith_status pith_text_check(const char *name, const char *data, size_t size,
                                 struct pith_error *err);

/* Bytes of the byte order mark that data starts with: 3 or 0. */
size_t pith_text_mark(const char *data, size_t size);

#endif
