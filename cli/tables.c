/* Tables on standard output. */
#include "cli/tables.h"

#include <pith/inspect.h>

#include <stdio.h>
#include <stdlib.h>

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

int print_table(const struct common *common, json_t *columns, json_t *rows, const char *format)
{
    struct pith_error err = {.status = PITH_NOMEM};
    char *rendered = NULL;
    int rc = EXIT_DONE;
    json_t *table = json_pack("{s:o, s:o}", "columns", columns, "rows", rows);
    char *text = table ? json_dumps(table, 0) : NULL;
    if (text) err = (struct pith_error){0};
    if (text && pith_table_render(text, format ? format : "text", &rendered, &err) == PITH_OK)
        fputs(rendered, stdout);
    else rc = report_failure(common, &err);
    pith_text_free(rendered);
    free(text);
    json_decref(table);
    return rc;
}
