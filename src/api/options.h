/* api/options.h: structs of options between a program and a library that were not compiled
 * together. Each starts with its size as the program knows it (size_t), and only grows at its end.
 */
#ifndef PITH_API_OPTIONS_H
#define PITH_API_OPTIONS_H

#include "base/status.h"

#include <stddef.h>

/* Fills in a program's struct of `size` bytes from the library's, of `full` bytes; its first member
 * becomes `size`. */
void pith_options_give(void *options, size_t size, const void *defaults, size_t full);

/* Lays what a program gave over *options, which has the library's defaults and `full` bytes. What
 * an older program does not know keeps its default. PITH_ARG when the program's struct was not
 * started by its defaults function, or when a newer program sets what this library does not know.
 */
enum pith_status pith_options_take(void *options, size_t full, const void *given,
                                   struct pith_error *err);

/* Declares `o`, what was given laid over `initial`; returns from the function when it cannot be. */
#define PITH_OPTIONS(type, o, initial, given, err)                                                 \
    struct type o##_taken = initial;                                                               \
    PITH_TRY(pith_options_take(&o##_taken, sizeof o##_taken, given, err));                         \
    const struct type *const o = &o##_taken

#endif
