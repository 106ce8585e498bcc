#include "report/html.h"

#include <string.h>

/* Colours are variables, so that a dark screen gets its own; figures take them by class. On a
 * narrow screen a table becomes a list of cards, each cell with its column's name. */
static const char style[] =
    ":root{color-scheme:light dark;--ink:#1c2430;--soft:#5b6675;--line:#dfe3e8;--page:#fff}\n"
    ":root{--panel:#f6f7f9;--mark:#2563b0;--muted:#9aa3af;--hot:#c2410c;--front:#1a7f4b}\n"
    "@media(prefers-color-scheme:dark){:root{--ink:#e6e9ee;--soft:#a0a9b6;--line:#343b46}\n"
    ":root{--page:#14181e;--panel:#1d232b;--mark:#6ea8ea;--muted:#77808d;--hot:#fb923c}\n"
    ":root{--front:#5ec58e}}\n"
    "*{box-sizing:border-box}\n"
    "body{margin:0 auto;max-width:80rem;padding:2rem 1.25rem 4rem}\n"
    "body{background:var(--page);color:var(--ink);overflow-wrap:anywhere}\n"
    "body{font:15px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,sans-serif}\n"
    "h1{font-size:1.6rem;line-height:1.25;margin:0 0 1rem}\n"
    "h2{font-size:1.25rem;margin:2.5rem 0 .75rem}\n"
    "h3{font-size:1rem;margin:1.75rem 0 .5rem}\n"
    "p{max-width:48rem;margin:.5rem 0}\n"
    "code,.text{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}\n"
    "dl{display:grid;grid-template-columns:minmax(7rem,auto) 1fr;gap:.2rem 1rem;margin:.5rem 0}\n"
    "dt{color:var(--soft)}\n"
    "dd{margin:0;min-width:0}\n"
    ".wide{overflow-x:auto}\n"
    "table{border-collapse:collapse;font-size:.875rem;min-width:100%}\n"
    "th,td{padding:.4rem;border-bottom:1px solid var(--line);text-align:left}\n"
    "th{color:var(--soft);font-weight:600;border-bottom:2px solid var(--line)}\n"
    "th{overflow-wrap:normal;vertical-align:bottom}\n"
    "td{vertical-align:top}\n"
    "td.t{overflow-wrap:break-word}\n"
    "th.n,td.n{text-align:right;font-variant-numeric:tabular-nums}\n"
    "td.n{white-space:nowrap}\n"
    "td small{display:block;color:var(--soft);font-size:.75rem}\n"
    "th[data-s]{cursor:pointer}\n"
    "th[data-s]:hover,th[data-s]:focus{color:var(--ink)}\n"
    "th[aria-sort=ascending]::after{content:' \\2191'}\n"
    "th[aria-sort=descending]::after{content:' \\2193'}\n"
    "tbody tr:hover{background:var(--panel)}\n"
    ".figures{display:grid;gap:1rem;grid-template-columns:repeat(auto-fit,minmax(min(100%,28rem)"
    ",1fr))}\n"
    ".small{grid-template-columns:repeat(auto-fill,minmax(min(100%,22rem),1fr))}\n"
    "figure{margin:0;padding:1rem;background:var(--panel);border-radius:8px;min-width:0}\n"
    "figcaption{font-weight:600;margin-bottom:.5rem}\n"
    "svg{display:block;width:100%;max-width:46rem;margin:0 auto;height:auto}\n"
    "svg text{fill:var(--ink);font-size:12px}\n"
    "svg .tick,svg .name{fill:var(--soft)}\n"
    "svg .grid{stroke:var(--line)}\n"
    "svg .axis{stroke:var(--soft)}\n"
    "svg .whisker{stroke:var(--ink);stroke-width:1.3}\n"
    "svg .mark{fill:var(--mark)}\n"
    "svg .muted{fill:var(--muted)}\n"
    "svg .front{stroke:var(--front);stroke-width:1.5;stroke-dasharray:5 4;fill:none}\n"
    "svg circle{stroke:var(--panel);stroke-width:1.5}\n"
    ".heat{overflow-x:auto}\n"
    ".heat table{border-collapse:separate;border-spacing:2px;min-width:0;width:100%}\n"
    ".heat th,.heat td{border:0;padding:.15rem;font-weight:400;font-size:.75rem}\n"
    ".heat thead th{text-align:center}\n"
    ".heat tbody th{white-space:nowrap;width:1%;padding-right:.5rem}\n"
    ".heat td{height:1.4rem;min-width:.8rem;border-radius:2px;text-align:center}\n"
    ".heat td{background:color-mix(in srgb,var(--hot) var(--v),var(--page))}\n"
    ".text{font-size:.8rem;white-space:pre-wrap}\n"
    "mark{background:color-mix(in srgb,var(--hot) 45%,transparent);color:inherit}\n"
    "mark{border-radius:2px;padding:0 .1em}\n"
    "@media(max-width:64rem){.figures:not(.small) svg text{font-size:15px}\n"
    "body{padding:1.25rem .75rem 3rem}\n"
    ".cards thead{display:none}.cards,.cards tbody,.cards tr,.cards td{display:block}\n"
    ".cards tr{border-bottom:2px solid var(--line);padding:.5rem 0}\n"
    ".cards td,.cards td.n{border:0;padding:.1rem 0;text-align:left;white-space:normal}\n"
    ".cards td.t{overflow-wrap:anywhere}\n"
    ".cards td::before{content:attr(data-c) ': ';color:var(--soft)}\n"
    ".cards td:empty{display:none}\n"
    ".cards td small{display:inline}.cards td small::before{content:' '}}\n";

