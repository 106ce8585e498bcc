/* cli/wrap.h: text on standard output, as wide as the terminal there; output into a file or a
 * pipe is never cut. Columns of a terminal are counted as the locale says. */
#ifndef PITH_CLI_WRAP_H
#define PITH_CLI_WRAP_H

#include "cli/command.h"

#include <stdio.h>

/* Columns of the terminal behind fd now; 0 when there is none. */
size_t terminal_width(int fd);
/* The same for sentences and lists on standard output, which are wrapped where it is none, too. */
size_t prose_width(void);
/* Prints text from `column` on, in lines of at most `width` columns (0: one line), those after the
 * first indented; ends the line. A word that no line has room for is shortened. */
void print_wrapped(const char *text, size_t column, size_t indent, size_t width);
/* The same into another stream, where words stay whole: a file's name can be copied. */
struct wrap {
    size_t indent, width;
};
void write_wrapped(FILE *f, const char *text, size_t column, struct wrap wrap);

#endif
