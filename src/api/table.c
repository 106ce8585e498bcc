/* Tables for people, from reports. */
#include <pith/inspect.h>

#include "api/context.h"
#include "report/table.h"

#include <string.h>

static void fill_table(struct pith_table *t, const json_t *columns, const json_t *rows)
{
    const json_t *c, *row, *cell;
    size_t i, k;
    json_array_foreach (columns, i, c) {
        const char *name = json_string_value(json_object_get(c, "name"));
        const char *align = json_string_value(json_object_get(c, "align"));
        const bool right = align && strcmp(align, "right") == 0;
        pith_table_column(t, name ? name : "", NULL, right ? PITH_CELL_NUMBER : PITH_CELL_TEXT);
    }
    json_array_foreach (rows, i, row) {
        pith_table_row(t);
        json_array_foreach (row, k, cell) pith_table_text(t, json_string_value(cell));
    }
}

enum pith_status pith_table_render(const char *table, const char *format, char **text,
                                   struct pith_error *err)
{
    const struct pith_writer *w;
    json_t *j = NULL;
    PITH_TRY(pith_writer_need(format, &w, err));
    PITH_TRY(pith_json_parse(table, strlen(table), "table", &j, err));
    struct pith_table t = {0};
    struct pith_str out = {0};
    fill_table(&t, json_object_get(j, "columns"), json_object_get(j, "rows"));
    w->write(&t, &out);
    pith_table_free(&t);
    json_decref(j);
    return pith_text_give(&out, PITH_OK, "a table", text, err);
}
