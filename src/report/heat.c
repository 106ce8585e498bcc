/* A heat map: a table whose cells are coloured by their values. */
#include "report/heat.h"

#include "report/html.h"

#include <math.h>

static void find_range(const struct pith_heat *h, double *lo, double *hi)
{
    *lo = INFINITY;
    *hi = -INFINITY;
    for (size_t i = 0; i < h->rows * h->columns; i++) {
        const double v = h->values[i];
        if (!isfinite(v) || v <= 0) continue;
        *lo = fmin(*lo, v);
        *hi = fmax(*hi, v);
    }
    if (h->least > 0) *lo = h->least;
    if (h->most > 0) *hi = h->most;
}

/* The share of the hot colour, in percent: values are placed by their logarithm. */
static double heat_of(double v, double lo, double hi)
{
    if (!(v > 0)) return 0;
    return hi > lo * 1.0001 ? 4 + 96 * log(v / lo) / log(hi / lo) : 50;
}

static void put_header(const struct pith_heat *h, struct pith_str *out)
{
    pith_str_puts(out, "<thead><tr><th></th>");
    /* Not every column's number has room. */
    const size_t step = h->columns <= 16 ? 1 : (h->columns + 15) / 16;
    for (size_t c = 0; c < h->columns; c++) {
        if (c % step == 0) pith_str_printf(out, "<th>%zu</th>", c);
        else pith_str_puts(out, "<th></th>");
    }
    pith_str_puts(out, "</tr></thead>\n<tbody>\n");
}

void pith_html_heat(struct pith_str *out, const struct pith_heat *h)
{
    double lo, hi;
    find_range(h, &lo, &hi);
    pith_str_puts(out, "<figure>\n<figcaption>");
    pith_html_escape(out, h->title);
    pith_str_puts(out, "</figcaption>\n<div class=\"heat\"><table>\n");
    put_header(h, out);
    for (size_t r = 0; r < h->rows; r++) {
        pith_str_puts(out, "<tr><th>");
        pith_html_escape(out, h->names[r]);
        pith_str_puts(out, "</th>");
        for (size_t c = 0; c < h->columns; c++) {
            const double v = h->values[r * h->columns + c];
            if (!isfinite(v)) {
                pith_str_puts(out, "<td style=\"--v:0%\" title=\"none\"></td>");
                continue;
            }
            pith_str_printf(out, "<td style=\"--v:%.0f%%\" title=\"", heat_of(v, lo, hi));
            pith_html_escape(out, h->names[r]);
            pith_str_printf(out, ", layer %zu: %.3g\"></td>", c, v);
        }
        pith_str_puts(out, "</tr>\n");
    }
    pith_str_puts(out, "</tbody></table></div>\n");
    if (hi >= lo)
        pith_str_printf(out,
                        "<p><small>From %.2g (pale) to %.2g (strong), by logarithm; columns "
                        "are layers.</small></p>\n",
                        lo, hi);
    pith_str_puts(out, "</figure>\n");
}
