#include "plan/assign.h"

#include "base/integer.h"
#include "base/mem.h"

#include <math.h>
#include <string.h>

enum { CELLS = 1 << 25 };

/* The table: best[j] is the least loss of the parts so far with at most j steps of the budget
 * beyond the cheapest options; pick[i][j] what part i then has. */
struct table {
    const struct pith_assign *a;
    uint64_t least; /* cost of all cheapest options */
    uint64_t step;
    size_t steps; /* [0, steps] */
    double *best, *next;
    uint16_t *pick; /* [parts][steps + 1] */
};

static uint64_t cheapest(const struct pith_assign_part *p)
{
    uint64_t least = p->option[0].cost;
    for (size_t i = 1; i < p->options; i++)
        if (p->option[i].cost < least) least = p->option[i].cost;
    return least;
}

static enum pith_status measure(struct table *t, bool *exact, struct pith_error *err)
{
    const struct pith_assign *a = t->a;
    uint64_t unit = 0, most = 0;
    for (size_t i = 0; i < a->parts; i++) {
        const struct pith_assign_part *p = &a->part[i];
        if (p->options == 0 || p->options > UINT16_MAX)
            return pith_fail(err, PITH_ARG, "a part with %zu options", p->options);
        const uint64_t least = cheapest(p);
        uint64_t dearest = 0;
        t->least += least;
        for (size_t k = 0; k < p->options; k++) {
            const uint64_t more = p->option[k].cost - least;
            unit = pith_common_divisor(unit, more);
            if (more > dearest) dearest = more;
        }
        most += dearest;
    }
    if (t->least > a->budget)
        return pith_fail(err, PITH_LIMIT, "the cheapest options cost %llu, the budget is %llu",
                         (unsigned long long)t->least, (unsigned long long)a->budget);
    const uint64_t left = a->budget - t->least, range = left < most ? left : most;
    const uint64_t allowed = (a->cells ? a->cells : CELLS) / (a->parts ? a->parts : 1);
    t->step = unit ? unit : 1;
    *exact = range / t->step < allowed;
    if (!*exact) t->step = range / (allowed > 1 ? allowed - 1 : 1) + 1;
    t->steps = (size_t)(range / t->step);
    return PITH_OK;
}

/* Steps that an option takes beyond its part's cheapest, rounded up. */
static uint64_t steps_of(const struct table *t, uint64_t more)
{
    return more / t->step + (more % t->step != 0);
}

static void add_part(struct table *t, size_t i)
{
    const struct pith_assign_part *p = &t->a->part[i];
    const uint64_t least = cheapest(p);
    uint16_t *pick = t->pick + i * (t->steps + 1);
    for (size_t j = 0; j <= t->steps; j++) t->next[j] = INFINITY;
    for (size_t k = 0; k < p->options; k++) {
        const uint64_t steps = steps_of(t, p->option[k].cost - least);
        for (uint64_t j = steps; j <= t->steps; j++) {
            const double loss = t->best[j - steps] + p->option[k].loss;
            if (loss < t->next[j]) t->next[j] = loss, pick[j] = (uint16_t)k;
        }
    }
    double *free_now = t->best;
    t->best = t->next;
    t->next = free_now;
}

static void trace(const struct table *t, size_t *chosen, struct pith_assigned *out)
{
    size_t at = t->steps;
    *out = (struct pith_assigned){0};
    for (size_t i = t->a->parts; i-- > 0;) {
        const struct pith_assign_part *p = &t->a->part[i];
        chosen[i] = t->pick[i * (t->steps + 1) + at];
        at -= (size_t)steps_of(t, p->option[chosen[i]].cost - cheapest(p));
    }
    for (size_t i = 0; i < t->a->parts; i++) {
        out->cost += t->a->part[i].option[chosen[i]].cost;
        out->loss += t->a->part[i].option[chosen[i]].loss;
    }
}

/* What is lost at least when a unit of cost has that price and the budget is given back. */
static double dual(const struct pith_assign *a, double price, double *cost)
{
    double loss = 0;
    *cost = 0;
    for (size_t i = 0; i < a->parts; i++) {
        const struct pith_assign_option *o = a->part[i].option, *best = o;
        for (size_t k = 1; k < a->part[i].options; k++)
            if (o[k].loss + price * (double)o[k].cost < best->loss + price * (double)best->cost)
                best = &o[k];
        loss += best->loss + price * (double)best->cost;
        *cost += (double)best->cost;
    }
    return loss - price * (double)a->budget;
}

/* The dual is concave in the price, and rises as long as the choice costs more than the budget. */
static double largest_dual(const struct pith_assign *a, double *price)
{
    enum { HALVINGS = 200 };
    double low = 0, high = 1e-30, cost, best = dual(a, 0, &cost);
    *price = 0;
    if (cost <= (double)a->budget) return best;
    while (dual(a, high, &cost), cost > (double)a->budget && high < 1e30) {
        low = high;
        high *= 1024;
    }
    for (int i = 0; i < HALVINGS; i++) {
        const double middle = (low + high) / 2, value = dual(a, middle, &cost);
        if (value > best) {
            best = value;
            *price = middle;
        }
        if (cost > (double)a->budget) low = middle;
        else high = middle;
    }
    return best;
}

double pith_assign_price(const struct pith_assign *a)
{
    double price;
    (void)largest_dual(a, &price);
    return price;
}

enum pith_status pith_assign(const struct pith_assign *a, size_t *chosen, struct pith_assigned *out,
                             struct pith_error *err)
{
    struct table t = {.a = a};
    bool exact = false;
    double price;
    PITH_TRY(measure(&t, &exact, err));
    double *rows = pith_alloc(2 * (t.steps + 1), sizeof *rows);
    t.pick = pith_zalloc(a->parts * (t.steps + 1), sizeof *t.pick);
    if (rows && t.pick) {
        t.best = rows;
        t.next = rows + t.steps + 1;
        for (size_t j = 0; j <= t.steps; j++) t.best[j] = 0;
        for (size_t i = 0; i < a->parts; i++) add_part(&t, i);
        trace(&t, chosen, out);
        out->exact = exact;
        out->bound = exact ? out->loss : largest_dual(a, &price);
    }
    const bool done = rows && t.pick;
    pith_free(rows);
    pith_free(t.pick);
    return done ? PITH_OK : pith_fail_nomem(err, "an assignment");
}
