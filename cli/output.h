/* cli/output.h: files that commands write besides those of the library. */
#ifndef PITH_CLI_OUTPUT_H
#define PITH_CLI_OUTPUT_H

#include <pith/status.h>

#include <stdbool.h>
#include <stddef.h>

/* Whether a file of that name can be written; creates nothing, and an existing file stays as it is.
 * False, and an error that says why not. */
bool can_write(const char *path, struct pith_error *err);
/* Writes it: to a temporary file, synced, then renamed; to what is no plain file (a pipe, a device,
 * a link) directly. False, and an error: the old file stays, and no other remains. */
bool write_whole(const char *path, const char *text, size_t size, struct pith_error *err);

#endif
