#include "quantize/ranks/makers.h"

#include "quantize/ranks/route.h"
#include "quantize/ranks/writers.h"
#include "quantize/run.h"

unsigned pith_makers(const struct pith_run *r)
{
    return pith_ranks_count(r->ranks);
}

unsigned pith_maker_of(const struct pith_run *r, size_t i)
{
    return (unsigned)(i % pith_ranks_count(r->ranks));
}

static bool is_rounded(const void *ctx, uint32_t linear)
{
    const struct pith_choice *c = ctx;
    return pith_choice_changes(&c[linear]);
}

void pith_makers_of_layer(const struct pith_run *r, uint32_t layer, unsigned *maker)
{
    if (r->ranks)
        pith_spread_owners(pith_job_plan(r->job, layer), is_rounded,
                           pith_job_choice(r->job, layer, 0), pith_ranks_count(r->ranks), maker);
}

bool pith_maker_is_here(const struct pith_run *r, unsigned maker)
{
    return maker == pith_ranks_own(r->ranks);
}

enum pith_status pith_maker_share(const struct pith_run *r, unsigned maker, void *data,
                                  size_t bytes, struct pith_error *err)
{
    return pith_ranks_share(r->ranks, maker, data, bytes, err);
}

enum pith_status pith_maker_report(const struct pith_run *r, unsigned maker, void *data,
                                   size_t bytes, struct pith_error *err)
{
    return pith_route_bytes(&(struct pith_route){r->ranks, maker, 0}, data, bytes, err);
}

enum pith_status pith_maker_hand_in(const struct pith_run *r, unsigned maker, bool input,
                                    struct pith_qmat *q, struct pith_error *err)
{
    const struct pith_route route = {r->ranks, maker, 0};
    if (pith_writers_share(r)) return PITH_OK;
    PITH_TRY(pith_route_qmat(&route, q, err));
    return input ? pith_route_input(&route, &q->input, err) : PITH_OK;
}

enum pith_status pith_maker_result(const struct pith_run *r, unsigned maker,
                                   const struct pith_choice *c, struct pith_linear_result *made,
                                   struct pith_error *err)
{
    PITH_TRY(pith_maker_report(r, maker, made, sizeof *made, err));
    return pith_writers_share(r) && !pith_maker_is_here(r, maker)
               ? pith_store_elsewhere(r, c, made, err)
               : PITH_OK;
}
