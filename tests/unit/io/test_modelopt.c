/* io/: the modelopt container: ModelOpt's own files, what it is given, and files that lie. */
#include "pack_and_read.h"

#define GOLDEN "tests/golden/modelopt/"
enum { ALL_ROWS = 128, COLS = 256, ROWS = 8 };

/* --- ModelOpt's own files ------------------------------------------------------------------ */

struct golden {
    struct pith_checkpoint c;
    struct pith_safetensors file;
    json_t *cases;
};

static void golden_open(struct golden *g)
{
    static char dir[] = "golden";
    struct pith_error err = {0};
    assert_ok(pith_safetensors_open(GOLDEN "modelopt.safetensors", &g->file, &err), err);
    assert_ok(pith_json_load(GOLDEN "cases.json", 1 << 20, &g->cases, &err), err);
    g->c = (struct pith_checkpoint){.dir = dir,
                                    .files = &g->file,
                                    .file_count = 1,
                                    .tensors = g->file.tensors,
                                    .count = g->file.count};
}

static void golden_close(struct golden *g)
{
    json_decref(g->cases);
    pith_safetensors_close(&g->file);
}

/* pith stores the same tensors with the same bytes. */
static void same_bytes(const struct golden *g, const char *module, const struct pith_qmat *q,
                       const struct pith_container_opts *opts)
{
    const struct pith_container *c = pith_container_find("modelopt");
    struct pith_packed_set set = {0};
    struct pith_error err = {0};
    assert_ok(pith_container_pack(c, q, opts, &set, &err), err);
    for (unsigned i = 0; i < set.count; i++) {
        const struct pith_packed *p = &set.item[i];
        char name[200];
        snprintf(name, sizeof name, "%s%s", module, p->suffix);
        const struct pith_tensor *t = pith_checkpoint_find(&g->c, name);
        if (!t) fail_msg("%s: ModelOpt has none", name);
        if (t->dtype != p->dtype || t->dims != p->dims ||
            memcmp(t->shape, p->shape, p->dims * sizeof *p->shape) != 0)
            fail_msg("%s: another dtype or shape than ModelOpt's", name);
        if (memcmp(t->data, p->data, p->bytes) != 0) fail_msg("%s: other bytes", name);
    }
    pith_packed_free(&set);
}

static void read_golden(struct golden *g, const char *module, const json_t *config)
{
    const struct pith_container *c = pith_container_find("modelopt");
    struct pith_error err = {0};
    struct pith_container_opts opts = {.model_dtype = PITH_F32};
    struct pith_grid grid;
    struct pith_qmat q;
    void *state = NULL;
    bool found = false;
    char name[200];
    g->c.quantization = config;
    assert_ok(c->open(&g->c, &state, &err), err);
    assert_ok(c->load(state, &g->c, module, ALL_ROWS, COLS, &q, &found, &err), err);
    assert_true(found);
    assert_ok(c->describe(state, &g->c, module, &grid, &opts, &err), err);
    assert_true(pith_grid_equal(&opts.acts, &q.input.grid));
    snprintf(name, sizeof name, "%s.want", module);
    const struct pith_tensor *want = pith_checkpoint_find(&g->c, name);
    float *w = malloc((size_t)ROWS * COLS * sizeof *w);
    pith_qmat_decode(&q, 0, ROWS, w);
    const float *theirs = (const float *)(const void *)want->data; /* its zeros have no sign */
    for (size_t i = 0; i < (size_t)ROWS * COLS; i++)
        if (w[i] != theirs[i]) fail_msg("%s: another weight %zu than ModelOpt's", module, i);
    free(w);
    same_bytes(g, module, &q, &opts);
    c->close(state);
    pith_qmat_free(&q);
}

static void reads_and_writes_what_modelopt_does(void **state)
{
    (void)state;
    struct golden g;
    golden_open(&g);
    assert_true(json_array_size(g.cases) > 8);
    for (size_t i = 0; i < json_array_size(g.cases); i++) {
        const json_t *o = json_array_get(g.cases, i);
        const char *module = json_string_value(json_object_get(o, "module"));
        read_golden(&g, module, json_object_get(o, "config"));
        read_golden(&g, module, json_object_get(o, "alone"));
    }
    golden_close(&g);
}

