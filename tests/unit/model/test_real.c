/* Real models of the optional data folder against the losses and the greedy text that transformers
 * gives (tests/golden/model/make_real.py); and that reading tokens allocates nothing, on a golden
 * model. */
#include "model/sampler.h"
#include "requests.h"
#include "unit/model/fixture.h"

/* Reads a prompt of some chunks of positions, then token after token. */
static void check_generation(enum pith_dtype kv)
{
    enum { PROMPT = 1030, CHUNK = 64, MADE = 40 };
    struct pith_error err = {0};
    struct rig r;
    rig_open_golden(&r, "qwen3", 2);
    struct pith_session s;
    struct pith_sampler sampler;
    const size_t hidden = r.model->shape.hidden, vocab = r.model->shape.vocab;
    float *x = malloc(PROMPT * hidden * sizeof *x), *logits = malloc(vocab * sizeof *logits);
    int32_t ids[PROMPT];
    for (size_t i = 0; i < PROMPT; i++) ids[i] = (int32_t)(i * i % PROMPT_VOCAB);
    const struct pith_session_options options = {
        .capacity = PROMPT + MADE, .chunk = CHUNK, .kv = pith_kv_floats(kv)};
    assert_ok(pith_session_init(&s, r.model, r.backend, &options, &err), err);
    const struct pith_sampling how = {0.9f, 20, 0.95f, 1, 0, 0};
    assert_ok(pith_sampler_init(&sampler, r.backend, vocab, &how, &err), err);
    const long before = atomic_load(&requests), held = atomic_load(&live);
    assert_ok(pith_session_append(&s, ids, PROMPT, x, &err), err);
    const float *last = x + (PROMPT - 1) * hidden;
    for (int i = 0; i < MADE; i++) {
        assert_ok(pith_model_logits(r.model, r.backend, last, 1, logits, &err), err);
        const int32_t next = pith_sampler_next(&sampler, logits);
        assert_ok(pith_session_append(&s, &next, 1, x, &err), err);
        last = x;
    }
    assert_int_equal(atomic_load(&requests), before);
    assert_int_equal(atomic_load(&live), held);
    assert_true(!PITH_REQUESTS || (before > 0 && atomic_load(&countdown) < 0));
    pith_sampler_free(&sampler);
    pith_session_free(&s);
    free(logits);
    free(x);
    rig_close(&r);
}

static void generation_allocates_nothing(void **state)
{
    (void)state;
    check_generation(PITH_F32);
    check_generation(PITH_BF16);
}

static size_t read_ids(const json_t *list, int32_t *ids, size_t room)
{
    const size_t n = json_array_size(list);
    assert_true(n > 0 && n <= room);
    for (size_t i = 0; i < n; i++) ids[i] = (int32_t)json_integer_value(json_array_get(list, i));
    return n;
}

static double mean_loss(struct rig *r, const int32_t *ids, size_t n)
{
    const size_t vocab = r->model->shape.vocab;
    float *logits = rig_logits(r, ids, n, 512);
    double *sums = malloc(n * sizeof *sums), loss = 0;
    pith_logsumexp(r->backend, logits, n, vocab, sums);
    for (size_t i = 0; i + 1 < n; i++)
        loss += sums[i] - (double)logits[i * vocab + (size_t)ids[i + 1]];
    free(sums);
    free(logits);
    return loss / (double)(n - 1);
}

static void check_greedy(struct rig *r, const json_t *file)
{
    struct pith_error err = {0};
    int32_t ids[128];
    const size_t n = read_ids(json_object_get(file, "greedy"), ids, PITH_COUNT(ids));
    size_t at = (size_t)json_integer_value(json_object_get(file, "prompt"));
    const size_t hidden = r->model->shape.hidden, vocab = r->model->shape.vocab;
    float *x = malloc(n * hidden * sizeof *x), *logits = malloc(vocab * sizeof *logits);
    struct pith_session s;
    struct pith_sampler sampler;
    const struct pith_session_options options = {
        .capacity = n, .chunk = n, .kv = pith_kv_floats(PITH_F32)};
    assert_ok(pith_session_init(&s, r->model, r->backend, &options, &err), err);
    const struct pith_sampling greedy = {.top_p = 1};
    assert_ok(pith_sampler_init(&sampler, r->backend, vocab, &greedy, &err), err);
    assert_ok(pith_session_append(&s, ids, at, x, &err), err);
    const float *last = x + (at - 1) * hidden;
    for (; at < n; at++) {
        assert_ok(pith_model_logits(r->model, r->backend, last, 1, logits, &err), err);
        assert_int_equal(pith_sampler_next(&sampler, logits), ids[at]);
        assert_ok(pith_session_append(&s, &ids[at], 1, x, &err), err);
        last = x;
    }
    pith_sampler_free(&sampler);
    pith_session_free(&s);
    free(logits);
    free(x);
}

static void real_models_equal_transformers(void **state)
{
    (void)state;
    static const char *const names[] = {"stories260K", "babyllama-tok105", "probe"};
    for (size_t i = 0; i < PITH_COUNT(names); i++) {
        struct pith_error err = {0};
        char dir[400], path[200];
        json_t *file = NULL;
        snprintf(dir, sizeof dir, "%s/models/%s", test_data_dir(), names[i]);
        if (!pith_path_is_dir(dir)) {
            print_message("%s is not there\n", dir);
            continue;
        }
        snprintf(path, sizeof path, GOLDEN "real/%s.json", names[i]);
        assert_ok(pith_json_load(path, 1 << 20, &file, &err), err);
        struct rig r;
        rig_open(&r, dir, 0);
        const json_t *windows = json_object_get(file, "windows");
        for (size_t w = 0; w < json_array_size(windows); w++) {
            int32_t ids[512];
            const size_t n = read_ids(json_array_get(windows, w), ids, PITH_COUNT(ids));
            const double loss = mean_loss(&r, ids, n);
            const double expected =
                json_number_value(json_array_get(json_object_get(file, "loss"), w));
            print_message("%s window %zu: loss %.7f, transformers %.7f\n", names[i], w, loss,
                          expected);
            assert_true(fabs(loss - expected) < 2e-6);
        }
        check_greedy(&r, file);
        rig_close(&r);
        json_decref(file);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(generation_allocates_nothing),
        cmocka_unit_test(real_models_equal_transformers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
