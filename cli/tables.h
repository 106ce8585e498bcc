/* cli/tables.h: tables on standard output. */
#ifndef PITH_CLI_TABLES_H
#define PITH_CLI_TABLES_H

#include "cli/command.h"

#include <jansson.h>

/* Appends a column; align is "left" or "right". */
void table_column(json_t *columns, const char *name, const char *align);
/* Appends a number to a row of texts. */
void table_cell(json_t *row, const char *format, double x);
/* Prints arrays of columns and rows (both taken over) as text, or in another form. */
int print_table(const struct common *common, json_t *columns, json_t *rows, const char *format);

#endif
