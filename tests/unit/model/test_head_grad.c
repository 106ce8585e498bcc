/* The way back through the last norm and the head: against differences of the logits along random
 * directions, for norms of both kinds, capped and scaled logits, biases, and a tied head. */
#include "model/grad/head_grad.h"
#include "unit/model/arch_case.h"

enum { ROWS = 5 };

static float pattern(size_t i)
{
    return (float)((int)(37 * i % 101) - 50) / 50.0f;
}

/* The sum of logits, each times the pattern. */
static double loss_of(struct rig *r, const float *x, float *logits)
{
    struct pith_error err = {0};
    const size_t count = ROWS * (size_t)r->model->shape.vocab;
    double sum = 0;
    assert_ok(pith_model_logits(r->model, r->backend, x, ROWS, logits, &err), err);
    for (size_t i = 0; i < count; i++) sum += (double)logits[i] * (double)pattern(i);
    return sum;
}

static double along(struct rig *r, const float *x, const float *way, double step, float *logits)
{
    const size_t count = ROWS * (size_t)r->model->shape.hidden;
    float *there = malloc(count * sizeof *there);
    for (size_t i = 0; i < count; i++) there[i] = (float)((double)x[i] + step * (double)way[i]);
    const double loss = loss_of(r, there, logits);
    free(there);
    return loss;
}

static void check_rig(struct rig *r, const char *name)
{
    struct pith_error err = {0};
    const size_t hidden = r->model->shape.hidden, vocab = r->model->shape.vocab;
    const size_t count = ROWS * hidden;
    float *x = malloc(count * sizeof *x), *d_x = malloc(count * sizeof *d_x);
    float *way = malloc(count * sizeof *way), *logits = malloc(ROWS * vocab * sizeof *logits);
    float *d_logits = malloc(ROWS * vocab * sizeof *d_logits);
    for (size_t i = 0; i < count; i++) x[i] = 0.7f * pattern(3 * i + 1) + 0.1f;
    (void)loss_of(r, x, logits);
    for (size_t i = 0; i < ROWS * vocab; i++) d_logits[i] = pattern(i);
    const struct pith_head_grad g = {
        .x = x, .logits = logits, .d_logits = d_logits, .n = ROWS, .d_x = d_x};
    assert_ok(pith_head_grad(r->model, r->backend, &g, &err), err);
    for (size_t k = 0; k < 3; k++) {
        double told = 0;
        const double step = 1e-2;
        for (size_t i = 0; i < count; i++) way[i] = pattern((7 + k) * i + k);
        for (size_t i = 0; i < count; i++) told += (double)d_x[i] * (double)way[i];
        const double seen = (along(r, x, way, step, logits) - along(r, x, way, -step, logits)) /
                            (2 * step);
        if (!(fabs(told - seen) <= 2e-3 * (fabs(seen) + 1)))
            fail_msg("%s: %g by differences, %g told", name, seen, told);
    }
    free(x);
    free(d_x);
    free(way);
    free(logits);
    free(d_logits);
}

static void gradients_equal_differences(void **state)
{
    static const char *const archs[] = {"gemma2", "granite", "cohere", "gemma3", "gpt2"};
    (void)state;
    struct rig r;
    rig_open_golden(&r, "llama_gqa_tied", 2);
    check_rig(&r, "llama_gqa_tied");
    rig_close(&r);
    for (size_t i = 0; i < sizeof archs / sizeof archs[0]; i++) {
        rig_open_arch(&r, archs[i], 1);
        check_rig(&r, archs[i]);
        rig_close(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(gradients_equal_differences)};
    return cmocka_run_group_tests_name("head_grad", tests, NULL, NULL);
}
