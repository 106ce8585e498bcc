/* io/: the layouts of compressed-tensors: each grid of weights beside each grid of inputs. */
#include "pack_and_read.h"

static const struct layout {
    const char *weights, *inputs, *format;
} layouts[] = {
    {"int4:g32", NULL, "pack-quantized"},
    {"int4:g32", "fp8_e4m3:token", "pack-quantized"},
    {"int8:channel", "int8:token", "int-quantized"},
    {"int8:channel", "int8:token:asym", "int-quantized"},
    {"int8:tensor", "int8:tensor:static", "int-quantized"},
    {"int8:channel", "int8:tensor:asym:static", "int-quantized"},
    {"int4:g32", "int8:token", "int-quantized"},
    {"int4:channel", "int4:token", "int-quantized"},
    {"int8:g32:asym", "int8:g32", "int-quantized"},
    {"fp8_e4m3:tensor", "fp8_e4m3:tensor:static", "float-quantized"},
    {"fp8_e4m3:channel", "fp8_e4m3:token", "float-quantized"},
    {"fp8_e4m3:channel", "fp8_e4m3:tensor", "float-quantized"},
    {"fp8_e4m3:block16", "fp8_e4m3:g32", "float-quantized"},
    {"fp8_e4m3:block128", "fp8_e4m3:g32", "float-quantized"},
    {"fp8_e4m3:g32", "fp8_e4m3:g32", "float-quantized"},
    {"fp8_e4m3:tensor", NULL, "naive-quantized"},
    {"fp8_e4m3:channel", NULL, "naive-quantized"},
    {"fp8_e4m3:block16", NULL, "naive-quantized"},
    {"mxfp4", NULL, "mxfp4-pack-quantized"},
    {"mxfp4", "mxfp4", "mxfp4-pack-quantized"},
    {"mxfp4", "fp8_e4m3:g32", "mxfp4-pack-quantized"},
    {"mxfp6_e2m3", NULL, "mxfp6-pack-quantized"},
    {"mxfp6_e2m3", "mxfp8", "mxfp6-pack-quantized"},
    {"mxfp8", NULL, "mxfp8-quantized"},
    {"mxfp8", "mxfp8", "mxfp8-quantized"},
    {"nvfp4", NULL, "nvfp4-pack-quantized"},
    {"nvfp4", "nvfp4:static", "nvfp4-pack-quantized"},
};

static void each_layout_returns_what_it_got(void **state)
{
    (void)state;
    static const enum pith_dtype dtypes[] = {PITH_BF16, PITH_F16, PITH_F32};
    const struct pith_container *c = pith_container_find("compressed-tensors");
    for (size_t i = 0; i < PITH_COUNT(layouts); i++) {
        const struct layout *l = &layouts[i];
        const struct pith_grid grid = ramp_parse(l->weights), inputs = ramp_parse(l->inputs);
        const struct pith_container_opts opts = {.model_dtype = dtypes[i % 3], .acts = inputs};
        struct pith_qmat q;
        json_t *config = NULL;
        ramp_on(&grid, &inputs, 40, 96, opts.model_dtype, &q);
        pack_and_keep(c, &grid, &q, opts, &config);
        assert_string_equal(json_string_value(json_object_get(config, "format")), l->format);
        json_decref(config);
        pith_qmat_free(&q);
    }
}

/* A row that is one block, and blocks that end within the matrix. */
static void small_and_ragged_matrices(void **state)
{
    (void)state;
    static const struct {
        const char *grid;
        uint32_t rows, cols;
    } cases[] = {{"mxfp4", 3, 32},
                 {"nvfp4", 1, 16},
                 {"fp8_e4m3:block32", 33, 70},
                 {"fp8_e4m3:block128", 5, 7},
                 {"fp8_e4m3:channel", 7, 13}};
    const struct pith_container *c = pith_container_find("compressed-tensors");
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        const struct pith_grid grid = ramp_parse(cases[i].grid), none = {0};
        struct pith_qmat q;
        ramp_on(&grid, &none, cases[i].rows, cases[i].cols, PITH_BF16, &q);
        pack_and_read(c, &grid, &q, (struct pith_container_opts){.model_dtype = PITH_BF16});
        pith_qmat_free(&q);
    }
}

