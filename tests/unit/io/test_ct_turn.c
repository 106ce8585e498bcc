/* io/ct/rotations: "transform_config", written, read back, and as others and enemies write it. */
#include "base/json.h"
#include "base/mem.h"
#include "io/ct/rotations.h"
#include "test.h"

static json_t *parse(const char *text)
{
    struct pith_error err = {0};
    json_t *j;
    assert_ok(pith_json_parse(text, strlen(text), "test", &j, &err), err);
    return j;
}

/* A checkpoint with one tensor, or none. */
struct fixture {
    struct pith_tensor tensor;
    struct pith_safetensors file;
    struct pith_checkpoint c;
};
static void fixture_init(struct fixture *f, const char *name, uint32_t n, const float *data)
{
    memset(f, 0, sizeof *f);
    f->tensor = (struct pith_tensor){.name = (char *)(uintptr_t)name,
                                     .dtype = PITH_F32,
                                     .dims = 2,
                                     .shape = {n, n},
                                     .data = (const uint8_t *)data,
                                     .bytes = (size_t)n * n * sizeof *data};
    f->file.path = (char *)(uintptr_t) "test/model.safetensors";
    f->c.dir = (char *)(uintptr_t) "test";
    f->c.files = &f->file;
    f->c.file_count = 1;
    f->c.tensors = &f->tensor;
    f->c.count = name ? 1 : 0;
}

static uint32_t find(const char *text, const char *module, uint32_t cols)
{
    struct pith_error err = {0};
    struct pith_ct_rotations turns;
    struct fixture f;
    uint32_t block = 77;
    json_t *j = parse(text);
    fixture_init(&f, NULL, 0, NULL);
    assert_ok(pith_ct_rotations_read(j, "test", &turns, &err), err);
    assert_ok(pith_ct_rotations_find(&turns, &f.c, module, cols, &block, &err), err);
    pith_ct_rotations_free(&turns);
    json_decref(j);
    return block;
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    struct pith_linear_grid l[] = {{.module = "model.layers.0.mlp.up_proj"},
                                   {.module = "model.layers.0.mlp.down_proj", .hadamard = 64},
                                   {.module = "model.layers.1.mlp.down_proj"},
                                   {.module = "model.layers.2.mlp.down_proj", .hadamard = 64},
                                   {.module = "lm_head"}};
    json_t *j = pith_ct_rotations_make(l, PITH_COUNT(l), PITH_BF16);
    assert_non_null(j);
    char *text = json_dumps(j, 0);
    for (size_t i = 0; i < PITH_COUNT(l); i++)
        assert_int_equal(find(text, l[i].module, 192), l[i].hadamard);
    free(text);
    json_decref(j);
    j = pith_ct_rotations_make(l, 1, PITH_BF16);
    assert_int_equal(json_object_size(j), 0);
    json_decref(j);
}

static void others_configs_are_understood(void **state)
{
    (void)state;
    assert_int_equal(find("{}", "a.down_proj", 64), 0);
    assert_int_equal(find("{\"config_groups\": {}}", "a.down_proj", 64), 0);
    /* folded into the weights: nothing is left to do, whatever it was */
    assert_int_equal(
        find("{\"config_groups\": {\"R1\": {\"type\": \"random-hadamard\", \"apply\": ["
             "{\"targets\": [\"re:.*\"], \"location\": \"weight_input\"},"
             "{\"targets\": [\"re:.*\"], \"location\": \"weight_output\"}]}}}",
             "a.down_proj", 64),
        0);
    /* no head_dim: the whole input */
    assert_int_equal(
        find("{\"config_groups\": {\"R4\": {\"type\": \"hadamard\", \"head_dim\": null,"
             "\"apply\": [{\"targets\": [\"re:.*down_proj$\"], \"location\": \"input\","
             "\"inverse\": true, \"ignore\": [\"b.down_proj\"]}]}}}",
             "a.down_proj", 64),
        64);
    assert_int_equal(
        find("{\"config_groups\": {\"R4\": {\"type\": \"hadamard\", \"head_dim\": 8,"
             "\"apply\": [{\"targets\": [\"re:.*down_proj$\"], \"location\": \"input\","
             "\"ignore\": [\"b.down_proj\"]}]}}}",
             "b.down_proj", 64),
        0);
}

