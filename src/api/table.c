/* Tables for people, from reports. */
#include <pith/inspect.h>

#include "api/context.h"
#include "base/mem.h"
#include "base/names.h"
#include "report/table.h"

#include <string.h>

static enum pith_status take_text(struct pith_str *s, char **text, struct pith_error *err)
{
    *text = pith_str_take(s);
    return *text ? PITH_OK : pith_fail_nomem(err, "a table");
}

static void fill_table(struct pith_table *t, const json_t *columns, const json_t *rows)
{
    const json_t *c, *row, *cell;
    size_t i, k;
    json_array_foreach (columns, i, c) {
        const char *name = json_string_value(json_object_get(c, "name"));
        const char *align = json_string_value(json_object_get(c, "align"));
        const bool right = align && strcmp(align, "right") == 0;
        pith_table_column(t, name ? name : "", name ? name : "",
                          right ? PITH_CELL_NUMBER : PITH_CELL_TEXT);
    }
    json_array_foreach (rows, i, row) {
        pith_table_row(t);
        json_array_foreach (row, k, cell) pith_table_text(t, json_string_value(cell));
    }
}

static const char *form_name(size_t i)
{
    return i < pith_writer_count ? pith_writers[i].name : NULL;
}

enum pith_status pith_table_render(const char *table, const char *format, char **text,
                                   struct pith_error *err)
{
    const struct pith_writer *w = pith_writer_find(format);
    json_t *j = NULL;
    if (!w) return pith_fail_name(err, "form", format, form_name);
    PITH_TRY(pith_json_parse(table, strlen(table), "table", &j, err));
    struct pith_table t = {0};
    struct pith_str out = {0};
    fill_table(&t, json_object_get(j, "columns"), json_object_get(j, "rows"));
    w->write(&t, &out);
    pith_table_free(&t);
    json_decref(j);
    return take_text(&out, text, err);
}