/* --- round trips --------------------------------------------------------------------------- */

static const struct layout {
    const char *weights, *inputs, *algo;
} layouts[] = {
    {"fp8_e4m3:tensor", "fp8_e4m3:tensor:static", "FP8"},
    {"fp8_e4m3:channel", "fp8_e4m3:token", "FP8_PER_CHANNEL_PER_TOKEN"},
    {"fp8_e4m3:block128", NULL, "fp8_pb_wo"},
    {"nvfp4", "nvfp4:static", "NVFP4"},
    {"nvfp4", NULL, "W4A16_NVFP4"},
    {"mxfp8", "mxfp8", "MXFP8"},
    {"mxfp4", "fp8_e4m3:tensor", "W4A8_MXFP4_FP8"},
    {"mxfp4", "fp8_e4m3:tensor:static", "W4A8_MXFP4_FP8"},
    {"int4:g64", NULL, "W4A16_AWQ"},
    {"int4:g128", "fp8_e4m3:tensor:static", "W4A8_AWQ"},
    {"int8:channel", NULL, "W8A16"},
    {"int8:channel", "int8:tensor:static", "W8A8_SQ_PER_CHANNEL"},
};

static void each_algorithm_returns_what_it_got(void **state)
{
    (void)state;
    const struct pith_container *c = pith_container_find("modelopt");
    for (size_t i = 0; i < PITH_COUNT(layouts); i++) {
        const struct layout *l = &layouts[i];
        const struct pith_grid grid = ramp_parse(l->weights), inputs = ramp_parse(l->inputs);
        const struct pith_container_opts opts = {.model_dtype = PITH_BF16, .acts = inputs};
        struct pith_error err = {0};
        struct pith_qmat q;
        json_t *config = NULL, *file = NULL;
        const char *name = NULL;
        ramp_on(&grid, &inputs, 256, 128, PITH_F32, &q);
        q.input.rule = inputs.format ? c->input_rule : PITH_INPUT_CT;
        pack_and_keep(c, &grid, &q, opts, &config);
        assert_string_equal(json_string_value(json_object_get(config, "quant_algo")), l->algo);
        assert_ok(c->extra_file(config, &name, &file, &err), err);
        assert_string_equal(name, "hf_quant_config.json");
        const json_t *inner = json_object_get(file, "quantization");
        assert_string_equal(json_string_value(json_object_get(inner, "quant_algo")), l->algo);
        assert_true(json_is_null(json_object_get(inner, "kv_cache_quant_algo")));
        assert_int_equal(json_array_size(json_object_get(inner, "exclude_modules")), 1);
        json_decref(file);
        json_decref(config);
        pith_qmat_free(&q);
    }
}

/* NVFP4 means the same here as in compressed-tensors, which stores the inverses. */
static void nvfp4_has_a_twin(void **state)
{
    (void)state;
    const struct pith_grid grid = ramp_parse("nvfp4"), none = {0};
    struct pith_qmat q;
    ramp_on(&grid, &none, 32, 64, PITH_BF16, &q);
    pack_and_read(pith_container_find("modelopt"), &grid, &q,
                  (struct pith_container_opts){.model_dtype = PITH_BF16});
    pack_and_read(pith_container_find("compressed-tensors"), &grid, &q,
                  (struct pith_container_opts){.model_dtype = PITH_BF16});
    pith_qmat_free(&q);
}

/* --- configs ------------------------------------------------------------------------------- */

static const char module[] = "model.layers.0.mlp.up_proj";

/* Status of opening that config; *grid is what `module` has, *opts what it shows. */
static enum pith_status describe(const char *text, struct pith_grid *grid,
                                 struct pith_container_opts *opts, struct pith_error *err)
{
    const struct pith_container *c = pith_container_find("modelopt");
    static char dir[] = "model";
    void *state = NULL;
    json_t *config = json_loads(text, 0, NULL);
    assert_non_null(config);
    const struct pith_checkpoint ck = {.dir = dir, .quantization = config};
    enum pith_status s = c->open(&ck, &state, err);
    if (s == PITH_OK) s = c->describe(state, &ck, module, grid, opts, err);
    if (state) c->close(state);
    json_decref(config);
    return s;
}

