/* report/html.h: a page by itself: nothing fetched, light and dark, on narrow screens and wide
 * ones; its only script sorts tables. Appends to a string; what fails is remembered there. All
 * text is cleaned and escaped. */
#ifndef PITH_REPORT_HTML_H
#define PITH_REPORT_HTML_H

#include "report/chart.h"
#include "report/table.h"

/* The page up to its first heading, `title`; whatever follows stands in the order of the calls, up
 * to pith_html_end(). */
void pith_html_begin(struct pith_str *out, const char *title);
void pith_html_heading(struct pith_str *out, const char *text);
void pith_html_subheading(struct pith_str *out, const char *text);
void pith_html_paragraph(struct pith_str *out, const char *text);

/* A name and what it is; without those that have no text. `code`: as it is typed. */
struct pith_html_fact {
    const char *name, *text;
    bool code;
};
void pith_html_facts(struct pith_str *out, const struct pith_html_fact *facts, size_t count);

/* Its columns can be sorted. Of a number like "0.5 (0.4 to 0.6)" the part in brackets stands below
 * in small. */
void pith_html_table(struct pith_str *out, const struct pith_table *t);

/* Between beginning and end charts stand side by side where there is room; small: more of them. */
void pith_html_figures(struct pith_str *out, bool begin, bool small);
/* The chart with its title as caption; a line of text when it has no point that can be drawn. */
void pith_html_chart(struct pith_str *out, const struct pith_chart *c);

/* A token in its text, and what two models would have written. */
struct pith_html_passage {
    double kld, delta;
    const char *before, *token, *after, *base_top, *top;
};
/* The table that passages stand in begins or ends. */
void pith_html_passages(struct pith_str *out, bool begin);
void pith_html_passage(struct pith_str *out, const struct pith_html_passage *p);

/* What closes the page, with the script. */
void pith_html_end(struct pith_str *out);

#endif
