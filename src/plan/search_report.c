/* The report of a plan: what was planned for, the rows, what was ruled out. */
#include "plan/page.h"
#include "plan/search.h"

#include "base/mem.h"

#include <math.h>

/* --- a row ------------------------------------------------------------------------------------ */

static void set_parts(struct pith_report *r, const struct pith_weighed *w)
{
    pith_report_open(r, "weight_parts");
    for (int i = 0; i < PITH_PLAN_CLASSES; i++)
        pith_report_set(r, pith_plan_class_name((enum pith_plan_class)i),
                        pith_rounded(w->class[i]));
    pith_report_close(r);
}

static void set_parallel(struct pith_report *r, struct pith_spread_over over)
{
    pith_report_open(r, "parallel");
    pith_report_set(r, "tensor", pith_whole(over.tensor));
    pith_report_set(r, "pipeline", pith_whole(over.pipeline));
    pith_report_close(r);
}

static void set_expected(struct pith_report *r, const struct pith_plan_row *row)
{
    const struct pith_plan_candidate *c = row->k.c;
    const struct pith_plan_loss loss = pith_plan_loss_of(row);
    pith_report_set(r, "kld", pith_real(loss.kld, 0));
    pith_report_set(r, "source", pith_words(loss.source));
    pith_report_set(r, "likened", pith_real(loss.likened, 0));
    pith_report_set(r, "likened_to", pith_words(isnan(loss.likened) ? NULL : c->likened_to));
    if (*c->published) pith_report_set(r, "published", pith_words(c->published));
}

static void set_measured(struct pith_report *r, const struct pith_plan_row *row,
                         const struct pith_plan_measured *m)
{
    pith_report_set(r, "kld", pith_real(m->kld, 0));
    pith_report_interval(r, "kld_ci95", m->least, m->most);
    pith_report_set(r, "harm", pith_words(m->harm));
    pith_report_set(r, "expected", pith_real(pith_plan_loss_of(row).kld, 0));
    pith_report_set(r, "source", pith_words("measured here"));
}

/* Where it differs from the recipe's own, what it is packed in; whether that is a file. */
static void set_container(struct pith_report *r, const struct pith_plan_case *k)
{
    const struct pith_container *own = pith_plan_own_container(k->c),
                                *other = pith_plan_other_container(k);
    if (!k->c->quantizes && !k->c->stored) return;
    if (other) pith_report_set(r, "container", pith_words(other->name));
    pith_report_set(r, "file", pith_yes(own && own->file));
}

static void set_commands(struct pith_report *r, const struct pith_plan_search *p,
                         const struct pith_plan_row *row)
{
    pith_report_open(r, "commands");
    for (int i = 0; i < PITH_PLAN_COMMANDS; i++) {
        struct pith_str s = {0};
        const char *key = pith_plan_command(p, row, (enum pith_plan_command)i, &s);
        if (key) pith_report_set(r, key, pith_words(pith_str_text(&s)));
        r->failed |= s.failed;
        pith_str_free(&s);
    }
    pith_report_close(r);
}

/* [[context, users], ...]: each context twice the one before, up to the model's. */
static void set_users(struct pith_report *r, const struct pith_plan_row *row)
{
    const size_t most = row->d.model->model->shape.max_position;
    pith_report_list(r, "users_by_context");
    for (size_t n = most < 1024 ? most : 1024; n <= most; n *= 2) {
        pith_report_list(r, "");
        pith_report_set(r, "", pith_count(n));
        pith_report_set(r, "", pith_count(pith_room_users(&row->d, &row->r, n)));
        pith_report_close(r);
    }
    pith_report_close(r);
}

static void set_room(struct pith_report *r, const struct pith_plan_row *row)
{
    static const struct pith_value unknown = {.kind = PITH_VALUE_NULL};
    const bool known = row->d.memory > 0;
    const struct pith_room *room = &row->r;
    pith_report_set(r, "hardware", pith_words(row->h ? row->h->name : NULL));
    pith_report_set(r, "fits", known ? pith_yes(room->fits) : unknown);
    pith_report_set(r, "max_context", known ? pith_count(room->most_context) : unknown);
    pith_report_set(r, "max_users", known ? pith_count(room->most_users) : unknown);
    if (known) set_users(r, row);
}

static void set_speed(struct pith_report *r, const struct pith_forecast *f)
{
    pith_report_set(r, "unit", pith_words(pith_hardware_unit(f->unit)));
    pith_report_set(r, "first_token_seconds", pith_real(f->first, 3));
    pith_report_set(r, "token_seconds", pith_real(f->step, 3));
    pith_report_set(r, "tokens_per_second_user", pith_real(1 / f->step, 1));
    pith_report_set(r, "tokens_per_second", pith_real(f->rate, 1));
    pith_report_set(r, "served_tokens_per_second", pith_real(f->served, 1));
    pith_report_set(r, "bound", pith_words(pith_bound_name(f->bound)));
    pith_report_set(r, "arithmetic_from_users",
                    pith_real(f->crossover > 0 ? f->crossover : (double)NAN, 1));
    pith_report_set(r, "bytes_per_step", pith_real(f->read, 0));
    pith_report_set(r, "operations_per_step", pith_real(f->multiplied, 0));
    pith_report_set(r, "cost_per_million_tokens", pith_real(f->cost, 3));
    pith_report_set(r, "joules_per_token", pith_real(f->joules, 3));
}

