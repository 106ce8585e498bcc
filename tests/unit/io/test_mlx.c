/* io/: the mlx container: mlx's own matrices, what the config says of them, and files that lie. */
#include "base/mem.h"
#include "golden_file.h"
#include "pack_and_read.h"

#include <math.h>

enum { ROWS = 2, COLS = 256 };
#define GOLDEN "tests/golden/mlx/mlx.safetensors"

static const struct pith_container *container(void)
{
    return pith_container_find("mlx");
}

static enum pith_status load(struct golden_file *f, const char *module, uint32_t cols,
                             struct pith_qmat *q, struct pith_error *err)
{
    bool found = false;
    PITH_TRY(container()->load(NULL, &f->c, module, ROWS, cols, q, &found, err));
    assert_true(found);
    return PITH_OK;
}

/* The module of a tensor "want.MODULE", or NULL. */
static const char *wanted(const struct golden_file *f, size_t i)
{
    const char *name = f->tensors[i].name;
    return strncmp(name, "want.", 5) == 0 ? name + 5 : NULL;
}

/* The grid that a module's name stands for: "a3g64bf16" is int3:g64. */
static struct pith_grid named_grid(const char *module)
{
    struct pith_grid grid;
    struct pith_error err = {0};
    char text[PITH_GRID_TEXT];
    snprintf(text, sizeof text, "%.*s", (int)strcspn(module, "."), module);
    if (module[0] == 'a')
        snprintf(text, sizeof text, "int%c:g%d:asym:hqq", module[1], atoi(module + 3));
    assert_ok(pith_grid_parse(text, &grid, &err), err);
    return grid;
}

static void values_are_those_of_mlx(void **state)
{
    (void)state;
    struct golden_file f;
    size_t modules = 0;
    golden_open(&f, GOLDEN);
    for (size_t i = 0; i < f.c.count; i++) {
        const char *module = wanted(&f, i);
        struct pith_error err = {0};
        struct pith_qmat q;
        float got[ROWS * COLS];
        if (!module) continue;
        modules++;
        assert_ok(load(&f, module, COLS, &q, &err), err);
        pith_qmat_decode(&q, 0, ROWS, got);
        const float *want = (const float *)(const void *)f.tensors[i].data;
        for (size_t k = 0; k < PITH_COUNT(got); k++)
            if (got[k] != want[k]) fail_msg("%s: %g, not %g", module, got[k], want[k]);
        const struct pith_grid own = pith_qmat_grid(&q);
        struct pith_grid named = named_grid(module);
        if (!q.offsets) named.asym = named.hqq = false; /* two bits are often symmetric */
        if (!pith_grid_equal(&own, &named)) fail_msg("%s: another grid", module);
        pith_qmat_free(&q);
    }
    assert_int_equal(modules, 22);
    golden_close(&f);
}

/* Without the number of columns a form is one of several, between which the config decides. */
static void the_config_tells_forms_apart(void **state)
{
    (void)state;
    struct golden_file f;
    golden_open(&f, GOLDEN);
    for (size_t i = 0; i < f.c.count; i++) {
        const char *module = wanted(&f, i);
        struct pith_error err = {0};
        struct pith_grid grid;
        struct pith_container_opts opts = {.model_dtype = PITH_BF16};
        if (!module) continue;
        const struct pith_grid want = named_grid(module);
        const int bits = (int)want.format->bits, group = (int)want.group;
        /* In all: one of both is right. For the module, whatever stands before its name: both. */
        json_t *const configs[] = {
            json_pack("{s:i, s:i}", "bits", 7, "group_size", group),
            json_pack("{s:i, s:i}", "bits", bits, "group_size", 48),
            json_pack("{s:i, s:i, s:b, s:{s:i, s:i}}", "bits", 4, "group_size", 64, "other", 0,
                      module, "bits", bits, "group_size", group)};
        for (size_t k = 0; k < PITH_COUNT(configs); k++) {
            f.c.quantization = configs[k];
            assert_ok(container()->describe(NULL, &f.c, module, &grid, &opts, &err), err);
            if (!pith_grid_equal(&grid, &want)) fail_msg("%s, config %zu", module, k);
            json_decref(configs[k]);
        }
    }
    golden_close(&f);
}

