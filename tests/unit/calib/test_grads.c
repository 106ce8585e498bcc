/* Gradients of which windows are kept first and added later are those that grow at once, to the
 * bit: of linears, of experts, of what attention over latents takes into itself. */
#include "calib/grads.h"

#include "base/rng.h"
#include "unit/model/arch_case.h"

enum { WINDOWS = 3, LENGTH = 10 };

struct fixture {
    struct rig rig;
    struct pith_tape tape;
    struct pith_block block;
    float *x, *d, *out;    /* [LENGTH][...] of a window */
    float **once, **later, **once_bias, **later_bias; /* [linears] */
};

static float **take_grads(const struct pith_layer_plan *l)
{
    float **w = calloc(l->linears, sizeof *w);
    for (uint32_t i = 0; i < l->linears; i++)
        if (i != 1) w[i] = calloc((size_t)l->linear[i].rows * l->linear[i].cols, sizeof **w);
    return w;
}

static float **take_biases(const struct pith_layer_plan *l)
{
    float **w = calloc(l->linears, sizeof *w);
    for (uint32_t i = 0; i < l->linears; i++)
        if (l->linear[i].bias) w[i] = calloc(l->linear[i].rows, sizeof **w);
    return w;
}

static void open_fixture(struct fixture *f, const char *name)
{
    struct pith_error err = {0};
    memset(f, 0, sizeof *f);
    rig_open_arch(&f->rig, name, 2);
    const struct pith_plans *plans = &f->rig.model->plans;
    const size_t width = f->rig.model->shape.hidden + pith_plans_carried(plans);
    uint32_t layer = 0;
    while (plans->experts && !pith_plan_experts(pith_plan(plans, layer))) layer++;
    assert_ok(pith_block_load(f->rig.model, layer, PITH_LOAD_FLOAT, &f->block, &err), err);
    assert_ok(pith_tape_init(&f->tape, f->rig.backend, f->rig.model, LENGTH, &err), err);
    f->x = calloc(LENGTH * width, sizeof *f->x);
    f->d = calloc(LENGTH * width, sizeof *f->d);
    f->out = calloc(LENGTH * width, sizeof *f->out);
    f->once = take_grads(f->block.plan);
    f->later = take_grads(f->block.plan);
    f->once_bias = take_biases(f->block.plan);
    f->later_bias = take_biases(f->block.plan);
}

static void close_fixture(struct fixture *f)
{
    for (uint32_t i = 0; i < f->block.plan->linears; i++) {
        free(f->once[i]);
        free(f->later[i]);
        free(f->once_bias[i]);
        free(f->later_bias[i]);
    }
    free(f->once_bias);
    free(f->later_bias);
    free(f->once);
    free(f->later);
    free(f->x);
    free(f->d);
    free(f->out);
    pith_tape_free(&f->tape);
    pith_block_free(&f->block);
    rig_close(&f->rig);
}

static void window(struct fixture *f, size_t which, struct pith_tape_grad g)
{
    struct pith_error err = {0};
    struct pith_rng rng;
    const size_t n = LENGTH * f->rig.model->shape.hidden;
    pith_rng_seed(&rng, which + 5);
    for (size_t i = 0; i < n; i++) f->x[i] = (float)pith_rng_normal(&rng);
    for (size_t i = 0; i < n; i++) f->d[i] = (float)pith_rng_normal(&rng);
    assert_ok(pith_tape_forward(&f->tape, &f->block, f->x, LENGTH, f->out, &err), err);
    g.d_out = f->d;
    pith_tape_backward(&f->tape, &f->block, &g);
}

static void check(const char *name)
{
    struct pith_error err = {0};
    struct fixture f;
    struct pith_grads g;
    open_fixture(&f, name);
    const struct pith_layer_plan *l = f.block.plan;
    const struct pith_grads_room room = {f.rig.model, l, WINDOWS, LENGTH, true};
    const struct pith_grads_sums sums = {f.later, f.later_bias};
    assert_ok(pith_grads_open(&g, f.rig.backend, NULL, &room, &err), err);
    for (int again = 0; again < 2; again++) {
        pith_grads_begin(&g);
        for (size_t w = 0; w < WINDOWS; w++) {
            window(&f, w, (struct pith_tape_grad){.w = f.once, .bias = f.once_bias});
            window(&f, w, (struct pith_tape_grad){.w = f.later,
                                                  .bias = f.later_bias,
                                                  .product = pith_grads_keep,
                                                  .product_ctx = &g});
        }
        assert_ok(pith_grads_meet(&g, l, &sums, &err), err);
    }
    size_t grown = 0;
    for (uint32_t i = 0; i < l->linears; i++) {
        const size_t n = (size_t)l->linear[i].rows * l->linear[i].cols;
        if (f.once_bias[i])
            assert_memory_equal(f.once_bias[i], f.later_bias[i], l->linear[i].rows * sizeof(float));
        if (!f.once[i]) continue;
        assert_memory_equal(f.once[i], f.later[i], n * sizeof(float));
        for (size_t k = 0; k < n; k++) grown += f.once[i][k] != 0.0f;
    }
    assert_true(grown > 100);
    pith_grads_close(&g);
    close_fixture(&f);
}

static void what_is_kept_is_what_grows(void **state)
{
    (void)state;
    check("mistral");
    check("qwen3_moe");
    check("deepseek_v3");
    check("granite_bias");
}

static void more_than_there_is_room_for_is_an_error(void **state)
{
    (void)state;
    struct pith_error err = {0};
    struct fixture f;
    struct pith_grads g;
    open_fixture(&f, "mistral");
    const struct pith_grads_room room = {f.rig.model, f.block.plan, 1, LENGTH, false};
    const struct pith_grads_sums sums = {.w = f.later};
    assert_ok(pith_grads_open(&g, f.rig.backend, NULL, &room, &err), err);
    for (size_t w = 0; w < WINDOWS; w++)
        window(&f, w, (struct pith_tape_grad){
                          .w = f.later, .product = pith_grads_keep, .product_ctx = &g});
    assert_int_equal(pith_grads_meet(&g, f.block.plan, &sums, &err), PITH_NOMEM);
    pith_grads_close(&g);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_kept_is_what_grows),
        cmocka_unit_test(more_than_there_is_room_for_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
