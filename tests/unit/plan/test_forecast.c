/* Times by hand, and the figures of memory, of cache and of what engines read that the project's
 * references state. */
#include "base/mem.h"
#include "plan/forecast.h"
#include "plan/shapes.h"
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define GIB 1073741824.0

static struct pith_plan_subject model_of(const char *name)
{
    json_t *shapes;
    struct pith_error err = {0};
    struct pith_plan_subject p;
    assert_int_equal(pith_shapes_read(&shapes, &err), PITH_OK);
    const json_t *s = pith_shapes_find(shapes, name);
    assert_non_null(s);
    assert_int_equal(pith_plan_subject_read(json_object_get(s, "config"), name, &p, &err), PITH_OK);
    json_decref(shapes);
    return p;
}

static struct pith_weight_form form_of(const char *grid, const char *container)
{
    struct pith_error err = {0};
    struct pith_weight_form f = {.container = container ? pith_container_find(container) : NULL,
                                 .opts = {.model_dtype = PITH_BF16}};
    if (grid) assert_int_equal(pith_grid_parse(grid, &f.linears, &err), PITH_OK);
    return f;
}

static struct pith_kv_format cache_of(const char *name)
{
    struct pith_kv_format kv;
    struct pith_error err = {0};
    assert_int_equal(pith_kv_parse(name, PITH_BF16, NULL, &kv, &err), PITH_OK);
    return kv;
}

static void near(double got, double want, double share, const char *what)
{
    if (fabs(got / want - 1) > share) fail_msg("%s: %.6g, expected %.6g", what, got, want);
}

/* --- rows ------------------------------------------------------------------------------------- */

/* Rules that the table must keep, and claims of others that are wrong: its reference's pitfalls. */
static void hardware_is_as_its_sources_say(void **state)
{
    const struct pith_hardware *h;
    (void)state;
    assert_true(pith_hardware_count() >= 30);
    for (size_t i = 0; i < pith_hardware_count(); i++) {
        h = pith_hardware_at(i);
        assert_ptr_equal(pith_hardware_find(h->name), h);
        assert_true(h->bandwidth > 1e10 && h->bandwidth < 1e13);
        assert_true(h->ops[PITH_UNIT_BF16] > 0 || h->ops[PITH_UNIT_F32] > 0);
        assert_true(h->price == 0 || *h->price_source);
        assert_true(*h->source && h->most >= 1);
    }
    h = pith_hardware_find("H100-SXM");
    near(h->ops[PITH_UNIT_FP8], 1979e12, 0.01, "dense FP8 of H100");
    near(h->ops[PITH_UNIT_BF16], 989e12, 0.01, "dense BF16 of H100");
    near(pith_hardware_find("mi300x")->ops[PITH_UNIT_BF16], 1307e12, 0.01, "BF16 of MI300X");
    assert_true(pith_hardware_find("mi300x")->fnuz && !pith_hardware_find("mi355x")->fnuz);
    near(pith_hardware_find("t4")->ops[PITH_UNIT_INT8], 130e12, 0.01, "INT8 of T4");
    near(pith_hardware_find("t4")->ops[PITH_UNIT_INT4], 260e12, 0.01, "INT4 of T4");
    near(pith_hardware_find("a10g")->ops[PITH_UNIT_BF16], 70e12, 0.01, "BF16 of A10G");
    near(pith_hardware_find("rtx5090")->ops[PITH_UNIT_FP4], 1676e12, 0.01, "FP4 of RTX 5090");
    assert_true(pith_hardware_find("a100-sxm4-80")->ops[PITH_UNIT_FP8] == 0);
    assert_true(pith_hardware_find("rtx4090")->ops[PITH_UNIT_FP8] > 0);
    assert_true(pith_hardware_find("b300-sxm")->ops[PITH_UNIT_INT8] < 200e12);
    assert_null(pith_hardware_find("h1000"));
}

