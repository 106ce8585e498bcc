/* A block whose branches stand side by side, in stages: what a stage leaves is wider than what the
 * one before left, and must not lie on what it has still to read. */
#include "calib/stages.h"
#include "unit/model/arch_case.h"

enum { WINDOWS = 3, LENGTH = 16, TOKENS = WINDOWS * LENGTH };

static void stages_equal_passes(void **state)
{
    (void)state;
    struct pith_error err = {0};
    struct rig rig;
    struct pith_collector c;
    struct pith_block block;
    rig_open_arch(&rig, "cohere", 2);
    const size_t hidden = rig.model->shape.hidden, count = TOKENS * hidden;
    const uint32_t width = pith_stages_width(&rig.model->plans);
    float *x = calloc(3 * count, sizeof *x), *between = calloc(TOKENS * (size_t)width, sizeof *x);
    for (size_t i = 0; i < TOKENS; i++) {
        const int32_t id = (int32_t)((i * i * 7 + i * 3 + 1) % 80);
        assert_ok(pith_model_embed(rig.model, &id, 1, x + i * hidden, &err), err);
    }
    const struct pith_acts in = {x, WINDOWS, LENGTH, hidden, 0, 0, 0, 0};
    const struct pith_acts out = {x + count, WINDOWS, LENGTH, hidden, 0, 0, 0, 0};
    const struct pith_acts want = {x + 2 * count, WINDOWS, LENGTH, hidden, 0, 0, 0, 0};
    assert_ok(pith_block_load(rig.model, 0, PITH_LOAD_FLOAT, &block, &err), err);
    assert_ok(pith_collector_init(&c, rig.backend, rig.model, LENGTH, &err), err);
    struct pith_stages s = {
        .collector = &c, .block = &block, .in = &in, .out = &out, .between = between};
    for (uint32_t site = 0; site < block.plan->sites; site++) {
        struct pith_stats whole, got;
        const struct pith_collect what = {.first = site, .count = 1, .needs = PITH_NEED_HESSIAN};
        assert_ok(pith_collect(&c, &block, &in, &what, &whole, &err), err);
        assert_ok(pith_stages_collect(&s, site, PITH_NEED_HESSIAN, 0, &got, &err), err);
        const size_t dim = whole.dim;
        assert_memory_equal(whole.hessian, got.hessian, dim * dim * sizeof(float));
        pith_stats_free(&whole, 1);
        pith_stats_free(&got, 1);
    }
    assert_ok(pith_stages_finish(&s, &err), err);
    assert_ok(pith_propagate(&c, &block, &in, &want, &err), err);
    assert_memory_equal(out.x, want.x, count * sizeof *x);
    pith_collector_free(&c);
    pith_block_free(&block);
    rig_close(&rig);
    free(x);
    free(between);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(stages_equal_passes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
