/* What several ranks would take, as a rehearsal and a plan report it. */
#include "cli/measure.h"
#include "cli/tables.h"

#include <stdio.h>

static double number(const json_t *j, const char *key)
{
    return json_number_value(json_object_get(j, key));
}

static json_t *cells_of(const json_t *row)
{
    char time[32], bytes[32];
    json_t *cells = json_array();
    format_seconds(number(row, "seconds_expected"), time);
    format_bytes(number(row, "bytes_received_per_block"), bytes);
    table_cell(cells, "%.0f", number(row, "ranks"));
    json_array_append_new(cells, json_string(time));
    table_cell(cells, "%.2f", number(row, "speedup"));
    json_array_append_new(cells, json_string(bytes));
    json_array_append_new(cells, json_string(json_text(row, "limit")));
    return cells;
}

void print_ranks(const struct common *common, const json_t *ranks)
{
    enum { INDENT = 19 };
    static const char *const names[] = {"ranks", "time", "speed-up", "received a block", "limit"};
    const json_t *list = json_object_get(ranks, "rows"), *row;
    size_t i;
    if (json_array_size(list) == 0) {
        print_line((size_t)printf("  %-16s ", "ranks"), INDENT, "%s", json_text(ranks, "why"));
        return;
    }
    json_t *columns = json_array(), *rows = json_array();
    for (i = 0; i < sizeof names / sizeof names[0]; i++)
        table_column(columns, names[i], i + 1 < sizeof names / sizeof names[0] ? "right" : "left");
    json_array_foreach (list, i, row) json_array_append_new(rows, cells_of(row));
    const json_t *link = json_object_get(ranks, "link");
    printf("  %-16s over links of %g Gb/s with a delay of %g us:\n", "ranks",
           number(link, "bits_per_second") / 1e9, number(link, "delay_seconds") * 1e6);
    (void)print_table(common, columns, rows, NULL);
}
