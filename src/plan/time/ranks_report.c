#include "plan/time/ranks_report.h"

struct pith_ranks_row *pith_ranks_report_row(struct pith_ranks_report *r, unsigned ranks)
{
    const struct pith_ranks_forecast none = {.ranks = ranks, .cable = r->cable};
    if (r->rows == PITH_RANKS_ROWS) return NULL;
    r->row[r->rows] = (struct pith_ranks_row){none, none};
    return &r->row[r->rows++];
}

static double seconds_of(const struct pith_ranks_row *row)
{
    return pith_ranks_forecast_seconds(&row->blocks) + pith_ranks_forecast_seconds(&row->other);
}

static double speedup_of(const struct pith_ranks_report *r, const struct pith_ranks_row *row)
{
    const double seconds = seconds_of(row);
    return seconds > 0 ? seconds_of(&r->row[0]) / seconds : 1;
}

static double a_block(const struct pith_ranks_report *r, double all)
{
    return r->blocks ? all / r->blocks : all;
}

static void add_cells(struct pith_table *t, const struct pith_ranks_report *r,
                      const struct pith_ranks_row *row)
{
    char time[32], bytes[32];
    pith_seconds_text(seconds_of(row), time, sizeof time);
    pith_bytes_text(a_block(r, row->blocks.received), bytes, sizeof bytes);
    pith_table_row(t);
    pith_table_number(t, row->blocks.ranks, 0);
    pith_table_text(t, time);
    pith_table_number(t, speedup_of(r, row), 2);
    pith_table_text(t, bytes);
    pith_table_text(t, pith_ranks_limit(&row->blocks));
}

void pith_ranks_report_text(struct pith_report *to, const struct pith_ranks_report *r)
{
    if (r->why) {
        const struct pith_line how = {.lead = "  ranks            ",
                                      .wrap = PITH_WRAP_TERMINAL,
                                      .indent = PITH_REPORT_INDENT};
        pith_report_line(to, &how, "%s", r->why);
        return;
    }
    pith_report_label(to, "ranks", PITH_WRAP_NONE,
                      "over links of %g Gb/s with a delay of %g us:", r->cable.bits / 1e9,
                      r->cable.delay * 1e6);
    struct pith_table *t = pith_report_add_table(to, PITH_DETAIL_ANY);
    pith_table_column(t, "ranks", "ranks", PITH_CELL_NUMBER);
    pith_table_column(t, "time", "time", PITH_CELL_NUMBER);
    pith_table_column(t, "speedup", "speed-up", PITH_CELL_NUMBER);
    pith_table_column(t, "received", "received a block", PITH_CELL_NUMBER);
    pith_table_column(t, "limit", "limit", PITH_CELL_TEXT);
    for (unsigned i = 0; i < r->rows; i++) add_cells(t, r, &r->row[i]);
}

static void set_row(struct pith_report *to, const struct pith_ranks_report *r,
                    const struct pith_ranks_row *row)
{
    const struct pith_ranks_forecast *b = &row->blocks;
    pith_report_open(to, "");
    pith_report_set(to, "ranks", pith_whole(b->ranks));
    pith_report_set(to, "seconds_expected", pith_real(seconds_of(row), 1));
    pith_report_set(to, "speedup", pith_real(speedup_of(r, row), 2));
    pith_report_set(to, "seconds_per_block",
                    pith_real(a_block(r, pith_ranks_forecast_seconds(b)), 1));
    pith_report_set(to, "limit", pith_words(pith_ranks_limit(b)));
    pith_report_set(to, "bytes_received", pith_whole((int64_t)(b->received + row->other.received)));
    pith_report_set(to, "bytes_received_per_block", pith_whole((int64_t)a_block(r, b->received)));
    pith_report_set(to, "divided", pith_real(a_block(r, b->divided), 1));
    pith_report_set(to, "repeated", pith_real(a_block(r, b->repeated), 1));
    pith_report_set(to, "link", pith_real(a_block(r, b->link), 1));
    pith_report_close(to);
}

void pith_ranks_report_set(struct pith_report *to, const struct pith_ranks_report *r)
{
    pith_report_open(to, "ranks");
    pith_report_open(to, "link");
    pith_report_set(to, "bits_per_second", pith_real(r->cable.bits, 0));
    pith_report_set(to, "delay_seconds", pith_real(r->cable.delay, 6));
    pith_report_close(to);
    pith_report_set(to, "why", pith_words(r->why));
    pith_report_list(to, "rows");
    for (unsigned i = 0; i < r->rows; i++) set_row(to, r, &r->row[i]);
    pith_report_close(to);
    pith_report_close(to);
}
