/* report/html.h: a page by itself: no scripts, nothing fetched, light and dark. Appends to a
 * string; what fails is remembered there. */
#ifndef PITH_REPORT_HTML_H
#define PITH_REPORT_HTML_H

#include "report/chart.h"
#include "report/table.h"

void pith_html_begin(struct pith_str *out, const char *title);
void pith_html_heading(struct pith_str *out, const char *text);
void pith_html_paragraph(struct pith_str *out, const char *text);
void pith_html_table(struct pith_str *out, const struct pith_table *t);
/* The chart with its title as caption; a line of text when it has no point that can be drawn. */
void pith_html_chart(struct pith_str *out, const struct pith_chart *c);
void pith_html_end(struct pith_str *out);

#endif
