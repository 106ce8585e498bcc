/* Routing: which experts a token takes, with ties, groups, and logits that are no numbers. */
#include "model/nodes/nodes.h"
#include "unit/model/fixture.h"

#include <math.h>

enum { MOST = 16 };

static void route(const struct pith_moe *m, const float *logits, const float *correction,
                  uint32_t *chosen, float *share)
{
    float score[2 * MOST];
    pith_route(m, logits, correction, score, chosen, share);
}

static void expect(const struct pith_moe *m, const float *logits, const float *correction,
                   const uint32_t *chosen, const double *share)
{
    uint32_t c[MOST];
    float s[MOST];
    route(m, logits, correction, c, s);
    for (uint32_t i = 0; i < m->taken; i++) {
        if (c[i] != chosen[i]) fail_msg("place %u: expert %u, not %u", i, c[i], chosen[i]);
        if (!(fabs((double)s[i] - share[i]) <= 1e-6))
            fail_msg("expert %u: %.9g, not %.9g", c[i], (double)s[i], share[i]);
    }
}

/* exp(l): 1, 3, 2, 4, of which the two largest are 3 and 4. */
static const float four[] = {0.0f, 1.0986122887f, 0.6931471806f, 1.3862943611f};

static void weights_are_what_the_rules_say(void **state)
{
    (void)state;
    struct pith_moe m = {.experts = 4, .taken = 2};
    expect(&m, four, NULL, (uint32_t[]){1, 3}, (double[]){0.3, 0.4});
    m.renormalised = true;
    expect(&m, four, NULL, (uint32_t[]){1, 3}, (double[]){3.0 / 7, 4.0 / 7});
    m.scale = 2.5;
    expect(&m, four, NULL, (uint32_t[]){1, 3}, (double[]){7.5 / 7, 10.0 / 7});
    m = (struct pith_moe){.experts = 4, .taken = 2, .router = PITH_ROUTER_TOP};
    expect(&m, four, NULL, (uint32_t[]){1, 3}, (double[]){3.0 / 7, 4.0 / 7});
    m.router = PITH_ROUTER_SIGMOID; /* e^l / (1 + e^l) */
    expect(&m, four, NULL, (uint32_t[]){1, 3}, (double[]){0.75, 0.8});
    /* The correction chooses and does not weigh. */
    expect(&m, four, (float[]){1, 0, 1, 0}, (uint32_t[]){0, 2}, (double[]){0.5, 2.0 / 3});
    m.renormalised = true;
    m.floor = 4;
    expect(&m, four, NULL, (uint32_t[]){1, 3}, (double[]){0.75 / 4, 0.8 / 4});
}

static void the_first_of_equals_is_taken(void **state)
{
    (void)state;
    static const float same[8] = {1, 1, 1, 1, 1, 1, 1, 1}, two[8] = {0, 1, 0, 1, 0, 1, 0, 1};
    struct pith_moe m = {.experts = 8, .taken = 3, .renormalised = true};
    const double third[] = {1.0 / 3, 1.0 / 3, 1.0 / 3};
    expect(&m, same, NULL, (uint32_t[]){0, 1, 2}, third);
    expect(&m, two, NULL, (uint32_t[]){1, 3, 5}, third);
    m.groups = 4, m.groups_taken = 2;
    expect(&m, same, NULL, (uint32_t[]){0, 1, 2}, third);
    m.taken = 8, m.groups = 0;
    uint32_t chosen[MOST];
    float share[MOST];
    route(&m, two, NULL, chosen, share);
    for (uint32_t i = 0; i < 8; i++) assert_int_equal(chosen[i], i);
}

/* Sigmoids of 0, 0, 3, 0 | 2, 2, 0, 0: by its best the first group leads, by its two best the
 * second. */
static void groups_are_judged_by_their_best(void **state)
{
    (void)state;
    static const float l[8] = {-9, -9, 3, -9, 2, 2, -9, -9};
    struct pith_moe m = {
        .experts = 8, .taken = 2, .groups = 2, .groups_taken = 1, .router = PITH_ROUTER_SIGMOID};
    const double low = 1 / (1 + exp(9)), two = 1 / (1 + exp(-2)), three = 1 / (1 + exp(-3));
    expect(&m, l, NULL, (uint32_t[]){0, 2}, (double[]){low, three});
    m.group_best_two = true;
    expect(&m, l, NULL, (uint32_t[]){4, 5}, (double[]){two, two});
    m.groups_taken = 2;
    expect(&m, l, NULL, (uint32_t[]){2, 4}, (double[]){three, two});
}

/* Whatever the numbers are: experts that exist, each once, in ascending order. */
static void numbers_that_are_none_choose_no_expert_twice(void **state)
{
    (void)state;
    static const float odd[] = {NAN, INFINITY, -INFINITY, 0.0f, 1.0f, -1.0f, 3e38f, -3e38f};
    uint32_t random = 1;
    for (int run = 0; run < 30000; run++) {
        float l[MOST], correction[MOST], share[MOST];
        uint32_t chosen[MOST];
        for (int i = 0; i < MOST; i++) {
            random = random * 1664525u + 1013904223u;
            l[i] = odd[(random >> 20) % PITH_COUNT(odd)];
            correction[i] = odd[(random >> 24) % PITH_COUNT(odd)];
        }
        const struct pith_moe m = {.experts = MOST,
                                   .taken = 1 + (random >> 9) % 8,
                                   .router = (enum pith_router)(run % 3),
                                   .renormalised = run & 4,
                                   .groups = run & 8 ? 4 : 0,
                                   .groups_taken = 2,
                                   .group_best_two = run & 16};
        route(&m, l, run & 32 ? correction : NULL, chosen, share);
        for (uint32_t k = 0; k < m.taken; k++) {
            assert_true(chosen[k] < MOST);
            assert_true(k == 0 || chosen[k] > chosen[k - 1]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_are_what_the_rules_say),
        cmocka_unit_test(the_first_of_equals_is_taken),
        cmocka_unit_test(groups_are_judged_by_their_best),
        cmocka_unit_test(numbers_that_are_none_choose_no_expert_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
