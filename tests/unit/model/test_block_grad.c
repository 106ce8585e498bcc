/* Gradients of a block: against torch's autograd (tests/golden/grad/make_grad.py), against finite
 * differences, and their invariances. */
#include "llama.h"
#include "unit/model/fixture.h"

#include "model/block_grad.h"

/* Difference to torch in float64 that is allowed, relative to the largest value of a part. */
static const double tolerance = 2e-5;

struct bench {
    struct golden g;
    char *dir;
    struct rig r;
    struct pith_block block;
    struct pith_tape tape;
    size_t n, hidden;
    float *x, *out, *d_out, *d_x;
    float *grad[LLAMA_LINEARS];
    size_t count[LLAMA_LINEARS];
};

static void bench_open(struct bench *t, const char *name, uint32_t layer, unsigned threads)
{
    struct pith_error err = {0};
    int32_t ids[PROMPT_MAX];
    memset(t, 0, sizeof *t);
    golden_load(&t->g, name);
    t->dir = folder_make(t->g.config, t->g.weights);
    rig_open(&t->r, t->dir, threads);
    t->n = golden_prompt(0, ids);
    t->hidden = t->r.model->shape.hidden;
    const size_t size = t->n * t->hidden;
    t->x = malloc(size * sizeof *t->x);
    t->out = malloc(size * sizeof *t->out);
    t->d_out = malloc(size * sizeof *t->d_out);
    t->d_x = malloc(size * sizeof *t->d_x);
    for (size_t i = 0; i < size; i++) t->d_out[i] = (float)((int)(37 * i % 101) - 50) / 50.0f;
    assert_ok(pith_tape_init(&t->tape, t->r.backend, t->r.model, t->n, &err), err);
    assert_ok(pith_model_embed(t->r.model, ids, t->n, t->x, &err), err);
    for (uint32_t i = 0; i <= layer; i++) {
        pith_block_free(&t->block);
        assert_ok(pith_block_load(t->r.model, i, PITH_LOAD_FLOAT, &t->block, &err), err);
        if (i == layer) break;
        assert_ok(pith_tape_forward(&t->tape, &t->block, t->x, t->n, t->x, &err), err);
    }
    for (int i = 0; i < LLAMA_LINEARS; i++) {
        t->count[i] = (size_t)t->block.linear[i].w.rows * t->block.linear[i].w.cols;
        t->grad[i] = calloc(t->count[i], sizeof(float));
    }
}

static void bench_close(struct bench *t)
{
    for (int i = 0; i < LLAMA_LINEARS; i++) free(t->grad[i]);
    free(t->x);
    free(t->out);
    free(t->d_out);
    free(t->d_x);
    pith_tape_free(&t->tape);
    pith_block_free(&t->block);
    rig_close(&t->r);
    folder_remove(t->dir);
    golden_free(&t->g);
}

static void bench_run(struct bench *t)
{
    struct pith_error err = {0};
    const struct pith_tape_grad g = {.d_out = t->d_out, .w = t->grad, .d_x = t->d_x};
    assert_ok(pith_tape_forward(&t->tape, &t->block, t->x, t->n, t->out, &err), err);
    pith_tape_backward(&t->tape, &t->block, &g);
}

static double difference(const float *x, const float *expected, size_t n)
{
    double most = 0, worst = 0;
    for (size_t i = 0; i < n; i++) {
        most = fmax(most, fabs((double)expected[i]));
        const double d = fabs((double)x[i] - (double)expected[i]);
        if (!(d <= worst)) worst = d;
    }
    return worst / most;
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
    for (int i = 0; i < LLAMA_LINEARS; i++) total += t.count[i];
    assert_int_equal(size, (2 * t.n * t.hidden + total) * sizeof(float));
    float *expected = malloc(size);
    memcpy(expected, bytes, size);
    const float *at = check_part(name, "output", t.out, expected, t.n * t.hidden);
    at = check_part(name, "d_x", t.d_x, at, t.n * t.hidden);
    for (int i = 0; i < LLAMA_LINEARS; i++)
        at = check_part(name, roles[i], t.grad[i], at, t.count[i]);
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
    struct pith_kv kv;
    struct pith_scratch scratch;
    bench_open(&t, "qwen3", 1, 2);
    assert_ok(pith_tape_forward(&t.tape, &t.block, t.x, t.n, t.out, &err), err);
    assert_ok(pith_kv_init(&kv, &t.r.model->plans, 1, t.n, PITH_F32, &err), err);
    assert_ok(pith_scratch_init(&scratch, &t.r.model->plans, t.n, &err), err);
    const struct pith_pass pass = {
        .backend = t.r.backend, .model = t.r.model, .scratch = &scratch, .kv = &kv};
    assert_ok(pith_block_forward(&pass, &t.block, t.x, t.n, NULL, &err), err);
    assert_memory_equal(t.x, t.out, t.n * t.hidden * sizeof(float));
    pith_scratch_free(&scratch);
    pith_kv_free(&kv);
    bench_close(&t);
}

