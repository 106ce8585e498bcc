/* Curves of routers: least concave majorants, read between points; and whom an error sways. */
#include "choose/sense_routes.h"
#include "model/model.h"
#include "test.h"

#include <math.h>

static void a_curve_is_the_least_concave_majorant(void **state)
{
    struct pith_router_curve c = {0};
    double raw[PITH_ROUTER_POINTS];
    (void)state;
    for (size_t i = 0; i < PITH_ROUTER_POINTS; i++) {
        const double dent = i % 3 == 1 ? 0.7 : 1;
        raw[i] = dent * sqrt(pith_router_variance(i)) / (1 + sqrt(pith_router_variance(i)));
        c.kld[i] = 8 * raw[i];
    }
    pith_route_settle(&c, 8);
    double x = 0, y = 0, before = INFINITY;
    size_t touched = 0;
    for (size_t i = 0; i < PITH_ROUTER_POINTS; i++) {
        const double v = pith_router_variance(i), slope = (c.kld[i] - y) / (v - x);
        assert_true(c.kld[i] >= raw[i] * (1 - 1e-12));
        assert_true(slope <= before * (1 + 1e-9) && slope >= 0);
        touched += c.kld[i] <= raw[i] * (1 + 1e-12);
        x = v, y = c.kld[i], before = slope;
    }
    assert_true(touched >= PITH_ROUTER_POINTS - PITH_ROUTER_POINTS / 3 - 1);
}

static void a_curve_is_straight_between_points(void **state)
{
    struct pith_router_curve c = {0};
    (void)state;
    for (size_t i = 0; i < PITH_ROUTER_POINTS; i++) c.kld[i] = sqrt(pith_router_variance(i));
    const double low = pith_router_variance(7), high = pith_router_variance(8);
    assert_true(fabs(pith_router_variance(0) - 1e-6) < 1e-18);
    assert_true(fabs(pith_router_variance(PITH_ROUTER_POINTS - 1) - 100) < 1e-9);
    assert_true(pith_router_kld(&c, 0) == 0);
    assert_true(fabs(pith_router_kld(&c, 5e-7) - 5e-4) < 1e-12);
    assert_true(fabs(pith_router_kld(&c, (low + high) / 2) - (sqrt(low) + sqrt(high)) / 2) < 1e-12);
    const double slope = (sqrt(high) - sqrt(low)) / (high - low);
    assert_true(fabs(pith_router_slope(&c, low * 1.01) - slope) < 1e-9 * slope);
    assert_true(fabs(pith_router_kld(&c, 1e6) - 10) < 1e-9 && pith_router_slope(&c, 1e6) == 0);
}

static void later_routers_are_swayed(void **state)
{
    struct pith_error err = {0};
    struct pith_model *m;
    struct pith_routes r;
    (void)state;
    assert_ok(pith_model_open("models/probe-moe", &m, &err), err);
    assert_ok(pith_routes_open(&r, &m->plans, &err), err);
    assert_int_equal(r.routers, 4);
    const struct pith_layer_plan *l = pith_plan(&m->plans, 2);
    uint32_t attention = 0, expert = 0;
    while (l->linear[attention].expert != PITH_NO_PART) attention++;
    while (l->linear[expert].expert == PITH_NO_PART) expert++;
    assert_int_equal(pith_routes_from(&r, &m->plans, 2, attention), 2);
    assert_int_equal(pith_routes_from(&r, &m->plans, 2, PITH_NO_PART), 2);
    assert_int_equal(pith_routes_from(&r, &m->plans, 2, expert), 3);
    assert_int_equal(pith_routes_from(&r, &m->plans, 3, expert), 4);
    assert_ptr_equal(pith_routes_of(&r, 3), &r.router[3]);
    for (uint32_t i = 0; i < 4; i++)
        for (size_t k = 0; k < PITH_ROUTER_POINTS; k++)
            r.router[i].kld[k] = (i + 1) * sqrt(pith_router_variance(k));
    assert_true(fabs(pith_routes_kld(&r, 2, pith_router_variance(9)) -
                     7 * sqrt(pith_router_variance(9))) < 1e-12);
    assert_true(pith_routes_kld(&r, 4, 1) == 0);
    pith_routes_free(&r);
    pith_model_close(m);
}

static void a_model_without_mixtures_has_none(void **state)
{
    struct pith_error err = {0};
    struct pith_model *m;
    struct pith_routes r;
    (void)state;
    assert_ok(pith_model_open("models/probe", &m, &err), err);
    assert_ok(pith_routes_open(&r, &m->plans, &err), err);
    assert_true(r.routers == 0 && !r.router && !pith_routes_of(&r, 0));
    assert_int_equal(pith_route_work_bytes(m, 64), 0);
    pith_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_curve_is_the_least_concave_majorant),
        cmocka_unit_test(a_curve_is_straight_between_points),
        cmocka_unit_test(later_routers_are_swayed),
        cmocka_unit_test(a_model_without_mixtures_has_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
