/* cli/input.h: texts from files and from standard input. */
#ifndef PITH_CLI_INPUT_H
#define PITH_CLI_INPUT_H

#include <pith/status.h>

#include <stdbool.h>
#include <stddef.h>

/* A whole file ("-": standard input, which messages call `name`; NULL: standard input), at most 64
 * MiB, without NUL bytes; NULL, and an error, when it cannot be read or a signal came first
 * (PITH_INTERRUPTED). free() it. */
char *read_whole(const char *path, const char *name, struct pith_error *err);
/* The first line of a file that is not empty, cut at `room` bytes, without blanks at its end; what
 * it is ("key") is named when there is none. False, and an error that names the file and says why.
 */
bool read_first_line(const char *path, const char *what, char *line, size_t room,
                     struct pith_error *err);

#endif
