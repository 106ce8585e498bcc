/* What experts are calibrated on: their own tokens, all, or both, against passes over the whole
 * block; and that the stages behind a mixture still give the block's output. */
#include "calib/stages.h"

#include "unit/model/arch_case.h"

enum { WINDOWS = 3, LENGTH = 20, TOKENS = WINDOWS * LENGTH, HIDDEN = 32, MOST = 16384 };

struct fixture {
    struct rig rig;
    struct pith_collector collector;
    struct pith_block block;
    float x[TOKENS * HIDDEN], y[TOKENS * HIDDEN], z[TOKENS * HIDDEN], between[MOST];
    struct pith_acts in, out, want;
};

static void open_fixture(struct fixture *f, const char *name)
{
    struct pith_error err = {0};
    memset(f, 0, sizeof *f);
    rig_open_arch(&f->rig, name, 2);
    assert_int_equal(f->rig.model->shape.hidden, HIDDEN);
    assert_true(TOKENS * pith_stages_width(&f->rig.model->plans) <= MOST);
    for (size_t i = 0; i < TOKENS; i++) {
        const int32_t id = (int32_t)((i * i * 7 + i * 3 + 1) % 80);
        assert_ok(pith_model_embed(f->rig.model, &id, 1, f->x + i * HIDDEN, &err), err);
    }
    f->in = (struct pith_acts){f->x, WINDOWS, LENGTH, HIDDEN, 0, 0, 0, 0};
    f->out = (struct pith_acts){f->y, WINDOWS, LENGTH, HIDDEN, 0, 0, 0, 0};
    f->want = (struct pith_acts){f->z, WINDOWS, LENGTH, HIDDEN, 0, 0, 0, 0};
    uint32_t layer = 0;
    while (!pith_plan_experts(pith_plan(&f->rig.model->plans, layer))) layer++;
    assert_ok(pith_block_load(f->rig.model, layer, PITH_LOAD_FLOAT, &f->block, &err), err);
    assert_ok(pith_collector_init(&f->collector, f->rig.backend, f->rig.model, LENGTH, &err), err);
}

static void close_fixture(struct fixture *f)
{
    pith_collector_free(&f->collector);
    pith_block_free(&f->block);
    rig_close(&f->rig);
}

static const unsigned needs = PITH_NEED_HESSIAN | PITH_NEED_ABSMEAN | PITH_NEED_RANGE;

static void stage(struct fixture *f, enum pith_experts_rule rule, bool kept, uint32_t site,
                  struct pith_stats *stats)
{
    struct pith_error err = {0};
    struct pith_stages s = {.collector = &f->collector,
                            .block = &f->block,
                            .in = &f->in,
                            .out = &f->out,
                            .between = kept ? f->between : NULL,
                            .routed = {.rule = rule}};
    assert_ok(pith_stages_collect(&s, site, needs, 0, stats, &err), err);
    pith_stages_end(&s);
}

/* a = (b * n + c * m) / (n + m), to rounding. */
static void assert_mix(const float *a, const float *b, double n, const float *c, double m,
                       size_t count)
{
    double most = 0;
    for (size_t i = 0; i < count; i++) most = fmax(most, fabs((double)a[i]));
    for (size_t i = 0; i < count; i++) {
        const double want = ((n > 0 ? (double)b[i] * n : 0) + (double)c[i] * m) / (n + m);
        assert_true(fabs((double)a[i] - want) <= 1e-5 * most);
    }
}

/* An expert's own tokens are what a pass over the whole block taps there. */
static void check_routed(const struct pith_stats *got, const struct pith_stats *whole)
{
    const size_t count = (size_t)got->dim * got->dim;
    assert_int_equal(got->tokens, whole->tokens);
    if (got->tokens == 0) return;
    float *scaled = malloc(count * sizeof *scaled);
    for (size_t i = 0; i < count; i++)
        scaled[i] = (float)((double)whole->hessian[i] * TOKENS / (double)whole->tokens);
    assert_mix(got->hessian, scaled, 1, scaled, 0, count);
    assert_mix(got->absmean, whole->absmean, 1, whole->absmean, 0, got->dim);
    assert_memory_equal(got->lo, whole->lo, got->dim * sizeof(float));
    assert_memory_equal(got->hi, whole->hi, got->dim * sizeof(float));
    free(scaled);
}