#define APPLY(rest) "\"apply\": [{\"targets\": [\"a\"], \"location\": \"input\"" rest "}]"
#define GROUP(rest) "{\"config_groups\": {\"R\": {" rest "}}}"

static void what_is_not_known_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "[]",
        "{\"config_groups\": []}",
        "{\"config_groups\": {\"R\": 1}}",
        GROUP("\"type\": \"random-hadamard\", " APPLY("")),
        GROUP("\"type\": \"random-matrix\", " APPLY("")),
        GROUP(APPLY("")),
        GROUP("\"type\": \"hadamard\", \"randomize\": true, " APPLY("")),
        GROUP("\"type\": \"hadamard\", \"head_dim\": 0, " APPLY("")),
        GROUP("\"type\": \"hadamard\", \"head_dim\": 1000000, " APPLY("")),
        GROUP("\"type\": \"hadamard\", \"head_dim\": \"8\", " APPLY("")),
        GROUP("\"type\": \"hadamard\", \"news\": 1, " APPLY("")),
        GROUP("\"type\": \"hadamard\", " APPLY(", \"news\": 1")),
        GROUP("\"type\": \"hadamard\", \"apply\": 1"),
        GROUP("\"type\": \"hadamard\", \"apply\": [1]"),
        GROUP("\"type\": \"hadamard\", \"apply\": [{\"targets\": [\"a\"]}]"),
        GROUP("\"type\": \"hadamard\", \"apply\": [{\"targets\": [\"re:(\"], \"location\": "
              "\"input\"}]"),
        GROUP("\"type\": \"hadamard\", \"apply\": [{\"targets\": [1], \"location\": \"input\"}]"),
        GROUP("\"type\": \"hadamard\", \"apply\": [{\"targets\": [\"a\"], \"location\": "
              "\"k_cache\"}]"),
        GROUP("\"type\": \"hadamard\", \"apply\": [{\"targets\": [\"a\"], \"location\": "
              "\"output\"}]"),
    };
    for (size_t i = 0; i < PITH_COUNT(bad); i++) {
        struct pith_error err = {0};
        struct pith_ct_rotations turns;
        json_t *j = parse(bad[i]);
        const enum pith_status s = pith_ct_rotations_read(j, "test", &turns, &err);
        if (s != PITH_FORMAT && s != PITH_UNSUPPORTED) fail_msg("%s: status %d", bad[i], (int)s);
        assert_int_equal(turns.count, 0);
        json_decref(j);
    }
}

static enum pith_status find_with(const char *head_dim, uint32_t cols, struct fixture *f,
                                  uint32_t *block)
{
    struct pith_error err = {0};
    struct pith_ct_rotations turns;
    char text[400];
    snprintf(text, sizeof text, GROUP("\"type\": \"hadamard\", \"head_dim\": %s, " APPLY("")),
             head_dim);
    json_t *j = parse(text);
    assert_ok(pith_ct_rotations_read(j, "test", &turns, &err), err);
    const enum pith_status s = pith_ct_rotations_find(&turns, &f->c, "a", cols, block, &err);
    pith_ct_rotations_free(&turns);
    json_decref(j);
    return s;
}

static void the_matrix_must_be_sylvesters(void **state)
{
    (void)state;
    static float m[16] = {1, 1, 1, 1, 1, -1, 1, -1, 1, 1, -1, -1, 1, -1, -1, 1};
    struct fixture f;
    uint32_t block;
    fixture_init(&f, "a.R_input.weight", 4, m);
    assert_int_equal(find_with("4", 12, &f, &block), PITH_OK);
    assert_int_equal(block, 4);
    assert_int_equal(find_with("8", 16, &f, &block), PITH_FORMAT); /* another size */
    assert_int_equal(find_with("4", 10, &f, &block), PITH_UNSUPPORTED);
    assert_int_equal(find_with("null", 12, &f, &block), PITH_UNSUPPORTED);
    m[5] = 1;
    assert_int_equal(find_with("4", 12, &f, &block), PITH_UNSUPPORTED);
    m[5] = -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(others_configs_are_understood),
        cmocka_unit_test(what_is_not_known_is_refused),
        cmocka_unit_test(the_matrix_must_be_sylvesters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