static void the_roofline_is_the_longer_of_two_and_what_is_sent(void **state)
{
    const struct pith_hardware h = {
        .bandwidth = 1e12, .link = 1e11, .ops = {[PITH_UNIT_BF16] = 1e14}, .most = 8};
    const struct pith_reached r = {.memory = 0.7, .arithmetic = 0.4};
    enum pith_roof_bound bound;
    struct pith_roof_work w = {
        .weight_bytes = 3e9, .cache_bytes = 1e9, .ops = 1e9, .unit = PITH_UNIT_BF16};
    (void)state;
    near(pith_roofline_seconds(&h, 1, &w, r, &bound), 4e-3 / r.memory, 1e-9, "read");
    assert_int_equal(bound, PITH_BOUND_MEMORY);
    w.ops = 1e13;
    near(pith_roofline_seconds(&h, 1, &w, r, &bound), 0.1 / r.arithmetic, 1e-9, "multiplied");
    assert_int_equal(bound, PITH_BOUND_ARITHMETIC);
    near(pith_roofline_seconds(&h, 4, &w, r, &bound), 0.025 / r.arithmetic, 1e-9, "by four");
    w.link_bytes = 1e10;
    w.link_steps = 10;
    near(pith_roofline_seconds(&h, 4, &w, r, &bound),
         0.025 / r.arithmetic + 0.1 / pith_links_reached.share + 10 * pith_links_reached.step, 1e-9,
         "sent");
    assert_int_equal(bound, PITH_BOUND_LINK);
    w.unit = PITH_UNIT_FP4;
    assert_true(isinf(pith_roofline_seconds(&h, 1, &w, r, &bound)));
}

/* --- the references' figures -------------------------------------------------------------------
 */

/* Sizes of files and caches, each with its place; GiB where the reference's is. */
static void weights_take_what_is_stated(void **state)
{
    static const struct {
        const char *place, *model;
        double bytes;
    } stated[] = {
        /* GGUF with llama.cpp's rule for ends is in tests/cli/test_plan.sh; here the head and the
         * embedding are left alone. */
        {"Llama-3-8B: 1.05 of 8.03 billion are no linears'", "Llama-3-8B", 16.06e9},
        {"llama.cpp, 8B f16", "Llama-3.1-8B", 16.06e9},
        {"llama.cpp, 1B f16", "Llama-3.2-1B", 2.472e9},
        /* Sizes that llama.cpp prints, in GiB: the first source of bench/published.json. */
        {"8B f16: 14.96 GiB", "Llama-3-8B", 14.96 * GIB},
        {"70B f16: 131.42 GiB", "Llama-3-70B", 131.42 * GIB},
        {"7B f16: 12.55 GiB (llama-bench)", "Llama-2-7B", 12.55 * GIB},
        {"two bytes a parameter: 405B", "Llama-3.1-405B", 811.7e9},
    };
    (void)state;
    for (size_t i = 0; i < PITH_COUNT(stated); i++) {
        struct pith_plan_subject p = model_of(stated[i].model);
        const struct pith_weight_form f = form_of(NULL, NULL);
        struct pith_weighed w;
        pith_weigh(&p, &f, (struct pith_spread_over){1, 1}, &w);
        near(w.all, stated[i].bytes, 0.02, stated[i].place);
        pith_plan_subject_free(&p);
    }
}

static void caches_take_what_is_stated(void **state)
{
    static const struct {
        const char *place, *model, *kv;
        size_t context;
        double bytes;
    } stated[] = {
        {"llama.cpp, 8B f16 at depth 16384", "Llama-3.1-8B", "bf16", 16384, 2.15e9},
        {"llama.cpp, 8B q8_0 at depth 16384", "Llama-3.1-8B", "q8_0", 16384, 1.14e9},
        {"issue 14: Llama-3-70B holds 40 GB (GiB) at 128K", "Llama-3.1-70B", "bf16", 131072,
         40.0 * GIB},
        {"grouped queries of 8 of 64 heads: Llama-2-70B at 4K", "Llama-2-70B", "bf16", 4096,
         2.0 * 80 * 8 * 128 * 2 * 4096},
        {"a latent of 576 numbers: DeepSeek-V3", "DeepSeek-V3", "bf16", 4096,
         61.0 * 576 * 2 * 4096},
        {"windows of 1024 in five of six layers: Gemma-3-27B at 128K", "Gemma-3-27B", "bf16",
         131072, 16.0 * 128 * 2 * 2 * (10.0 * 131072 + 52.0 * 1056)},
    };
    (void)state;
    for (size_t i = 0; i < PITH_COUNT(stated); i++) {
        struct pith_plan_subject p = model_of(stated[i].model);
        const struct pith_kv_format kv = cache_of(stated[i].kv);
        struct pith_cache_sums s;
        pith_weigh_cache(&p, &kv, (struct pith_spread_over){1, 1}, stated[i].context, &s);
        near(s.sequence, stated[i].bytes, 0.02, stated[i].place);
        pith_plan_subject_free(&p);
    }
}

