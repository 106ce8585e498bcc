/* What would fit where nothing does: fewer users, a shorter context, or more devices. */
#include "plan/search.h"

#include <string.h>

static void add(struct pith_plan_search *p, const struct pith_plan_case *k,
                const struct pith_plan_place *at,
                const size_t demand[3]) /* users, context, devices */
{
    json_t *j = json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:I}", "recipe", k->c->name, "weights",
                          k->c->weights, "kv", k->kv_name, "engine", k->need->name, "users",
                          (json_int_t)demand[0], "context", (json_int_t)demand[1], "count",
                          (json_int_t)demand[2]);
    if (at->h) pith_json_set(&j, "hardware", json_string(at->h->name));
    pith_json_add(&p->would_fit, j);
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

void pith_plan_would_fit_add(struct pith_plan_search *p, const struct pith_plan_case *k,
                             const struct pith_plan_place *at, const struct pith_plan_row *row)
{
    const struct pith_demand *d = &k->demand;
    const struct pith_room *r = &row->r;
    if (at->memory <= 0 || d->prompt + d->gen > d->context) return;
    if (r->fits && r->most_users >= p->options->min_users) return; /* refused for its speed */
    const size_t more = devices_for(p, k, at);
    if (r->most_users) add(p, k, at, (const size_t[]){r->most_users, d->context, k->devices});
    if (r->most_context) add(p, k, at, (const size_t[]){d->users, r->most_context, k->devices});
    if (more) add(p, k, at, (const size_t[]){d->users, d->context, more});
}

static double value(const json_t *j, const char *key)
{
    return json_number_value(json_object_get(j, key));
}

/* Whether a is as requested by the other key, and better than b in `key`. */
static bool beats(const json_t *a, const json_t *b, const char *key, bool least)
{
    if (!b) return true;
    return least ? value(a, key) < value(b, key) : value(a, key) > value(b, key);
}

void pith_plan_would_fit_settle(struct pith_plan_search *p)
{
    const double users = (double)p->user_count[0], context = (double)p->context[0];
    json_t *best[3] = {NULL}, *j, *list = json_array();
    size_t i;
    json_array_foreach (p->would_fit, i, j) {
        const bool whole = value(j, "users") >= users && value(j, "context") >= context;
        if (!whole && value(j, "context") >= context && beats(j, best[0], "users", false))
            best[0] = j;
        if (!whole && value(j, "users") >= users && beats(j, best[1], "context", false))
            best[1] = j;
        if (whole && beats(j, best[2], "count", true)) best[2] = j;
    }
    for (int k = 0; k < 3; k++)
        if (best[k]) pith_json_add(&list, json_incref(best[k]));
    json_decref(p->would_fit);
    p->would_fit = list;
}