static void offsets_of_a_symmetric_grid_are_none(void **state)
{
    (void)state;
    struct golden_file f;
    struct pith_error err = {0};
    struct pith_qmat q;
    float scale[ROWS * COLS / 64], got[COLS];
    uint8_t codes[COLS];
    golden_open(&f, GOLDEN);
    struct pith_tensor *scales = golden_tensor(&f, "a6g64bf16.scales");
    struct pith_tensor *biases = golden_tensor(&f, "a6g64bf16.biases");
    const size_t count = PITH_COUNT(scale);
    for (size_t i = 0; i < count; i++) scale[i] = 0.5f + (float)i;
    (void)pith_dtype_encode(PITH_BF16, scale, count, (uint8_t *)(uintptr_t)scales->data);
    for (size_t i = 0; i < count; i++) scale[i] *= -32.0f;
    (void)pith_dtype_encode(PITH_BF16, scale, count, (uint8_t *)(uintptr_t)biases->data);
    assert_ok(load(&f, "a6g64bf16", COLS, &q, &err), err);
    assert_null(q.offsets);
    pith_qmat_decode(&q, 1, 1, got);
    pith_qmat_get_codes(&q, 1, codes);
    for (size_t i = 0; i < COLS; i++) {
        const float s = 4.5f + (float)(i / 64); /* of the second row */
        assert_true(got[i] == (float)codes[i] * s - 32.0f * s);
    }
    pith_qmat_free(&q);
    golden_close(&f);
}

/* The tensors but one. */
static void take_out(struct golden_file *f, const char *name, struct pith_tensor *rest)
{
    size_t n = 0;
    for (size_t i = 0; i < f->c.count; i++)
        if (strcmp(f->tensors[i].name, name) != 0) rest[n++] = f->tensors[i];
    assert_int_equal(n, f->c.count - 1);
    f->c.tensors = rest;
    f->c.count = n;
}

static void missing_parts_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *module, *suffix, *text;
    } cases[] = {{"a4g64f32", ".biases", "missing"},
                 {"a4g64f32", ".scales", "no scales"},
                 {"a4g64f32", ".weight", "no codes"},
                 {"mxfp4", ".scales", "no scales"},
                 {"nvfp4", ".weight", "no codes"}};
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        struct golden_file f;
        struct pith_tensor rest[GOLDEN_MOST];
        struct pith_qmat q;
        struct pith_error err = {0};
        char name[64];
        golden_open(&f, GOLDEN);
        snprintf(name, sizeof name, "%s%s", cases[i].module, cases[i].suffix);
        take_out(&f, name, rest);
        assert_int_equal(load(&f, cases[i].module, COLS, &q, &err), PITH_FORMAT);
        if (!strstr(err.text, cases[i].text)) fail_msg("%s: %s", name, err.text);
        golden_close(&f);
    }
}

