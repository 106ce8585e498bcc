/* Gradients of a block: against torch's autograd (tests/golden/grad/make_grad.py), against finite
 * differences, and their invariances. */
#include "llama.h"
#include "unit/model/grad_bench.h"

static void bench_open(struct bench *t, const char *name, uint32_t layer, unsigned threads)
{
    memset(t, 0, sizeof *t);
    rig_open_golden(&t->r, name, threads);
    bench_init(t);
    layer_open(t, layer);
    assert_int_equal(t->block.plan->linears, LLAMA_LINEARS);
}

static const float *check_part(const char *name, const char *part, const float *x,
                               const float *expected, size_t n)
{
    const double d = difference(x, expected, n);
    if (!(d <= tolerance)) fail_msg("%s: %s differs by %g of its largest", name, part, d);
    return expected + n;
}

static void check_case(const char *name, uint32_t layer)
{
    static const char *const roles[] = {"q", "k", "v", "o", "gate", "up", "down"};
    struct pith_error err = {0};
    struct bench t;
    char path[256], *bytes;
    size_t size, total = 0;
    bench_open(&t, name, layer, 2);
    bench_run(&t);
    snprintf(path, sizeof path, "tests/golden/grad/%s.grads", name);
    assert_ok(pith_file_read(path, 1 << 20, &bytes, &size, &err), err);
    for (uint32_t i = 0; i < LLAMA_LINEARS; i++) total += count_of(&t, i);
    assert_int_equal(size, (2 * t.n * t.hidden + total) * sizeof(float));
    float *expected = malloc(size);
    memcpy(expected, bytes, size);
    const float *at = check_part(name, "output", t.out, expected, t.n * t.hidden);
    at = check_part(name, "d_x", t.d_x, at, t.n * t.hidden);
    for (uint32_t i = 0; i < LLAMA_LINEARS; i++)
        at = check_part(name, roles[i], t.grad[i], at, count_of(&t, i));
    const size_t size_x = t.n * t.hidden;
    print_message("%-20s %.1e\n", name, difference(t.d_x, expected + size_x, size_x));
    free(expected);
    pith_free(bytes);
    bench_close(&t);
}

static void gradients_equal_torch(void **state)
{
    (void)state;
    check_case("llama_gqa_tied", 0);
    check_case("mistral_window", 0);
    check_case("qwen3", 0);
    check_case("llama_bias", 0);
    check_case("qwen2_window_old", 1);
    check_case("rope_yarn_ramp", 0);
}

/* The forward pass that remembers is the one that serves. */
static void forward_is_the_models_own(void **state)
{
    (void)state;
    struct pith_error err = {0};
    struct bench t;
    bench_open(&t, "qwen3", 1, 2);
    assert_ok(pith_tape_forward(&t.tape, &t.block, t.x, t.n, t.out, &err), err);
    assert_true(forward_is_the_same(&t, 1));
    bench_close(&t);
}

/* Two steps, so that the error of third order cancels; what is left is float32's rounding. */
static double slope(struct bench *t, float *w, float step)
{
    const float old = *w;
    double d[2];
    for (int i = 0; i < 2; i++) {
        const float h = step * (float)(i + 1);
        *w = old + h;
        const double up = loss(t);
        *w = old - h;
        d[i] = (up - loss(t)) / (2.0 * (double)h);
    }
    *w = old;
    return (4 * d[0] - d[1]) / 3;
}

/* Some weights of a matrix: the slope is the gradient, but for `off` of the largest there is. */
static void check_slopes(struct bench *t, uint32_t role, size_t points, float step, double off)
{
    const size_t count = count_of(t, role);
    float most = 0;
    for (size_t i = 0; i < count; i++) most = fmaxf(most, fabsf(t->grad[role][i]));
    for (size_t i = 0; i < count; i += count / points) {
        float *w = (float *)(uintptr_t)t->block.linear[role].w.dense + i;
        const double d = slope(t, w, step), g = (double)t->grad[role][i];
        if (!(fabs(d - g) <= off * (double)most))
            fail_msg("matrix %u, weight %zu: %g, by differences %g", role, i, g, d);
    }
}

static void gradients_equal_finite_differences(void **state)
{
    (void)state;
    struct bench t;
    bench_open(&t, "qwen3", 0, 1);
    bench_run(&t);
    for (uint32_t role = 0; role < LLAMA_LINEARS; role++)
        check_slopes(&t, role, 7, 0.015625f, 0.01);
    bench_close(&t);
}

/* An input that is rounded: the output is near what it was, and the gradient is that of the product
 * with the rounded input. (Of the last linear, since what comes after the others is rounded too.)
 */
static void rounded_inputs_are_what_is_multiplied(void **state)
{
    (void)state;
    struct pith_error err = {0};
    struct bench t;
    bench_open(&t, "llama_gqa_tied", 0, 2);
    const size_t size = t.n * t.hidden;
    assert_ok(pith_tape_forward(&t.tape, &t.block, t.x, t.n, t.out, &err), err);
    float *plain = malloc(size * sizeof *plain);
    memcpy(plain, t.out, size * sizeof *plain);
    for (uint32_t i = 0; i < LLAMA_LINEARS; i++)
        assert_ok(pith_grid_parse("int8:token", &t.tape.input[i].grid, &err), err);
    bench_run(&t);
    const double d = difference(t.out, plain, size);
    assert_true(d > 1e-5 && d < 0.05);
    check_slopes(&t, LLAMA_DOWN, 50, 0.25f, 1e-4);
    free(plain);
    bench_close(&t);
}

static void same_bits_for_any_thread_count(void **state)
{
    (void)state;
    struct bench one, three;
    bench_open(&one, "mistral_window", 0, 1);
    bench_open(&three, "mistral_window", 0, 3);
    assert_same_gradients(&one, &three);
}

/* Gradients of several sequences add up. */
static void gradients_accumulate(void **state)
{
    (void)state;
    struct bench t;
    bench_open(&t, "llama_gqa_tied", 0, 1);
    bench_run(&t);
    const size_t count = count_of(&t, 0);
    float *first = malloc(count * sizeof *first);
    memcpy(first, t.grad[0], count * sizeof *first);
    bench_run(&t);
    for (size_t i = 0; i < count; i++) first[i] *= 2;
    assert_true(difference(t.grad[0], first, count) < 1e-5);
    free(first);
    bench_close(&t);
}

static void what_does_not_fit_is_refused(void **state)
{
    (void)state;
    struct pith_error err = {0};
    struct bench t;
    struct pith_tape none;
    bench_open(&t, "llama_bf16", 0, 1);
    assert_int_equal(pith_tape_init(&none, t.r.backend, t.r.model, 0, &err), PITH_ARG);
    assert_int_equal(pith_tape_forward(&t.tape, &t.block, t.x, t.n + 1, t.out, NULL), PITH_ARG);
    assert_int_equal(pith_tape_forward(&t.tape, &t.r.model->blocks[0], t.x, t.n, t.out, NULL),
                     PITH_ARG);
    assert_true(pith_tape_bytes(t.r.model, 1, SIZE_MAX / 2) == UINT64_MAX);
    bench_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_equal_torch),
        cmocka_unit_test(forward_is_the_models_own),
        cmocka_unit_test(gradients_equal_finite_differences),
        cmocka_unit_test(rounded_inputs_are_what_is_multiplied),
        cmocka_unit_test(same_bits_for_any_thread_count),
        cmocka_unit_test(gradients_accumulate),
        cmocka_unit_test(what_does_not_fit_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