/* --- the library's own files --------------------------------------------------------------- */

#define GOLDEN "tests/golden/ct_layouts/"

/* pith stores the same tensors with the same bytes; a scale of inputs in float32, whatever theirs.
 */
static void same_bytes(const struct pith_checkpoint *ck, const char *module,
                       const struct pith_packed_set *set)
{
    for (unsigned i = 0; i < set->count; i++) {
        const struct pith_packed *p = &set->item[i];
        char name[200];
        snprintf(name, sizeof name, "%s%s", module, p->suffix);
        const struct pith_tensor *t = pith_checkpoint_find(ck, name);
        if (!t) fail_msg("%s: the library has none", name);
        if (strncmp(p->suffix, ".input_", 7) == 0) {
            float theirs, ours;
            assert_true(pith_dtype_decode(t->dtype, t->data, 1, &theirs));
            memcpy(&ours, p->data, sizeof ours);
            if (strstr(p->suffix, "global")) assert_true(1.0f / ours == 1.0f / theirs);
            else assert_true(ours == theirs);
            continue;
        }
        if (t->dtype != p->dtype || t->bytes != p->bytes || memcmp(t->data, p->data, p->bytes) != 0)
            fail_msg("%s: other bytes than the library's", name);
    }
}

static void check_golden(struct pith_checkpoint *ck, const json_t *o)
{
    const struct pith_container *c = pith_container_find("compressed-tensors");
    const char *module = json_string_value(json_object_get(o, "module"));
    const uint32_t rows = (uint32_t)json_integer_value(json_object_get(o, "rows")),
                   cols = (uint32_t)json_integer_value(json_object_get(o, "cols"));
    struct pith_error err = {0};
    struct pith_packed_set set = {0};
    struct pith_qmat q;
    void *state = NULL;
    bool found = false;
    char name[200];
    ck->quantization = json_object_get(o, "config");
    assert_ok(c->open(ck, &state, &err), err);
    assert_ok(c->load(state, ck, module, rows, cols, &q, &found, &err), err);
    assert_true(found);
    snprintf(name, sizeof name, "%s.want", module);
    const struct pith_tensor *want = pith_checkpoint_find(ck, name);
    assert_non_null(want);
    const size_t count = (size_t)rows * cols;
    float *w = malloc(count * sizeof *w), *theirs = malloc(count * sizeof *theirs);
    pith_qmat_decode(&q, 0, rows, w);
    assert_true(pith_dtype_decode(want->dtype, want->data, count, theirs));
    for (size_t i = 0; i < count; i++)
        if (pith_round_to(want->dtype, w[i]) != theirs[i])
            fail_msg("%s: another weight %zu than the library's", module, i);
    const struct pith_container_opts opts = {.model_dtype = PITH_BF16, .acts = q.input.grid};
    assert_ok(pith_container_pack(c, &q, &opts, &set, &err), err);
    same_bytes(ck, module, &set);
    pith_packed_free(&set);
    free(theirs);
    free(w);
    pith_qmat_free(&q);
    c->close(state);
}

static void reads_and_writes_what_the_library_does(void **state)
{
    (void)state;
    static char dir[] = "golden";
    struct pith_safetensors file;
    struct pith_error err = {0};
    json_t *cases = NULL;
    assert_ok(pith_safetensors_open(GOLDEN "layouts.safetensors", &file, &err), err);
    assert_ok(pith_json_load(GOLDEN "cases.json", 1 << 20, &cases, &err), err);
    struct pith_checkpoint ck = {
        .dir = dir, .files = &file, .file_count = 1, .tensors = file.tensors, .count = file.count};
    assert_true(json_array_size(cases) > 10);
    for (size_t i = 0; i < json_array_size(cases); i++) check_golden(&ck, json_array_get(cases, i));
    json_decref(cases);
    pith_safetensors_close(&file);
}

/* --- configs ------------------------------------------------------------------------------- */