/* A tensor of another shape or type: what it comes to, and what the message says. */
static void files_that_lie_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum pith_dtype dtype;
        uint64_t rows, cols;
        enum pith_status status;
        const char *text;
    } cases[] = {
        {"a3g64bf16.scales", PITH_BF16, 2, 5, PITH_FORMAT, "do not go together"},
        {"a3g64bf16.scales", PITH_BF16, 2, 0, PITH_FORMAT, "do not go together"},
        {"a3g64bf16.scales", PITH_BF16, 2, 8, PITH_FORMAT, "shape"},
        {"a3g64bf16.scales", PITH_BF16, 2, 1, PITH_UNSUPPORTED, "none of mlx's forms"},
        {"a3g64bf16.scales", PITH_BF16, 1, 4, PITH_FORMAT, "shape"},
        {"a3g64bf16.scales", PITH_U8, 2, 4, PITH_UNSUPPORTED, "none of mlx's forms"},
        {"a3g64bf16.scales", PITH_I16, 2, 4, PITH_UNSUPPORTED, "dtype"},
        {"a3g64bf16.biases", PITH_BF16, 2, 2, PITH_FORMAT, "shape"},
        {"a3g64bf16.biases", PITH_F16, 2, 4, PITH_UNSUPPORTED, "dtype"},
        {"a3g64bf16.weight", PITH_U32, 2, 8, PITH_UNSUPPORTED, "none of mlx's forms"},
        {"a3g64bf16.weight", PITH_U32, 2, 12, PITH_UNSUPPORTED, "none of mlx's forms"},
        {"a3g64bf16.weight", PITH_U32, 1, 24, PITH_FORMAT, "shape"},
        {"a3g64bf16.weight", PITH_I32, 2, 24, PITH_FORMAT, "no codes"},
        {"a3g64bf16.weight", PITH_U32, 2, UINT64_MAX / 8, PITH_UNSUPPORTED, "none of mlx's forms"},
        {"mxfp8.scales", PITH_U8, 2, 16, PITH_UNSUPPORTED, "none of mlx's forms"},
        {"mxfp8.scales", PITH_F16, 2, 8, PITH_FORMAT, "missing"},
    };
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        struct golden_file f;
        struct pith_qmat q;
        struct pith_error err = {0};
        char module[64];
        golden_open(&f, GOLDEN);
        struct pith_tensor *t = golden_tensor(&f, cases[i].name);
        uint8_t *data = calloc(t->bytes + 64, 1); /* a file has all bytes of its shapes */
        free((void *)(uintptr_t)t->data);
        t->data = data;
        t->dtype = cases[i].dtype;
        t->shape[0] = cases[i].rows;
        t->shape[1] = cases[i].cols;
        snprintf(module, sizeof module, "%s", cases[i].name);
        *strchr(module, '.') = '\0';
        const enum pith_status s = load(&f, module, COLS, &q, &err);
        if (s != cases[i].status || !strstr(err.text, cases[i].text))
            fail_msg("case %zu: %s", i, err.text);
        golden_close(&f);
    }
}

static void numbers_that_are_none_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint8_t value; /* of two bytes */
        unsigned at;   /* the first of them */
    } cases[] = {{"a4g32bf16.scales", 0xff, 0}, {"a4g32bf16.biases", 0xff, 0},
                 {"mxfp4.scales", 0xff, 0},     {"nvfp4.scales", 0x7f, 0},
                 {"mxfp8.weight", 0x7f, 0},
                 {"nvfp4.all.global_scale", 0xff, 2}};
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        struct golden_file f;
        struct pith_qmat q;
        char module[64];
        golden_open(&f, GOLDEN);
        const struct pith_tensor *t = golden_tensor(&f, cases[i].name);
        memset((uint8_t *)(uintptr_t)t->data + cases[i].at, cases[i].value, 2);
        snprintf(module, sizeof module, "%s", cases[i].name);
        *strrchr(module, '.') = '\0';
        assert_int_equal(load(&f, module, COLS, &q, NULL), PITH_FORMAT);
        golden_close(&f);
    }
}

/* Groups of mlx's do not divide every matrix. */
static void other_columns_are_refused(void **state)
{
    (void)state;
    static const uint32_t cols[] = {1, 32, 128, 255, 257, 512, UINT32_MAX};
    struct golden_file f;
    golden_open(&f, GOLDEN);
    for (size_t i = 0; i < PITH_COUNT(cols); i++) {
        struct pith_qmat q;
        assert_int_not_equal(load(&f, "a5g64f16", cols[i], &q, NULL), PITH_OK);
        assert_int_not_equal(load(&f, "mxfp8", cols[i], &q, NULL), PITH_OK);
    }
    golden_close(&f);
}

