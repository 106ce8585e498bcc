/* io/: the config objects of containers: models of several grids, written and read again. */
#include "io/container/module_match.h"
#include "ramp.h"

#define LAYERS 12

static const char *const roles[] = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
                                    "self_attn.o_proj", "mlp.gate_proj",    "mlp.up_proj",
                                    "mlp.down_proj"};
#define ROLES PITH_COUNT(roles)

/* A model's linears, and a checkpoint that has a tensor of one name for each quantized one. */
struct model {
    char names[LAYERS * ROLES + 1][64];
    char tensors[LAYERS * ROLES + 1][80];
    struct pith_linear_grid linear[LAYERS * ROLES + 1];
    struct pith_tensor tensor[LAYERS * ROLES + 1];
    size_t count;
    struct pith_checkpoint checkpoint;
};

static struct pith_grid grid_of(const char *text)
{
    struct pith_grid g = {0};
    struct pith_error err = {0};
    if (text) assert_ok(pith_grid_parse(text, &g, &err), err);
    return g;
}

static void build(struct model *m, const char *grid)
{
    memset(m, 0, sizeof *m);
    for (size_t i = 0; i < LAYERS * ROLES; i++) {
        snprintf(m->names[i], sizeof m->names[i], "model.layers.%zu.%s", i / ROLES,
                 roles[i % ROLES]);
        m->linear[i] = (struct pith_linear_grid){m->names[i], grid_of(grid), 0};
    }
    strcpy(m->names[LAYERS * ROLES], "lm_head");
    m->linear[LAYERS * ROLES].module = m->names[LAYERS * ROLES];
    m->count = LAYERS * ROLES + 1;
}

static struct pith_linear_grid *linear(struct model *m, size_t layer, size_t role)
{
    return &m->linear[layer * ROLES + role];
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct pith_tensor *)a)->name, ((const struct pith_tensor *)b)->name);
}

static void checkpoint_of(struct model *m, const char *suffix, json_t *config)
{
    size_t n = 0;
    for (size_t i = 0; i < m->count; i++) {
        if (!m->linear[i].grid.format) continue;
        snprintf(m->tensors[n], sizeof m->tensors[n], "%s%s", m->names[i], suffix);
        m->tensor[n].name = m->tensors[n];
        n++;
    }
    qsort(m->tensor, n, sizeof *m->tensor, by_name);
    m->checkpoint = (struct pith_checkpoint){
        .dir = m->names[0], .quantization = config, .tensors = m->tensor, .count = n};
}

static void same_grid(const struct pith_grid *a, const struct pith_grid *b, const char *module)
{
    char x[PITH_GRID_TEXT] = "none", y[PITH_GRID_TEXT] = "none";
    if (a->format) pith_grid_format(a, x);
    if (b->format) pith_grid_format(b, y);
    if (strcmp(x, y) != 0) fail_msg("%s: %s, expected %s", module, x, y);
}

/* Writes the config and reads every module's grid from it; *config is a new reference. */
static void there_and_back(const char *container, struct model *m,
                           const struct pith_container_opts *opts, json_t **config)
{
    const struct pith_container *c = pith_container_find(container);
    struct pith_error err = {0};
    struct pith_container_opts again = {0}, settled = *opts;
    void *state = NULL;
    pith_container_settle(c, m->linear, m->count, &settled);
    assert_ok(c->config(m->linear, m->count, &settled, config, &err), err);
    checkpoint_of(m,
                  strcmp(container, "gptq") == 0 || strcmp(container, "awq") == 0 ? ".qweight"
                                                                                  : ".weight_scale",
                  *config);
    assert_ok(c->open(&m->checkpoint, &state, &err), err);
    for (size_t i = 0; i < m->count; i++) {
        struct pith_grid g, want = m->linear[i].grid;
        want.mse = false;
        if (strcmp(container, "awq") == 0 && want.format) want.asym = true;
        assert_ok(c->describe(state, &m->checkpoint, m->names[i], &g, &again, &err), err);
        same_grid(&g, &want, m->names[i]);
    }
    c->close(state);
    assert_int_equal(again.act_order_groups, settled.act_order_groups);
    assert_int_equal(again.gptq_v2, settled.gptq_v2);
}

static const char *string_at(const json_t *o, const char *key, size_t i)
{
    const char *s = json_string_value(json_array_get(json_object_get(o, key), i));
    return s ? s : "";
}

