/* Text and tables on standard output, as wide as the terminal there. */
#include "cli/tables.h"

#include <pith/inspect.h>
#include <pith/report.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

size_t text_columns(const char *text)
{
    return pith_text_columns(text);
}

size_t fitting_bytes(const char *text, size_t columns)
{
    return pith_text_fitting(text, columns);
}

void shorten(const char *text, size_t columns, char out[SHORTENED])
{
    pith_text_shorten(text, columns, out, SHORTENED);
}

size_t print_subject(const char *name, size_t reserved)
{
    enum { LEAST = 16 };
    const size_t width = terminal_width(STDOUT_FILENO);
    char text[SHORTENED];
    shorten(name, width && width < reserved + LEAST ? LEAST : width ? width - reserved : 0, text);
    printf("%s%s%s", bold(), text, plain());
    return text_columns(text);
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

void print_line(size_t column, size_t indent, const char *format, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    print_wrapped(text, column, indent, terminal_width(STDOUT_FILENO));
}

void write_wrapped(FILE *f, const char *text, size_t column, struct wrap wrap)
{
    write_words(f, text, column, wrap, false);
}

void print_pairs(const json_t *pairs, size_t indent, size_t width)
{
    const char *key;
    const json_t *value;
    size_t most = 0;
    json_object_foreach ((json_t *)(uintptr_t)pairs, key, value) {
        const size_t n = text_columns(key);
        if (n > most) most = n;
    }
    json_object_foreach ((json_t *)(uintptr_t)pairs, key, value) {
        const size_t n = text_columns(key), right = indent + most + 2, below = indent + 2;
        const bool narrow = width && right > width / 2;
        if (narrow) printf("%*s%s\n%*s", (int)indent, "", key, (int)below, "");
        else printf("%*s%s%*s", (int)indent, "", key, (int)(most + 2 - n), "");
        print_wrapped(json_string_value(value), narrow ? below : right, narrow ? below : right,
                      width);
    }
}

void table_column(json_t *columns, const char *name, const char *align)
{
    json_array_append_new(columns, json_pack("{s:s, s:s}", "name", name, "align", align));
}

void table_cell(json_t *row, const char *format, double x)
{
    char text[64];
    snprintf(text, sizeof text, format, x);
    json_array_append_new(row, json_string(text));
}

static int render(const struct common *common, json_t *table, const char *format)
{
    struct pith_error err = {.status = PITH_NOMEM};
    char *rendered = NULL;
    int rc = EXIT_DONE;
    char *text = table ? json_dumps(table, 0) : NULL;
    if (text) err = (struct pith_error){0};
    if (text && pith_table_render(text, format, &rendered, &err) == PITH_OK)
        fputs(rendered, stdout);
    else rc = report_failure(common, &err);
    pith_text_free(rendered);
    free(text);
    return rc;
}

static size_t column_width(const json_t *columns, const json_t *rows, size_t c)
{
    const char *name = json_string_value(json_object_get(json_array_get(columns, c), "name"));
    const json_t *row;
    size_t i, most = name ? text_columns(name) : 0;
    json_array_foreach (rows, i, row) {
        const char *cell = json_string_value(json_array_get(row, c));
        const size_t n = cell ? text_columns(cell) : 0;
        if (n > most) most = n;
    }
    return most;
}

/* The first column, and those from first to last. */
static json_t *part_of(const json_t *columns, const json_t *rows, size_t first, size_t last)
{
    json_t *some = json_array(), *cut = json_array();
    const json_t *row;
    size_t i;
    json_array_append(some, json_array_get(columns, 0));
    for (size_t c = first; c < last; c++) json_array_append(some, json_array_get(columns, c));
    json_array_foreach (rows, i, row) {
        json_t *less = json_array();
        json_array_append(less, json_array_get(row, 0));
        for (size_t c = first; c < last; c++) json_array_append(less, json_array_get(row, c));
        json_array_append_new(cut, less);
    }
    return json_pack("{s:o, s:o}", "columns", some, "rows", cut);
}

/* The cells of a column, in at most `most` columns of the terminal each. */
static void shorten_cells(json_t *rows, size_t c, size_t most)
{
    json_t *row;
    size_t i;
    char text[SHORTENED];
    json_array_foreach (rows, i, row) {
        const char *cell = json_string_value(json_array_get(row, c));
        if (!cell || text_columns(cell) <= most) continue;
        shorten(cell, most, text);
        json_array_set_new(row, c, json_string(text));
    }
}

/* So that each column fits next to the first, which gives way first, to a third of the line. */
static void shorten_table(const json_t *columns, json_t *rows, size_t width)
{
    const size_t count = json_array_size(columns);
    size_t widest = 0;
    for (size_t c = 1; c < count; c++) {
        const size_t n = column_width(columns, rows, c);
        if (n > widest) widest = n;
    }
    const size_t widest_column = widest ? widest + 2 : 0, third = width / 3;
    if (column_width(columns, rows, 0) + widest_column > width)
        shorten_cells(rows, 0, width > widest_column + third ? width - widest_column : third);
    const size_t head = column_width(columns, rows, 0) + 2;
    for (size_t c = 1; c < count && head < width; c++) shorten_cells(rows, c, width - head);
}

/* As many columns as fit next to the first, then the others below in the same way. */
static int print_parts(const struct common *common, const json_t *columns, json_t *rows,
                       size_t width)
{
    if (width) shorten_table(columns, rows, width);
    const size_t count = json_array_size(columns), head = column_width(columns, rows, 0);
    int rc = EXIT_DONE;
    for (size_t first = 1, last; (first < count || first == 1) && rc == EXIT_DONE; first = last) {
        size_t used = head;
        for (last = first; last < count; last++) {
            used += 2 + column_width(columns, rows, last);
            if (width && used > width && last > first) break;
        }
        if (first > 1) putchar('\n');
        json_t *table = part_of(columns, rows, first, last);
        rc = render(common, table, "text");
        json_decref(table);
        if (count <= 1) break;
    }
    return rc;
}

int print_table(const struct common *common, json_t *columns, json_t *rows, const char *format)
{
    int rc;
    if (format) {
        json_t *table = json_pack("{s:O, s:O}", "columns", columns, "rows", rows);
        rc = render(common, table, format);
        json_decref(table);
    } else {
        rc = print_parts(common, columns, rows, terminal_width(STDOUT_FILENO));
    }
    json_decref(columns);
    json_decref(rows);
    return rc;
}