static json_t *config_of(const struct pith_linear_grid *linears, size_t count, const char *inputs,
                         const char *kv)
{
    const struct pith_container *c = pith_container_find("compressed-tensors");
    const struct pith_container_opts opts = {
        .model_dtype = PITH_BF16, .acts = ramp_parse(inputs), .kv = ramp_parse(kv)};
    struct pith_error err = {0};
    json_t *config = NULL;
    assert_ok(c->config(linears, count, &opts, &config, &err), err);
    return config;
}

static const char *text_at(const json_t *o, const char *group, const char *args, const char *key)
{
    o = json_object_get(json_object_get(o, "config_groups"), group);
    if (args) o = json_object_get(o, args);
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

static void groups_of_several_layouts_name_theirs(void **state)
{
    (void)state;
    const struct pith_linear_grid linears[] = {
        {"model.layers.0.mlp.up_proj", ramp_parse("fp8_e4m3:block128"), 0},
        {"model.layers.0.mlp.down_proj", ramp_parse("nvfp4"), 0},
        {"model.layers.0.self_attn.q_proj", ramp_parse("int4:g128"), 0},
        {"lm_head", {0}, 0},
    };
    json_t *config = config_of(linears, PITH_COUNT(linears), NULL, NULL);
    assert_string_equal(json_string_value(json_object_get(config, "format")), "mixed-precision");
    assert_string_equal(text_at(config, "group_0", NULL, "format"), "naive-quantized");
    assert_string_equal(text_at(config, "group_1", NULL, "format"), "nvfp4-pack-quantized");
    assert_string_equal(text_at(config, "group_2", NULL, "format"), "pack-quantized");
    assert_string_equal(text_at(config, "group_1", "weights", "strategy"), "tensor_group");
    assert_string_equal(text_at(config, "group_1", "weights", "scale_dtype"),
                        "torch.float8_e4m3fn");
    /* Older readers do not know the key, so the others are without it. */
    const json_t *groups = json_object_get(config, "config_groups");
    const json_t *weights = json_object_get(json_object_get(groups, "group_0"), "weights");
    assert_null(json_object_get(weights, "scale_dtype"));
    assert_int_equal(json_array_size(json_object_get(weights, "block_structure")), 2);
    json_decref(config);
}

static void scheme_by(const char *kv_grid, const char *strategy)
{
    const struct pith_container *c = pith_container_find("compressed-tensors");
    const struct pith_linear_grid linears[] = {
        {"model.layers.0.mlp.up_proj", ramp_parse("nvfp4"), 0}};
    json_t *config = config_of(linears, 1, "nvfp4:static", kv_grid);
    assert_string_equal(text_at(config, "group_0", "input_activations", "dynamic"), "local");
    const json_t *kv = json_object_get(config, "kv_cache_scheme");
    assert_int_equal(json_integer_value(json_object_get(kv, "num_bits")), 8);
    assert_true(json_is_false(json_object_get(kv, "dynamic")));
    assert_string_equal(json_string_value(json_object_get(kv, "strategy")), strategy);

    static char dir[] = "model";
    struct pith_error err = {0};
    void *s = NULL;
    struct pith_grid grid;
    struct pith_container_opts opts = {0};
    struct pith_checkpoint ck = {.dir = dir, .quantization = config};
    assert_ok(c->open(&ck, &s, &err), err);
    assert_ok(c->describe(s, &ck, linears[0].module, &grid, &opts, &err), err);
    c->close(s);
    const struct pith_grid want = ramp_parse(kv_grid), inputs = ramp_parse("nvfp4:static");
    assert_true(pith_grid_equal(&opts.kv, &want));
    assert_true(pith_grid_equal(&opts.acts, &inputs));
    assert_true(pith_grid_equal(&grid, &linears[0].grid));
    json_decref(config);
}

static void keys_and_values_have_a_scheme(void **state)
{
    (void)state;
    scheme_by("fp8_e4m3:tensor:static", "tensor");
    scheme_by("fp8_e4m3:head:static", "attn_head");
    const struct pith_container *c = pith_container_find("compressed-tensors");
    const struct pith_linear_grid linears[] = {
        {"model.layers.0.mlp.up_proj", ramp_parse("nvfp4"), 0}};
    json_t *config;
    struct pith_error err = {0};
    struct pith_container_opts bad = {
        .model_dtype = PITH_BF16, .kv = ramp_parse("int8:channel"), 0};
    assert_int_equal(c->config(linears, 1, &bad, &config, &err), PITH_UNSUPPORTED);
    assert_non_null(strstr(err.text, "keys and values"));
}

/* --- what configs of other versions say ---------------------------------------------------- */

struct said {
    const char *group; /* the members of a config group beside its targets */
    enum pith_status want;
    const char *text; /* the grid of the weights, or part of the message */
};

#define W(members) "\"weights\":{" members "}"
static const struct said cases[] = {
    {W("\"num_bits\":8,\"type\":\"float\",\"strategy\":\"block\",\"block_structure\":"
       "\"128x128\""),
     PITH_OK, "fp8_e4m3:block128"},
    {W("\"num_bits\":8,\"type\":\"float\",\"strategy\":\"block\",\"block_structure\":[64,"
       "128]"),
     PITH_UNSUPPORTED, "block"},
    {W("\"num_bits\":8,\"type\":\"float\",\"strategy\":\"block\""), PITH_FORMAT, "block_structure"},
    {W("\"num_bits\":8,\"type\":\"float\",\"strategy\":\"block\",\"block_structure\":[0,"
       "128]"),
     PITH_FORMAT, "no pair"},
    {W("\"num_bits\":8,\"type\":\"float\",\"strategy\":\"block\",\"block_structure\":"
       "\"128\""),
     PITH_FORMAT, "no pair"},
    {W("\"num_bits\":8,\"type\":\"float\",\"strategy\":\"channel\",\"block_structure\":[2,"
       "4]"),
     PITH_FORMAT, "block_structure"},
    {W("\"num_bits\":8,\"type\":\"float\""), PITH_OK, "fp8_e4m3:tensor"},
    {W("\"num_bits\":8,\"type\":\"float\",\"group_size\":-1"), PITH_OK, "fp8_e4m3:channel"},
    {W("\"num_bits\":8,\"type\":\"float\",\"symmetric\":false"), PITH_UNSUPPORTED, "zero points"},
    {W("\"num_bits\":5,\"type\":\"float\""), PITH_UNSUPPORTED, "float"},
    {W("\"num_bits\":8,\"type\":\"complex\""), PITH_UNSUPPORTED, "complex"},
    {W("\"num_bits\":8,\"type\":\"float\",\"group_size\":32"), PITH_OK, "fp8_e4m3:g32"},
    {W("\"num_bits\":8,\"type\":\"float\",\"group_size\":32,\"scale_dtype\":\"torch."
       "uint8\"") ",\"format\":\"mxfp8-quantized\"",
     PITH_OK, "mxfp8"},
    {W("\"num_bits\":8,\"type\":\"float\",\"group_size\":32,\"scale_dtype\":\"torch."
       "uint8\""),
     PITH_UNSUPPORTED, "naive-quantized"},
    {W("\"num_bits\":4,\"type\":\"float\",\"group_size\":32") ",\"format\":\"mxfp4-pack-"
                                                              "quantized\"",
     PITH_OK, "mxfp4"},
    {W("\"num_bits\":6,\"type\":\"float\",\"group_size\":32") ",\"format\":\"mxfp6-pack-"
                                                              "quantized\"",
     PITH_OK, "mxfp6_e2m3"},
    {W("\"num_bits\":4,\"type\":\"float\",\"group_size\":32,\"scale_dtype\":\"torch."
       "float16\"") ",\"format\":\"mxfp4-pack-quantized\"",
     PITH_UNSUPPORTED, "float"},
    {W("\"num_bits\":4,\"type\":\"float\",\"strategy\":\"tensor_group\",\"group_size\":"
       "16") ",\"format\":\"nvfp4-pack-quantized\"",
     PITH_OK, "nvfp4"},
    {W("\"num_bits\":4,\"type\":\"float\",\"strategy\":\"tensor_group\",\"group_size\":16,"
       "\"actorder\":\"static\"") ",\"format\":\"nvfp4-pack-quantized\"",
     PITH_OK, "nvfp4"}, /* as llm-compressor's GPTQ writes it */
    {W("\"num_bits\":4,\"type\":\"float\",\"strategy\":\"tensor_group\",\"group_size\":16,"
       "\"actorder\":\"group\"") ",\"format\":\"nvfp4-pack-quantized\"",
     PITH_FORMAT, "needs strategy"},
    {W("\"num_bits\":8,\"type\":\"float\",\"strategy\":\"channel\",\"actorder\":\"weight\""),
     PITH_OK, "fp8_e4m3:channel"},
    {W("\"num_bits\":4,\"type\":\"float\",\"group_size\":16") ",\"format\":\"nvfp4-pack-"
                                                              "quantized\"",
     PITH_UNSUPPORTED, "strategy \"group\""},
    {W("\"num_bits\":4,\"group_size\":32") ",\"format\":\"mixed-precision\"", PITH_UNSUPPORTED,
     "mixed-precision"},
    {W("\"num_bits\":8,\"strategy\":\"token\",\"dynamic\":true"), PITH_FORMAT, "dynamic"},
    {W("\"num_bits\":8,\"strategy\":\"token\""), PITH_UNSUPPORTED, "token"},
    {W("\"num_bits\":8,\"strategy\":\"attn_head\""), PITH_UNSUPPORTED, "attn_head"},
    {W("\"num_bits\":8,\"dynamic\":\"local\""), PITH_FORMAT, "local"},
    {W("\"num_bits\":8") ",\"output_activations\":{\"num_bits\":8}", PITH_UNSUPPORTED, "output"},
    {W("\"num_bits\":8") ",\"input_activations\":{\"num_bits\":8,\"strategy\":\"token\"}",
     PITH_UNSUPPORTED, "fixed scales"},
    {W("\"num_bits\":8") ",\"input_activations\":{\"num_bits\":8,\"strategy\":\"channel\"}",
     PITH_UNSUPPORTED, "channel"},
    {W("\"num_bits\":8") ",\"input_activations\":{\"num_bits\":8,\"surprise\":1}", PITH_UNSUPPORTED,
     "surprise"},
    {W("\"num_bits\":8") ",\"input_activations\":7", PITH_FORMAT, "not an object"},
};

static void configs_are_understood_or_refused(void **state)
{
    (void)state;
    const struct pith_container *c = pith_container_find("compressed-tensors");
    static char dir[] = "model", module[] = "model.layers.0.mlp.up_proj";
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        char text[1200], got[PITH_GRID_TEXT] = "";
        struct pith_error err = {0};
        struct pith_container_opts opts = {0};
        void *s = NULL;
        struct pith_grid grid;
        snprintf(text, sizeof text,
                 "{\"quant_method\":\"compressed-tensors\",\"format\":\"naive-quantized\","
                 "\"config_groups\":{\"a\":{\"targets\":[\"LlamaAttention\"],\"weights\":null,"
                 "\"input_activations\":{\"num_bits\":8}},\"b\":{\"targets\":[\"Linear\"],%s}}}",
                 cases[i].group);
        json_t *config = json_loads(text, 0, NULL);
        assert_non_null(config);
        const struct pith_checkpoint ck = {.dir = dir, .quantization = config};
        const enum pith_status status = c->open(&ck, &s, &err);
        if (status == PITH_OK) {
            assert_ok(c->describe(s, &ck, module, &grid, &opts, &err), err);
            pith_grid_format(&grid, got);
            c->close(s);
        }
        const char *said = status == PITH_OK ? got : err.text;
        if (status != cases[i].want || !strstr(said, cases[i].text))
            fail_msg("%s: status %d, \"%s\"", cases[i].group, (int)status, said);
        json_decref(config);
    }
}

