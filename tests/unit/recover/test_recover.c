/* Gradients of the divergence through a whole quantized model: with respect to scales, gains of
 * norms and biases against differences and torch's autograd (tests/golden/grad/make_recover.py);
 * weights by what the straight-through rule makes of them; the same bits for any thread count. */
#include "quantize/run.h"
#include "recover/recover.h"
#include "unit/model/fixture.h"

#include <math.h>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

enum { WINDOWS = 8, LENGTH = 24, HELD = 7 };

struct bench {
    struct pith_recover_options options;
    struct pith_recover r;
    struct pith_pool *pool;
    struct pith_backend *backend;
    char *original, *made, *out;
};

/* Bytes that are not given back; 0 where nobody counts them. */
static size_t heap_in_use(void)
{
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 33)
    const struct mallinfo2 m = mallinfo2();
    return m.uordblks + m.hblkhd;
#else
    return 0;
#endif
}

static void quantize(struct bench *b, const char *grid)
{
    struct pith_error err = {0};
    struct pith_quantize_options o;
    struct pith_report *report = NULL;
    pith_quantize_defaults(&o);
    o.model = b->original;
    o.out = b->made;
    o.recipe = "rtn";
    o.weights = grid;
    o.container = "compressed-tensors";
    o.allow_error = 10;
    /* Its columns are no whole blocks. */
    const char *const ignored = "down_proj";
    if (strchr(grid, ':') == NULL) o.ignore = (struct pith_list){&ignored, 1};
    assert_ok(pith_quantize_model(b->backend, &o, false, &(struct pith_frame){.quiet = true},
                                 &report, &err),
              err);
    pith_report_free(&report);
}

static char *beside(const char *name, const char *suffix)
{
    const size_t n = strlen(name) + strlen(suffix) + 1;
    char *text = malloc(n);
    snprintf(text, n, "%s%s", name, suffix);
    return text;
}

static void work_open(struct bench *b, const char *train, bool resume)
{
    struct pith_error err = {0};
    b->options = (struct pith_recover_options){
        .model = b->made, .original = b->original, .out = NULL, .train = train, .resume = resume};
    struct pith_recover *r = &b->r;
    *r = (struct pith_recover){.options = &b->options,
                               .backend = b->backend,
                               .lock = -1,
                               .batch = 1,
                               .weights = strcmp(train, "all") == 0,
                               .curve = json_array(),
                               .out = pith_strdup(b->out),
                               .partial = pith_strdup(b->out)};
    assert_ok(pith_model_open(b->made, &r->model, &err), err);
    assert_ok(pith_model_open(b->original, &r->original, &err), err);
    r->text.windows = WINDOWS;
    r->text.length = LENGTH;
    r->text.ids = pith_alloc((size_t)WINDOWS * LENGTH, sizeof *r->text.ids);
    for (size_t i = 0; i < (size_t)WINDOWS * LENGTH; i++)
        r->text.ids[i] = (int32_t)((7 * i * i + 3 * i + 1) % r->model->shape.vocab);
    assert_ok(pith_recover_check(r, &err), err);
    assert_ok(pith_recover_list(r, &err), err);
    assert_ok(pith_recover_begin(r, &err), err);
    assert_ok(pith_recover_targets(r, &err), err);
    assert_ok(pith_recover_room(r, &err), err);
}

static void bench_open(struct bench *b, const char *name, const char *grid, const char *train,
                       unsigned threads)
{
    struct pith_error err = {0};
    memset(b, 0, sizeof *b);
    b->original = golden_folder(name);
    b->made = beside(b->original, ".made");
    b->out = beside(b->original, ".out");
    assert_ok(pith_pool_new(threads, &b->pool, &err), err);
    assert_ok(pith_backend_new(b->pool, PITH_CPU_ALL, &b->backend, &err), err);
    quantize(b, grid);
    work_open(b, train, false);
}

static void bench_close(struct bench *b)
{
    pith_recover_free(&b->r);
    assert_int_equal(pith_dir_remove(b->out, NULL), PITH_OK);
    assert_int_equal(pith_dir_remove(b->made, NULL), PITH_OK);
    folder_remove(b->original);
    free(b->made);
    free(b->out);
    pith_backend_free(b->backend);
    pith_pool_free(b->pool);
}

/* A step that moves nothing: the first moment is then a tenth of the gradient. */
static void take_gradient(struct bench *b)
{
    struct pith_error err = {0};
    const size_t window = HELD;
    const struct pith_recover_rates still = {.step = 1};
    assert_ok(pith_recover_train(&b->r, &window, &still, &err), err);
}

static double gradient(const struct bench *b, size_t i)
{
    return (double)pith_recover_state(&b->r, 1)[i] / (double)(1.0f - 0.9f);
}

static double loss_at(struct bench *b, size_t i, float p)
{
    struct pith_error err = {0};
    float *at = &pith_recover_state(&b->r, 0)[i];
    double kl;
    *at = p;
    assert_ok(pith_recover_measure(&b->r, pith_recover_state(&b->r, 0), &kl, &err), err);
    *at = 0;
    return kl;
}

