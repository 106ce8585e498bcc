/* io/: the hqq container: linears of the package's own, what it is given, and files that lie. */
#include "base/mem.h"
#include "golden_file.h"
#include "num/elements/elements.h"
#include "pack_and_read.h"

#include <math.h>

enum { ROWS = 24, COLS = 64 };
#define GOLDEN "tests/golden/hqq/hqq.safetensors"

static const struct pith_container *container(void)
{
    return pith_container_find("hqq");
}

static enum pith_status load(struct golden_file *f, const char *module, struct pith_qmat *q,
                             struct pith_error *err)
{
    bool found = false;
    PITH_TRY(container()->load(NULL, &f->c, module, ROWS, COLS, q, &found, err));
    assert_true(found);
    return PITH_OK;
}

/* Its values are the package's to the bit, and packing it again gives the package's tensors. */
static void reads_and_writes_what_the_package_does(void **state)
{
    (void)state;
    static const char *const modules[] = {"b2", "b3", "b4", "b8", "c4", "f4"};
    struct golden_file f;
    golden_open(&f, GOLDEN);
    for (size_t m = 0; m < PITH_COUNT(modules); m++) {
        struct pith_error err = {0};
        struct pith_qmat q;
        struct pith_grid grid;
        struct pith_packed_set set;
        struct pith_container_opts opts = {.model_dtype =
                                               modules[m][0] == 'f' ? PITH_F16 : PITH_BF16};
        float got[ROWS * COLS];
        char name[64];
        assert_ok(load(&f, modules[m], &q, &err), err);
        pith_qmat_decode(&q, 0, ROWS, got);
        snprintf(name, sizeof name, "want.%s", modules[m]);
        assert_memory_equal(got, golden_tensor(&f, name)->data, sizeof got);
        assert_ok(container()->describe(NULL, &f.c, modules[m], &grid, &opts, &err), err);
        const struct pith_grid own = pith_qmat_grid(&q);
        assert_true(pith_grid_equal(&grid, &own));
        assert_true(grid.hqq);
        assert_ok(pith_container_pack(container(), &q, &opts, &set, &err), err);
        check_plan(container(), &grid, &q, &opts, &set);
        size_t tensors = 0;
        for (size_t i = 0; i < f.c.count; i++)
            tensors += strncmp(f.tensors[i].name, modules[m], 2) == 0;
        assert_int_equal(set.count, tensors);
        golden_packed(&f, modules[m], &set);
        pith_packed_free(&set);
        pith_qmat_free(&q);
    }
    golden_close(&f);
}

static struct pith_qmat make_matrix(const char *text, uint32_t rows, uint32_t cols)
{
    struct pith_qmat q;
    struct pith_grid grid;
    struct pith_error err = {0};
    assert_ok(pith_grid_parse(text, &grid, &err), err);
    assert_ok(pith_qmat_init(&q, rows, cols, &grid, PITH_BF16, &err), err);
    assert_non_null(q.offsets);
    fill_codes(&q);
    for (size_t i = 0; i < pith_qmat_scale_count(&q); i++) {
        q.scales[i] = pith_round_to(PITH_BF16, 0.01f + (float)i / 1000.0f);
        q.offsets[i] = -(pith_round_to(PITH_BF16, (float)i / 17.0f - 1.5f) * q.scales[i]);
    }
    return q;
}

static void returns_what_it_got(void **state)
{
    (void)state;
    static const char *const grids[] = {"int2:g16:asym:hqq", "int3:g16:asym:hqq",
                                        "int4:g32:asym:hqq", "int8:channel:asym:hqq",
                                        "int4:g64:asym:hqq"};
    for (size_t i = 0; i < PITH_COUNT(grids); i++) {
        struct pith_grid grid;
        struct pith_error err = {0};
        assert_ok(pith_grid_parse(grids[i], &grid, &err), err);
        struct pith_qmat q = make_matrix(grids[i], 22, COLS);
        pack_and_read(container(), &grid, &q,
                      (struct pith_container_opts){.model_dtype = PITH_BF16});
        pith_qmat_free(&q);
    }
}

