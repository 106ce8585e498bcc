/* eval/harm.h: whether a model was harmed, by two witnesses that must agree: the divergence from
 * its baseline and the difference of their losses. */
#ifndef PITH_EVAL_HARM_H
#define PITH_EVAL_HARM_H

#include "eval/eval.h"

/* The level that a divergence of so many nats a token supports by itself; and what it is called:
 * "none that matters", "slight". */
enum pith_harm pith_harm_level(double kld);
const char *pith_harm_of(double kld);

/* Stretches of text, each taken as one observation: a window, or a piece of one where windows are
 * few. Sums over a stretch's scored positions. */
struct pith_stretches {
    size_t count;
    double *tokens; /* positions scored */
    double *weight; /* in the mean loss */
    double *kld;    /* sum, nats */
    double *delta;  /* sum of the model's losses minus the baseline's, nats */
    double *same;   /* positions where both put the same token first */
};
/* In how many pieces a window is cut that has `scored` positions, when the text has `windows`: 1
 * when windows are many. */
size_t pith_stretches_of(size_t windows, size_t scored);
/* Room for so many, all 0. On failure *s owns nothing. */
enum pith_status pith_stretches_init(struct pith_stretches *s, size_t count,
                                     struct pith_error *err);
void pith_stretches_free(struct pith_stretches *s);
/* Adds a scored position to stretch i. */
void pith_stretches_add(struct pith_stretches *s, size_t i, const struct pith_position *p);

/* The 95% interval of the share of positions where both put the same token first; NaN when the
 * stretches are too few. PITH_NOMEM only. */
enum pith_status pith_stretches_same(const struct pith_stretches *s, struct pith_interval *ci,
                                     struct pith_error *err);

/* The 95% interval of a quantile, 0 < part < 1, of values that lie in the order in which positions
 * were added, stretch by stretch, and sorted. NaN and failures as above. */
enum pith_status pith_stretches_quantile(const struct pith_stretches *s, const float *values,
                                         const float *sorted, double part, struct pith_interval *ci,
                                         struct pith_error *err);

/* Judges them against a baseline whose mean loss on the text is given; s->delta and s->kld become
 * means. PITH_NOMEM only. */
enum pith_status pith_harm_judge(struct pith_stretches *s, double baseline_nll,
                                 struct pith_harm_result *out, struct pith_error *err);

#endif
