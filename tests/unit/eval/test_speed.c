/* eval/speed: the arithmetic that a measurement is held against, and that a run does what it says.
 * Nothing here depends on how fast the machine is. */
#include "eval/speed/speed.h"
#include "unit/eval/fixture.h"

static void a_spread_orders_what_it_is_given(void **state)
{
    (void)state;
    double odd[] = {3, 1, 2}, even[] = {4, 1, 9, 2}, same[] = {5, 5}, one[] = {7};
    struct pith_spread s = pith_spread_of(odd, 3);
    assert_true(s.median == 2 && s.least == 1 && s.most == 3);
    s = pith_spread_of(even, 4);
    assert_true(s.median == 3 && s.least == 1 && s.most == 9);
    s = pith_spread_of(same, 2);
    assert_true(s.median == 5 && s.least == 5 && s.most == 5);
    s = pith_spread_of(one, 1);
    assert_true(s.median == 7 && s.least == 7 && s.most == 7);
    s = pith_spread_of(NULL, 0);
    assert_true(s.median == 0 && s.least == 0 && s.most == 0);
}

static void a_roof_is_the_median_of_each_field(void **state)
{
    (void)state;
    const struct pith_roof_sample samples[] = {
        {1, 20, 300, 0, 7}, {3, 10, 100, 0, 8}, {2, 30, 200, 0, 6}};
    double scratch[3];
    const struct pith_roof_sample m = pith_roof_median(samples, 3, scratch);
    assert_true(m.read_one == 2 && m.read_all == 20 && m.f32 == 200 && m.int8 == 0 && m.bf16 == 7);
}

static void matrices_are_counted_as_they_are_held(void **state)
{
    (void)state;
    static const struct {
        const char *grid;
        bool order;
        double bytes;
    } cases[] = {
        {"int4:g128", false, 10 * (300 / 2) + 10 * 3 * 4}, /* a last, shorter group */
        {"int4:g128:asym", false, 10 * (300 / 2) + 10 * 3 * (4 + 1)},
        {"int3:g100", true, 10 * 113 + 10 * 3 * 4 + 300 * 4}, /* 112.5 bytes of codes */
        {"int8:channel", false, 10 * 300 + 10 * 4},
        {"int8:tensor", false, 10 * 300 + 4},
    };
    struct pith_weight w = {.rows = 10, .cols = 300, .dtype = PITH_BF16, .dense = &w};
    assert_true(pith_speed_matrix_bytes(&w) == 6000);
    w.dtype = PITH_F32;
    assert_true(pith_speed_matrix_bytes(&w) == 12000);
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        struct pith_error err = {0};
        struct pith_grid grid;
        struct pith_qmat q;
        uint32_t order[300];
        assert_ok(pith_grid_parse(cases[i].grid, &grid, &err), err);
        assert_ok(pith_qmat_init(&q, 10, 300, &grid, PITH_F16, &err), err);
        if (cases[i].order) q.g_idx = order;
        const struct pith_weight quant = {.rows = 10, .cols = 300, .quant = &q};
        assert_close(cases[i].grid, pith_speed_matrix_bytes(&quant), cases[i].bytes, 0);
        q.g_idx = NULL;
        pith_qmat_free(&q);
    }
}

static void a_cache_is_read_up_to_the_window(void **state)
{
    (void)state;
    struct pith_shape s = {.hidden = 8,
                           .ffn = 8,
                           .layers = 4,
                           .heads = 2,
                           .kv_heads = 2,
                           .head_dim = 8,
                           .vocab = 4,
                           .place = {.rotary = 8}};
    struct pith_error err = {0};
    struct pith_plans p;
    size_t count;
    assert_ok(pith_plans_make(pith_archs(&count)[0], &s, &p, &err), err);
    const double row = 2 * 2 * 16; /* keys and values, padded to 16 */
    const struct pith_kv_format f32 = pith_kv_floats(PITH_F32), bf16 = pith_kv_floats(PITH_BF16);
    assert_true(pith_speed_kv_bytes(&p, 0, &f32) == 4 * row * 4);
    assert_true(pith_speed_kv_bytes(&p, 99, &bf16) == 4 * row * 100 * 2);
    assert_true(pith_speed_kv_bytes(&p, 9.5, &f32) == 4 * row * 10.5 * 4);
    s.windows.size = 10;
    for (uint32_t i = 1; i < s.layers; i++) pith_layer_put(&s.windows.layers, i);
    pith_plans_free(&p);
    assert_ok(pith_plans_make(pith_archs(&count)[0], &s, &p, &err), err);
    assert_true(pith_speed_kv_bytes(&p, 99, &f32) == row * (100 + 3 * 10) * 4);
    assert_true(pith_speed_kv_bytes(&p, 4, &f32) == 4 * row * 5 * 4);
    pith_plans_free(&p);
}