static void configs_are_understood_or_refused(void **state)
{
    (void)state;
    static const struct {
        const char *config;
        enum pith_status want;
        const char *text; /* the grid, or part of the message */
    } cases[] = {
        {"{\"quant_algo\":\"FP8\"}", PITH_OK, "fp8_e4m3:tensor"},
        {"{\"quant_algo\":\"fp8\"}", PITH_OK, "fp8_e4m3:tensor"},
        {"{\"quant_algo\":\"FP8\",\"ignore\":[\"model.layers.0*\"]}", PITH_OK, "none"},
        {"{\"quant_algo\":\"FP8\",\"exclude_modules\":[\"*.?p_proj\"]}", PITH_OK, "none"},
        {"{\"quant_algo\":\"FP8\",\"ignore\":[\"up_proj\",\"*up\",\"model*.1*\"]}", PITH_OK,
         "fp8_e4m3:tensor"},
        {"{\"quant_algo\":\"FP8\",\"ignore\":[\"*a*b*c*d*e*f*g*h*i*j*k*l*m*n*o*p*q*\"]}", PITH_OK,
         "fp8_e4m3:tensor"},
        {"{\"quantization\":{\"quant_algo\":\"NVFP4\",\"exclude_modules\":[\"lm_head\"]}}", PITH_OK,
         "nvfp4"},
        {"{\"quantization\":{\"quant_algo\":\"W4A16_AWQ\",\"group_size\":64}}", PITH_OK,
         "int4:g64"},
        {"{\"quant_algo\":\"MIXED_PRECISION\",\"quantized_layers\":{\"model.layers.0.mlp.up_proj\":"
         "{\"quant_algo\":\"W8A16\"}}}",
         PITH_OK, "int8:channel"},
        {"{\"quant_algo\":\"MIXED_PRECISION\",\"quantized_layers\":{\"other\":{}}}", PITH_OK,
         "none"},
        {"{\"quant_algo\":\"MIXED_PRECISION\"}", PITH_FORMAT, "quantized_layers"},
        {"{\"quant_algo\":\"MIXED_PRECISION\",\"quantized_layers\":{\"model.layers.0.mlp.up_proj\":"
         "{}}}",
         PITH_FORMAT, "no quant_algo"},
        {"{\"quant_algo\":\"W4A8_NVFP4_FP8\"}", PITH_UNSUPPORTED, "W4A8_NVFP4_FP8"},
        {"{\"quant_algo\":7}", PITH_FORMAT, "quant_algo"},
        {"{\"quant_algo\":\"FP8\",\"ignore\":\"lm_head\"}", PITH_FORMAT, "not a list"},
        {"{\"quant_algo\":\"FP8\",\"ignore\":[\"[a-z]*\"]}", PITH_UNSUPPORTED, "a set"},
        {"{\"quant_algo\":\"FP8\",\"ignore\":[1]}", PITH_UNSUPPORTED, "no string"},
        {"{\"quant_algo\":\"W4A16_AWQ\",\"has_zero_point\":true}", PITH_UNSUPPORTED, "zero_point"},
        {"{\"quant_algo\":\"W4A16_AWQ\",\"group_size\":-1}", PITH_FORMAT, "group_size"},
        {"{\"quant_algo\":\"FP8\",\"kv_cache_scheme\":\"NVFP4_AFFINE\"}", PITH_UNSUPPORTED,
         "NVFP4_AFFINE"},
    };
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        struct pith_error err = {0};
        struct pith_container_opts opts = {0};
        struct pith_grid grid;
        char got[PITH_GRID_TEXT] = "";
        const enum pith_status s = describe(cases[i].config, &grid, &opts, &err);
        if (s == PITH_OK) pith_grid_format(&grid, got);
        const char *said = s == PITH_OK ? got : err.text;
        const bool same = s == PITH_OK ? strcmp(said, cases[i].text) == 0
                                       : strstr(said, cases[i].text) != NULL;
        if (s != cases[i].want || !same)
            fail_msg("%s: status %d, \"%s\"", cases[i].config, (int)s, said);
    }
}

