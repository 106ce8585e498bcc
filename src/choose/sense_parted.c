/* Which windows a rounder sees, and which judge what it makes. */
#include "choose/sense_pass.h"
#include "quant/stats.h"

static bool is_parted(const struct pith_sense_pass *p)
{
    return (p->needs & ~(unsigned)PITH_NEED_RANGE) && p->all > 1;
}

bool pith_sense_judges(const struct pith_sense_pass *p, size_t number)
{
    return !is_parted(p) || number % 2 == 1;
}

double pith_sense_judged(const struct pith_sense_pass *p)
{
    return (double)(is_parted(p) ? p->all / 2 : p->all) * (double)p->length;
}

struct pith_acts pith_sense_fitted(const struct pith_sense_pass *p, struct pith_acts a)
{
    const size_t odd = p->first % 2;
    if (!is_parted(p)) return a;
    a.x += odd * a.stride;
    a.stride *= 2;
    a.windows = (a.windows + 1 - odd) / 2;
    a.first = (a.first + odd) / 2;
    a.all = (a.all + 1) / 2;
    return a;
}