static void one_grid_is_one_group(void **state)
{
    (void)state;
    struct model *m = malloc(sizeof *m);
    json_t *config = NULL;
    const struct pith_container_opts opts = {.model_dtype = PITH_BF16};
    build(m, "int4:g128:mse");
    there_and_back("compressed-tensors", m, &opts, &config);
    const json_t *groups = json_object_get(config, "config_groups");
    assert_int_equal(json_object_size(groups), 1);
    const json_t *group = json_object_get(groups, "group_0");
    assert_string_equal(string_at(group, "targets", 0), "Linear");
    assert_int_equal(json_array_size(json_object_get(group, "targets")), 1);
    assert_string_equal(string_at(config, "ignore", 0), "lm_head");
    assert_string_equal(json_string_value(json_object_get(config, "format")), "pack-quantized");
    assert_true(json_is_null(json_object_get(group, "input_activations")));
    json_decref(config);
    free(m);
}

static void lm_head_is_ignored_even_when_it_is_not_there(void **state)
{
    (void)state;
    struct model *m = malloc(sizeof *m);
    json_t *config = NULL;
    const struct pith_container_opts opts = {.model_dtype = PITH_BF16};
    build(m, "int8:channel");
    m->count--;
    there_and_back("compressed-tensors", m, &opts, &config);
    assert_string_equal(string_at(config, "ignore", 0), "lm_head");
    json_decref(config);
    free(m);
}

static void several_grids_have_explicit_targets(void **state)
{
    (void)state;
    struct model *m = malloc(sizeof *m);
    json_t *config = NULL;
    const struct pith_container_opts opts = {.model_dtype = PITH_BF16};
    build(m, "int4:g128");
    for (size_t l = 0; l < LAYERS; l++) linear(m, l, 6)->grid = grid_of("int8:g128");
    linear(m, 11, 6)->grid = grid_of("int3:g64:asym"); /* one of a family */
    linear(m, 1, 3)->grid = grid_of(NULL);
    m->linear[m->count - 1].grid = grid_of("int8:channel");
    there_and_back("compressed-tensors", m, &opts, &config);
    const json_t *groups = json_object_get(config, "config_groups");
    assert_int_equal(json_object_size(groups), 4);
    /* q, k, v, o (but one), gate, up: one pattern each. */
    const json_t *first = json_object_get(json_object_get(groups, "group_0"), "targets");
    assert_int_equal(json_array_size(first), 6);
    assert_string_equal(json_string_value(json_array_get(first, 0)),
                        "re:^model\\.layers\\.\\d+\\.self_attn\\.q_proj$");
    /* down in eleven layers by name, the twelfth in a group of its own. */
    assert_int_equal(
        json_array_size(json_object_get(json_object_get(groups, "group_1"), "targets")), 11);
    assert_string_equal(string_at(json_object_get(groups, "group_3"), "targets", 0), "lm_head");
    assert_int_equal(json_array_size(json_object_get(config, "ignore")), 1);
    json_decref(config);
    free(m);
}

static void activations_choose_the_layout(void **state)
{
    (void)state;
    struct model *m = malloc(sizeof *m);
    json_t *config = NULL;
    struct pith_error err = {0};
    struct pith_container_opts opts = {.model_dtype = PITH_BF16, .acts = grid_of("int8:token")};
    build(m, "int8:channel");
    there_and_back("compressed-tensors", m, &opts, &config);
    assert_string_equal(json_string_value(json_object_get(config, "format")), "int-quantized");
    const json_t *group = json_object_get(json_object_get(config, "config_groups"), "group_0");
    const json_t *acts = json_object_get(group, "input_activations");
    assert_true(json_is_true(json_object_get(acts, "dynamic")));
    assert_string_equal(json_string_value(json_object_get(acts, "strategy")), "token");
    json_decref(config);
    const struct pith_container *c = pith_container_find("compressed-tensors");
    opts.acts = grid_of("int8:channel");
    assert_int_equal(c->config(m->linear, m->count, &opts, &config, &err), PITH_UNSUPPORTED);
    opts.acts = grid_of("int8:token");
    err = (struct pith_error){0};
    assert_int_equal(pith_container_find("gptq")->config(m->linear, m->count, &opts, &config, &err),
                     PITH_UNSUPPORTED);
    free(m);
}

