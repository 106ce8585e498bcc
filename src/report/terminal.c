/* The text of a report: what has a label, lines and tables. */
#include "report/report.h"

#include "base/mem.h"

#include <string.h>

enum { SHORTENED = 1024, BAR = 40 };

/* --- tables ----------------------------------------------------------------------------------- */

static size_t column_width(const struct pith_table *t, size_t c)
{
    size_t most = pith_text_columns(pith_table_title(t, c));
    for (size_t i = 0; i < t->rows; i++) {
        const size_t n = pith_text_columns(pith_table_cell(t, i, c));
        if (n > most) most = n;
    }
    return most;
}

/* Columns that each part of a table has at most: the first of it, and each of the others; 0: any.
 */
struct limits {
    size_t first, other;
};

/* So that each column fits reserve the first, which gives way first, to a third of the line. */
static struct limits limit_columns(const struct pith_table *t, size_t width)
{
    struct limits l = {0};
    size_t widest = 0;
    for (size_t c = 1; c < t->columns; c++) {
        const size_t n = column_width(t, c);
        if (n > widest) widest = n;
    }
    const size_t reserve = widest ? widest + 2 : 0, third = width / 3;
    size_t head = column_width(t, 0);
    if (head + reserve > width) {
        const size_t title = pith_text_columns(pith_table_title(t, 0));
        l.first = width > reserve + third ? width - reserve : third;
        if (head > l.first) head = l.first > title ? l.first : title;
    }
    if (t->columns > 1 && head + 2 < width) l.other = width - head - 2;
    return l;
}

/* A cell, in at most `most` columns, 0: whole. */
static void put_cell(struct pith_table *part, const char *cell, size_t most)
{
    char text[SHORTENED];
    if (most == 0 || pith_text_columns(cell) <= most) {
        pith_table_text(part, cell);
        return;
    }
    pith_text_shorten(cell, most, text, sizeof text);
    pith_table_text(part, text);
}

static void add_column(struct pith_table *part, const struct pith_table *t, size_t c)
{
    pith_table_column(part, pith_table_key(t, c), pith_table_title(t, c), t->column[c].kind);
}

/* The first column, and those from first to last, shortened. */
static void make_part(const struct pith_table *t, size_t first, size_t last, struct limits l,
                      struct pith_table *part)
{
    add_column(part, t, 0);
    for (size_t c = first; c < last; c++) add_column(part, t, c);
    for (size_t i = 0; i < t->rows; i++) {
        pith_table_row(part);
        put_cell(part, pith_table_cell(t, i, 0), l.first);
        for (size_t c = first; c < last; c++) put_cell(part, pith_table_cell(t, i, c), l.other);
    }
}

/* Where the columns end that fit next to the first, from `from` on: one at least. */
static size_t end_of_part(const struct pith_table *t, size_t from, size_t width)
{
    size_t used = column_width(t, 0), last = from;
    for (; last < t->columns; last++) {
        used += 2 + column_width(t, last);
        if (width && used > width && last > from) break;
    }
    return last;
}

/* As many columns as fit next to the first, then the others below in the same way. */
void pith_table_terminal(const struct pith_table *t, size_t width, struct pith_str *out)
{
    if (t->failed || t->columns == 0) {
        out->failed |= t->failed;
        return;
    }
    struct pith_table all = {0};
    const struct limits l = width ? limit_columns(t, width) : (struct limits){0};
    make_part(t, 1, t->columns, l, &all);
    for (size_t first = 1, last; !all.failed && (first < t->columns || first == 1); first = last) {
        struct pith_table part = {0};
        last = end_of_part(&all, first, width);
        if (first > 1) pith_str_putc(out, '\n');
        make_part(&all, first, last, (struct limits){0}, &part);
        pith_table_write_text(&part, out);
        pith_table_free(&part);
        if (t->columns <= 1) break;
    }
    out->failed |= all.failed;
    pith_table_free(&all);
}

/* --- lines ------------------------------------------------------------------------------------ */

struct text_page {
    const struct pith_report *report;
    const struct pith_report_form *form;
    struct pith_str *out;
};

void pith_value_text(const struct pith_report *r, const struct pith_report_item *n,
                     struct pith_str *out)
{
    const struct pith_value *v = &n->value;
    switch (v->kind) {
    case PITH_VALUE_WHOLE: pith_str_printf(out, "%lld", (long long)v->whole); break;
    case PITH_VALUE_REAL: pith_str_printf(out, "%.*f", v->digits, v->real); break;
    case PITH_VALUE_SHARE: pith_str_printf(out, "%.*f%%", v->digits, 100 * v->real); break;
    case PITH_VALUE_TEXT: pith_str_puts(out, pith_report_at(r, n->text)); break;
    case PITH_VALUE_YES: pith_str_puts(out, v->whole ? "yes" : "no"); break;
    default: pith_str_puts(out, "-"); break;
    }
    if (n->unit) pith_str_puts(out, pith_report_at(r, n->unit));
}

