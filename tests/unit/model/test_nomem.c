/* Whichever of pith's requests for memory fails, opening, loading and running a model say so and
 * leak nothing. */
#include "model/sampler.h"
#include "requests.h"
#include "unit/model/arch_case.h"

/* Levels as calibration would make them of keys and values in -1 .. 1. */
static enum pith_status make_levels(struct pith_model *m, struct pith_error *err)
{
    PITH_TRY(pith_kv_levels_new(&m->plans, &m->kv_levels, err));
    for (uint32_t i = 0; i < m->kv_levels->layers; i++) {
        struct pith_kv_layer_levels *l = &m->kv_levels->layer[i];
        for (uint32_t k = 0; k < l->heads * l->key; k++) l->range[k] = 1;
        l->beyond = 3;
        for (int side = 0; side < 2; side++)
            for (int bits = 2; bits < 5; bits++)
                for (int k = 0; k < 1 << bits; k++)
                    l->level[side][bits - 2][k] = (float)(2 * k + 1) / (float)(1 << bits) - 1;
    }
    return PITH_OK;
}

/* Everything from a folder to a drawn token, by the calling thread alone. */
static enum pith_status run_session(struct pith_model *m, struct pith_backend *b, const char *kv,
                                    float *logits, struct pith_error *err)
{
    struct pith_session s;
    struct pith_sampler sampler;
    float x[3 * 64];
    static const int32_t ids[] = {3, 1, 4};
    static const struct pith_sampling how = {1, 5, 1, 1, 0, 0};
    struct pith_session_options options = {.capacity = 8, .chunk = 2};
    PITH_TRY(pith_kv_parse(kv, PITH_BF16, m, &options.kv, err));
    if (pith_kv_needs_levels(&options.kv, m->plans.layers)) PITH_TRY(make_levels(m, err));
    PITH_TRY(pith_session_init(&s, m, b, &options, err));
    enum pith_status status = pith_session_append(&s, ids, 3, x, err);
    if (status == PITH_OK) status = pith_model_logits(m, b, x, 3, logits, err);
    if (status == PITH_OK) status = pith_sampler_init(&sampler, b, m->shape.vocab, &how, err);
    if (status == PITH_OK) {
        (void)pith_sampler_next(&sampler, logits);
        pith_sampler_free(&sampler);
    }
    pith_session_free(&s);
    return status;
}

struct place {
    const char *dir, *kv;
    struct pith_backend *backend;
};

static enum pith_status open_and_run(void *ctx, struct pith_error *err)
{
    static float logits[3 * PROMPT_VOCAB];
    const struct place *at = ctx;
    struct pith_model *m;
    struct pith_block block;
    PITH_TRY(pith_model_open(at->dir, &m, err));
    enum pith_status s = pith_block_load(m, 1, PITH_LOAD_FLOAT, &block, err);
    if (s == PITH_OK) pith_block_free(&block);
    if (s == PITH_OK) s = pith_model_load_blocks(m, NULL, err);
    if (s == PITH_OK) s = run_session(m, at->backend, at->kv, logits, err);
    pith_model_close(m);
    return s;
}

/* The folder is removed. */
static void fail_every_request(const char *name, char *dir, const char *kv)
{
    struct pith_error err = {0};
    struct place at = {.dir = dir, .kv = kv};
    assert_ok(pith_backend_new(NULL, PITH_CPU_ALL, &at.backend, &err), err);
    const long n = fail_each_request(open_and_run, &at, false);
    print_message("%s, %s: %ld of %ld requests failed\n", name, kv, n, atomic_load(&requests));
    assert_true(!PITH_REQUESTS || n > 19); /* a sanitizer's allocator never fails */
    pith_backend_free(at.backend);
    folder_remove(dir);
}

static void every_request_may_fail(void **state)
{
    (void)state;
    fail_every_request("qwen3_bias_tied", golden_folder("qwen3_bias_tied"), "bf16");
    fail_every_request("llama_bf16", golden_folder("llama_bf16"), "bf16");
    fail_every_request("gemma4_small", arch_folder("gemma4_small"), "bf16");
}

/* Pages of codes, alone and with some positions in floats beside them. */
static void so_it_may_with_packed_caches(void **state)
{
    (void)state;
    static const char *const caches[] = {
        "f16",    "int8:token", "k=fp8_e4m3:token,v=int4:g4:asym",  "kivi4",
        "turbo3", "kvquant3",   "k=kvquant2,v=int8:token,recent=1", "int4:token,sink=1,recent=1"};
    for (size_t i = 0; i < PITH_COUNT(caches); i++)
        fail_every_request("llama_bf16", golden_folder("llama_bf16"), caches[i]);
    fail_every_request("deepseek_v3", arch_folder("deepseek_v3"), "int8:token,recent=1");
    fail_every_request("qwen3_next", arch_folder("qwen3_next"), "int4:token,state=fp8_e4m3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_request_may_fail),
                                       cmocka_unit_test(so_it_may_with_packed_caches)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
