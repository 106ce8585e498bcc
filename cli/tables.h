/* cli/tables.h: text and tables on standard output, as wide as the terminal there; output into a
 * file or a pipe is never cut. Columns of a terminal are counted as the locale says. */
#ifndef PITH_CLI_TABLES_H
#define PITH_CLI_TABLES_H

#include "cli/command.h"

#include <jansson.h>
#include <stdio.h>

/* Columns of the terminal behind fd now; 0 when there is none. */
size_t terminal_width(int fd);
/* The same for sentences and lists on standard output, which are wrapped where it is none, too. */
size_t prose_width(void);
/* Columns that a text takes, and the bytes of it that fit into some. */
size_t text_columns(const char *text);
size_t fitting_bytes(const char *text, size_t columns);

/* Text as out, in at most `columns` columns (0: all of it): of what is longer the middle gives way
 * to "...", since the ends of a path say most. Cut where out ends. */
enum { SHORTENED = 1024 };
void shorten(const char *text, size_t columns, char out[SHORTENED]);
/* Prints what the lines that follow are about (a model, a file) in bold, so short that the terminal
 * has `reserved` columns more; returns the columns that it takes. */
size_t print_subject(const char *name, size_t reserved);

/* Prints text from `column` on, in lines of at most `width` columns (0: one line), those after the
 * first indented; ends the line. A word that no line has room for is shortened. */
void print_wrapped(const char *text, size_t column, size_t indent, size_t width);
/* Formats a text and prints it so, as wide as the terminal of standard output; where that is none,
 * in one line. */
void print_line(size_t column, size_t indent, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same into another stream, where words stay whole: a file's name can be copied. */
struct wrap {
    size_t indent, width;
};
void write_wrapped(FILE *f, const char *text, size_t column, struct wrap wrap);
/* An object of texts as two columns, keys and wrapped texts. */
void print_pairs(const json_t *pairs, size_t indent, size_t width);

/* Appends a column; align is "left" or "right". */
void table_column(json_t *columns, const char *name, const char *align);
/* Appends a number to a row of texts. */
void table_cell(json_t *row, const char *format, double x);
/* Prints arrays of columns and rows (both taken over). Without a format it is text for people: what
 * is too wide for the terminal comes as several tables, each with the first column. */
int print_table(const struct common *common, json_t *columns, json_t *rows, const char *format);

#endif
