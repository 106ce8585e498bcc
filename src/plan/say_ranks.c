#include "plan/say_ranks.h"

static double number_in(const json_t *j, const char *key)
{
    return json_number_value(json_object_get(j, key));
}

static void add_ranks(struct pith_table *t, const json_t *row)
{
    char time[32], bytes[32];
    pith_seconds_text(number_in(row, "seconds_expected"), time, sizeof time);
    pith_bytes_text(number_in(row, "bytes_received_per_block"), bytes, sizeof bytes);
    pith_table_row(t);
    pith_table_number(t, number_in(row, "ranks"), 0);
    pith_table_text(t, time);
    pith_table_number(t, number_in(row, "speedup"), 2);
    pith_table_text(t, bytes);
    pith_table_text(t, json_string_value(json_object_get(row, "limit")));
}

void pith_ranks_say(struct pith_report *r, const json_t *ranks)
{
    const json_t *rows = json_object_get(ranks, "rows"), *link = json_object_get(ranks, "link"),
                 *why = json_object_get(ranks, "why"), *row;
    size_t i;
    if (!ranks) return;
    if (json_array_size(rows) == 0) {
        const struct pith_line how = {.lead = "  ranks            ",
                                      .wrap = PITH_WRAP_TERMINAL,
                                      .indent = PITH_REPORT_INDENT,
                                      .fields = true};
        pith_report_line(r, &how, "%s", json_is_string(why) ? json_string_value(why) : "");
        return;
    }
    pith_report_label(r, "ranks", PITH_WRAP_NONE, "over links of %g Gb/s with a delay of %g us:",
                      number_in(link, "bits_per_second") / 1e9,
                      number_in(link, "delay_seconds") * 1e6);
    struct pith_table *t = pith_report_add_table(r, PITH_DETAIL_ANY);
    pith_table_column(t, "ranks", "ranks", PITH_CELL_NUMBER);
    pith_table_column(t, "time", "time", PITH_CELL_NUMBER);
    pith_table_column(t, "speedup", "speed-up", PITH_CELL_NUMBER);
    pith_table_column(t, "received", "received a block", PITH_CELL_NUMBER);
    pith_table_column(t, "limit", "limit", PITH_CELL_TEXT);
    json_array_foreach (rows, i, row) add_ranks(t, row);
}
