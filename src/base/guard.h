/* base/guard.h: what becomes of a mapped file that grows shorter, or whose disk fails, under a
 * reader.
 *
 * Touching such a page raises SIGBUS in whichever thread touched it, in the middle of a kernel. A
 * handler then puts zeros in the place of what is gone and marks the mapping as lost; the reader
 * goes on, and looks at the mark at the end of its step, before a result is reported or stored. So
 * no kernel needs its own check, and no thread is torn out of its work.
 *
 * A signal's handler belongs to the process: the list of mappings, and what handled the signal
 * before, are the only mutable state of the library that is not in a handle. Nothing is installed
 * until the program calls pith_guard_files() (pith/context.h); without it, the signal has its usual
 * effect. */
#ifndef PITH_BASE_GUARD_H
#define PITH_BASE_GUARD_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

/* Adds a mapping of whole pages (the last may be part of the file); its number, or 0 when as many
 * are open as the list holds. For any thread. */
enum { PITH_GUARD_MOST = 8192 };
unsigned pith_guard_add(const void *data, size_t size, bool writable);
/* Takes it off, before it is unmapped; 0 is allowed. */
void pith_guard_drop(unsigned number);
/* True once a page of it could not be read: from some place on it holds zeros. */
bool pith_guard_lost(unsigned number);

#endif