struct pool {
    const struct pith_hardware *h;
    unsigned count, groups;
    struct pith_spread_over over;
};

static void set_pool(struct pith_report *r, const char *key, const struct pool *pool)
{
    pith_report_open(r, key);
    pith_report_set(r, "hardware", pith_words(pool->h->name));
    pith_report_set(r, "count", pith_whole(pool->count));
    set_parallel(r, pool->over);
    pith_report_set(r, "groups", pith_whole(pool->groups));
    pith_report_close(r);
}

static void set_pools(struct pith_report *r, const struct pith_plan_row *row)
{
    const struct pith_pools *n = &row->pools;
    const struct pith_spread_over over = row->d.over;
    if (!row->pooled) return;
    pith_report_open(r, "pools");
    set_pool(r, "prefill", &(struct pool){row->reads.h, row->reading, n->read, row->read_over});
    set_pool(r, "decode", &(struct pool){row->h, over.tensor * over.pipeline, n->answer, over});
    pith_report_set(r, "ratio", pith_real(n->ratio, 2));
    pith_report_set(r, "busy", pith_real(n->busy, 2));
    pith_report_set(r, "link", pith_real(n->link, 0));
    pith_report_set(r, "sent_bytes", pith_rounded(n->sent));
    pith_report_set(r, "send_seconds", pith_real(n->send, 3));
    pith_report_close(r);
}

static void set_offload(struct pith_report *r, const struct pith_plan_search *p,
                        const struct pith_plan_row *row)
{
    const struct pith_offload *o = &row->offload;
    if (!row->offloads) return;
    pith_report_open(r, "offload");
    pith_report_set(r, "host_bytes", pith_whole((int64_t)p->options->offload));
    pith_report_set(r, "users_at_work", pith_count(o->at_work));
    pith_report_set(r, "users_in_host", pith_count(o->waiting));
    pith_report_set(r, "fetched_bytes", pith_rounded(o->bytes));
    pith_report_set(r, "fetch_seconds", pith_real(o->fetch, 3));
    pith_report_set(r, "read_seconds", pith_real(row->reread, 3));
    pith_report_close(r);
}

/* Where groups fell back, the sizes that there are. */
static void set_groups(struct pith_report *r, const struct pith_plan_case *k)
{
    if (!pith_plan_fell_back(k)) return;
    pith_report_list(r, "groups");
    for (size_t i = 0; i < k->groups; i++) pith_report_set(r, "", pith_whole(k->group[i]));
    pith_report_close(r);
}

static void set_bytes(struct pith_report *r, const struct pith_plan_row *row)
{
    const struct pith_room *room = &row->r;
    pith_report_set(r, "bits_per_weight", pith_real(pith_plan_bits(row), 2));
    pith_report_set(r, "weight_bytes", pith_rounded(room->weights.all));
    set_parts(r, &room->weights);
    pith_report_set(r, "kv_bytes_per_token", pith_real(room->cache.position, 0));
    pith_report_set(r, "kv_bytes", pith_rounded(room->cache_all));
    pith_report_set(r, "overhead_bytes", pith_rounded(room->overhead_all));
    pith_report_set(r, "total_bytes", pith_rounded(room->total));
    pith_report_set(r, "device_bytes", pith_rounded(room->device));
}

void pith_plan_row_set(struct pith_report *r, const struct pith_plan_search *p,
                       const struct pith_plan_row *row, const struct pith_plan_measured *m)
{
    const struct pith_plan_case *k = &row->k;
    char weights[PITH_PLAN_TEXT];
    pith_plan_weights_name(row, weights);
    pith_report_set(r, "recipe", pith_words(k->c->name));
    pith_report_set(r, "weights", pith_words(weights));
    pith_report_set(r, "acts", pith_words(k->c->acts));
    pith_report_set(r, "kv", pith_words(k->kv_name));
    pith_report_set(r, "engine", pith_words(k->need->name));
    pith_report_set(r, "count", pith_whole(k->devices));
    set_parallel(r, row->d.over);
    pith_report_set(r, "context", pith_count(k->demand.context));
    pith_report_set(r, "users", pith_count(k->demand.users));
    set_bytes(r, row);
    pith_report_open(r, "quality");
    if (m) set_measured(r, row, m);
    else set_expected(r, row);
    pith_report_close(r);
    set_container(r, k);
    set_groups(r, k);
    set_commands(r, p, row);
    set_room(r, row);
    if (row->h) set_speed(r, &row->f);
    set_pools(r, row);
    set_offload(r, p, row);
    if (row->round) pith_report_set(r, "round", pith_words(row->round));
}

