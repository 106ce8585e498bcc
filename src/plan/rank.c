/* Which row of a plan comes first, and why. */
#include "plan/search.h"

#include "base/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A row loses half of its worth by a KL of so much, of the small model by which rows are compared:
 * what usual 4 bits lose (awq+qep: 0.12, gptq 0.19, to nearest 0.5). Models of few
 * parameters stay unquantized where they fit. */
static const double half_worth = 0.25, half_worth_small = 0.001;
static const double small_model = 3e9;

/* --- what is known of a row ------------------------------------------------------------------- */

bool pith_plan_is_plain(const struct pith_plan_row *row)
{
    const char *recipe = row->k.c->name;
    return strcmp(recipe, "none") == 0 || strcmp(recipe, "stored") == 0;
}

bool pith_plan_fell_back(const struct pith_plan_case *k)
{
    return k->groups > 1 || (k->groups == 1 && k->group[0] != k->c->recipe.weights.group);
}

void pith_plan_weights_name(const struct pith_plan_row *row, char out[PITH_PLAN_TEXT])
{
    struct pith_grid g = row->k.form.linears;
    (void)snprintf(out, PITH_PLAN_TEXT, "%s", row->k.c->weights);
    g.group = row->k.group[0];
    if (pith_plan_fell_back(&row->k)) pith_grid_format(&g, out);
}

const struct pith_container *pith_plan_own_container(const struct pith_plan_candidate *c)
{
    return c->stored ? c->lies : pith_container_find(c->recipe.container);
}

const struct pith_container *pith_plan_other_container(const struct pith_plan_case *k)
{
    return k->container != pith_plan_own_container(k->c) ? k->container : NULL;
}

double pith_plan_bits(const struct pith_plan_row *row)
{
    const struct pith_weighed *w = &row->r.weights;
    return w->quantized > 0 ? w->quantized_bits / w->quantized
                            : pith_dtype_bits(row->d.model->model->shape.dtype);
}

struct pith_plan_loss pith_plan_loss_of(const struct pith_plan_row *row)
{
    const struct pith_plan_candidate *c = row->k.c;
    const bool coded = pith_kv_coded(&row->k.kv.k); /* what such a cache loses here is not known */
    const double cache = coded ? pith_plan_cache_kld(row->k.kv_name) : 0;
    return (struct pith_plan_loss){.kld = coded ? (double)NAN : c->kld,
                                   .likened = c->likened + cache,
                                   .source = coded ? "not measured with this cache: pith advise or "
                                                     "pith eval --baseline --kv measures it"
                                                   : c->source};
}

/* --- the order -------------------------------------------------------------------------------- */

/* What SmolLM2-135M-Instruct loses by so many bits a weight or more: `w8a8`, `q4_k_m` (whose rows
 * fall back to more bits there), `gptq`, `gptq int3` and `gptq int2` (docs/techniques.md). */
static const struct {
    double bits, kld;
} by_bits[] = {{7, 0.0323}, {5, 0.0359}, {3.9, 0.191}, {2.9, 0.735}, {0, 2.24}};

/* By which rows are compared: all measured on the same model, or by their bits. */
static double guess_kld(const struct pith_plan_row *row)
{
    const double known = pith_plan_loss_of(row).likened, bits = pith_plan_bits(row);
    size_t i = 0;
    if (isfinite(known)) return known;
    while (i + 1 < PITH_COUNT(by_bits) && !(bits >= by_bits[i].bits)) i++;
    return by_bits[i].kld;
}

/* What is bought: tokens for money where many are served and prices are known, tokens a second
 * else: of as many devices as one group of them has. NaN without a time. */
double pith_plan_gain(const struct pith_plan_row *row)
{
    const struct pith_forecast *f = &row->f;
    const double count = (double)row->d.over.tensor * row->d.over.pipeline;
    const double all = count * row->pools.answer + (double)row->reading * row->pools.read;
    if (!row->h) return (double)NAN;
    if (isfinite(f->cost) && f->cost > 0) return 1 / f->cost;
    return row->pooled ? f->rate * count / all : f->rate;
}

/* The best first; of equals the fewer bytes. */
static int order(const void *a, const void *b)
{
    const struct pith_plan_row *const *first = a, *const *second = b, *x = *first, *y = *second;
    const double u = round(x->r.total), v = round(y->r.total);
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    return (u > v) - (u < v);
}

static double score_of(const struct pith_plan_search *p, const struct pith_plan_row *row)
{
    const double half = (double)p->census.all < small_model ? half_worth_small : half_worth;
    const double worth = 1 / (1 + guess_kld(row) / half), speed = pith_plan_gain(row);
    return isfinite(speed) ? speed * worth : worth;
}

void pith_plan_rank(struct pith_plan_search *p)
{
    for (size_t i = 0; i < p->rows; i++) p->row[i]->score = score_of(p, p->row[i]);
    if (p->rows) qsort(p->row, p->rows, sizeof(struct pith_plan_row *), order);
}

/* --- why -------------------------------------------------------------------------------------- */

