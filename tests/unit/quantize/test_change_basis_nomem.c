/* Whichever request for memory fails, making a rotation, turning tensors by it and reading what a
 * config says of one tell so and leak nothing. */
#include "io/ct/rotations.h"
#include "llama.h"
#include "quantize/site/change_basis.h"
#include "requests.h"
#include "unit/model/fixture.h"

struct place {
    const char *dir;
    struct pith_backend *backend;
    const json_t *config;
};

static enum pith_status turn_tensors(const struct pith_basis_change *t, struct pith_error *err)
{
    static const char *const names[] = {"model.norm.weight", "model.layers.1.mlp.down_proj.weight",
                                        "model.layers.0.self_attn.v_proj.bias"};
    struct pith_block b;
    float rows[4 * 32];
    PITH_TRY(pith_block_load(t->model, 1, PITH_LOAD_FLOAT, &b, err));
    b.linear[LLAMA_DOWN].hadamard = t->basis->down.block;
    enum pith_status s = pith_rotate_block(t, &b, err);
    pith_block_free(&b);
    for (size_t i = 0; i < PITH_COUNT(names) && s == PITH_OK; i++) {
        float *w;
        s = pith_rotated_tensor(t, names[i], true, &w, err);
        if (s == PITH_OK) pith_free(w);
    }
    return s == PITH_OK ? pith_rotated_rows(t, true, 3, 4, rows, err) : s;
}

static enum pith_status turn_model(void *ctx, struct pith_error *err)
{
    const struct place *at = ctx;
    struct pith_model *m;
    struct pith_basis basis;
    PITH_TRY(pith_model_open(at->dir, &m, err));
    const struct pith_basis_plan plan = {.hidden = m->shape.hidden,
                                         .head_dim = m->shape.head_dim,
                                         .ffn = m->shape.ffn,
                                         .stream = m->shape.hidden,
                                         .head = 2,
                                         .down = 4};
    enum pith_status s = pith_basis_init(&basis, &plan, err);
    const struct pith_basis_change t = {&basis, m, at->backend};
    if (s == PITH_OK) s = turn_tensors(&t, err);
    pith_basis_free(&basis); /* nothing is in it when making it failed */
    pith_model_close(m);
    return s;
}

static enum pith_status read_config(void *ctx, struct pith_error *err)
{
    const struct place *at = ctx;
    struct pith_ct_rotations turns;
    PITH_TRY(pith_ct_rotations_read(at->config, "test", &turns, err));
    pith_ct_rotations_free(&turns);
    return PITH_OK;
}

static void every_request_may_fail(void **state)
{
    (void)state;
    struct pith_error err = {0};
    struct place at;
    json_t *config;
    static const char text[] =
        "{\"config_groups\": {\"a\": {\"type\": \"hadamard\", \"head_dim\": 8, \"apply\": "
        "[{\"targets\": [\"re:.*o_proj$\"], \"location\": \"input\", \"ignore\": [\"x\"]}]}}}";
    assert_ok(pith_json_parse(text, sizeof text - 1, "test", &config, &err), err);
    char *dir = golden_folder("qwen2");
    at.dir = dir;
    at.config = config;
    assert_ok(pith_backend_new(NULL, PITH_CPU_ALL, &at.backend, &err), err);
    const long turned = fail_each_request(turn_model, &at, false);
    const long read = fail_each_request(read_config, &at, false);
    assert_true(!PITH_REQUESTS || (turned > 19 && read > 3));
    pith_backend_free(at.backend);
    json_decref(config);
    folder_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_request_may_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
