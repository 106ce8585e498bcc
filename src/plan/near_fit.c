/* What would fit where nothing does: fewer users, a shorter context, or more devices. */
#include "plan/search.h"

#include <stdio.h>

static bool is_better(const struct pith_plan_near *a, const struct pith_plan_near *b, int which)
{
    if (which == PITH_NEAR_USERS) return a->users > b->users;
    if (which == PITH_NEAR_CONTEXT) return a->context > b->context;
    return a->devices < b->devices;
}

/* Notes it unless a better one is known: of fewer users, of a shorter context, or of all of the
 * demand on more devices. */
static void add(struct pith_plan_search *p, const struct pith_plan_row *row, size_t users,
                size_t context, size_t devices)
{
    const struct pith_plan_case *k = &row->k;
    const bool all = users >= p->user_count[0], whole = context >= p->context[0];
    const int which = whole ? all ? PITH_NEAR_DEVICES : PITH_NEAR_USERS : PITH_NEAR_CONTEXT;
    struct pith_plan_near n = {.c = k->c,
                               .engine = k->need->name,
                               .h = row->h,
                               .users = users,
                               .context = context,
                               .devices = devices};
    if ((!all && !whole) || (p->near[which].c && !is_better(&n, &p->near[which], which))) return;
    (void)snprintf(n.kv, sizeof n.kv, "%s", k->kv_name);
    p->near[which] = n;
}

/* The devices of that kind on which it fits, 0: none. */
static size_t devices_for(const struct pith_plan_search *p, const struct pith_plan_case *k,
                          const struct pith_plan_place *at)
{
    struct pith_plan_case other = *k;
    struct pith_plan_place any = *at;
    struct pith_room r;
    any.devices = 0;
    if (!at->h || !at->devices) return 0;
    (void)pith_plan_deploy(p, &other, &any, &r);
    return r.fits ? other.devices : 0;
}

void pith_plan_near_add(struct pith_plan_search *p, const struct pith_plan_place *at,
                        const struct pith_plan_row *row)
{
    const struct pith_demand *d = &row->k.demand;
    const struct pith_room *r = &row->r;
    if (at->memory <= 0 || d->prompt + d->gen > d->context) return;
    if (r->fits && r->most_users >= p->options->min_users) return; /* refused for its speed */
    const size_t more = devices_for(p, &row->k, at);
    if (r->most_users) add(p, row, r->most_users, d->context, row->k.devices);
    if (r->most_context) add(p, row, d->users, r->most_context, row->k.devices);
    if (more) add(p, row, d->users, d->context, more);
}