static double loss(struct bench *t)
{
    struct pith_error err = {0};
    double sum = 0;
    assert_ok(pith_tape_forward(&t->tape, &t->block, t->x, t->n, t->out, &err), err);
    for (size_t i = 0; i < t->n * t->hidden; i++) sum += (double)t->out[i] * (double)t->d_out[i];
    return sum;
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

static void gradients_equal_finite_differences(void **state)
{
    (void)state;
    struct bench t;
    bench_open(&t, "qwen3", 0, 1);
    bench_run(&t);
    for (int role = 0; role < LLAMA_LINEARS; role++) {
        float most = 0;
        for (size_t i = 0; i < t.count[role]; i++) most = fmaxf(most, fabsf(t.grad[role][i]));
        for (size_t i = 0; i < t.count[role]; i += t.count[role] / 7) {
            float *w = (float *)(uintptr_t)t.block.linear[role].w.dense + i;
            const double d = slope(&t, w, 0.015625f), g = (double)t.grad[role][i];
            if (!(fabs(d - g) <= 0.01 * (double)most))
                fail_msg("matrix %d, weight %zu: %g, by differences %g", role, i, g, d);
        }
    }
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
    for (int i = 0; i < LLAMA_LINEARS; i++)
        assert_ok(pith_grid_parse("int8:token", &t.tape.input[i].grid, &err), err);
    bench_run(&t);
    const double d = difference(t.out, plain, size);
    assert_true(d > 1e-5 && d < 0.05);
    const size_t count = t.count[LLAMA_DOWN];
    float most = 0;
    for (size_t i = 0; i < count; i++) most = fmaxf(most, fabsf(t.grad[LLAMA_DOWN][i]));
    for (size_t i = 0; i < count; i += count / 50) {
        float *w = (float *)(uintptr_t)t.block.linear[LLAMA_DOWN].w.dense + i;
        const double by = slope(&t, w, 0.25f), g = (double)t.grad[LLAMA_DOWN][i];
        if (!(fabs(by - g) <= 1e-4 * (double)most))
            fail_msg("weight %zu: %g, by differences %g", i, g, by);
    }
    free(plain);
    bench_close(&t);
}

static void same_bits_for_any_thread_count(void **state)
{
    (void)state;
    struct bench one, three;
    bench_open(&one, "mistral_window", 0, 1);
    bench_open(&three, "mistral_window", 0, 3);
    bench_run(&one);
    bench_run(&three);
    assert_memory_equal(one.d_x, three.d_x, one.n * one.hidden * sizeof(float));
    for (int i = 0; i < LLAMA_LINEARS; i++)
        assert_memory_equal(one.grad[i], three.grad[i], one.count[i] * sizeof(float));
    bench_close(&one);
    bench_close(&three);
}

/* Gradients of several sequences add up. */
static void gradients_accumulate(void **state)
{
    (void)state;
    struct bench t;
    bench_open(&t, "llama_gqa_tied", 0, 1);
    bench_run(&t);
    float *first = malloc(t.count[0] * sizeof *first);
    memcpy(first, t.grad[0], t.count[0] * sizeof *first);
    bench_run(&t);
    for (size_t i = 0; i < t.count[0]; i++) first[i] *= 2;
    assert_true(difference(t.grad[0], first, t.count[0]) < 1e-5);
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