/* --- writing ------------------------------------------------------------------------------- */

/* Of numbers that BF16 holds; the offsets of a symmetric grid are none. */
static struct pith_qmat make_matrix(const struct pith_grid *grid, uint32_t rows, uint32_t cols)
{
    struct pith_qmat q;
    struct pith_error err = {0};
    assert_ok(pith_qmat_init(&q, rows, cols, grid, PITH_BF16, &err), err);
    fill_codes(&q);
    for (size_t i = 0; i < pith_qmat_scale_count(&q); i++) {
        const bool power = q.scale_dtype == PITH_F8_E8M0;
        q.scales[i] = power ? ldexpf(1.0f, (int)(i % 9) - 4)
                            : pith_round_to(PITH_BF16, 0.01f + (float)i / 1000.0f);
        if (q.offsets) q.offsets[i] = pith_round_to(PITH_BF16, (float)i / 17.0f - 1.5f);
    }
    return q;
}

static void returns_what_it_got(void **state)
{
    (void)state;
    static const char *const grids[] = {
        "int2:g32", "int3:g64",          "int4:g128",          "int5:g32",         "int6:g64",
        "int8:g64", "int4:g64:asym:hqq", "int3:g128:asym:hqq", "int8:g32:asym:hqq", "mxfp4",
        "mxfp8"};
    for (size_t i = 0; i < PITH_COUNT(grids); i++) {
        const struct pith_grid grid = ramp_parse(grids[i]);
        struct pith_qmat q = make_matrix(&grid, 6, COLS);
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
        uint32_t cols;
        const char *text;
    } cases[] = {
        {"int4:g64:asym", 128, "asym:hqq"},   {"int7:g64", 128, "int2, int3"},
        {"int4:g16", 128, "32, 64 or 128"},   {"int4:channel", 128, "32, 64 or 128"},
        {"int4:tensor", 128, "32, 64 or 128"}, {"int4:g128", 192, "divide"},
        {"mxfp4", 48, "divide"},              {"nvfp4", 128, "no scale of the tensor"},
        {"fp8_e4m3:channel", 128, "cannot hold"}, {"mxfp6_e2m3", 128, "cannot hold"},
        {"q4_1", 128, "cannot hold"},
    };
    const struct pith_container_opts opts = {.model_dtype = PITH_F16};
    for (size_t i = 0; i < PITH_COUNT(cases); i++)
        check_refused(container(), cases[i].grid, 8, cases[i].cols, &opts, cases[i].text);
    /* A bias that the scales' type does not hold: of the grid's own, or of a whole zero point. */
    const struct pith_grid grid = ramp_parse("int4:g64:asym:hqq");
    struct pith_packed_set set = {0};
    struct pith_qmat q = make_matrix(&grid, 2, COLS);
    q.offsets[3] = 0.12345678f;
    assert_int_equal(pith_container_pack(container(), &q,
                                         &(struct pith_container_opts){.model_dtype = PITH_BF16},
                                         &set, NULL),
                     PITH_NUMERIC);
    assert_int_equal(set.count, 0);
    pith_container_state(container(), &grid, &q, 3, 1);
    assert_true(q.offsets[3] == pith_round_to(PITH_BF16, 0.12345678f));
    pith_qmat_free(&q);
}