static void what_it_cannot_hold_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *grid;
        uint32_t rows, cols;
        const char *text;
    } cases[] = {
        {"int4:g32:asym", 64, 64, "any numbers"},  {"int4:g32:asym:mse", 64, 64, "any numbers"},
        {"int4:g32", 64, 64, "any numbers"},       {"int5:g32:asym:hqq", 64, 64, "int2, int3"},
        {"int4:g24:asym:hqq", 64, 64, "divides"},  {"int4:g4:asym:hqq", 64, 64, "multiple of 8"},
        {"int4:tensor:asym:hqq", 64, 64, "group"},
        {"int4:channel:asym:hqq", 63, 64, "multiple of 2"},
        {"int2:channel:asym:hqq", 66, 64, "multiple of 4"},
        {"nf4:g64", 64, 64, "cannot hold"},
    };
    struct pith_container_opts opts = {.model_dtype = PITH_F16};
    for (size_t i = 0; i < PITH_COUNT(cases); i++)
        check_refused(container(), cases[i].grid, cases[i].rows, cases[i].cols, &opts,
                      cases[i].text);
    static const char *const others[] = {"compressed-tensors", "gptq", "awq", "gguf", "modelopt"};
    for (size_t i = 0; i < PITH_COUNT(others); i++)
        check_refused(pith_container_find(others[i]), "int4:g32:asym:hqq", 64, 64, &opts, "");
    /* An offset that is no such number times the scale. */
    struct pith_qmat q = make_matrix("int4:g32:asym:hqq", ROWS, COLS);
    struct pith_packed_set set = {0};
    q.offsets[3] = 0.12345678f;
    opts.model_dtype = PITH_BF16;
    assert_int_equal(pith_container_pack(container(), &q, &opts, &set, NULL), PITH_NUMERIC);
    assert_int_equal(set.count, 0);
    pith_qmat_free(&q);
}

/* One grid for all, one by tag, and what tags cannot say. */
static void configs(void **state)
{
    (void)state;
    struct pith_grid four, three;
    struct pith_error err = {0};
    const struct pith_container_opts opts = {.model_dtype = PITH_F16};
    json_t *made = NULL;
    assert_ok(pith_grid_parse("int4:g64:asym:hqq", &four, &err), err);
    assert_ok(pith_grid_parse("int3:g32:asym:hqq", &three, &err), err);
    struct pith_linear_grid l[] = {{.module = "model.layers.0.mlp.up_proj", .grid = four},
                                   {.module = "model.layers.0.mlp.down_proj", .grid = four},
                                   {.module = "model.layers.1.mlp.up_proj", .grid = four},
                                   {.module = "model.layers.1.mlp.down_proj", .grid = four}};
    assert_ok(container()->config(l, 4, &opts, &made, &err), err);
    const json_t *config = json_object_get(made, "quant_config");
    const json_t *params = json_object_get(config, "weight_quant_params");
    assert_int_equal(json_integer_value(json_object_get(params, "nbits")), 4);
    assert_string_equal(json_string_value(json_array_get(json_object_get(made, "skip_modules"), 0)),
                        "lm_head");
    json_decref(made);
    l[1].grid = l[3].grid = three;
    assert_ok(container()->config(l, 4, &opts, &made, &err), err);
    config = json_object_get(json_object_get(made, "quant_config"), "mlp.down_proj");
    params = json_object_get(config, "weight_quant_params");
    assert_int_equal(json_integer_value(json_object_get(params, "nbits")), 3);
    json_decref(made);
    l[1].grid = l[3].grid = (struct pith_grid){0};
    assert_ok(container()->config(l, 4, &opts, &made, &err), err);
    assert_int_equal(json_array_size(json_object_get(made, "skip_modules")), 2);
    json_decref(made);
    l[1].grid = three;
    assert_int_equal(container()->config(l, 4, &opts, &made, &err), PITH_UNSUPPORTED);
    assert_non_null(strstr(err.text, "same in all layers"));
    for (int i = 0; i < 4; i++) l[i].grid = (struct pith_grid){0};
    assert_int_equal(container()->config(l, 4, &opts, &made, &err), PITH_ARG);
}

