#include "report/html.h"

/* Colours are variables, so that a dark screen gets its own; figures take them by class. */
static const char style[] =
    ":root{--ink:#1c2430;--soft:#5b6675;--line:#dfe3e8;--page:#fff;--panel:#f6f7f9}\n"
    ":root{--mark:#2563b0;--muted:#9aa3af}\n"
    "@media(prefers-color-scheme:dark){:root{--ink:#e6e9ee;--soft:#a0a9b6;--line:#343b46}\n"
    ":root{--page:#14181e;--panel:#1d232b;--mark:#6ea8ea;--muted:#77808d}}\n"
    "body{margin:0 auto;max-width:60rem;padding:2rem 1.25rem 4rem}\n"
    "body{background:var(--page);color:var(--ink)}\n"
    "body{font:15px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,sans-serif}\n"
    "h1{font-size:1.6rem;line-height:1.25;margin:0 0 1rem}\n"
    "h2{font-size:1.15rem;margin:2.25rem 0 .75rem}\n"
    "p{max-width:44rem}\n"
    ".wide{overflow-x:auto}\n"
    "table{border-collapse:collapse;font-size:.9rem;min-width:100%}\n"
    "th,td{padding:.4rem .75rem;border-bottom:1px solid var(--line)}\n"
    "th,td{text-align:left;white-space:nowrap}\n"
    "th{color:var(--soft);font-weight:600;border-bottom:2px solid var(--line)}\n"
    "th.n,td.n{text-align:right;font-variant-numeric:tabular-nums}\n"
    "tbody tr:hover{background:var(--panel)}\n"
    "figure{margin:1.25rem 0;padding:1rem;background:var(--panel);border-radius:8px}\n"
    "figcaption{font-weight:600;margin-bottom:.5rem}\n"
    "svg{display:block;width:100%;max-width:52rem;height:auto}\n"
    "svg text{fill:var(--ink);font-size:12px}\n"
    "svg .tick,svg .name{fill:var(--soft)}\n"
    "svg .grid{stroke:var(--line)}\n"
    "svg .axis{stroke:var(--soft)}\n"
    "svg .whisker{stroke:var(--ink);stroke-width:1.3}\n"
    "svg .mark{fill:var(--mark)}\n"
    "svg .muted{fill:var(--muted)}\n"
    "svg circle{stroke:var(--panel);stroke-width:1.5}\n";

void pith_html_begin(struct pith_str *out, const char *title)
{
    pith_str_puts(out, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                       "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
                       "<title>");
    pith_html_escape(out, title);
    pith_str_puts(out, "</title>\n<style>\n");
    pith_str_puts(out, style);
    pith_str_puts(out, "</style>\n</head>\n<body>\n<h1>");
    pith_html_escape(out, title);
    pith_str_puts(out, "</h1>\n");
}

static void put_element(struct pith_str *out, const char *name, const char *text)
{
    pith_str_printf(out, "<%s>", name);
    pith_html_escape(out, text);
    pith_str_printf(out, "</%s>\n", name);
}

void pith_html_heading(struct pith_str *out, const char *text)
{
    put_element(out, "h2", text);
}

void pith_html_paragraph(struct pith_str *out, const char *text)
{
    put_element(out, "p", text);
}

static void put_cell(struct pith_str *out, const char *tag, enum pith_cell kind, const char *text)
{
    pith_str_printf(out, "<%s%s>", tag, kind == PITH_CELL_NUMBER ? " class=\"n\"" : "");
    pith_html_escape(out, text);
    pith_str_printf(out, "</%s>", tag);
}

void pith_html_table(struct pith_str *out, const struct pith_table *t)
{
    if (t->failed) {
        out->failed = true;
        return;
    }
    pith_str_puts(out, "<div class=\"wide\"><table>\n<thead><tr>");
    for (size_t c = 0; c < t->columns; c++)
        put_cell(out, "th", t->column[c].kind, pith_table_title(t, c));
    pith_str_puts(out, "</tr></thead>\n<tbody>\n");
    for (size_t r = 0; r < t->rows; r++) {
        pith_str_puts(out, "<tr>");
        for (size_t c = 0; c < t->columns; c++)
            put_cell(out, "td", t->column[c].kind, pith_table_cell(t, r, c));
        pith_str_puts(out, "</tr>\n");
    }
    pith_str_puts(out, "</tbody>\n</table></div>\n");
}

void pith_html_chart(struct pith_str *out, const struct pith_chart *c)
{
    pith_str_puts(out, "<figure>\n");
    put_element(out, "figcaption", c->title);
    if (pith_chart_drawable(c)) pith_chart_svg(c, out);
    else put_element(out, "p", "No value that can be drawn.");
    pith_str_puts(out, "</figure>\n");
}

void pith_html_end(struct pith_str *out)
{
    pith_str_puts(out, "</body>\n</html>\n");
}

void pith_table_write_html(const struct pith_table *t, struct pith_str *out)
{
    pith_html_begin(out, "pith");
    pith_html_table(out, t);
    pith_html_end(out);
}
