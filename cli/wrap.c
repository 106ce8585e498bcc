/* Text on standard output, as wide as the terminal there. */
#include "cli/wrap.h"

#include <pith/context.h>
#include <pith/report.h>

#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

size_t terminal_width(int fd)
{
    struct winsize size;
    if (!isatty(fd)) return 0;
    return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

size_t prose_width(void)
{
    const size_t width = terminal_width(STDOUT_FILENO);
    return width ? width : 100;
}

/* Writes words; those that do not fit into a line are shortened if `cut`. */
static void write_words(FILE *f, const char *text, size_t column, struct wrap wrap, bool cut)
{
    const struct pith_text_wrap how = {
        .column = column, .indent = wrap.indent, .width = wrap.width, .shorten = cut};
    char *lines = pith_text_wrapped(text, &how);
    if (lines) fputs(lines, f);
    else fprintf(f, "%s\n", text);
    pith_text_free(lines);
}

void print_wrapped(const char *text, size_t column, size_t indent, size_t width)
{
    write_words(stdout, text, column, (struct wrap){indent, width}, true);
}

void write_wrapped(FILE *f, const char *text, size_t column, struct wrap wrap)
{
    write_words(f, text, column, wrap, false);
}
