/* report/chart.h: three simple figures as SVG, to stand inside an HTML page (whose style
 * colours them). */
#ifndef PITH_REPORT_CHART_H
#define PITH_REPORT_CHART_H

#include "base/str.h"

enum pith_chart_kind {
    PITH_CHART_BARS,     /* one bar a point: its label, its y */
    PITH_CHART_SCATTER,  /* x against y, labels next to the points */
    PITH_CHART_HISTOGRAM /* a column from each point's x to its hi, y high */
};

struct pith_chart_point {
    const char *label; /* not NULL */
    double x, y;
    double lo, hi; /* an interval of y; lo == hi, or NaN: none */
    bool muted;    /* drawn in grey: a baseline to compare with */
};

/* Borrowed by the calls below. Points with a coordinate that is not finite, or not positive
 * on a logarithmic axis, are omitted. */
struct pith_chart {
    enum pith_chart_kind kind;
    const char *title, *x_title, *y_title; /* bars: y_title names the values, x_title is unused */
    bool x_log, y_log;                     /* scatter; x_log: histogram too */
    bool front;                            /* scatter: a line along the points that no other beats
                                            * in both x and y, the smaller the better */
    const struct pith_chart_point *points;
    size_t count;
};

/* Points that will be drawn. */
size_t pith_chart_drawable(const struct pith_chart *c);
/* Appends an <svg> element; nothing when no point is drawable. */
void pith_chart_svg(const struct pith_chart *c, struct pith_str *out);

/* Appends cleaned text with the characters that HTML and SVG interpret escaped. */
void pith_html_escape(struct pith_str *out, const char *text);
/* The same, but ends of lines are shown (as an arrow) and tabs stay blanks. */
void pith_html_escape_lines(struct pith_str *out, const char *text);

#endif