static void add_quality(const struct pith_plan_search *p, const struct pith_plan_row *row,
                        struct pith_str *s)
{
    const struct pith_plan_loss loss = pith_plan_loss_of(row);
    const size_t start = s->len;
    const char *recipe = row->k.c->name;
    if (strcmp(recipe, "none") == 0) pith_str_puts(s, "weights as they are");
    else if (strcmp(recipe, "stored") == 0) pith_str_puts(s, "weights as they are stored");
    if (loss.kld > 0) {
        pith_str_printf(s, "%sKL %.4f: harm %s (%s)", s->len > start ? "; " : "", loss.kld,
                        p->harm(loss.kld), loss.source);
    } else if (s->len == start) pith_str_printf(s, "loss %s", loss.source);
}

/* Groups that fell back, and what each of several devices holds. */
static void add_sizes(const struct pith_plan_row *row, struct pith_str *s)
{
    const struct pith_plan_case *k = &row->k;
    if (pith_plan_fell_back(k)) {
        pith_str_puts(s, "; groups of ");
        for (size_t i = 0; i < k->groups; i++)
            pith_str_printf(s, "%s%u", i ? " and " : "", k->group[i]);
        pith_str_puts(s, ", as rows allow");
    }
    if (k->devices > 1)
        pith_str_printf(s, "; %.2f GB on each of %u devices", row->r.device * 1e-9, k->devices);
}

static void add_room(const struct pith_plan_row *row, struct pith_str *s)
{
    if (row->d.memory > 0)
        pith_str_printf(s, "; room for %zu users of this context, or a context of %zu",
                        row->r.most_users, row->r.most_context);
}

static void add_speed(const struct pith_plan_row *row, const struct pith_plan_row *plain,
                      struct pith_str *s)
{
    if (!row->h) return;
    pith_str_printf(s, "; bound by %s", pith_bound_name(row->f.bound));
    if (plain && plain != row)
        pith_str_printf(s, ", %.2f times as fast as in 16 bits", row->f.rate / plain->f.rate);
}

/* The caches' way to the devices, and what it is in place of. */
static void add_split(const struct pith_plan_row *row, struct pith_str *s)
{
    const struct pith_pools *p = &row->pools;
    const struct pith_offload *o = &row->offload;
    if (row->pooled)
        pith_str_printf(s,
                        "; prompts are read by %u group%s of %u device%s for %u that "
                        "answer%s, busy %.0f%% of the time; %.3g GB of cache a prompt over the "
                        "link, %.3g s",
                        p->read, p->read > 1 ? "s" : "", row->reading, row->reading > 1 ? "s" : "",
                        p->answer, p->answer > 1 ? "" : "s", 100 * p->busy, p->sent * 1e-9,
                        p->send);
    if (row->offloads)
        pith_str_printf(s,
                        "; %zu users at work, %zu more in the host's memory: a cache is back in "
                        "%.3g s, where reading the prompt takes %.3g",
                        o->at_work, o->waiting, o->fetch, row->reread);
}

static bool is_same_place(const struct pith_hardware *a, const struct pith_hardware *b)
{
    return a == b || (a && b && strcmp(a->name, b->name) == 0);
}

/* The same place and demand, cache and engine; prompts are read at the same place, and the host
 * takes part alike. */
static bool is_alike(const struct pith_plan_row *a, const struct pith_plan_row *b)
{
    const struct pith_plan_case *x = &a->k, *y = &b->k;
    return strcmp(x->kv_name, y->kv_name) == 0 && x->need == y->need && is_same_place(a->h, b->h) &&
           x->devices == y->devices && x->demand.context == y->demand.context &&
           x->demand.users == y->demand.users && a->pooled == b->pooled &&
           a->offloads == b->offloads && is_same_place(a->reads.h, b->reads.h);
}

/* The row in 16 bits of the same place and demand, or NULL. */
static const struct pith_plan_row *plain_of(const struct pith_plan_search *p,
                                            const struct pith_plan_row *row)
{
    for (size_t i = 0; i < p->rows; i++)
        if (strcmp(p->row[i]->k.c->name, "none") == 0 && is_alike(p->row[i], row)) return p->row[i];
    return NULL;
}

/* Why weights are best not quantized, where they are: the row is the first, and others fit too. */
static void add_advice(const struct pith_plan_search *p, const struct pith_plan_row *row,
                       struct pith_str *s)
{
    if (row != p->row[0] || strcmp(row->k.c->name, "none") != 0) return;
    pith_str_puts(s, "do not quantize: it fits");
    if ((double)p->census.all < small_model)
        pith_str_puts(s, ", and models under 3 billion parameters lose more than larger ones");
    else if (row->h && row->f.bound == PITH_BOUND_ARITHMETIC)
        pith_str_puts(s, ", and arithmetic is the limit, which fewer bytes of weights do not move");
    pith_str_puts(s, "; ");
}

void pith_plan_reason(const struct pith_plan_search *p, size_t i, struct pith_str *out)
{
    const struct pith_plan_row *row = p->row[i];
    add_advice(p, row, out);
    add_quality(p, row, out);
    add_sizes(row, out);
    add_room(row, out);
    add_speed(row, plain_of(p, row), out);
    add_split(row, out);
}