static void check_site(struct fixture *f, uint32_t site, bool kept, uint64_t *tokens)
{
    struct pith_error err = {0};
    struct pith_stats whole, routed, all, pooled;
    const struct pith_collect what = {.first = site, .count = 1, .needs = needs};
    assert_ok(pith_collect(&f->collector, &f->block, &f->in, &what, &whole, &err), err);
    stage(f, PITH_EXPERTS_ROUTED, kept, site, &routed);
    stage(f, PITH_EXPERTS_ALL, kept, site, &all);
    stage(f, PITH_EXPERTS_POOLED, kept, site, &pooled);
    check_routed(&routed, &whole);
    assert_int_equal(all.tokens, TOKENS);
    const size_t count = (size_t)all.dim * all.dim;
    const double own = (double)routed.tokens;
    assert_mix(pooled.hessian, routed.hessian, own, all.hessian, PITH_POOLED_MASS, count);
    assert_mix(pooled.absmean, routed.absmean, own, all.absmean, PITH_POOLED_MASS, all.dim);
    *tokens += routed.tokens;
    pith_stats_free(&whole, 1);
    pith_stats_free(&routed, 1);
    pith_stats_free(&all, 1);
    pith_stats_free(&pooled, 1);
}

static void rules_are_kept(void **state)
{
    (void)state;
    static const char *const cases[] = {"qwen3_moe", "qwen2_moe", "llama4", "gemma4_moe"};
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        struct fixture f;
        open_fixture(&f, cases[i]);
        const struct pith_layer_plan *l = f.block.plan;
        uint64_t tokens = 0;
        for (uint32_t site = 0; site < l->sites; site++)
            if (l->site[site].expert != PITH_NO_PART) check_site(&f, site, site % 4 != 1, &tokens);
        /* gate and up, and down, of each token's experts. */
        assert_int_equal(tokens, 2 * TOKENS * f.rig.model->shape.moe.taken);
        close_fixture(&f);
    }
}

/* Behind the router all tokens read what it reads. */
static void all_is_what_the_router_reads(void **state)
{
    (void)state;
    struct fixture f;
    struct pith_stats router, expert;
    open_fixture(&f, "qwen3_moe");
    const uint32_t site = pith_plan_router(f.block.plan);
    stage(&f, PITH_EXPERTS_ALL, true, site, &router);
    stage(&f, PITH_EXPERTS_ALL, true, site + 1, &expert);
    assert_int_equal(router.dim, expert.dim);
    assert_mix(expert.hessian, router.hessian, 1, router.hessian, 0,
               (size_t)router.dim * router.dim);
    pith_stats_free(&router, 1);
    pith_stats_free(&expert, 1);
    close_fixture(&f);
}

/* Experts asked for, or not, the rest of the block is run as a whole pass would. */
static void the_end_is_the_block_s(void **state)
{
    (void)state;
    static const char *const cases[] = {"qwen3_moe", "qwen2_moe"};
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        struct fixture f;
        struct pith_error err = {0};
        struct pith_stats stats;
        open_fixture(&f, cases[i]);
        struct pith_stages s = {.collector = &f.collector,
                                .block = &f.block,
                                .in = &f.in,
                                .out = &f.out,
                                .between = f.between};
        for (uint32_t site = 0; site < f.block.plan->sites; site++) {
            if (site % 3 == 2) continue;
            assert_ok(pith_stages_collect(&s, site, needs, 0, &stats, &err), err);
            pith_stats_free(&stats, 1);
        }
        assert_ok(pith_stages_finish(&s, &err), err);
        assert_ok(pith_propagate(&f.collector, &f.block, &f.in, &f.want, &err), err);
        assert_memory_equal(f.y, f.z, sizeof f.y);
        pith_stages_end(&s);
        close_fixture(&f);
    }
}

static void rules_have_names(void **state)
{
    (void)state;
    struct pith_error err = {0};
    enum pith_experts_rule rule = PITH_EXPERTS_ALL;
    assert_ok(pith_experts_rule_find(NULL, &rule, &err), err);
    assert_int_equal(rule, PITH_EXPERTS_POOLED);
    for (int i = 0; i <= PITH_EXPERTS_ALL; i++) {
        const char *name = pith_experts_rule_name((enum pith_experts_rule)i);
        assert_ok(pith_experts_rule_find(name, &rule, &err), err);
        assert_int_equal(rule, i);
    }
    assert_int_equal(pith_experts_rule_find("some", &rule, &err), PITH_ARG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules_are_kept),
        cmocka_unit_test(all_is_what_the_router_reads),
        cmocka_unit_test(the_end_is_the_block_s),
        cmocka_unit_test(rules_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