/* Weights of a model of the checkpoint's shape, by hand. */
static void a_model_is_counted_whole(void **state)
{
    (void)state;
    struct pith_error err = {0};
    struct rig r;
    rig_open(&r, GOLDEN "tiny", 1);
    assert_ok(pith_model_load_blocks(r.model, NULL, &err), err);
    const struct pith_shape *s = &r.model->shape;
    const double q = s->heads * s->head_dim, kv = s->kv_heads * s->head_dim, h = s->hidden;
    const double block = q * h + 2 * kv * h + h * q + 3 * h * s->ffn;
    const double bytes = pith_dtype_bits(r.model->head.dtype) / 8;
    assert_false(s->biases.qkv || s->biases.o || s->biases.mlp);
    assert_close("bytes", pith_speed_weight_bytes(r.model, 1),
                 bytes * (block * s->layers + s->vocab * h + h) + 4 * h * (2 * s->layers + 1), 0);
    assert_close("operations", pith_speed_prefill_operations(r.model, 7),
                 2 * (7 * block * s->layers + s->vocab * h), 0);
    assert_true(pith_speed_prefill_operations(r.model, 0) == 0);
    rig_close(&r);
}

struct watcher {
    unsigned calls, stop_at;
    double last;
};

static int watch(void *ctx, const char *what, double done, double total)
{
    struct watcher *w = ctx;
    assert_non_null(what);
    assert_true(done >= w->last && done <= total);
    w->last = done;
    return ++w->calls == w->stop_at;
}

static void a_run_fills_what_was_asked_for(void **state)
{
    (void)state;
    struct pith_error err = {0};
    struct rig r;
    struct watcher w = {0};
    const struct pith_progress progress = {watch, &w};
    struct pith_speed out;
    rig_open(&r, GOLDEN "tiny", 2);
    struct pith_speed_job job = {.backend = r.backend,
                                 .model = r.model,
                                 .kv = pith_kv_floats(PITH_BF16),
                                 .prompt = 5,
                                 .gen = 3,
                                 .depth = 20,
                                 .reps = 2,
                                 .progress = &progress};
    assert_int_equal(pith_speed_measure(&job, &out, NULL), PITH_ARG); /* no blocks */
    assert_ok(pith_model_load_blocks(r.model, NULL, &err), err);
    assert_ok(pith_speed_measure(&job, &out, &err), err);
    assert_true(out.first_token.least > 0 && out.first_token.least <= out.first_token.median &&
                out.first_token.median <= out.first_token.most);
    assert_true(out.token.least > 0 && out.token.least <= out.token.most);
    assert_true(out.cold_first_token > 0 && out.memory_peak > 0);
    assert_true(out.roof.read_one > 0 && out.roof.read_all > 0 && out.roof.f32 > 0);
    /* Three tokens at positions 20, 21 and 22. */
    assert_true(out.kv_bytes == pith_speed_kv_bytes(&r.model->plans, 21, &job.kv));
    assert_true(out.weight_bytes == pith_speed_weight_bytes(r.model, 1));
    assert_true(w.calls >= 4 && w.last == 3); /* on a slow machine it is asked between, too */
    w = (struct watcher){0};
    job.prompt = 0;
    assert_ok(pith_speed_measure(&job, &out, &err), err);
    assert_true(out.first_token.most == 0 && out.cold_first_token == 0 && out.token.least > 0);
    assert_true(out.prefill_operations == 0);
    w = (struct watcher){0};
    job.prompt = 1;
    job.gen = 0;
    assert_ok(pith_speed_measure(&job, &out, &err), err);
    assert_true(out.token.most == 0 && out.kv_bytes == 0 && out.first_token.least > 0);
    rig_close(&r);
}

