/* eval/profile.h: how a divergence is spread over a text: its histogram and its worst positions. */
#ifndef PITH_EVAL_PROFILE_H
#define PITH_EVAL_PROFILE_H

#include "eval/eval.h"

/* Four bins a decade: bin i holds divergences from 10^(-8 + i/4) nats on; the first also smaller
 * ones, the last larger ones. */
enum { PITH_PROFILE_BINS = 40, PITH_PROFILE_PER_DECADE = 4, PITH_PROFILE_WORST = 16 };

struct pith_profile {
    uint64_t bin[PITH_PROFILE_BINS];
    struct pith_position worst[PITH_PROFILE_WORST]; /* the largest first */
    size_t count;
};

/* Takes a position in; to be a struct pith_position_watch's. Start from {0}; profile is one. */
void pith_profile_see(void *profile, const struct pith_position *p);

/* The divergence at which bin i begins. */
double pith_profile_from(size_t bin);

#endif
