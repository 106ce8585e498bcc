/* A list of objects, one a row, keys in the order of the columns. An empty cell is null; a
 * number column holds numbers wherever the text is one (the infinite, which JSON lacks, are
 * null). */
#include "report/table.h"

#include "base/json.h"

#include <errno.h>
#include <stdlib.h>

static json_t *value(const char *text, enum pith_cell kind)
{
    if (!*text) return json_null();
    if (kind == PITH_CELL_NUMBER) {
        char *end;
        errno = 0;
        const long long n = strtoll(text, &end, 10);
        if (!*end && errno == 0) return json_integer(n);
        const double x = strtod(text, &end);
        if (!*end) return pith_json_finite(x);
    }
    return json_string(text);
}

static json_t *build(const struct pith_table *t)
{
    json_t *list = json_array();
    for (size_t r = 0; list && r < t->rows; r++) {
        json_t *row = json_object();
        bool ok = json_array_append_new(list, row) == 0;
        for (size_t c = 0; ok && c < t->columns; c++)
            ok = json_object_set_new(row, pith_table_key(t, c),
                                     value(pith_table_cell(t, r, c), t->column[c].kind)) == 0;
        if (!ok) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static int append(const char *bytes, size_t n, void *out)
{
    pith_str_append(out, bytes, n);
    return 0;
}

void pith_table_write_json(const struct pith_table *t, struct pith_str *out)
{
    json_t *list = t->failed ? NULL : build(t);
    /* 15 digits give back every decimal that a table holds as it was written. */
    if (!list ||
        json_dump_callback(list, append, out, JSON_INDENT(2) | JSON_REAL_PRECISION(15)) != 0)
        out->failed = true;
    pith_str_putc(out, '\n');
    json_decref(list);
}