/* A number of a tensor replaced: what the message must say. */
static void files_that_lie_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int value; /* of the first byte */
        const char *text;
    } cases[] = {
        {"b4.nbits", 5, "bits"},          {"b4.nbits", 3, "shape"},
        {"b4.nbits", 8, "shape"},         {"b4.group_size", 48, "do not divide"},
        {"b4.group_size", 0, "do not"},   {"b4.group_size", 16, "shape"},
        {"b4.axis", 0, "axis 0"},         {"b4.channel_wise", 0, "one scale"},
        {"b4.view_as_float", 1, "floats"}, {"b4.quant_scale", 1, "quantized again"},
        {"b4.quant_zero", 1, "quantized again"}, {"b4.shape", 25, "is 24 x 64"},
    };
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        struct golden_file f;
        struct pith_qmat q = {0};
        struct pith_error err = {0};
        golden_open(&f, GOLDEN);
        *(uint8_t *)(uintptr_t)golden_tensor(&f, cases[i].name)->data = (uint8_t)cases[i].value;
        assert_true(load(&f, "b4", &q, &err) != PITH_OK);
        if (!strstr(err.text, cases[i].text))
            fail_msg("%s %d: %s", cases[i].name, cases[i].value, err.text);
        assert_null(q.codes);
        golden_close(&f);
    }
}

static void tensors_that_lie_are_refused(void **state)
{
    (void)state;
    static const char *const names[] = {".W_q",  ".scale",      ".zero", ".shape",
                                        ".nbits", ".group_size", ".axis", ".view_as_float"};
    for (size_t i = 0; i < PITH_COUNT(names); i++)
        for (int kind = 0; kind < 5; kind++) {
            struct golden_file f;
            struct pith_qmat q = {0};
            struct pith_error err = {0};
            char name[32];
            golden_open(&f, GOLDEN);
            snprintf(name, sizeof name, "b3%s", names[i]);
            struct pith_tensor *t = golden_tensor(&f, name);
            if (kind == 0) t->shape[0] += t->dims ? 1 : 2, t->dims += t->dims == 0;
            else if (kind == 1) t->dtype = PITH_C64;
            else if (kind == 2) t->dims = 3;
            else if (kind == 3) t->shape[0] = (uint64_t)1 << 40, t->dims += t->dims == 0;
            else t->name = "b3.x";
            if (kind == 4 && i == 0) { /* without codes it is no quantized module */
                assert_int_equal(container()->load(NULL, &f.c, "b3", ROWS, COLS, &q, &(bool){0},
                                                   &err),
                                 PITH_FORMAT);
            } else {
                const enum pith_status s = load(&f, "b3", &q, &err);
                assert_true(s == PITH_FORMAT || s == PITH_UNSUPPORTED);
            }
            assert_null(q.codes);
            golden_close(&f);
        }
    static const char *const numbers[] = {"b8.scale", "b8.zero"};
    for (size_t i = 0; i < PITH_COUNT(numbers); i++) {
        struct golden_file f;
        struct pith_qmat q = {0};
        const uint16_t nan = 0x7fc0;
        golden_open(&f, GOLDEN);
        memcpy((uint8_t *)(uintptr_t)golden_tensor(&f, numbers[i])->data + 6, &nan, sizeof nan);
        assert_int_equal(load(&f, "b8", &q, NULL), PITH_FORMAT);
        assert_null(q.codes);
        golden_close(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_and_writes_what_the_package_does),
        cmocka_unit_test(returns_what_it_got),
        cmocka_unit_test(what_it_cannot_hold_is_refused),
        cmocka_unit_test(configs),
        cmocka_unit_test(files_that_lie_are_refused),
        cmocka_unit_test(tensors_that_lie_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
