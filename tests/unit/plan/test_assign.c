/* The best assignment against all assignments there are. */
#include "base/rng.h"
#include "plan/assign.h"
#include "test.h"

#include <math.h>

enum { PARTS = 6, OPTIONS = 4 };

struct problem {
    struct pith_assign_option option[PARTS][OPTIONS];
    struct pith_assign_part part[PARTS];
    struct pith_assign a;
    double best; /* by trying; infinite when nothing fits */
    size_t chosen[PARTS];
    struct pith_assigned got;
};

/* The least loss within the budget; infinite when nothing fits. */
static double by_trying(const struct problem *p)
{
    size_t at[PARTS] = {0};
    double best = INFINITY;
    for (;;) {
        uint64_t cost = 0;
        double loss = 0;
        for (size_t i = 0; i < PARTS; i++) {
            cost += p->option[i][at[i]].cost;
            loss += p->option[i][at[i]].loss;
        }
        if (cost <= p->a.budget && loss < best) best = loss;
        size_t i = 0;
        while (i < PARTS && ++at[i] == p->part[i].options) at[i++] = 0;
        if (i == PARTS) return best;
    }
}

static void make(struct problem *p, struct pith_rng *rng, uint64_t unit)
{
    uint64_t least = 0, most = 0;
    for (size_t i = 0; i < PARTS; i++) {
        uint64_t low = UINT64_MAX, high = 0;
        for (size_t k = 0; k < OPTIONS; k++) {
            const uint64_t cost = 1000 + unit * pith_rng_below(rng, 50);
            p->option[i][k] = (struct pith_assign_option){
                cost, 10.0 / (double)cost + 0.001 * (double)pith_rng_below(rng, 20)};
            if (cost < low) low = cost;
            if (cost > high) high = cost;
        }
        p->part[i] = (struct pith_assign_part){p->option[i], 1 + pith_rng_below(rng, OPTIONS)};
        least += low;
        most += high;
    }
    p->a = (struct pith_assign){p->part, PARTS, least + (most - least) / 2 + 7, 0};
    p->best = by_trying(p);
}

/* Whether anything fits; refused where nothing does. */
static bool solve(struct problem *p)
{
    struct pith_error err = {0};
    const enum pith_status s = pith_assign(&p->a, p->chosen, &p->got, &err);
    if (isinf(p->best)) assert_int_equal(s, PITH_LIMIT);
    else assert_ok(s, err);
    return !isinf(p->best);
}

static void loses_least(void **state)
{
    (void)state;
    struct pith_rng rng;
    size_t fitted = 0;
    pith_rng_seed(&rng, 7);
    for (int round = 0; round < 200; round++) {
        struct problem p;
        double loss = 0;
        make(&p, &rng, round % 2 ? 1 : 96);
        fitted += solve(&p);
        if (isinf(p.best)) continue;
        assert_true(p.got.exact && p.got.cost <= p.a.budget);
        assert_true(fabs(p.got.loss - p.best) <= 1e-12);
        for (size_t i = 0; i < PARTS; i++) loss += p.option[i][p.chosen[i]].loss;
        assert_true(loss == p.got.loss && p.got.bound == p.got.loss);
    }
    assert_in_range(fitted, 150, 200);
}

/* With few steps the choice still fits, is within what was promised, and the bound holds. */
static void a_small_table_stays_within_its_bound(void **state)
{
    (void)state;
    struct pith_rng rng;
    size_t coarse = 0;
    pith_rng_seed(&rng, 8);
    for (int round = 0; round < 200; round++) {
        struct problem p;
        make(&p, &rng, 1);
        p.a.cells = PARTS * 24;
        if (!solve(&p)) continue;
        assert_true(p.got.cost <= p.a.budget && p.got.loss >= p.best - 1e-12);
        assert_true(p.got.bound <= p.best + 1e-12);
        if (p.got.exact) continue;
        coarse++;
        struct problem less = p;
        for (size_t i = 0; i < PARTS; i++) less.part[i].option = less.option[i];
        less.a.part = less.part;
        less.a.budget -= PARTS * (6 * 50 / 23 + 1); /* parts times the widest step */
        const double smaller = by_trying(&less);
        assert_true(isinf(smaller) || p.got.loss <= smaller + 1e-12);
    }
    assert_in_range(coarse, 20, 200);
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    struct pith_error err = {0};
    struct pith_assigned got;
    size_t chosen[2];
    const struct pith_assign_option one[2] = {{10, 1}, {20, 0}};
    const struct pith_assign_part none = {one, 0}, two[2] = {{one, 2}, {one, 2}};
    struct pith_assign a = {&none, 1, 100, 0};
    assert_int_equal(pith_assign(&a, chosen, &got, &err), PITH_ARG);
    a = (struct pith_assign){two, 2, 19, 0};
    assert_int_equal(pith_assign(&a, chosen, &got, &err), PITH_LIMIT);
    a.budget = 30;
    assert_ok(pith_assign(&a, chosen, &got, &err), err);
    assert_true(got.cost == 30 && got.loss == 1);
    a.budget = UINT64_MAX;
    assert_ok(pith_assign(&a, chosen, &got, &err), err);
    assert_true(got.cost == 40 && got.loss == 0);
    a = (struct pith_assign){0};
    assert_ok(pith_assign(&a, chosen, &got, &err), err);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loses_least),
        cmocka_unit_test(a_small_table_stays_within_its_bound),
        cmocka_unit_test(what_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
