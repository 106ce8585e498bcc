/* report/axis.h: a range of numbers and the round numbers to mark in it. */
#ifndef PITH_REPORT_AXIS_H
#define PITH_REPORT_AXIS_H

#include <stdbool.h>
#include <stddef.h>

enum { PITH_AXIS_TICKS = 16 };

struct pith_axis {
    double lo, hi; /* lo < hi; positive when log */
    bool log;
    double tick[PITH_AXIS_TICKS];
    size_t ticks; /* at least 2 */
};

/* Widens lo..hi (finite; positive for log) to a comfortable range and chooses about `wanted`
 * ticks: steps of 1, 2 or 5 times a power of ten; on a log axis decades, with 2 and 5 between
 * them when they are few, and even steps within one. */
void pith_axis_choose(struct pith_axis *a, double lo, double hi, bool log, size_t wanted);

/* Where v lies: 0 at lo, 1 at hi. */
double pith_axis_place(const struct pith_axis *a, double v);

/* A short text of a tick's value, thousands as k, M, G and T. */
void pith_axis_label(const struct pith_axis *a, double v, char *text, size_t size);

#endif
