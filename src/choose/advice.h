/* choose/advice.h: recipes that are tried, and what came of them. */
#ifndef PITH_CHOOSE_ADVICE_H
#define PITH_CHOOSE_ADVICE_H

#include <pith/advise.h>

#include "plan/search.h"

/* A row of the plan. */
struct pith_advice_try {
    const struct pith_plan_row *row; /* the plan's */
    size_t maker; /* the first row of the same recipe, which owns the checkpoint */
    char *path;   /* of it, in the maker; owned */
    bool failed;  /* the model refuses the recipe; it is ruled out */
    bool measured;
    double kld, least, most; /* nats a token, and the ends of its interval: means over the texts */
    double tokens;
};

/* A row of the plan that is not advised, and why. */
struct pith_advice_out {
    const struct pith_plan_row *row;
    char *why; /* owned */
};

/* What was tried for which model, where. The caller that tries owns what it points to. */
struct pith_advice {
    const struct pith_advise_options *options;
    char engine[32], hardware[96];
    bool halves; /* the text that ships is calibrated on and measured on, a half each */
    struct pith_plan_search plan;
    struct pith_advice_try *tried; /* [count] */
    size_t count;
    struct pith_advice_out *out; /* [outs]; reported before those that the plan ruled out */
    size_t outs;
};

/* Tokens that recipes are calibrated on and measured on, where they are 0: for a model of which a
 * token is multiplied with `active` numbers, so many that the products are bounded. A rule of the
 * model alone, so that the answer is the same on every machine. */
void pith_advice_sample(double active, size_t *calibrated, size_t *measured);

/* Ranks what was measured, at least one row, in place; what pith_advise() reports of it,
 * for pith_report_free(); NULL when memory is out. */
struct pith_report *pith_advice_report(struct pith_advice *a);

#endif