static void keys_and_values_are_told_both_ways(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{\"quant_algo\":\"FP8\",\"kv_cache_scheme\":{\"num_bits\":8,\"type\":\"float\"}}",
        "{\"quantization\":{\"quant_algo\":\"FP8\",\"kv_cache_quant_algo\":\"FP8\"}}",
        "{\"quant_algo\":\"FP8\",\"kv_cache_scheme\":\"NVFP4\"}",
        "{\"quantization\":{\"quant_algo\":\"FP8\",\"kv_cache_quant_algo\":\"NVFP4\"}}"};
    const struct pith_grid fp8 = ramp_parse("fp8_e4m3:tensor:static"),
                           fp4 = ramp_parse("nvfp4:static");
    for (size_t i = 0; i < PITH_COUNT(texts); i++) {
        struct pith_container_opts opts = {0};
        struct pith_error err = {0};
        struct pith_grid grid;
        assert_ok(describe(texts[i], &grid, &opts, &err), err);
        assert_true(pith_grid_equal(&opts.kv, i < 2 ? &fp8 : &fp4));
    }
    const struct pith_container *c = pith_container_find("modelopt");
    const struct pith_linear_grid l = {module, ramp_parse("fp8_e4m3:tensor"), 0};
    for (int four = 0; four < 2; four++) {
        const struct pith_container_opts opts = {
            .model_dtype = PITH_BF16, .acts = fp8, .kv = four ? fp4 : fp8};
        struct pith_error err = {0};
        const char *name;
        json_t *config = NULL, *file = NULL;
        assert_ok(c->config(&l, 1, &opts, &config, &err), err);
        assert_ok(c->extra_file(config, &name, &file, &err), err);
        const json_t *inner = json_object_get(file, "quantization");
        assert_string_equal(json_string_value(json_object_get(inner, "kv_cache_quant_algo")),
                            four ? "NVFP4" : "FP8");
        json_decref(file);
        json_decref(config);
    }
}

static void several_grids_are_told_by_layer(void **state)
{
    (void)state;
    const struct pith_container *c = pith_container_find("modelopt");
    const struct pith_linear_grid linears[] = {{"a", ramp_parse("nvfp4"), 0},
                                               {module, ramp_parse("int4:g64"), 0},
                                               {"b", {0}, 0},
                                               {"lm_head", {0}, 0}};
    const struct pith_container_opts opts = {.model_dtype = PITH_BF16};
    struct pith_container_opts seen = {0};
    struct pith_error err = {0};
    struct pith_grid grid;
    json_t *config = NULL;
    assert_ok(c->config(linears, 4, &opts, &config, &err), err);
    char *text = json_dumps(config, 0);
    assert_ok(describe(text, &grid, &seen, &err), err);
    assert_true(pith_grid_equal(&grid, &linears[1].grid));
    assert_int_equal(json_object_size(json_object_get(config, "quantized_layers")), 2);
    assert_int_equal(json_object_size(json_object_get(config, "config_groups")), 2);
    free(text);
    json_decref(config);
    const struct pith_linear_grid nf4 = {module, ramp_parse("nf4:g64"), 0}, left = {module, {0}, 0};
    assert_int_equal(c->config(&nf4, 1, &opts, &config, &err), PITH_UNSUPPORTED);
    assert_int_equal(c->config(&left, 1, &opts, &config, &err), PITH_ARG);
}

/* config.json may know nothing of it. */
static void hf_quant_config_is_enough(void **state)
{
    (void)state;
    const struct pith_container *c = pith_container_find("modelopt");
    const struct pith_grid grid = ramp_parse("int4:g64"), none = {0};
    const struct pith_linear_grid l = {module, grid, 0};
    const struct pith_container_opts opts = {.model_dtype = PITH_BF16};
    struct pith_error err = {0};
    struct pith_packed_set set = {0};
    struct ramp_file file = {0};
    struct pith_qmat q;
    json_t *config = NULL, *extra = NULL, *plain = json_pack("{s:s}", "model_type", "llama");
    const char *name;
    char *dir = test_temp_dir();
    ramp_on(&grid, &none, 64, 128, PITH_F32, &q);
    assert_ok(c->config(&l, 1, &opts, &config, &err), err);
    assert_ok(c->extra_file(config, &name, &extra, &err), err);
    assert_ok(pith_container_pack(c, &q, &opts, &set, &err), err);
    ramp_add(&file, module, &set);
    pith_packed_free(&set);
    ramp_save(&file, dir, plain, "model.safetensors");
    char *text = json_dumps(extra, 0);
    folder_text(dir, name, text);
    free(text);
    read_back(c, dir, module, &q);
    folder_text(dir, name, "[1]");
    struct pith_checkpoint *ck = NULL;
    assert_int_equal(pith_checkpoint_open(dir, &ck, &err), PITH_FORMAT);
    folder_remove(dir);
    json_decref(plain);
    json_decref(extra);
    json_decref(config);
    pith_qmat_free(&q);
}

