/* quant/grid/line.h: what the gridders share: weights some elements apart, their largest magnitude,
 * scales as they can be stored, and the search for the scale with the least squared error. Members
 * of quant/grid/ and quant/scale.c alone include this. */
#ifndef PITH_QUANT_GRID_LINE_H
#define PITH_QUANT_GRID_LINE_H

#include "quant/scale.h"

/* At most PITH_GATHER weights from `first` on, side by side: in `copy` unless they are already. */
enum { PITH_GATHER = 512 };
const float *pith_weights_gather(const struct pith_weights *x, size_t first, size_t n,
                                 float copy[PITH_GATHER]);

/* Their largest magnitude; NaN when one is not finite. k NULL: by the scalar kernel. */
float pith_weights_most(const struct pith_kern *k, const struct pith_weights *x);

/* The scale as dtype t holds it; never 0: its smallest normal number stands for less. */
float pith_storable_scale(enum pith_dtype t, float scale);

/* What pith_grid_fit() does without zero points, for the groups of a row. */
void pith_line_fit_row(const struct pith_grid_rule *rule, pith_line_scale_fn *scale_for,
                       const float *w, size_t n, size_t group, float *scales);

/* float.c: the gridder's encode() and quantize() for small floats, which block formats share. */
uint8_t pith_float_encode(const struct pith_format *f, float w, float scale, float zero);
void pith_float_quantize(const struct pith_format *f, const struct pith_grid_line *line);

/* For `count` scales (at most PITH_TRIALS) the sums of (w - q)^2, times the rule's weights, for q
 * on the levels of the small float format f, to float's precision. A sum that would exceed `enough`
 * need not be finished: it is infinite or only larger than that. */
enum { PITH_TRIALS = 16 };
void pith_float_errors(const struct pith_grid_rule *rule, const struct pith_format *f,
                       const struct pith_weights *x, size_t count, const float *scale,
                       double enough, double *error);

/* One scale's error, likewise, for a kind of grid. */
typedef double pith_line_error_fn(const struct pith_grid_rule *rule, const struct pith_weights *x,
                                  float scale, double enough);
/* Of the scales absmax * k / 64, k = 32..96, each rounded to the rule's dtype, the one with the
 * least error; of equal ones the nearest to absmax. */
float pith_scale_search(const struct pith_grid_rule *rule, pith_line_error_fn *error,
                        const struct pith_weights *x, float absmax);

#endif
