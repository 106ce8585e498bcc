/* Aligned columns: two spaces between them, a rule of dashes under the titles, no trailing
 * blanks. */
#include "report/table.h"

#include "base/mem.h"

static void pad(struct pith_str *out, size_t n)
{
    while (n-- > 0) pith_str_putc(out, ' ');
}

/* `blanks` is what the cells before this one still owe: written only when something follows. */
static void put_cell(struct pith_str *out, const char *text, size_t width, bool right,
                     size_t *blanks)
{
    const size_t used = pith_text_width(text);
    const size_t rest = width > used ? width - used : 0;
    if (used == 0) {
        *blanks += width;
        return;
    }
    pad(out, *blanks + (right ? rest : 0));
    pith_str_puts(out, text);
    *blanks = right ? 0 : rest;
}

static void put_rule(struct pith_str *out, const size_t *width, size_t n)
{
    for (size_t c = 0; c < n; c++) {
        if (c) pad(out, 2);
        for (size_t i = 0; i < width[c]; i++) pith_str_putc(out, '-');
    }
    pith_str_putc(out, '\n');
}

void pith_table_write_text(const struct pith_table *t, struct pith_str *out)
{
    size_t *width = pith_zalloc(t->columns, sizeof *width);
    if (!width || t->failed) {
        out->failed = true;
        pith_free(width);
        return;
    }
    for (size_t c = 0; c < t->columns; c++) {
        width[c] = pith_text_width(pith_table_title(t, c));
        for (size_t r = 0; r < t->rows; r++) {
            const size_t w = pith_text_width(pith_table_cell(t, r, c));
            if (w > width[c]) width[c] = w;
        }
    }
    for (size_t line = 0; line <= t->rows; line++) {
        size_t blanks = 0;
        for (size_t c = 0; c < t->columns; c++) {
            const char *text = line ? pith_table_cell(t, line - 1, c) : pith_table_title(t, c);
            put_cell(out, text, width[c], t->column[c].kind == PITH_CELL_NUMBER, &blanks);
            blanks += 2;
        }
        pith_str_putc(out, '\n');
        if (line == 0) put_rule(out, width, t->columns);
    }
    pith_free(width);
}