/* Some parameters of a part: the slope is the gradient, but for `off` of the largest there is. */
static void check_part(struct bench *b, const char *name, const struct pith_recover_span *s)
{
    const float h = 0.01f;
    double most = 0;
    assert_true(s->count > 0);
    for (size_t i = 0; i < s->count; i++) most = fmax(most, fabs(gradient(b, s->at + i)));
    assert_true(most > 0);
    for (size_t k = 0; k < 5; k++) {
        const size_t i = s->at + k * (s->count - 1) / 4;
        const double near = (loss_at(b, i, h) - loss_at(b, i, -h)) / (2 * (double)h);
        const double far = (loss_at(b, i, 2 * h) - loss_at(b, i, -2 * h)) / (4 * (double)h);
        const double seen = (4 * near - far) / 3, told = gradient(b, i);
        if (!(fabs(seen - told) <= 0.02 * most))
            fail_msg("%s %zu: %g told, %g by differences, at most %g", name, i, told, seen, most);
    }
}

static void gradients_equal_differences(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b, "llama_bias", "int3:channel", "scales", 2);
    take_gradient(&b);
    const struct pith_layer_plan *l = pith_plan(&b.r.model->plans, 0);
    for (uint32_t i = 0; i < l->linears; i++)
        check_part(&b, l->linear[i].name, pith_recover_linear_at(&b.r, 0, i));
    for (uint32_t i = 0; i < l->vectors; i++)
        check_part(&b, l->vector[i].name, pith_recover_vector_at(&b.r, 0, i));
    check_part(&b, "bias", pith_recover_bias_at(&b.r, 0, 0));
    check_part(&b, "last norm", &b.r.last_gain);
    bench_close(&b);
}

/* Norms of heads, and a last layer. */
static void gradients_of_heads_equal_differences(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b, "qwen3", "int4:channel:asym", "scales", 1);
    take_gradient(&b);
    const uint32_t last = b.r.model->shape.layers - 1;
    const struct pith_layer_plan *l = pith_plan(&b.r.model->plans, last);
    for (uint32_t i = 0; i < l->vectors; i++)
        check_part(&b, l->vector[i].name, pith_recover_vector_at(&b.r, last, i));
    check_part(&b, l->linear[0].name, pith_recover_linear_at(&b.r, last, 0));
    bench_close(&b);
}

/* What torch found of one span; the largest difference that is allowed, relative to its largest. */
static const float *compare(const struct bench *b, const char *name,
                            const struct pith_recover_span *s, size_t count, const float *want)
{
    double most = 0, off = 0;
    assert_true(s->count >= count);
    for (size_t i = 0; i < count; i++) {
        most = fmax(most, fabs((double)want[i]));
        off = fmax(off, fabs((double)want[i] - gradient(b, s->at + i)));
    }
    if (!(off <= 2e-4 * most)) fail_msg("%s: %g off, of %g", name, off, most);
    return want + count;
}

static void gradients_equal_torch(void **state)
{
    (void)state;
    struct pith_error err = {0};
    struct bench b;
    double kl;
    char *bytes;
    size_t size;
    bench_open(&b, "llama_gqa_tied", "int4:channel", "scales", 2);
    const struct pith_recover *r = &b.r;
    assert_ok(pith_file_read("tests/golden/grad/recover.grads", 1 << 20, &bytes, &size, &err), err);
    const float *at = (const float *)(const void *)bytes;
    assert_int_equal(size, (r->count + 1) * sizeof(float));
    assert_ok(pith_recover_measure(&b.r, pith_recover_state(r, 0), &kl, &err), err);
    assert_true(fabs(kl - (double)*at) <= 1e-5 * kl);
    take_gradient(&b);
    at++;
    for (uint32_t l = 0; l < r->model->shape.layers; l++) {
        const struct pith_layer_plan *plan = pith_plan(&r->model->plans, l);
        for (uint32_t i = 0; i < plan->linears; i++)
            at = compare(&b, plan->linear[i].name, pith_recover_linear_at(r, l, i),
                         plan->linear[i].rows, at);
        for (uint32_t i = 0; i < plan->vectors; i++)
            at = compare(&b, plan->vector[i].name, pith_recover_vector_at(r, l, i),
                         plan->vector[i].length, at);
    }
    (void)compare(&b, "last norm", &r->last_gain, r->model->shape.hidden, at);
    pith_free(bytes);
    bench_close(&b);
}

/* What steps take is given back, whole. */
static void steps_keep_no_memory(void **state)
{
    (void)state;
    struct pith_error err = {0};
    struct bench b;
    const struct pith_recover_rates rates = {0.01f, 0.3f, 0.01f, 1};
    const size_t window = 0;
    size_t used[2] = {0};
    bench_open(&b, "llama_bias", "int4:channel:asym", "all", 1);
    for (size_t i = 0; i < 2; i++) {
        for (size_t k = 0; k < 4; k++)
            assert_ok(pith_recover_train(&b.r, &window, &rates, &err), err);
        used[i] = heap_in_use();
    }
    assert_int_equal(used[0], used[1]);
    bench_close(&b);
}