/* --- numbers ------------------------------------------------------------------------------- */

/* NVFP4's scale as read from another's file, which has no factor of its own: packing finds the
 * divisor again. */
static void divisors_come_back(void **state)
{
    (void)state;
    const struct pith_container *c = pith_container_find("compressed-tensors");
    const struct pith_grid grid = ramp_parse("nvfp4"), none = {0};
    for (unsigned i = 0; i < 200; i++) {
        struct pith_qmat q;
        ramp_on(&grid, &none, 4, 64, PITH_BF16, &q);
        const float divisor = 100.0f + 1.2345f * (float)i;
        for (size_t k = 0; k < pith_qmat_scale_count(&q); k++)
            q.scales[k] = q.scales[k] / (float)RAMP_GLOBAL / divisor;
        q.global = 1.0f / divisor;
        struct pith_packed_set set = {0};
        struct pith_error err = {0};
        const struct pith_container_opts opts = {.model_dtype = PITH_BF16};
        assert_ok(pith_container_pack(c, &q, &opts, &set, &err), err);
        float stored;
        memcpy(&stored, set.item[2].data, sizeof stored);
        for (size_t k = 0; k < pith_qmat_scale_count(&q); k++) {
            const uint8_t code = ((const uint8_t *)set.item[1].data)[k];
            assert_true(pith_format_find("fp8_e4m3")->decode(code) / stored == q.scales[k]);
        }
        pith_packed_free(&set);
        pith_qmat_free(&q);
    }
}