/* A click on a column's name, or Enter, sorts by it: numbers by value, what is none last. */
static const char script[] =
    "<script>\n"
    "document.querySelectorAll('th[data-s]').forEach(h=>{const go=()=>{\n"
    "const r=h.parentNode,i=[...r.children].indexOf(h),b=h.closest('table').tBodies[0];\n"
    "const up=h.getAttribute('aria-sort')!=='ascending';\n"
    "[...r.children].forEach(x=>x.removeAttribute('aria-sort'));\n"
    "h.setAttribute('aria-sort',up?'ascending':'descending');\n"
    "const key=t=>{const s=t.children[i].textContent;const n=parseFloat(s);\n"
    "return h.dataset.s==='n'?(isNaN(n)?Infinity*(up?1:-1):n):s};\n"
    "[...b.rows].sort((x,y)=>{const p=key(x),q=key(y);\n"
    "return (up?1:-1)*(p<q?-1:p>q?1:0)}).forEach(t=>b.append(t))};\n"
    "h.tabIndex=0;h.onclick=go;h.onkeydown=e=>{if(e.key==='Enter')go()}})\n"
    "</script>\n";

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

void pith_html_subheading(struct pith_str *out, const char *text)
{
    put_element(out, "h3", text);
}

void pith_html_paragraph(struct pith_str *out, const char *text)
{
    put_element(out, "p", text);
}

void pith_html_facts(struct pith_str *out, const struct pith_html_fact *facts, size_t count)
{
    pith_str_puts(out, "<dl>\n");
    for (size_t i = 0; i < count; i++) {
        if (!facts[i].text || !*facts[i].text) continue;
        put_element(out, "dt", facts[i].name);
        pith_str_puts(out, facts[i].code ? "<dd class=\"text\">" : "<dd>");
        pith_html_escape(out, facts[i].text);
        pith_str_puts(out, "</dd>\n");
    }
    pith_str_puts(out, "</dl>\n");
}

/* A number's interval, "0.5 (0.4 to 0.6)", stands below it. */
static void put_number(struct pith_str *out, const char *text)
{
    const char *at = strstr(text, " (");
    const size_t n = strlen(text);
    if (!at || text[n - 1] != ')') {
        pith_html_escape(out, text);
        return;
    }
    struct pith_str part = {0};
    pith_str_append(&part, text, (size_t)(at - text));
    pith_html_escape(out, pith_str_text(&part));
    pith_str_clear(&part);
    pith_str_append(&part, at + 2, n - (size_t)(at - text) - 3);
    pith_str_puts(out, "<small>");
    pith_html_escape(out, pith_str_text(&part));
    pith_str_puts(out, "</small>");
    if (part.failed) out->failed = true;
    pith_str_free(&part);
}

/* A name that has no room on its line is broken behind its parts, not within a word. */
static void put_words(struct pith_str *out, const char *text)
{
    struct pith_str part = {0};
    for (const char *p = text; *p; p++) {
        pith_str_putc(&part, *p);
        const bool ends = strchr(":/", *p) || (*p == '.' && !(p[1] >= '0' && p[1] <= '9'));
        if (!ends || !p[1] || p[1] == ' ') continue;
        pith_html_escape(out, pith_str_text(&part));
        pith_str_puts(out, "<wbr>");
        pith_str_clear(&part);
    }
    pith_html_escape(out, pith_str_text(&part));
    if (part.failed) out->failed = true;
    pith_str_free(&part);
}

