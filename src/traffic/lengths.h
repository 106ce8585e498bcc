/* traffic/lengths.h: distributions of lengths in tokens and of gaps between arrivals, each a row
 * of a table in lengths.c. */
#ifndef PITH_TRAFFIC_LENGTHS_H
#define PITH_TRAFFIC_LENGTHS_H

#include "base/rng.h"
#include "base/status.h"

#include <stddef.h>

enum { PITH_LENGTHS_NUMBERS = 8 };

struct pith_lengths;
typedef double pith_draw_fn(const struct pith_lengths *lengths, struct pith_rng *rng);

struct pith_lengths_kind {
    const char *name;
    size_t least, most; /* numbers behind the name */
    const char *numbers, *summary;
    pith_draw_fn *draw;
};

/* A distribution of whole numbers, cut off below `least` and above `most`. */
struct pith_lengths {
    const struct pith_lengths_kind *kind;
    double number[PITH_LENGTHS_NUMBERS];
    size_t numbers;
    double least, most;
};

/* "256", "uniform:64:512", "lognormal:256:0.7,min=16,max=2048". PITH_ARG, with `option` in front:
 * an unknown name (the nearest is named), too few or many numbers, some that are out of range. */
enum pith_status pith_lengths_parse(const char *text, const char *option, struct pith_lengths *out,
                                    struct pith_error *err);
/* The next length, at least 1. */
size_t pith_lengths_draw(const struct pith_lengths *lengths, struct pith_rng *rng);

/* A gap in units of the mean gap. */
typedef double pith_gap_fn(struct pith_rng *rng);
struct pith_arrivals {
    const char *name, *summary;
    pith_gap_fn *gap;
};
/* The row of that name; NULL when there is none. */
const struct pith_arrivals *pith_arrivals_find(const char *name);

#endif