static void sequences_are_timed_beside_one(void **state)
{
    (void)state;
    struct pith_error err = {0};
    struct rig r;
    struct pith_speed out;
    rig_open(&r, GOLDEN "tiny", 2);
    assert_ok(pith_model_load_blocks(r.model, NULL, &err), err);
    struct pith_speed_job job = {.backend = r.backend,
                                 .model = r.model,
                                 .kv = pith_kv_floats(PITH_BF16),
                                 .prompt = 40, /* longer than the tokens that are made */
                                 .gen = 3,
                                 .depth = 20,
                                 .sequences = 5,
                                 .reps = 3};
    assert_ok(pith_speed_measure(&job, &out, &err), err);
    assert_true(out.many.step.least > 0 && out.many.step.least <= out.many.step.most);
    assert_true(out.many.times_one.least > 0 && out.many.of_bandwidth.least > 0);
    assert_true(out.many.kv_bytes == 5 * out.kv_bytes);
    assert_true(out.many.weight_bytes == pith_speed_weight_bytes(r.model, 5));
    assert_close("rows of the embedding", out.many.weight_bytes - out.weight_bytes,
                 4 * pith_speed_matrix_bytes(&r.model->embed) / r.model->embed.rows, 1e-6);
    assert_true(out.many.cache_bytes == 5 * pith_speed_cache_bytes(&r.model->plans, 23, &job.kv));
    job.sequences = PITH_SPEED_SEQUENCES + 1;
    assert_int_equal(pith_speed_measure(&job, &out, NULL), PITH_LIMIT);
    job.sequences = 2;
    job.gen = 0;
    assert_int_equal(pith_speed_measure(&job, &out, NULL), PITH_ARG);
    rig_close(&r);
}

static void a_run_can_be_refused_and_stopped(void **state)
{
    (void)state;
    struct pith_error err = {0};
    struct rig r;
    struct watcher w = {.stop_at = 2};
    const struct pith_progress progress = {watch, &w};
    struct pith_speed out;
    rig_open(&r, GOLDEN "tiny", 1);
    assert_ok(pith_model_load_blocks(r.model, NULL, &err), err);
    struct pith_speed_job job = {.backend = r.backend,
                                 .model = r.model,
                                 .kv = pith_kv_floats(PITH_F32),
                                 .gen = 1,
                                 .reps = 3,
                                 .progress = &progress};
    assert_int_equal(pith_speed_measure(&job, &out, NULL), PITH_INTERRUPTED);
    assert_int_equal(w.calls, 2);
    job.reps = 0;
    assert_int_equal(pith_speed_measure(&job, &out, NULL), PITH_ARG);
    job.reps = 1;
    job.gen = 0;
    assert_int_equal(pith_speed_measure(&job, &out, NULL), PITH_ARG);
    job.gen = 1;
    job.depth = (size_t)1 << 40;
    assert_int_equal(pith_speed_measure(&job, &out, NULL), PITH_LIMIT);
    rig_close(&r);
}

/* A repetition of a large model takes minutes: it is asked in the middle of one. */
static void a_repetition_can_be_stopped(void **state)
{
    (void)state;
    struct pith_error err = {0};
    struct pith_pool *pool;
    struct pith_backend *slow;
    struct pith_model *m;
    struct pith_speed out;
    struct watcher w = {.stop_at = 3};
    const struct pith_progress progress = {watch, &w};
    assert_ok(pith_pool_new(1, &pool, &err), err);
    assert_ok(pith_backend_new(pool, PITH_CPU_SCALAR, &slow, &err), err);
    assert_ok(pith_model_open("models/probe", &m, &err), err);
    assert_ok(pith_model_load_blocks(m, NULL, &err), err);
    const struct pith_speed_job job = {.backend = slow,
                                       .model = m,
                                       .kv = pith_kv_floats(PITH_F32),
                                       .gen = 400,
                                       .reps = 1,
                                       .progress = &progress};
    assert_int_equal(pith_speed_measure(&job, &out, NULL), PITH_INTERRUPTED);
    assert_true(w.last < 2); /* 2: the repetition is over */
    pith_model_close(m);
    pith_backend_free(slow);
    pith_pool_free(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_spread_orders_what_it_is_given),
        cmocka_unit_test(a_roof_is_the_median_of_each_field),
        cmocka_unit_test(matrices_are_counted_as_they_are_held),
        cmocka_unit_test(a_cache_is_read_up_to_the_window),
        cmocka_unit_test(a_model_is_counted_whole),
        cmocka_unit_test(a_run_fills_what_was_asked_for),
        cmocka_unit_test(sequences_are_timed_beside_one),
        cmocka_unit_test(a_run_can_be_refused_and_stopped),
        cmocka_unit_test(a_repetition_can_be_stopped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