static void put_cell(struct pith_str *out, const struct pith_table *t, size_t r, size_t c)
{
    const bool number = t->column[c].kind == PITH_CELL_NUMBER;
    pith_str_printf(out, "<td class=\"%s\" data-c=\"", number ? "n" : "t");
    pith_html_escape(out, pith_table_title(t, c));
    pith_str_puts(out, "\">");
    if (number) put_number(out, pith_table_cell(t, r, c));
    else put_words(out, pith_table_cell(t, r, c));
    pith_str_puts(out, "</td>");
}

void pith_html_table(struct pith_str *out, const struct pith_table *t)
{
    if (t->failed) {
        out->failed = true;
        return;
    }
    pith_str_puts(out, "<div class=\"wide\"><table class=\"cards\">\n<thead><tr>");
    for (size_t c = 0; c < t->columns; c++) {
        const bool number = t->column[c].kind == PITH_CELL_NUMBER;
        pith_str_printf(out, "<th class=\"%s\" data-s=\"%s\">", number ? "n" : "t",
                        number ? "n" : "t");
        pith_html_escape(out, pith_table_title(t, c));
        pith_str_puts(out, "</th>");
    }
    pith_str_puts(out, "</tr></thead>\n<tbody>\n");
    for (size_t r = 0; r < t->rows; r++) {
        pith_str_puts(out, "<tr>");
        for (size_t c = 0; c < t->columns; c++) put_cell(out, t, r, c);
        pith_str_puts(out, "</tr>\n");
    }
    pith_str_puts(out, "</tbody>\n</table></div>\n");
}

void pith_html_figures(struct pith_str *out, bool begin, bool small)
{
    if (begin) pith_str_printf(out, "<div class=\"figures%s\">\n", small ? " small" : "");
    else pith_str_puts(out, "</div>\n");
}

void pith_html_chart(struct pith_str *out, const struct pith_chart *c)
{
    pith_str_puts(out, "<figure>\n");
    put_element(out, "figcaption", c->title);
    if (pith_chart_drawable(c)) pith_chart_svg(c, out);
    else put_element(out, "p", "No value that can be drawn.");
    pith_str_puts(out, "</figure>\n");
}

void pith_html_passage(struct pith_str *out, const struct pith_html_passage *p)
{
    pith_str_puts(out, "<tr><td class=\"n\" data-c=\"KL\">");
    pith_str_printf(out, "%.3f</td><td class=\"n\" data-c=\"loss\">%+.3f</td>", p->kld, p->delta);
    pith_str_puts(out, "<td class=\"text\" data-c=\"text\">");
    pith_html_escape_lines(out, p->before);
    pith_str_puts(out, "<mark>");
    pith_html_escape_lines(out, p->token);
    pith_str_puts(out, "</mark>");
    pith_html_escape_lines(out, p->after);
    pith_str_puts(out, "</td><td class=\"text\" data-c=\"baseline prefers\">");
    pith_html_escape_lines(out, p->base_top);
    pith_str_puts(out, "</td><td class=\"text\" data-c=\"model prefers\">");
    pith_html_escape_lines(out, p->top);
    pith_str_puts(out, "</td></tr>\n");
}

void pith_html_passages(struct pith_str *out, bool begin)
{
    if (begin)
        pith_str_puts(out, "<div class=\"wide\"><table class=\"cards\">\n<thead><tr>"
                           "<th class=\"n\" data-s=\"n\">KL</th><th class=\"n\" data-s=\"n\">loss"
                           "</th><th>text</th><th>baseline prefers</th><th>model prefers</th>"
                           "</tr></thead>\n<tbody>\n");
    else pith_str_puts(out, "</tbody>\n</table></div>\n");
}

void pith_html_end(struct pith_str *out)
{
    pith_str_puts(out, script);
    pith_str_puts(out, "</body>\n</html>\n");
}

void pith_table_write_html(const struct pith_table *t, struct pith_str *out)
{
    pith_html_begin(out, "pith");
    pith_html_table(out, t);
    pith_html_end(out);
}
