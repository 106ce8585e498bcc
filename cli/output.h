/* cli/output.h: files that commands write beside what the library writes. */
#ifndef PITH_CLI_OUTPUT_H
#define PITH_CLI_OUTPUT_H

#include <pith/status.h>

#include <stdbool.h>
#include <stddef.h>

/* Whether a file of that name can be written; nothing is left behind, and what is there stays as it
 * is. False, and an error that says why not. */
bool can_write(const char *path, struct pith_error *err);
/* Writes it: beside, synced, then renamed; into what is no plain file (a pipe, a device, a link) as
 * it comes. False, and an error: what was there stays, and nothing else is left behind. */
bool write_whole(const char *path, const char *text, size_t size, struct pith_error *err);

#endif
