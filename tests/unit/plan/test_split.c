/* Pools and the host's memory, by hand. */
#include "plan/shapes.h"
#include "plan/split.h"
#include "test.h"

#include <math.h>

static struct pith_plan_subject model_of(const char *name)
{
    json_t *shapes;
    struct pith_error err = {0};
    struct pith_plan_subject p;
    assert_ok(pith_shapes_read(&shapes, &err), err);
    const json_t *s = pith_shapes_find(shapes, name);
    assert_ok(pith_plan_subject_read(json_object_get(s, "config"), name, &p, &err), err);
    json_decref(shapes);
    return p;
}

static struct pith_kv_format bf16(void)
{
    struct pith_kv_format kv;
    struct pith_error err = {0};
    assert_ok(pith_kv_parse("bf16", PITH_BF16, NULL, &kv, &err), err);
    return kv;
}

static void near(double got, double want)
{
    assert_true(fabs(got / want - 1) < 1e-6);
}

/* 64 users with answers of 100 tokens at 10 ms a step end 64 answers a second; a group reads 25
 * prompts a second. */
static void groups_keep_up(void **state)
{
    struct pith_plan_subject p = model_of("Llama-3.1-8B");
    const struct pith_weight_form f = {.opts = {.model_dtype = PITH_BF16}};
    const struct pith_kv_format kv = bf16();
    const struct pith_hardware h = {.name = "x",
                                    .bandwidth = 1e12,
                                    .link = 1e11,
                                    .host = 2e10,
                                    .most = 8,
                                    .price = 2,
                                    .watts = 500};
    struct pith_deployment d = {
        .model = &p,
        .form = &f,
        .kv = &kv,
        .engine = pith_engine_need_find("vllm"),
        .demand = {.context = 1100, .users = 64, .prompt = 1000, .gen = 100},
        .over = {1, 1}};
    struct pith_deployment e = d;
    e.demand = (struct pith_demand){.context = 1000, .users = 2, .prompt = 1000, .gen = 1};
    struct pith_forecast slow = {.step = 0.01, .rate = 6400}, fast = {.fill = 0.08, .first = 0.05},
                         out;
    struct pith_pool_group answer = {&d, &h, &slow}, read = {&e, &h, &fast};
    struct pith_pools n;
    (void)state;
    pith_pools_find(&read, &answer, 0, &n);
    near(n.ratio, 64 / 25.0);
    /* 5 that answer need 12.8 that read, 18 in all; 7 need 17.92: 25 are the fewest for each. */
    assert_int_equal(n.answer, 7);
    assert_int_equal(n.read, 18);
    near(n.busy, 2.56 * 7 / 18);
    /* 25 devices are more than are linked: a network's 50 GB/s. 32 layers, 8 heads of 128. */
    near(n.sent, 1024 * 131072.0);
    near(n.link, 50e9);
    near(n.send, 1e-5 + n.sent / (50e9 * pith_links_reached.share));
    pith_pools_forecast(&n, &read, &answer, &out);
    near(out.first, 0.05 + n.send);
    near(out.served, 7 * 6400.0);
    near(out.step, 0.01);
    near(out.cost, 25 * 2 / 3600.0 / (7 * 6400.0) * 1e6);
    near(out.joules, 25 * 500 / (7 * 6400.0));
    /* Few that answer are linked; what is told comes first. */
    slow.step = 1;
    pith_pools_find(&read, &answer, 0, &n);
    assert_true(n.read == 1 && n.answer == 8);
    near(n.link, 50e9);
    slow.step = 0.1024;
    pith_pools_find(&read, &answer, 0, &n);
    assert_true(n.read == 1 && n.answer == 4);
    near(n.link, 1e11);
    pith_pools_find(&read, &answer, 7e9, &n);
    near(n.link, 7e9);
    pith_plan_subject_free(&p);
}

static void a_cache_waits_in_the_host(void **state)
{
    struct pith_plan_subject p = model_of("Llama-3.1-8B");
    const struct pith_weight_form f = {.opts = {.model_dtype = PITH_BF16}};
    const struct pith_kv_format kv = bf16();
    const struct pith_hardware *h = pith_hardware_find("l4");
    struct pith_deployment d = {
        .model = &p,
        .form = &f,
        .kv = &kv,
        .engine = pith_engine_need_find("vllm"),
        .demand = {.context = 8192, .users = 20, .prompt = 8000, .gen = 192},
        .over = {1, 1},
        .memory = h->memory_bytes};
    struct pith_room r;
    struct pith_offload o;
    (void)state;
    pith_room_find(&d, &r);
    assert_true(!r.fits && r.most_users > 0 && r.most_users < 20);
    const double each = 8192 * 131072.0;
    pith_offload_find(&d, &r, h, (double)(20 - r.most_users) * each, &o);
    assert_true(o.fits && o.at_work == r.most_users && o.waiting == 20 - r.most_users);
    near(o.fetch, 8000 * 131072.0 / (3.2e10 * pith_links_reached.share));
    pith_offload_find(&d, &r, h, (double)(20 - r.most_users) * each - 1, &o);
    assert_false(o.fits);
    pith_offload_find(&d, &r, h, 1e12, &o);
    /* As fast as those at work are, unless the link is slower: a fetch in 192 steps. */
    struct pith_forecast f1 = {.step = 0.05, .rate = 1}, f2 = {.step = 1e-6};
    pith_offload_forecast(&o, &d, h, &f1);
    near(f1.first, o.fetch + 0.05);
    near(f1.served, (double)o.at_work / 0.05);
    near(f1.cost, h->price / 3600 / f1.served * 1e6);
    pith_offload_forecast(&o, &d, h, &f2);
    near(f2.rate, 192 / o.fetch);
    /* Where all are at work, nothing waits. */
    struct pith_forecast f3 = {.first = 3, .step = 1, .rate = 5};
    d.demand.users = 1;
    pith_room_find(&d, &r);
    pith_offload_find(&d, &r, h, 0, &o);
    assert_true(o.fits && o.at_work == 1 && o.waiting == 0);
    pith_offload_forecast(&o, &d, h, &f3);
    assert_true(f3.first == 3 && f3.rate == 5);
    pith_plan_subject_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_keep_up),
        cmocka_unit_test(a_cache_waits_in_the_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