/* Devices that are needed, and how long all weights take to be read once at the peak. */
static void devices_and_read_times_are_as_stated(void **state)
{
    static const struct {
        const char *model, *hardware;
        unsigned needed;
        double seconds; /* of all weights in 16 bits by one device's bandwidth */
    } stated[] = {{"Llama-3.1-8B", "l4", 1, 16.06e9 / 300e9},
                  {"Llama-2-7B", "t4", 1, 13.48e9 / 320e9},
                  {"Llama-2-13B", "l4", 2, 26.03e9 / 300e9},
                  {"Llama-2-70B", "a100-sxm4-80", 2, 137.95e9 / 2039e9},
                  {"Llama-3.1-70B", "h100-sxm", 2, 141.1e9 / 3350e9},
                  {"Llama-3.1-70B", "h200-sxm", 1, 141.1e9 / 4800e9},
                  {"Llama-3.1-70B", "mi300x", 1, 141.1e9 / 5300e9},
                  {"Llama-3.1-405B", "mi300x", 5, 811.7e9 / 5300e9}};
    (void)state;
    for (size_t i = 0; i < PITH_COUNT(stated); i++) {
        struct pith_plan_subject p = model_of(stated[i].model);
        const struct pith_weight_form f = form_of(NULL, NULL);
        const struct pith_hardware *h = pith_hardware_find(stated[i].hardware);
        struct pith_weighed w;
        pith_weigh(&p, &f, (struct pith_spread_over){1, 1}, &w);
        near(w.all / h->bandwidth, stated[i].seconds, 0.02, stated[i].model);
        assert_int_equal((unsigned)ceil(w.all / h->memory_bytes), stated[i].needed);
        pith_plan_subject_free(&p);
    }
}

/* The Hessians of Llama's widths; bits by format. */
static void grids_take_their_bits(void **state)
{
    static const struct {
        const char *grid, *container;
        double bits;
    } stated[] = {{"int4:g128", "compressed-tensors", 4.125},
                  {"int4:g128:asym", "awq", 4.15625},
                  {"fp8_e4m3:channel", "compressed-tensors", 8.0},
                  {"nvfp4", "compressed-tensors", 4.5},
                  {"mxfp4", "compressed-tensors", 4.25},
                  {"q4_k", "gguf", 4.5},
                  {"q6_k", "gguf", 6.5625},
                  {"q8_0", "gguf", 8.5}};
    struct pith_plan_subject p = model_of("Llama-3.1-8B");
    (void)state;
    for (size_t i = 0; i < PITH_COUNT(stated); i++) {
        const struct pith_weight_form f = form_of(stated[i].grid, stated[i].container);
        struct pith_weighed w;
        pith_weigh(&p, &f, (struct pith_spread_over){1, 1}, &w);
        near(w.quantized_bits / w.quantized, stated[i].bits, 0.005, stated[i].grid);
    }
    pith_plan_subject_free(&p);
}

/* --- several devices -------------------------------------------------------------------------- */

static void devices_share_what_can_be_shared(void **state)
{
    struct pith_plan_subject p = model_of("Llama-3.1-70B");
    const struct pith_weight_form f = form_of(NULL, NULL);
    struct pith_weighed one, four, sixteen, piped;
    (void)state;
    pith_weigh(&p, &f, (struct pith_spread_over){1, 1}, &one);
    pith_weigh(&p, &f, (struct pith_spread_over){4, 1}, &four);
    pith_weigh(&p, &f, (struct pith_spread_over){16, 1}, &sixteen);
    pith_weigh(&p, &f, (struct pith_spread_over){1, 4}, &piped);
    assert_true(one.copies == 0 && one.device == one.all && four.all == one.all);
    /* Norms alone are copied over four; over sixteen each of the eight heads of k and v is twice.
     */
    near(four.copies, 3.0 * 2 * (161.0 * 8192), 0.001, "norms");
    near(sixteen.copies, 15.0 * 2 * (161.0 * 8192) + 80.0 * 2 * 2 * 1024 * 8192, 0.001, "heads");
    near(four.device * 4, four.all + four.copies, 1e-6, "a fourth");
    assert_true(piped.device > one.all / 4 && piped.device < one.all / 4 * 1.05);
    assert_int_equal(pith_tensor_most(&p, 16), 16);
    assert_int_equal(pith_tensor_most(&p, 24), 8);
    pith_plan_subject_free(&p);
}

