/* A Markdown table (GitHub's form); what Markdown or HTML would interpret in a cell is escaped. */
#include "report/table.h"

#include <string.h>

static void put(struct pith_str *out, const char *text)
{
    pith_str_putc(out, ' ');
    for (; *text; text++) {
        if (*text == '<') {
            pith_str_puts(out, "&lt;");
            continue;
        }
        if (strchr("|\\`*[", *text)) pith_str_putc(out, '\\');
        pith_str_putc(out, *text);
    }
    pith_str_puts(out, " |");
}

void pith_table_write_markdown(const struct pith_table *t, struct pith_str *out)
{
    if (t->failed) {
        out->failed = true;
        return;
    }
    pith_str_putc(out, '|');
    for (size_t c = 0; c < t->columns; c++) put(out, pith_table_title(t, c));
    pith_str_puts(out, "\n|");
    for (size_t c = 0; c < t->columns; c++)
        pith_str_puts(out, t->column[c].kind == PITH_CELL_NUMBER ? " ---: |" : " --- |");
    pith_str_putc(out, '\n');
    for (size_t r = 0; r < t->rows; r++) {
        pith_str_putc(out, '|');
        for (size_t c = 0; c < t->columns; c++) put(out, pith_table_cell(t, r, c));
        pith_str_putc(out, '\n');
    }
}
