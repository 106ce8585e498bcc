/* A plan for pith from what kernels take: sums by hand, what is missing, what is no such figure;
 * and what its engine holds, by the layouts. */
#include "base/mem.h"
#include "plan/forecast.h"
#include "plan/hardware/kernels.h"
#include "plan/pith_engine.h"
#include "plan/shapes.h"
#include "test.h"

#include <math.h>

static struct pith_plan_subject model_of(const char *name)
{
    json_t *shapes;
    struct pith_error err = {0};
    struct pith_plan_subject p;
    assert_ok(pith_shapes_read(&shapes, &err), err);
    const json_t *config = json_object_get(pith_shapes_find(shapes, name), "config");
    assert_ok(pith_plan_subject_read(config, name, &p, &err), err);
    json_decref(shapes);
    return p;
}

static json_t *parsed(const char *text)
{
    json_t *j = json_loads(text, 0, NULL);
    assert_non_null(j);
    return j;
}

static struct pith_plan_subject model;
static struct pith_weight_form form;
static struct pith_kv_format cache;
static struct pith_hardware machine;

static int open_all(void **state)
{
    struct pith_error err = {0};
    (void)state;
    model = model_of("Llama-3.1-8B");
    form = (struct pith_weight_form){.opts = {.model_dtype = PITH_BF16}, .packed = true};
    assert_ok(pith_grid_parse("int4:g128", &form.linears, &err), err);
    assert_ok(pith_kv_parse("bf16", PITH_BF16, NULL, &cache, &err), err);
    machine = (struct pith_hardware){
        .name = "mine", .bandwidth = 1e11, .ops = {[PITH_UNIT_F32] = 1e12}, .cpu = true};
    machine.kernels = parsed("[{\"grid\": \"none\", \"rows\": [1], \"seconds\": [1e-10]},"
                             " {\"grid\": \"int4:g128\", \"rows\": [1, 3], \"seconds\": [2e-11,"
                             " 4e-11]}, {\"cache\": \"bf16\", \"rows\": [1, 256], \"seconds\":"
                             " [4e-11, 1e-11]}]");
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    json_decref((json_t *)machine.kernels);
    pith_plan_subject_free(&model);
    return 0;
}

static struct pith_deployment deployment(const char *engine, size_t users)
{
    return (struct pith_deployment){
        .model = &model,
        .form = &form,
        .kv = &cache,
        .engine = pith_engine_need_find(engine),
        .demand = {.context = 4096, .users = users, .prompt = 64, .gen = 64},
        .over = {1, 1}};
}

static void near(double got, double want)
{
    if (fabs(got / want - 1) > 1e-9) fail_msg("%.9g, expected %.9g", got, want);
}

static const double linears = 6979321856.0, head = 128256 * 4096.0; /* Llama-3.1-8B: numbers */

static void sums_are_of_all_kernels(void **state)
{
    const struct pith_deployment d = deployment("pith", 1);
    (void)state;
    const double attention = 32.0 * 32 * (128 + 128) * 100;
    near(pith_kernels_seconds(&d, &machine, &(struct pith_kernel_step){1, 1, 100}),
         linears * 2e-11 + head * 1e-10 + attention * 4e-11);
    /* Two sequences: between one row and three; the head has two rows, and no figure but that of
     * one. */
    near(pith_kernels_seconds(&d, &machine, &(struct pith_kernel_step){2, 1, 100}),
         linears * 3e-11 + head * 2e-10 + 2 * attention * 4e-11);
    /* A prompt of 512 gives one row of logits; behind the last figure it goes by the row. */
    near(pith_kernels_seconds(&d, &machine, &(struct pith_kernel_step){1, 512, 256}),
         linears * 4e-11 / 3 * 512 + head * 1e-10 +
             32.0 * 32 * (128 + 128) * 256 * 512 * 1e-11);
}

static void a_forecast_takes_them(void **state)
{
    const struct pith_deployment d = deployment("pith", 4);
    struct pith_room r;
    struct pith_forecast f, other;
    struct pith_hardware bare = machine;
    (void)state;
    bare.kernels = NULL;
    pith_room_find(&d, &r);
    pith_forecast_make(&d, &r, &machine, &f);
    near(f.step, pith_kernels_seconds(&d, &machine, &(struct pith_kernel_step){4, 1, 96}));
    near(f.first, pith_kernels_seconds(&d, &machine, &(struct pith_kernel_step){1, 64, 32}));
    pith_forecast_make(&d, &r, &bare, &other);
    assert_true(fabs(other.step / f.step - 1) > 0.01);
}

/* Of what is missing nothing is said, and nothing of other engines. */
static void what_lacks_is_no_sum(void **state)
{
    const struct pith_deployment d = deployment("pith", 1), llama = deployment("llama.cpp", 1);
    const struct pith_kernel_step step = {1, 1, 100};
    struct pith_hardware less = machine;
    (void)state;
    assert_true(pith_kernels_seconds(&llama, &machine, &step) == 0);
    less.kernels = parsed("[{\"grid\": \"none\", \"rows\": [1], \"seconds\": [1e-10]},"
                          " {\"cache\": \"bf16\", \"rows\": [1], \"seconds\": [4e-11]}]");
    assert_true(pith_kernels_seconds(&d, &less, &step) == 0);
    json_decref((json_t *)less.kernels);
}

static void what_is_no_figure_is_refused(void **state)
{
    static const char *const bad[] = {
        "{}", "[1]", "[{\"grid\": \"none\", \"rows\": [1]}]",
        "[{\"grid\": \"none\", \"rows\": [2, 1], \"seconds\": [1, 1]}]",
        "[{\"grid\": \"none\", \"rows\": [1], \"seconds\": [0]}]",
        "[{\"grid\": \"none\", \"cache\": \"bf16\", \"rows\": [1], \"seconds\": [1]}]",
        "[{\"rows\": [1], \"seconds\": [1]}]",
        "[{\"grid\": \"none\", \"rows\": [], \"seconds\": []}]"};
    (void)state;
    for (size_t i = 0; i < PITH_COUNT(bad); i++) {
        struct pith_error err = {0};
        json_t *j = parsed(bad[i]);
        assert_int_equal(pith_kernels_check(j, "a file", &err), PITH_FORMAT);
        json_decref(j);
    }
    struct pith_error err = {0};
    assert_ok(pith_kernels_check(machine.kernels, "a file", &err), err);
    assert_ok(pith_kernels_check(NULL, "a file", &err), err);
}

/* More rows, more users, more threads need more; a page of a layer is not lost twice. */
static void what_is_held_grows(void **state)
{
    struct pith_deployment d = deployment("pith", 1);
    (void)state;
    const double one = pith_own_bytes(&d, 0);
    d.threads = 8;
    const double threads = pith_own_bytes(&d, 0);
    d.demand.prompt = 512;
    const double rows = pith_own_bytes(&d, 0);
    d.demand.users = 4;
    const double users = pith_own_bytes(&d, 0);
    assert_true(threads > one && rows > threads);
    near(floor((users - rows) / (3 * 4096.0 * 131072)), 1); /* their caches, and little else */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_of_all_kernels), cmocka_unit_test(a_forecast_takes_them),
        cmocka_unit_test(what_lacks_is_no_sum), cmocka_unit_test(what_is_no_figure_is_refused),
        cmocka_unit_test(what_is_held_grows)};
    return cmocka_run_group_tests(tests, open_all, close_all);
}