static void put_row(const struct text_page *p, const struct pith_report_item *n)
{
    if (!n->label) return;
    pith_str_printf(p->out, "  %-*s ", PITH_REPORT_INDENT - 3, pith_report_at(p->report, n->label));
    pith_value_text(p->report, n, p->out);
    pith_str_putc(p->out, '\n');
}

/* Names something in bold; returns the columns that it takes. */
static size_t put_strong(const struct text_page *p, const char *strong, size_t reserve)
{
    enum { LEAST = 16 };
    const size_t width = p->form->width;
    const size_t most = !width || !reserve ? 0 : width < reserve + LEAST ? LEAST : width - reserve;
    char text[SHORTENED];
    pith_text_shorten(strong, most, text, sizeof text);
    if (p->form->bold) pith_str_puts(p->out, "\x1b[1m");
    if (most) pith_str_puts(p->out, text);
    else pith_str_puts(p->out, strong);
    if (p->form->bold) pith_str_puts(p->out, "\x1b[0m");
    return pith_text_columns(most ? text : strong);
}

/* The words of a line from a column on. */
static void put_words(const struct text_page *p, const struct pith_line *how, const char *words,
                      size_t column)
{
    const bool items = how->wrap == PITH_WRAP_ITEMS, prose = items || how->wrap == PITH_WRAP_PROSE;
    const size_t width = p->form->width;
    struct pith_text_wrap wrap = {.column = column,
                                  .indent = how->indent,
                                  .width = prose ? p->form->prose : width,
                                  .shorten = 1,
                                  .items = items};
    if (how->wrap == PITH_WRAP_BELOW && width && column + pith_text_columns(words) > width)
        pith_str_printf(p->out, "\n%*s", (int)how->indent, "");
    if (how->wrap == PITH_WRAP_NONE || how->wrap == PITH_WRAP_BELOW) {
        pith_str_puts(p->out, words);
        pith_str_putc(p->out, '\n');
        return;
    }
    if (how->wrap == PITH_WRAP_PAIR && width && column > width / 2) {
        while (p->out->len && p->out->data[p->out->len - 1] == ' ') p->out->data[--p->out->len] = 0;
        pith_str_puts(p->out, "\n    ");
        wrap.column = wrap.indent = 4;
    }
    char *text = pith_text_wrapped(words, &wrap);
    if (text) pith_str_puts(p->out, text);
    else p->out->failed = true;
    pith_free(text);
}

static void put_line(const struct text_page *p, const struct pith_report_item *n)
{
    const char *lead = pith_report_at(p->report, n->lead),
               *strong = pith_report_at(p->report, n->strong),
               *words = pith_report_at(p->report, n->text);
    char *named = n->line.fields && p->form->field
                      ? pith_fields_show(words, p->form->field, p->form->field_ctx)
                      : NULL;
    size_t column = 0;
    if (lead) {
        pith_str_puts(p->out, lead);
        column += pith_text_columns(lead);
    }
    if (strong) column += put_strong(p, strong, n->line.reserve);
    put_words(p, &n->line, named ? named : words, column);
    pith_free(named);
}

static void put_bar(const struct text_page *p, const struct pith_report_item *n)
{
    const size_t width = p->form->width, reserve = n->line.reserve;
    const size_t longest = width > reserve && width - reserve < BAR ? width - reserve : BAR;
    const double share = n->share > 0 ? fmin(n->share, 1) : 0; /* 0 of what is no number */
    pith_str_puts(p->out, pith_report_at(p->report, n->text));
    for (size_t i = (size_t)(share * (double)longest + 0.5); i > 0; i--) pith_str_putc(p->out, '#');
    pith_str_putc(p->out, '\n');
}

/* --- the whole -------------------------------------------------------------------------------- */

static void put_item(const struct text_page *p, const struct pith_report_item *n)
{
    const enum pith_detail other = p->form->all ? PITH_DETAIL_PART : PITH_DETAIL_WHOLE;
    const bool brief = n->detail == PITH_DETAIL_BRIEF;
    if (n->detail == other || n->detail == PITH_DETAIL_TABLES || brief != (p->form->brief != 0))
        return;
    switch (n->kind) {
    case PITH_REPORT_ROW: put_row(p, n); break;
    case PITH_REPORT_LINE: put_line(p, n); break;
    case PITH_REPORT_BAR: put_bar(p, n); break;
    case PITH_REPORT_TABLE: pith_table_terminal(n->table, p->form->width, p->out); break;
    default: break;
    }
}

enum pith_status pith_report_terminal(const struct pith_report *r,
                                      const struct pith_report_form *form, struct pith_str *out,
                                      struct pith_error *err)
{
    const struct text_page p = {r, form, out};
    if (!r || r->failed) return pith_fail_nomem(err, "the report");
    for (size_t i = 0; i < r->count; i++) put_item(&p, &r->item[i]);
    return out->failed ? pith_fail_nomem(err, "the report") : PITH_OK;
}