/* The same of inputs, whose factor is all that is kept. */
static void factors_of_inputs_come_back(void **state)
{
    (void)state;
    const struct pith_container *c = pith_container_find("compressed-tensors");
    const struct pith_grid grid = ramp_parse("nvfp4"), inputs = ramp_parse("nvfp4:static");
    const struct pith_container_opts opts = {.model_dtype = PITH_BF16, .acts = inputs};
    struct pith_qmat q;
    ramp_on(&grid, &inputs, 1, 16, PITH_BF16, &q);
    for (unsigned i = 0; i < 2000; i++) {
        struct pith_packed_set set = {0};
        struct pith_error err = {0};
        float stored;
        q.input.scale = 1.0f / (1.0f + 1.2345f * (float)i);
        assert_ok(pith_container_pack(c, &q, &opts, &set, &err), err);
        memcpy(&stored, set.item[3].data, sizeof stored);
        assert_true(1.0f / stored == q.input.scale);
        pith_packed_free(&set);
    }
    pith_qmat_free(&q);
}

static void packing_refuses_what_would_be_lost(void **state)
{
    (void)state;
    const struct pith_container *c = pith_container_find("compressed-tensors");
    static const struct {
        const char *grid, *inputs;
        float scale;
        enum pith_status want;
        const char *text;
    } bad[] = {
        {"mxfp4", NULL, 0.3f, PITH_NUMERIC, "e8m0"},
        {"nvfp4", NULL, 0.0123f, PITH_NUMERIC, "fp8_e4m3"},
        {"fp8_e4m3:block32", NULL, 0.1f, PITH_NUMERIC, "BF16"},
        {"nvfp4", "nvfp4:static", 0.0f, PITH_ARG, "no scale"},
        {"fp8_e4m3:tensor", "fp8_e4m3:tensor:static", 0.0f, PITH_ARG, "no scale"},
    };
    for (size_t i = 0; i < PITH_COUNT(bad); i++) {
        const struct pith_grid grid = ramp_parse(bad[i].grid), inputs = ramp_parse(bad[i].inputs);
        const struct pith_container_opts opts = {.model_dtype = PITH_BF16, .acts = inputs};
        struct pith_packed_set set = {0};
        struct pith_error err = {0};
        struct pith_qmat q;
        ramp_on(&grid, &inputs, 32, 64, PITH_BF16, &q);
        q.input.scale = 0.0f;
        if (bad[i].scale > 0.0f) q.scales[1] = bad[i].scale;
        assert_int_equal(pith_container_pack(c, &q, &opts, &set, &err), bad[i].want);
        assert_int_equal(set.count, 0);
        if (!strstr(err.text, bad[i].text)) fail_msg("%s: \"%s\"", bad[i].grid, err.text);
        pith_qmat_free(&q);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_layout_returns_what_it_got),
        cmocka_unit_test(small_and_ragged_matrices),
        cmocka_unit_test(reads_and_writes_what_the_library_does),
        cmocka_unit_test(groups_of_several_layouts_name_theirs),
        cmocka_unit_test(keys_and_values_have_a_scheme),
        cmocka_unit_test(configs_are_understood_or_refused),
        cmocka_unit_test(divisors_come_back),
        cmocka_unit_test(factors_of_inputs_come_back),
        cmocka_unit_test(packing_refuses_what_would_be_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
