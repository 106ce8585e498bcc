#include "eval/profile.h"

#include <math.h>

static const double FIRST = -8; /* decades */

double pith_profile_from(size_t bin)
{
    return pow(10, FIRST + (double)bin / PITH_PROFILE_PER_DECADE);
}

static size_t bin_of(double kld)
{
    if (!(kld > 0)) return 0;
    const double at = floor((log10(kld) - FIRST) * PITH_PROFILE_PER_DECADE);
    return at <= 0 ? 0 : at >= PITH_PROFILE_BINS - 1 ? PITH_PROFILE_BINS - 1 : (size_t)at;
}

void pith_profile_see(void *profile, const struct pith_position *p)
{
    struct pith_profile *f = profile;
    f->bin[bin_of(p->kld)]++;
    size_t at = f->count;
    if (at == PITH_PROFILE_WORST && p->kld <= f->worst[at - 1].kld) return;
    if (at < PITH_PROFILE_WORST) f->count++;
    else at--;
    for (; at > 0 && f->worst[at - 1].kld < p->kld; at--) f->worst[at] = f->worst[at - 1];
    f->worst[at] = *p;
}
