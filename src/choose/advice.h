/* choose/advice.h: recipes that are tried, and what came of them. */
#ifndef PITH_CHOOSE_ADVICE_H
#define PITH_CHOOSE_ADVICE_H

#include <pith/advise.h>

#include "base/json.h"
#include "report/report.h"

/* A row of the plan. */
struct pith_advice_try {
    json_t *row;  /* borrowed from the plan */
    size_t maker; /* the first row of the same recipe, which owns the checkpoint */
    char *path;   /* of it, in the maker; owned */
    bool failed;  /* the model refuses the recipe; it is ruled out */
    bool measured;
    double kld, least, most; /* nats a token, and the ends of its interval: means over the texts */
    double tokens;
};

/* What was tried for which model, where. The caller that tries owns what it points to. */
struct pith_advice {
    const struct pith_advise_options *options;
    char engine[32], hardware[96];
    bool halves; /* the text that ships is calibrated on and measured on, a half each */
    json_t *plan;
    struct pith_advice_try *tried; /* [count] */
    size_t count;
};

/* Whether a row has the weights as they are, in 16 bits or stored quantized. */
bool pith_advice_is_plain(const json_t *row);
/* Ranks what was measured, at least one row, in place; what pith_advise() reports of it,
 * for pith_report_free(); NULL when memory is out. */
struct pith_report *pith_advice_report(struct pith_advice *a);

#endif
