/* report/table.h: results as rows and columns, and the forms in which they are written.
 *
 * A table is filled without checks: running out of memory, or a cell too many, is remembered, and
 * reported when it is written. Text is cleaned when it enters (control characters become '?', bytes
 * that are not UTF-8 become U+FFFD), so no form can be made to say something else by a hostile
 * name. */
#ifndef PITH_REPORT_TABLE_H
#define PITH_REPORT_TABLE_H

#include "base/str.h"

/* Numbers stand to the right, and are numbers in JSON. */
enum pith_cell { PITH_CELL_TEXT, PITH_CELL_NUMBER };

struct pith_column {
    size_t key, title; /* offsets into text */
    enum pith_cell kind;
};

/* Start with {0}. */
struct pith_table {
    struct pith_str text; /* all strings, each with its NUL */
    struct pith_column *column;
    size_t columns, column_cap;
    size_t *cell; /* [rows][columns] offsets into text; 0 is the empty string */
    size_t rows, cells, cell_cap;
    bool failed;
};

/* Adds a column; all columns come before the first row. `key` names it in JSON and CSV
 * ("kld_mean"), title for people ("KL"); NULL: as the key. */
void pith_table_column(struct pith_table *t, const char *key, const char *title,
                       enum pith_cell kind);
/* Begins a row; cells that it is not given stay empty. */
void pith_table_row(struct pith_table *t);
/* The next cell of the row. NULL is an empty cell. */
void pith_table_text(struct pith_table *t, const char *text);
void pith_table_printf(struct pith_table *t, const char *fmt, ...) PITH_PRINTF(2, 3);
/* With `digits` after the point; empty for NaN, "inf" or "-inf" for the infinite. */
void pith_table_number(struct pith_table *t, double value, int digits);
/* With that many significant digits, and an exponent only when it is shorter. */
void pith_table_significant(struct pith_table *t, double value, int digits);
/* By that format of one double; "-" for what is not finite. */
void pith_table_known(struct pith_table *t, double value, const char *format);
void pith_table_free(struct pith_table *t);

/* What stands there; valid until the table changes. */
const char *pith_table_key(const struct pith_table *t, size_t column);
const char *pith_table_title(const struct pith_table *t, size_t column);
const char *pith_table_cell(const struct pith_table *t, size_t row, size_t column);

/* Appends the table to out in one form. A table that failed makes out->failed true. */
typedef void pith_table_write_fn(const struct pith_table *t, struct pith_str *out);

/* A form: one row of the table in report/table.c, one file. */
struct pith_writer {
    const char *name; /* "markdown" */
    const char *summary;
    pith_table_write_fn *write;
};
extern const struct pith_writer pith_writers[];
extern const size_t pith_writer_count;

pith_table_write_fn pith_table_write_text, pith_table_write_markdown, pith_table_write_csv,
    pith_table_write_json, pith_table_write_html;

/* By name; NULL when there is none. */
const struct pith_writer *pith_writer_find(const char *name);
/* The same; PITH_ARG, which names those that there are, when there is none. */
enum pith_status pith_writer_need(const char *name, const struct pith_writer **writer,
                                  struct pith_error *err);

/* Appends at most n bytes of text, cleaned as above. */
void pith_clean_append(struct pith_str *out, const char *text, size_t n);
/* Columns of a terminal that cleaned text takes. */
size_t pith_text_width(const char *text);

#endif
