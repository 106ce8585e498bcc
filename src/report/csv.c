/* Comma-separated values as RFC 4180 has them, but with lines ending in one newline as
 * scripts expect. */
#include "report/table.h"

#include <string.h>

static void put(struct pith_str *out, const char *text, bool first)
{
    if (!first) pith_str_putc(out, ',');
    if (!strpbrk(text, ",\"\n\r") && text[0] != ' ') {
        pith_str_puts(out, text);
        return;
    }
    pith_str_putc(out, '"');
    for (; *text; text++) {
        if (*text == '"') pith_str_putc(out, '"');
        pith_str_putc(out, *text);
    }
    pith_str_putc(out, '"');
}

void pith_table_write_csv(const struct pith_table *t, struct pith_str *out)
{
    if (t->failed) {
        out->failed = true;
        return;
    }
    for (size_t c = 0; c < t->columns; c++) put(out, pith_table_key(t, c), c == 0);
    pith_str_putc(out, '\n');
    for (size_t r = 0; r < t->rows; r++) {
        for (size_t c = 0; c < t->columns; c++) put(out, pith_table_cell(t, r, c), c == 0);
        pith_str_putc(out, '\n');
    }
}