/* One grid for all, others by name; what mlx-lm would not load. */
static void configs(void **state)
{
    (void)state;
    struct pith_grid four, eight;
    struct pith_error err = {0};
    const struct pith_container_opts opts = {.model_dtype = PITH_BF16};
    json_t *made = NULL;
    assert_ok(pith_grid_parse("int4:g64", &four, &err), err);
    assert_ok(pith_grid_parse("mxfp8", &eight, &err), err);
    struct pith_linear_grid l[] = {{.module = "model.layers.0.mlp.up_proj", .grid = four},
                                   {.module = "model.layers.0.mlp.down_proj", .grid = eight},
                                   {.module = "model.layers.1.mlp.up_proj"},
                                   {.module = "model.layers.1.mlp.down_proj", .grid = four}};
    assert_ok(container()->config(l, 4, &opts, &made, &err), err);
    json_t *want = json_pack("{s:i, s:i, s:s, s:b, s:s, s:{s:i, s:i, s:s}}", "group_size", 64,
                             "bits", 4, "mode", "affine", "symmetric", 1, "quant_method", "mlx",
                             l[1].module, "group_size", 32, "bits", 8, "mode", "mxfp8");
    assert_true(json_equal(made, want));
    json_decref(want);
    json_decref(made);
    l[3].grid.asym = l[3].grid.hqq = true;
    assert_ok(container()->config(l, 4, &opts, &made, &err), err);
    assert_null(json_object_get(made, "symmetric"));
    assert_int_equal(json_object_size(made), 6);
    json_decref(made);
    l[3].module = "model.layers.1.mlp.experts.7.down_proj";
    assert_int_equal(container()->config(l, 4, &opts, &made, &err), PITH_UNSUPPORTED);
    assert_non_null(strstr(err.text, "in one tensor"));
    l[3].module = "model.layers.1.block_sparse_moe.experts.7.w1";
    assert_ok(container()->config(l, 4, &opts, &made, &err), err);
    json_decref(made);
    for (int i = 0; i < 4; i++) l[i].grid = (struct pith_grid){0};
    assert_int_equal(container()->config(l, 4, &opts, &made, &err), PITH_ARG);
}

/* A config that says of biases what they are not. */
static void what_is_called_symmetric_is(void **state)
{
    (void)state;
    struct golden_file f;
    struct pith_qmat q;
    struct pith_grid grid;
    struct pith_error err = {0};
    struct pith_container_opts opts = {.model_dtype = PITH_BF16};
    json_t *config = json_pack("{s:i, s:i, s:b}", "bits", 4, "group_size", 64, "symmetric", 1);
    golden_open(&f, GOLDEN);
    f.c.quantization = config;
    assert_ok(container()->describe(NULL, &f.c, "a4g64f32", &grid, &opts, &err), err);
    assert_false(grid.asym);
    assert_int_equal(load(&f, "a4g64f32", COLS, &q, &err), PITH_FORMAT);
    assert_non_null(strstr(err.text, "symmetric"));
    assert_ok(load(&f, "mxfp4", COLS, &q, &err), err);
    pith_qmat_free(&q);
    json_decref(config);
    golden_close(&f);
}

static void modes_that_are_unknown_are_refused(void **state)
{
    (void)state;
    struct pith_checkpoint c = {.dir = (char *)(uintptr_t) "model"};
    struct pith_error err = {0};
    void *opened = NULL;
    json_t *config = json_pack("{s:i, s:i, s:s}", "bits", 3, "group_size", 8, "mode", "fp3");
    c.quantization = config;
    assert_int_equal(container()->open(&c, &opened, &err), PITH_UNSUPPORTED);
    assert_non_null(strstr(err.text, "fp3"));
    json_decref(config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_those_of_mlx),
        cmocka_unit_test(the_config_tells_forms_apart),
        cmocka_unit_test(offsets_of_a_symmetric_grid_are_none),
        cmocka_unit_test(missing_parts_are_refused),
        cmocka_unit_test(files_that_lie_are_refused),
        cmocka_unit_test(numbers_that_are_none_are_refused),
        cmocka_unit_test(other_columns_are_refused),
        cmocka_unit_test(returns_what_it_got),
        cmocka_unit_test(what_it_cannot_hold_is_refused),
        cmocka_unit_test(configs),
        cmocka_unit_test(what_is_called_symmetric_is),
        cmocka_unit_test(modes_that_are_unknown_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