/* One window of eight, but of long texts no more than 8,192 tokens, and always some. */
static void held_out_is_bounded(void **state)
{
    static const struct {
        size_t windows, length, held;
    } of[] = {{8, 24, 1},      {15, 512, 1},      {128, 512, 16}, {129, 512, 14}, {218, 512, 15},
              {4000, 512, 16}, {100000, 128, 63}, {8, 8192, 1},   {64, 4096, 2},  {1000, 16384, 1}};
    (void)state;
    for (size_t i = 0; i < PITH_COUNT(of); i++) {
        const struct pith_recover r = {.text = {.windows = of[i].windows, .length = of[i].length}};
        assert_int_equal(of[i].windows / pith_recover_validation(&r), of[i].held);
    }
}

/* What is taken up from a checkpoint goes on as what was never put down. */
static void resumed_is_the_same(void **state)
{
    (void)state;
    struct pith_error err = {0};
    struct bench b;
    struct pith_recover_rates rates = {0.01f, 0.3f, 0.01f, 1};
    const size_t window = 0;
    bench_open(&b, "llama_bias", "int4:channel:asym", "all", 2);
    const size_t bytes = b.r.state.size;
    float *want = malloc(bytes);
    for (; rates.step <= 3; rates.step++) {
        if (rates.step == 3) assert_ok(pith_recover_save(&b.r, &err), err);
        assert_ok(pith_recover_train(&b.r, &window, &rates, &err), err);
    }
    memcpy(want, b.r.state.data, bytes);
    pith_recover_free(&b.r);
    work_open(&b, "all", true);
    rates.step = 3;
    assert_memory_not_equal(b.r.state.data, want, bytes);
    assert_ok(pith_recover_train(&b.r, &window, &rates, &err), err);
    assert_memory_equal(b.r.state.data, want, bytes);
    free(want);
    bench_close(&b);
}

static void check_same(const struct bench *a, const struct bench *b)
{
    assert_int_equal(a->r.count, b->r.count);
    for (unsigned part = 0; part < 3; part++)
        assert_memory_equal(pith_recover_state(&a->r, part), pith_recover_state(&b->r, part),
                            a->r.count * sizeof(float));
}

static void same_bits_for_any_thread_count(void **state)
{
    (void)state;
    struct pith_error err = {0};
    struct bench b[2];
    const struct pith_recover_rates rates = {0.01f, 0.3f, 0.01f, 1};
    const size_t window = 0;
    for (unsigned i = 0; i < 2; i++) {
        bench_open(&b[i], "llama_bias", "int4:channel:asym", "all", 1 + 2 * i);
        assert_ok(pith_recover_train(&b[i].r, &window, &rates, &err), err);
        assert_ok(pith_recover_train(&b[i].r, &window, &rates, &err), err);
    }
    check_same(&b[0], &b[1]);
    bench_close(&b[0]);
    bench_close(&b[1]);
}

/* Steps against the gradient make the model come nearer, whatever the grid. */
static void divergence_falls(void **state)
{
    static const char *const grids[] = {"int2:channel:asym", "int4:channel", "nvfp4", "mxfp4",
                                        "fp8_e4m3:channel"};
    (void)state;
    for (size_t g = 0; g < PITH_COUNT(grids); g++) {
        struct pith_error err = {0};
        struct bench b;
        double before, after;
        bench_open(&b, "llama_bias", grids[g], "all", 2);
        float *p = pith_recover_state(&b.r, 0);
        const size_t window = HELD;
        assert_ok(pith_recover_measure(&b.r, p, &before, &err), err);
        for (size_t step = 1; step <= 20; step++) {
            const float rate = 1.0f - (float)step / 21.0f;
            const struct pith_recover_rates rates = {0.04f * rate, 0.1f * rate, 0.005f * rate,
                                                     step};
            assert_ok(pith_recover_train(&b.r, &window, &rates, &err), err);
        }
        assert_ok(pith_recover_measure(&b.r, p, &after, &err), err);
        print_message("%-14s %.5f -> %.5f\n", grids[g], before, after);
        assert_true(after < 0.95 * before);
        bench_close(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_equal_differences),
        cmocka_unit_test(gradients_of_heads_equal_differences),
        cmocka_unit_test(gradients_equal_torch),
        cmocka_unit_test(same_bits_for_any_thread_count),
        cmocka_unit_test(steps_keep_no_memory),
        cmocka_unit_test(held_out_is_bounded),
        cmocka_unit_test(resumed_is_the_same),
        cmocka_unit_test(divergence_falls),
    };
    return cmocka_run_group_tests_name("recover", tests, NULL, NULL);
}
