/* export/groups.h: which size of groups rows get that a recipe's own does not divide. */
#include "base/mem.h"
#include "export/groups.h"
#include "llama.h"
#include "test.h"

static const struct pith_arch *arch_of(const char *model_type)
{
    size_t n;
    const struct pith_arch *const *archs = pith_archs(&n);
    for (size_t i = 0; i < n; i++)
        if (strcmp(archs[i]->model_type, model_type) == 0) return archs[i];
    fail_msg("no %s", model_type);
    return NULL;
}

/* SmolLM2-135M's widths. */
static struct pith_plans plans_make(uint32_t hidden, uint32_t ffn)
{
    const struct pith_shape s = {.hidden = hidden,
                                 .ffn = ffn,
                                 .layers = 2,
                                 .vocab = 512,
                                 .heads = 9,
                                 .kv_heads = 3,
                                 .head_dim = hidden / 9,
                                 .dtype = PITH_BF16};
    struct pith_plans plans;
    struct pith_error err = {0};
    assert_ok(pith_plans_make(arch_of("llama"), &s, &plans, &err), err);
    return plans;
}

static struct pith_grid grid_of(const char *text)
{
    struct pith_grid g = {0};
    struct pith_error err = {0};
    assert_ok(pith_grid_parse(text, &g, &err), err);
    return g;
}

static void test_sizes(void **state)
{
    (void)state;
    static const struct {
        const char *container, *grid, *target;
        uint32_t hidden, ffn, q, down;
    } cases[] = {
        {"compressed-tensors", "int4:g128", NULL, 576, 1536, 64, 128},
        {"compressed-tensors", "int4:g128", NULL, 1152, 1536, 128, 128}, /* all divide */
        {"compressed-tensors", "int4:g128", NULL, 288, 864, 32, 32},
        {"compressed-tensors", "int4:g64", NULL, 288, 1536, 32, 64},
        {"compressed-tensors", "int4:g32", NULL, 576, 1536, 32, 32},    /* never larger */
        {"compressed-tensors", "int4:g128", NULL, 144, 1536, 128, 128}, /* none divides */
        {"compressed-tensors", "int4:g256", NULL, 1152, 1536, 128, 256},
        /* A rank has half of what `down` reads; q is cut by rows. */
        {"compressed-tensors", "int4:g128", "vllm:tp=2", 1152, 1728, 128, 32},
        {"compressed-tensors", "int4:g128", "vllm:tp=2", 1152, 1536, 128, 128},
    };
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        struct pith_plans plans = plans_make(cases[i].hidden, cases[i].ffn);
        const struct pith_container_opts opts = {.model_dtype = PITH_BF16};
        const struct pith_grid g = grid_of(cases[i].grid);
        const struct pith_group_rule rule = {&plans, pith_container_find(cases[i].container), &opts,
                                             &cases[i].target, cases[i].target != NULL};
        assert_true(pith_groups_vary(&g));
        assert_int_equal(pith_group_size(&rule, &g, pith_plan(&plans, 1), LLAMA_Q), cases[i].q);
        assert_int_equal(pith_group_size(&rule, &g, pith_plan(&plans, 1), LLAMA_DOWN),
                         cases[i].down);
        pith_plans_free(&plans);
    }
}

/* One size for all: what suits each linear that was added. */
static void test_one_for_all(void **state)
{
    (void)state;
    struct pith_plans plans = plans_make(576, 1536);
    const struct pith_container_opts opts = {.model_dtype = PITH_BF16};
    const struct pith_grid g = grid_of("int4:g128:asym");
    const struct pith_group_rule rule = {&plans, pith_container_find("awq"), &opts, NULL, 0};
    struct pith_group_fit f;
    pith_group_fit_begin(&f, &g);
    pith_group_fit_add(&rule, &f, &pith_plan(&plans, 0)->linear[LLAMA_DOWN]);
    assert_int_equal(pith_group_fit_end(&f), 128);
    pith_group_fit_add(&rule, &f, &pith_plan(&plans, 0)->linear[LLAMA_Q]);
    assert_int_equal(pith_group_fit_end(&f), 64);
    assert_int_equal(pith_group_common(&rule, &g), 64);
    pith_plans_free(&plans);
}

static void test_mix(void **state)
{
    (void)state;
    static const struct {
        const char *container, *target;
        bool mix;
    } cases[] = {
        {"compressed-tensors", NULL, true},
        {"compressed-tensors", "vllm", true},
        {"compressed-tensors", "sglang", true},
        {"compressed-tensors", "llama.cpp", false},
        {"awq", NULL, false},
        {"awq", "vllm", false},
        {"gptq", NULL, false},
        {"hqq", NULL, false},
        {"modelopt", "trtllm", true},
        {"modelopt", "sglang", false},
        {"compressed-tensors", "pith", true},
    };
    struct pith_plans plans = plans_make(576, 1536);
    const struct pith_container_opts opts = {.model_dtype = PITH_BF16};
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        const struct pith_group_rule rule = {&plans, pith_container_find(cases[i].container), &opts,
                                             &cases[i].target, cases[i].target != NULL};
        assert_int_equal(pith_groups_mix(&rule), cases[i].mix);
    }
    pith_plans_free(&plans);
}

static void test_which(void **state)
{
    (void)state;
    static const char *const fixed[] = {"int8:channel", "mxfp4", "nvfp4", "fp8_e4m3:block128",
                                        "q4_k"};
    for (size_t i = 0; i < PITH_COUNT(fixed); i++) {
        const struct pith_grid g = grid_of(fixed[i]);
        assert_false(pith_groups_vary(&g));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_one_for_all),
        cmocka_unit_test(test_mix),
        cmocka_unit_test(test_which),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