/* --- a deployment ------------------------------------------------------------------------------
 */

static void a_forecast_by_hand(void **state)
{
    struct pith_plan_subject p = model_of("Llama-3.1-8B");
    const struct pith_weight_form f = form_of(NULL, NULL);
    const struct pith_kv_format kv = cache_of("bf16");
    const struct pith_hardware *h = pith_hardware_find("h100-sxm");
    struct pith_deployment d = {.model = &p,
                                .form = &f,
                                .kv = &kv,
                                .engine = pith_engine_need_find("vllm"),
                                .demand = {.context = 4096, .users = 1, .prompt = 64, .gen = 64},
                                .over = {1, 1},
                                .memory = h->memory_bytes};
    struct pith_room r;
    struct pith_forecast one, many;
    (void)state;
    pith_room_find(&d, &r);
    assert_true(r.fits && r.most_users > 50 && r.most_context == 131072);
    pith_forecast_make(&d, &r, h, &one);
    /* All but the embedding, 96 positions of 128 KiB, at the share of 3.35 TB/s, and 32 layers. */
    const double bytes = 2 * (8030261248.0 - 525336576) + 96 * 131072.0;
    near(one.step, bytes / (d.engine->memory * 3.35e12) + 32 * d.engine->layer_seconds, 0.001,
         "a step");
    assert_int_equal(one.bound, PITH_BOUND_MEMORY);
    d.demand.users = 512;
    pith_room_find(&d, &r);
    pith_forecast_make(&d, &r, h, &many);
    assert_true(many.rate > 20 * one.rate && many.step > one.step);
    /* The turn is where the bound changes, as it says. */
    assert_true(many.crossover > 1);
    d.demand.users = (size_t)many.crossover;
    pith_forecast_make(&d, &r, h, &one);
    assert_int_equal(one.bound, PITH_BOUND_ARITHMETIC);
    d.demand.users--;
    pith_forecast_make(&d, &r, h, &one);
    assert_int_equal(one.bound, PITH_BOUND_MEMORY);
    pith_plan_subject_free(&p);
}

/* What fits is what does not go beyond, and one more does. */
static void the_most_is_the_most(void **state)
{
    static const char *const models[] = {"Llama-3.1-8B", "Gemma-3-12B", "Qwen3-30B-A3B",
                                         "DeepSeek-V2-Lite", "Qwen3.5-27B"};
    (void)state;
    for (size_t i = 0; i < PITH_COUNT(models); i++) {
        struct pith_plan_subject p = model_of(models[i]);
        const struct pith_weight_form f = form_of("int4:g128", NULL);
        const struct pith_kv_format kv = cache_of("bf16");
        struct pith_deployment d = {.model = &p,
                                    .form = &f,
                                    .kv = &kv,
                                    .engine = pith_engine_need_find("vllm"),
                                    .demand = {.context = 8192, .users = 2, .prompt = 4096},
                                    .over = {1, 1},
                                    .memory = 40e9};
        struct pith_room r, other;
        pith_room_find(&d, &r);
        assert_true(r.fits && r.most_users >= 2);
        struct pith_deployment e = d;
        e.demand.context = r.most_context;
        pith_room_find(&e, &other);
        assert_true(other.fits);
        if (r.most_context < p.model->shape.max_position) {
            e.demand.context += 64;
            pith_room_find(&e, &other);
            assert_false(other.fits);
        }
        assert_int_equal(pith_room_users(&d, &r, 8192), r.most_users);
        pith_plan_subject_free(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hardware_is_as_its_sources_say),
        cmocka_unit_test(the_roofline_is_the_longer_of_two_and_what_is_sent),
        cmocka_unit_test(weights_take_what_is_stated),
        cmocka_unit_test(caches_take_what_is_stated),
        cmocka_unit_test(devices_and_read_times_are_as_stated),
        cmocka_unit_test(grids_take_their_bits),
        cmocka_unit_test(devices_share_what_can_be_shared),
        cmocka_unit_test(a_forecast_by_hand),
        cmocka_unit_test(the_most_is_the_most),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