/* --- files that lie ------------------------------------------------------------------------ */

/* One tensor of a good FP8, NVFP4 or int4 module is changed. */
static const struct lie {
    const char *weights, *inputs, *suffix;
    enum { DROP, RETYPE, NARROW, POKE, ADD } change;
    uint64_t value;
    enum pith_status want;
    const char *text;
} lies[] = {
    {"fp8_e4m3:tensor", "fp8_e4m3:tensor:static", ".weight_scale", DROP, 0, PITH_FORMAT,
     "weight_scale"},
    {"fp8_e4m3:tensor", "fp8_e4m3:tensor:static", ".input_scale", DROP, 0, PITH_FORMAT,
     "input_scale\" is missing"},
    {"fp8_e4m3:tensor", "fp8_e4m3:tensor:static", ".input_scale", POKE, 0, PITH_FORMAT, "is 0"},
    {"fp8_e4m3:tensor", "fp8_e4m3:tensor:static", ".input_scale", POKE, 0x7f800000, PITH_FORMAT,
     "inf"},
    {"fp8_e4m3:tensor", "fp8_e4m3:tensor:static", ".input_scale", RETYPE, PITH_F64,
     PITH_UNSUPPORTED, "F64"},
    {"fp8_e4m3:tensor", "fp8_e4m3:tensor:static", ".weight", POKE, 0x7f, PITH_FORMAT,
     "not a number"},
    {"fp8_e4m3:tensor", "fp8_e4m3:tensor:static", ".weight", RETYPE, PITH_I8, PITH_UNSUPPORTED,
     "I8"},
    {"fp8_e4m3:tensor", "fp8_e4m3:tensor:static", ".weight", NARROW, 0, PITH_FORMAT, "shape"},
    {"fp8_e4m3:tensor", "fp8_e4m3:tensor:static", ".weight_scale", POKE, 0x7fc00000, PITH_FORMAT,
     "not finite"},
    {"fp8_e4m3:block128", NULL, ".weight_scale", NARROW, 0, PITH_FORMAT, "2 x 1"},
    {"fp8_e4m3:block128", NULL, ".weight_scale", RETYPE, PITH_F64, PITH_FORMAT, "floats"},
    {"nvfp4", NULL, ".weight_scale_2", DROP, 0, PITH_FORMAT, "weight_scale_2\" is missing"},
    {"nvfp4", NULL, ".weight_scale", POKE, 0x7f, PITH_FORMAT, "not finite"},
    {"nvfp4", NULL, ".weight", NARROW, 0, PITH_FORMAT, "shape"},
    {"nvfp4", NULL, ".pre_quant_scale", ADD, PITH_BF16, PITH_UNSUPPORTED, "pre_quant_scale"},
    {"int4:g64", NULL, ".weight_scale", NARROW, 0, PITH_FORMAT, "weight_scale"},
    {"int4:g64", NULL, ".weight", RETYPE, PITH_I8, PITH_UNSUPPORTED, "I8"},
    {"int8:channel", NULL, ".weight_scale", NARROW, 0, PITH_FORMAT, "256 x 1"},
};