/* --- the whole -------------------------------------------------------------------------------- */

static void set_stored(struct pith_report *r, const struct pith_plan_search *p)
{
    static const char *const can[] = {"the KV cache (`kv`)", "the container (pith convert)",
                                      "the weights (pith quantize)"};
    if (!p->stored) return;
    pith_report_open(r, "stored");
    pith_report_set(r, "container", pith_words(p->model.model->container->name));
    pith_report_set(r, "grids", pith_words(p->stored->text));
    pith_report_set(r, "bits_per_weight", pith_real(p->stored->bits, 2));
    pith_report_set(r, "bytes", pith_whole((int64_t)p->model.stored));
    pith_report_list(r, "can_change");
    for (size_t i = 0; i < PITH_COUNT(can); i++) pith_report_set(r, "", pith_words(can[i]));
    pith_report_close(r);
    pith_report_close(r);
}

static void set_parameters(struct pith_report *r, const struct pith_census *n)
{
    pith_report_open(r, "parameters");
    for (int i = 0; i < PITH_PLAN_CLASSES; i++)
        pith_report_set(r, pith_plan_class_name((enum pith_plan_class)i),
                        pith_whole((int64_t)n->class[i]));
    pith_report_set(r, "all", pith_whole((int64_t)n->all));
    pith_report_set(r, "active", pith_rounded(n->active));
    pith_report_close(r);
}

static void set_near(struct pith_report *r, const struct pith_plan_near *n)
{
    pith_report_open(r, "");
    pith_report_set(r, "recipe", pith_words(n->c->name));
    pith_report_set(r, "weights", pith_words(n->c->weights));
    pith_report_set(r, "kv", pith_words(n->kv));
    pith_report_set(r, "engine", pith_words(n->engine));
    pith_report_set(r, "users", pith_count(n->users));
    pith_report_set(r, "context", pith_count(n->context));
    pith_report_set(r, "count", pith_count(n->devices));
    if (n->h) pith_report_set(r, "hardware", pith_words(n->h->name));
    pith_report_close(r);
}

static void set_would_fit(struct pith_report *r, const struct pith_plan_search *p)
{
    bool any = false;
    for (int i = 0; i < PITH_PLAN_NEAR; i++) any |= p->near[i].c != NULL;
    if (p->rows || !any) return;
    pith_report_list(r, "would_fit");
    for (int i = 0; i < PITH_PLAN_NEAR; i++)
        if (p->near[i].c) set_near(r, &p->near[i]);
    pith_report_close(r);
}

static void set_rows(struct pith_report *r, const struct pith_plan_search *p)
{
    pith_report_list(r, "rows");
    for (size_t i = 0; i < p->rows; i++) {
        struct pith_str s = {0};
        pith_plan_reason(p, i, &s);
        pith_report_open(r, "");
        pith_plan_row_set(r, p, p->row[i], NULL);
        pith_report_set(r, "reason", pith_words(pith_str_text(&s)));
        pith_report_close(r);
        r->failed |= s.failed;
        pith_str_free(&s);
    }
    pith_report_close(r);
}

void pith_plan_ruled_out_set(struct pith_report *r, const struct pith_plan_search *p)
{
    for (size_t i = 0; i < p->outs; i++) {
        const struct pith_plan_ruled_out *o = &p->out[i];
        pith_report_open(r, "");
        pith_report_set(r, "recipe", pith_words(o->c->name));
        pith_report_set(r, "weights", pith_words(o->c->weights));
        pith_report_set(r, "acts", pith_words(o->c->acts));
        pith_report_set(r, "reason", pith_words(o->why));
        if (o->engine) pith_report_set(r, "engine", pith_words(o->engine));
        if (*o->kv) pith_report_set(r, "kv", pith_words(o->kv));
        if (o->h) pith_report_set(r, "hardware", pith_words(o->h->name));
        pith_report_close(r);
    }
}

struct pith_report *pith_plan_report(const struct pith_plan_search *p)
{
    struct pith_report *r = p->failed ? NULL : pith_report_new();
    if (!r) return NULL;
    pith_plan_say(r, p);
    pith_report_set(r, "model", pith_words(p->name));
    if (*p->model.shape_name) pith_report_set(r, "shape", pith_words(p->model.shape_name));
    pith_report_set(r, "architecture", pith_words(p->model.model->arch->name));
    pith_report_set(r, "context", pith_count(p->model.model->shape.max_position));
    set_parameters(r, &p->census);
    if (p->model.stored) pith_report_set(r, "stored_bytes", pith_whole((int64_t)p->model.stored));
    set_stored(r, p);
    set_would_fit(r, p);
    set_rows(r, p);
    pith_report_list(r, "ruled_out");
    pith_plan_ruled_out_set(r, p);
    pith_report_close(r);
    pith_report_paged(r, pith_page_plan);
    return r;
}
