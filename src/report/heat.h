/* report/heat.h: values of layers and linears as colours. */
#ifndef PITH_REPORT_HEAT_H
#define PITH_REPORT_HEAT_H

#include "base/str.h"

struct pith_heat {
    const char *title;
    const char *const *names; /* [rows] */
    const double *values;     /* [rows][columns]; NaN: there is none */
    size_t rows, columns;
    double least, most; /* what the palest and the strongest colour stand for; 0: the values' own */
};

/* Appends a figure for a page (report/html.h): the larger a value, the stronger its colour, by its
 * logarithm. Each cell shows its value when it is pointed at. */
void pith_html_heat(struct pith_str *out, const struct pith_heat *h);

#endif