static void change(const struct lie *l, struct pith_packed_set *set)
{
    for (unsigned i = 0; i < set->count; i++) {
        struct pith_packed *p = &set->item[i];
        uint64_t bytes;
        if (strcmp(p->suffix, l->suffix) != 0) continue;
        if (l->change == POKE) {
            memcpy(p->data, &l->value, pith_dtype_bits(p->dtype) / 8);
            return;
        }
        if (l->change == RETYPE) p->dtype = (enum pith_dtype)l->value;
        if (l->change == NARROW) p->shape[0]--;
        assert_true(pith_tensor_size(p->dtype, p->dims, p->shape, &bytes));
        pith_free(p->data);
        p->data = pith_zalloc((size_t)bytes + 1, 1);
        p->bytes = (size_t)bytes;
        if (l->change != DROP) return;
        pith_free(p->data);
        *p = set->item[--set->count];
        return;
    }
    assert_int_equal(l->change, ADD);
}

static void lies_are_told(void **state)
{
    (void)state;
    const struct pith_container *c = pith_container_find("modelopt");
    for (size_t i = 0; i < PITH_COUNT(lies); i++) {
        const struct lie *l = &lies[i];
        const struct pith_grid grid = ramp_parse(l->weights), inputs = ramp_parse(l->inputs);
        const struct pith_container_opts opts = {.model_dtype = PITH_F16, .acts = inputs};
        const struct pith_linear_grid linear = {module, grid, 0};
        struct pith_error err = {0};
        struct pith_packed_set set = {0};
        struct ramp_file file = {0};
        struct pith_checkpoint *ck = NULL;
        struct pith_qmat q;
        json_t *quantization = NULL;
        void *s = NULL;
        bool found = false;
        ramp_on(&grid, &inputs, 256, 128, PITH_F32, &q);
        assert_ok(c->config(&linear, 1, &opts, &quantization, &err), err);
        assert_ok(pith_container_pack(c, &q, &opts, &set, &err), err);
        pith_qmat_free(&q);
        change(l, &set);
        char *dir = test_temp_dir(), name[200];
        ramp_add(&file, module, &set);
        pith_packed_free(&set);
        snprintf(name, sizeof name, "%s%s", module, l->suffix);
        if (l->change == ADD)
            ramp_add_plain(&file, name, (enum pith_dtype)l->value, 1, (const uint64_t[]){1},
                           (const uint64_t[]){0});
        json_t *config = wrap(quantization);
        ramp_save(&file, dir, config, "model.safetensors");
        json_decref(config);
        assert_ok(pith_checkpoint_open(dir, &ck, &err), err);
        assert_ok(c->open(ck, &s, &err), err);
        const enum pith_status status = c->load(s, ck, module, 256, 128, &q, &found, &err);
        if (status != l->want || !strstr(err.text, l->text))
            fail_msg("%s, %s: status %d, \"%s\"", l->weights, l->suffix, (int)status, err.text);
        c->close(s);
        pith_checkpoint_close(ck);
        folder_remove(dir);
    }
}

static void what_it_does_not_hold_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *weights, *inputs;
        uint32_t rows, cols;
        const char *text;
    } bad[] = {
        {"int4:g128:asym", NULL, 64, 128, "cannot hold"},
        {"int4:g128", NULL, 63, 128, "pairs"},
        {"int4:g128", NULL, 64, 100, "must divide"},
        {"nvfp4", NULL, 64, 24, "must divide"},
        {"fp8_e4m3:block128", NULL, 100, 128, "must divide"},
        {"fp8_e4m3:tensor", NULL, 64, 64, "inputs on none"},
        {"nvfp4", "fp8_e4m3:token", 64, 64, "inputs on fp8_e4m3:token"},
    };
    const struct pith_container *c = pith_container_find("modelopt");
    for (size_t i = 0; i < PITH_COUNT(bad); i++) {
        const struct pith_container_opts opts = {.acts = ramp_parse(bad[i].inputs)};
        check_refused(c, bad[i].weights, bad[i].rows, bad[i].cols, &opts, bad[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_and_writes_what_modelopt_does),
        cmocka_unit_test(each_algorithm_returns_what_it_got),
        cmocka_unit_test(nvfp4_has_a_twin),
        cmocka_unit_test(configs_are_understood_or_refused),
        cmocka_unit_test(keys_and_values_are_told_both_ways),
        cmocka_unit_test(several_grids_are_told_by_layer),
        cmocka_unit_test(hf_quant_config_is_enough),
        cmocka_unit_test(lies_are_told),
        cmocka_unit_test(what_it_does_not_hold_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
