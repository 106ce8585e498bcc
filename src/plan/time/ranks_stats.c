#include "plan/time/ranks_stats.h"

#include "base/ranks/ranks.h"

void pith_crew_sums(struct pith_crew *c, size_t dim, unsigned needs, uint32_t views)
{
    pith_crew_sum(c, 0, 2 * sizeof(uint64_t), 1);
    pith_crew_sum(c, 0, sizeof(double), 1);
    if (needs & PITH_NEED_ABSMEAN) pith_crew_sum(c, 0, dim * sizeof(double), 1);
    if (needs & PITH_NEED_SQUARES) pith_crew_sum(c, 0, views * dim * sizeof(double), 1);
    for (int end = 0; needs & PITH_NEED_RANGE && end < 2; end++)
        pith_crew_sum(c, 0, dim * sizeof(float), 1);
}

void pith_crew_products(struct pith_crew *c, const struct pith_crew_products *p)
{
    const size_t dim = p->dim, narrow = pith_ranks_panel(c->ranks, dim);
    const size_t rows = p->whole ? dim : narrow, panels = (dim + rows - 1) / rows;
    const uint64_t square = (uint64_t)dim * dim * sizeof(float);
    for (uint32_t v = 0; p->needs & PITH_NEED_HESSIAN && v < p->views; v++)
        pith_crew_sum(c, p->seconds / p->views, dim * (dim + 1) / 2 * sizeof(float), panels);
    if (!(p->needs & PITH_NEED_DRIFT)) return;
    pith_crew_relay(c, 0, p->views * square, p->views * ((dim + narrow - 1) / narrow));
    for (uint32_t v = 0; v < p->views; v++) pith_crew_share(c, c->ranks - 1, square);
}

void pith_crew_parts(struct pith_crew *c, size_t items, uint64_t size)
{
    for (unsigned k = 0; k < c->ranks; k++)
        pith_crew_told(c, k,
                       (pith_ranks_cut(c->ranks, k + 1, items) -
                        pith_ranks_cut(c->ranks, k, items)) * size);
}
