#include "quantize/ranks/experts.h"

#include "base/mem.h"
#include "quantize/ranks/division.h"
#include "quantize/ranks/route.h"
#include "quantize/work.h"

enum pith_status pith_experts_begin(struct pith_work *w, struct pith_error *err)
{
    if (!w->run->ranks || !pith_plan_experts(w->plan)) return PITH_OK;
    w->waiting = pith_zalloc(w->plan->linears, sizeof *w->waiting);
    return w->waiting ? PITH_OK : pith_fail_nomem(err, "a block");
}

static unsigned owner_of(const struct pith_work *w, uint32_t expert)
{
    return pith_relay_owner_of(pith_ranks_count(w->run->ranks), expert);
}

bool pith_expert_is_here(const struct pith_work *w, uint32_t expert)
{
    return expert == PITH_NO_PART || owner_of(w, expert) == pith_ranks_own(w->run->ranks);
}

bool pith_expert_waits(const struct pith_work *w, uint32_t expert)
{
    return w->run->ranks && expert != PITH_NO_PART;
}

enum pith_status pith_expert_share(const struct pith_work *w, uint32_t expert, void *data,
                                   size_t bytes, struct pith_error *err)
{
    const struct pith_route route = {w->run->ranks, owner_of(w, expert), PITH_TO_ALL};
    return pith_route_bytes(&route, data, bytes, err);
}

void pith_expert_divide_search(const struct pith_work *w, uint32_t expert,
                               struct pith_transform_job *job)
{
    job->ranks = pith_expert_waits(w, expert) ? NULL : w->run->ranks;
}

enum pith_status pith_expert_keep(struct pith_work *w, uint32_t linear, struct pith_rounded *m,
                                  struct pith_error *err)
{
    struct pith_run *r = w->run;
    if (m->q.codes) pith_work_install(w, linear, &m->q);
    w->waiting[linear] = m->made;
    m->q = (struct pith_qmat){0};
    /* The other ranks do as many meanwhile. */
    return pith_run_step(r, r->job->recipe.round->name, pith_ranks_count(r->ranks), err);
}

/* Before a matrix becomes what its owner made of it: what is to be there of it elsewhere. */
static enum pith_status make_way(struct pith_work *w, const struct pith_choice *c,
                                 struct pith_error *err)
{
    if (w->twin.linear || (c->prune && !c->grid.format))
        PITH_TRY(pith_work_fetch(w, c->linear, err));
    return pith_work_keep_twin(w, c, err);
}

/* A matrix that stays in 16 bits, with the zeros that its owner has found. */
static enum pith_status share_pruned(struct pith_work *w, const struct pith_choice *c,
                                     uint32_t expert, struct pith_error *err)
{
    struct pith_linear_result *made = &w->changes[c->linear].pruned;
    const size_t bytes = (size_t)c->rows * c->cols * sizeof(float);
    PITH_TRY(pith_expert_share(w, expert, made, sizeof *made, err));
    return pith_expert_share(w, expert, w->block.linear[c->linear].dense, bytes, err);
}

static enum pith_status meet_one(struct pith_work *w, uint32_t linear, struct pith_error *err)
{
    const struct pith_choice *c = pith_job_choice(w->run->job, w->layer, linear);
    const uint32_t expert = w->plan->linear[linear].expert;
    struct pith_linear_weights *l = &w->block.linear[linear];
    struct pith_rounded m = {.q = l->q, .made = w->waiting[linear]};
    if (!pith_choice_changes(c)) return PITH_OK;
    if (!pith_expert_is_here(w, expert)) PITH_TRY(make_way(w, c, err));
    if (!c->grid.format) return share_pruned(w, c, expert, err);
    l->q = (struct pith_qmat){0};
    l->w.quant = NULL;
    const enum pith_status s = pith_rounded_share(w->run, c, owner_of(w, expert), &m, err);
    if (s == PITH_OK) return pith_work_keep(w, c, &m.q, &m.made, err);
    pith_qmat_free(&m.q);
    return s;
}

enum pith_status pith_experts_meet(struct pith_work *w, struct pith_error *err)
{
    if (!w->waiting) return PITH_OK;
    for (uint32_t i = 0; i < w->plan->sites; i++) {
        const struct pith_site_spec *site = &w->plan->site[i];
        if (site->expert == PITH_NO_PART) continue;
        for (uint32_t k = site->first; k < site->first + site->count; k++)
            PITH_TRY(meet_one(w, k, err));
    }
    return PITH_OK;
}