static void gptq_overrides_single_modules(void **state)
{
    (void)state;
    struct model *m = malloc(sizeof *m);
    json_t *config = NULL, *extra = NULL;
    const char *name = NULL;
    struct pith_error err = {0};
    const struct pith_container_opts opts = {.model_dtype = PITH_F16, .act_order_groups = true};
    build(m, "int4:g128");
    linear(m, 10, 6)->grid = grid_of("int8:g32");
    linear(m, 1, 0)->grid = grid_of(NULL);
    linear(m, 2, 3)->grid = grid_of("int4:channel:asym");
    there_and_back("gptq", m, &opts, &config);
    assert_int_equal(json_integer_value(json_object_get(config, "bits")), 4);
    const json_t *dynamic = json_object_get(config, "dynamic");
    assert_int_equal(json_object_size(dynamic), 3);
    assert_non_null(json_object_get(dynamic, "+:^model\\.layers\\.10\\.mlp\\.down_proj$"));
    /* The name that engines give to the linear made of q, k and v. */
    assert_non_null(
        json_object_get(dynamic, "-:^model\\.layers\\.1\\.self_attn\\.(?:q_proj|qkv_proj)$"));
    assert_string_equal(json_string_value(json_object_get(config, "checkpoint_format")), "gptq_v2");
    assert_ok(pith_container_find("gptq")->extra_file(config, &name, &extra, &err), err);
    assert_string_equal(name, "quantize_config.json");
    assert_true(json_equal(extra, config));
    json_decref(extra);
    json_decref(config);
    build(m, "int3:channel");
    there_and_back("gptq", m, &(struct pith_container_opts){0}, &config);
    assert_int_equal(json_integer_value(json_object_get(config, "group_size")), -1);
    assert_string_equal(json_string_value(json_object_get(config, "checkpoint_format")), "gptq");
    assert_null(json_object_get(config, "dynamic"));
    assert_true(json_is_false(json_object_get(config, "lm_head")));
    json_decref(config);
    free(m);
}

static void awq_has_one_grid(void **state)
{
    (void)state;
    struct model *m = malloc(sizeof *m);
    json_t *config = NULL;
    struct pith_error err = {0};
    const struct pith_container *c = pith_container_find("awq");
    const struct pith_container_opts opts = {.model_dtype = PITH_F16};
    build(m, "int4:g64");
    linear(m, 1, 6)->grid = grid_of(NULL);
    there_and_back("awq", m, &opts, &config);
    assert_string_equal(string_at(config, "modules_to_not_convert", 0),
                        "model.layers.1.mlp.down_proj");
    json_decref(config);
    linear(m, 0, 0)->grid = grid_of("int4:g32");
    assert_int_equal(c->config(m->linear, m->count, &opts, &config, &err), PITH_UNSUPPORTED);
    assert_non_null(strstr(err.text, "another grid"));
    build(m, "int4:g64");
    m->linear[m->count - 1].grid = grid_of("int4:g64");
    err = (struct pith_error){0};
    assert_int_equal(c->config(m->linear, m->count, &opts, &config, &err), PITH_UNSUPPORTED);
    assert_non_null(strstr(err.text, "lm_head"));
    build(m, NULL);
    err = (struct pith_error){0};
    assert_int_equal(c->config(m->linear, m->count, &opts, &config, &err), PITH_ARG);
    free(m);
}

static void names_match_as_in_compressed_tensors(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *module;
        enum pith_match_rank rank;
    } cases[] = {
        {"Linear", "model.layers.0.mlp.up_proj", PITH_MATCH_CLASS},
        {"Linear", "lm_head", PITH_MATCH_CLASS},
        {"Linear", "model.embed_tokens", PITH_MATCH_NONE},
        {"Embedding", "model.embed_tokens", PITH_MATCH_CLASS},
        {"lm_head", "lm_head", PITH_MATCH_NAME},
        {"lm_head", "model.lm_head", PITH_MATCH_NONE},
        {"re:lm_head", "lm_head.x", PITH_MATCH_REGEX}, /* anchored at the start only */
        {"re:lm_head", "model.lm_head", PITH_MATCH_NONE},
        {"re:.*mlp.gate$", "model.layers.3.mlp.gate", PITH_MATCH_REGEX},
        {"re:.*mlp.gate$", "model.layers.3.mlp.gate_proj", PITH_MATCH_NONE},
        {"LlamaAttention", "model.layers.3.self_attn", PITH_MATCH_NONE},
    };
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        json_t *list = json_pack("[s]", cases[i].pattern);
        struct pith_patterns p;
        struct pith_error err = {0};
        enum pith_match_rank rank;
        assert_ok(pith_patterns_new(list, "list", &p, &err), err);
        assert_ok(pith_patterns_match(&p, cases[i].module, &rank, &err), err);
        if (rank != cases[i].rank) fail_msg("%s, %s", cases[i].pattern, cases[i].module);
        pith_patterns_free(&p);
        json_decref(list);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_grid_is_one_group),
        cmocka_unit_test(lm_head_is_ignored_even_when_it_is_not_there),
        cmocka_unit_test(several_grids_have_explicit_targets),
        cmocka_unit_test(activations_choose_the_layout),
        cmocka_unit_test(gptq_overrides_single_modules),
        cmocka_unit_test(awq_has_one_grid),
        cmocka_unit_test(names_match_as_in_compressed_tensors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
