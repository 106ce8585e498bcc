/* plan/time/rehearsed: which blocks are done, and for how many each stands. */
#include "plan/time/rehearsed.h"
#include "test.h"

#include <string.h>

enum { KINDS = 10, SHARED = 10 };

/* Plans of one linear each, the kind's number of rows wide; kinds of an odd number have experts. */
struct made {
    struct pith_plans plans;
    struct pith_layer_plan kind[KINDS];
    struct pith_linear_spec linear[KINDS];
    struct pith_node node;
};

static void make(struct made *m, const uint32_t *of, uint32_t layers)
{
    memset(m, 0, sizeof *m);
    m->node.kind = PITH_NODE_EXPERTS;
    for (uint32_t i = 0; i < KINDS; i++) {
        m->linear[i] = (struct pith_linear_spec){.rows = 1 + i, .cols = 8, .expert = PITH_NO_PART};
        m->kind[i] = (struct pith_layer_plan){.linear = &m->linear[i],
                                              .linears = 1,
                                              .node = i % 2 ? &m->node : NULL,
                                              .nodes = i % 2};
    }
    m->plans = (struct pith_plans){
        .kind = m->kind, .kinds = KINDS, .layers = layers, .of = (uint32_t *)(uintptr_t)of};
}

static void are(const struct made *m, uint32_t count, const uint32_t (*want)[2])
{
    struct pith_rehearsed list[PITH_REHEARSED_MOST];
    assert_int_equal(pith_rehearsed_blocks(&m->plans, list), count);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(list[i].layer, want[i][0]);
        assert_int_equal(list[i].like, want[i][1]);
    }
}

/* Three dense layers, then mixtures; and kinds that differ in nothing that is worked on. */
static void one_of_each_kind(void **state)
{
    (void)state;
    static const uint32_t of[] = {0, 0, 0, 1, 1, 2, 1}, one[][2] = {{0, 7}},
                          three[][2] = {{0, 3}, {3, 3}, {5, 1}}, two[][2] = {{0, 4}, {3, 3}};
    struct made m;
    make(&m, of, 7);
    are(&m, 3, three);
    m.linear[2].rows = m.linear[0].rows; /* a window, say */
    are(&m, 2, two);
    m.linear[1].rows = m.linear[0].rows;
    are(&m, 1, one);
    m.linear[1].expert = 0;
    are(&m, 2, two);
}

/* A ninth kind is taken to be like the first that has no experts either, a tenth like the first
 * that has; where layers share what they keep none is left out but by leaving all. */
static void more_than_there_is_room_for(void **state)
{
    (void)state;
    static const uint32_t of[] = {1, 0, 2, 3, 4, 5, 6, 7, 8, 9, 9}, all[][2] = {{0, 11}},
                          want[][2] = {{0, 3}, {1, 2}, {2, 1}, {3, 1},
                                       {4, 1}, {5, 1}, {6, 1}, {7, 1}};
    struct made m;
    make(&m, of, 11);
    are(&m, PITH_REHEARSED_MOST, want);
    m.plans.carried = 1u << PITH_REG_TOKEN;
    are(&m, PITH_REHEARSED_MOST, want);
    m.plans.carried |= 1u << SHARED;
    are(&m, 1, all);
}

/* A layer that others read of, and those that do. */
static void what_is_shared_is_made(void **state)
{
    (void)state;
    static const uint32_t of[] = {0, 2, 4, 4}, want[][2] = {{0, 1}, {1, 1}, {2, 2}};
    struct made m;
    make(&m, of, 4);
    m.linear[2].rows = m.linear[4].rows = m.linear[0].rows;
    m.kind[2].carried = 1u << SHARED;
    m.kind[4].carried = 1u << (SHARED + 1);
    m.plans.carried = 3u << SHARED;
    are(&m, 3, want);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_of_each_kind),
        cmocka_unit_test(more_than_there_is_room_for),
        cmocka_unit_test(what_is_shared_is_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
