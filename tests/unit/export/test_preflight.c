/* export/: loading rules of engines, on shapes of real models. */
#include "base/mem.h"
#include "export/preflight.h"
#include "llama.h"
#include "test.h"

#define LAYERS 2

/* An offer over a Llama-like model. */
struct fixture {
    struct pith_shape shape;
    struct pith_container_opts opts;
    char names[LAYERS * LLAMA_LINEARS + 1][64];
    struct pith_linear_grid linear[LAYERS * LLAMA_LINEARS + 1];
    struct pith_offer offer; /* without plans: check() makes them of the shape */
};

static struct pith_grid grid_of(const char *text)
{
    struct pith_grid g = {0};
    struct pith_error err = {0};
    if (text) assert_ok(pith_grid_parse(text, &g, &err), err);
    return g;
}

static const struct pith_arch *arch_of(const char *model_type)
{
    size_t n;
    const struct pith_arch *const *archs = pith_archs(&n);
    for (size_t i = 0; i < n; i++)
        if (strcmp(archs[i]->model_type, model_type) == 0) return archs[i];
    fail_msg("no %s", model_type);
    return NULL;
}

static struct pith_plans plans_of(const struct pith_shape *s)
{
    struct pith_plans plans;
    struct pith_error err = {0};
    assert_ok(pith_plans_make(arch_of("llama"), s, &plans, &err), err);
    return plans;
}

/* Llama-3-8B's sizes, all linears with one grid. */
static void build(struct fixture *f, const char *container, const char *grid)
{
    memset(f, 0, sizeof *f);
    f->shape = (struct pith_shape){.hidden = 4096,
                                   .ffn = 14336,
                                   .layers = LAYERS,
                                   .vocab = 128256,
                                   .heads = 32,
                                   .kv_heads = 8,
                                   .head_dim = 128,
                                   .dtype = PITH_BF16};
    f->opts.model_dtype = PITH_BF16;
    f->offer = (struct pith_offer){NULL,     &f->shape, pith_container_find(container),
                                   &f->opts, f->linear, PITH_COUNT(f->linear)};
    struct pith_plans plans = plans_of(&f->shape);
    for (size_t i = 0; i < LAYERS * LLAMA_LINEARS; i++) {
        pith_plan_linear_name(&plans, (uint32_t)(i / LLAMA_LINEARS), (uint32_t)(i % LLAMA_LINEARS),
                              f->names[i], sizeof f->names[i]);
        f->linear[i] = (struct pith_linear_grid){f->names[i], grid_of(grid), 0};
    }
    f->linear[LAYERS * LLAMA_LINEARS].module = "lm_head";
    pith_plans_free(&plans);
}

static enum pith_status check(const struct fixture *f, const char *target, struct pith_error *err)
{
    struct pith_target t;
    *err = (struct pith_error){0};
    assert_ok(pith_target_parse(target, &t, err), *err);
    struct pith_plans plans = plans_of(&f->shape);
    struct pith_offer offer = f->offer;
    offer.plans = &plans;
    const enum pith_status s = pith_preflight(&t, &offer, err);
    pith_plans_free(&plans);
    return s;
}

static void accept(const struct fixture *f, const char *target)
{
    struct pith_error err;
    if (check(f, target, &err) != PITH_OK) fail_msg("%s", err.text);
}

/* The message has all parts, separated by '|'. */
static void refuse(const struct fixture *f, const char *target, const char *parts)
{
    struct pith_error err;
    if (check(f, target, &err) != PITH_UNSUPPORTED)
        fail_msg("%s: %s instead of a refusal with %s", target, err.text, parts);
    char *list = strdup(parts), *rest = list;
    for (char *p = strtok_r(list, "|", &rest); p; p = strtok_r(NULL, "|", &rest))
        if (!strstr(err.text, p)) fail_msg("\"%s\" lacks \"%s\"", err.text, p);
    free(list);
}

static void targets_are_parsed(void **state)
{
    (void)state;
    struct pith_target t;
    struct pith_error err = {0};
    assert_ok(pith_target_parse("vllm", &t, &err), err);
    assert_int_equal(t.tp, 1);
    assert_ok(pith_target_parse("sglang:tp=8", &t, &err), err);
    assert_int_equal(t.tp, 8);
    assert_string_equal(t.engine->name, "sglang");
    assert_ok(pith_target_parse("llama.cpp", &t, &err), err);
    assert_null(t.gpu);
    assert_ok(pith_target_parse("vllm:gpu=H100:tp=2", &t, &err), err);
    assert_int_equal(t.tp, 2);
    assert_string_equal(t.gpu->name, "h100-sxm");
    assert_ok(pith_target_parse("trtllm:tp=4:gpu=l4", &t, &err), err);
    assert_string_equal(t.gpu->name, "l4");
    static const char *const bad[] = {
        "",           "vlm",           "vllm:",          "vllm:tp",
        "vllm:tp=",   "vllm:tp=0",     "vllm:tp=2x",     "vllm:pp=2",
        "vllm:tp=-1", "vllm:tp=99999", "llama.cpp:tp=2", "transformers:tp=2",
        "vllm:gpu=",  "vllm:gpu=l5x",  "vllm:tp=2:",     "vllm::gpu=l4"};
    for (size_t i = 0; i < PITH_COUNT(bad); i++) {
        err = (struct pith_error){0};
        assert_int_equal(pith_target_parse(bad[i], &t, &err), PITH_ARG);
        assert_true(err.text[0] != '\0');
    }
    err = (struct pith_error){0};
    (void)pith_target_parse("tensorrt", &t, &err);
    assert_non_null(strstr(err.text, "vllm, sglang, trtllm, transformers, llama.cpp, pith"));
}

static void what_engines_load(void **state)
{
    (void)state;
    static const struct {
        const char *container, *grid, *yes, *no;
    } cases[] = {
        {"compressed-tensors", "int4:g128", "vllm sglang transformers llama.cpp", "trtllm"},
        {"bitsandbytes", "nf4:g64", "transformers", "vllm sglang trtllm llama.cpp"},
        {"bitsandbytes", "nf4:g64:dq", "transformers", "vllm sglang trtllm llama.cpp"},
        {"bitsandbytes", "bnb_fp4:g128", "transformers", "vllm sglang trtllm llama.cpp"},
        {"compressed-tensors", "int4:g128:asym", "vllm sglang transformers llama.cpp", "trtllm"},
        {"compressed-tensors", "int8:channel", "vllm sglang transformers", "trtllm llama.cpp"},
        {"compressed-tensors", "int8:g128:asym", "vllm transformers llama.cpp", "sglang"},
        {"compressed-tensors", "int3:g128", "vllm transformers", "sglang llama.cpp"},
        {"compressed-tensors", "int3:g128:asym", "transformers", "vllm sglang llama.cpp"},
        {"compressed-tensors", "int4:g256", "transformers llama.cpp", "vllm sglang"},
        {"compressed-tensors", "int4:tensor", "transformers", "vllm sglang llama.cpp"},
        {"gptq", "int4:g128", "vllm sglang transformers llama.cpp", "trtllm"},
        {"gptq", "int4:g128:asym", "sglang transformers llama.cpp", "vllm trtllm"},
        {"gptq", "int3:g128", "sglang transformers", "vllm llama.cpp"},
        {"gptq", "int2:g64", "sglang transformers llama.cpp", "vllm"},
        {"gptq", "int8:channel", "vllm sglang transformers llama.cpp", "trtllm"},
        {"awq", "int4:g128:asym", "vllm sglang transformers", "trtllm llama.cpp"},
        {"awq", "int4:g64", "vllm sglang transformers", "llama.cpp"},
    };
    struct fixture f;
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        build(&f, cases[i].container, cases[i].grid);
        for (int side = 0; side < 2; side++) {
            char *list = strdup(side ? cases[i].no : cases[i].yes), *rest = list;
            for (char *e = strtok_r(list, " ", &rest); e; e = strtok_r(NULL, " ", &rest)) {
                struct pith_error err;
                const bool ok = check(&f, e, &err) == PITH_OK;
                if (ok == (side == 1))
                    fail_msg("%s %s %s: %s", cases[i].container, cases[i].grid, e, err.text);
            }
            free(list);
        }
        accept(&f, "pith");
    }
    build(&f, "hqq", "int4:g64:asym"); /* what no other engine has rules for */
    accept(&f, "pith");
    refuse(&f, "vllm", "vllm|hqq");
}

static void who_holds_linears_as_one(void **state)
{
    (void)state;
    static const struct {
        const char *engine, *container;
        bool fused;
    } cases[] = {
        {"vllm", "compressed-tensors", true},
        {"vllm", "awq", true},
        {"vllm", "gguf", false}, /* which it does not load */
        {"sglang", "gptq", true},
        {"trtllm", "modelopt", true},
        {"transformers", "compressed-tensors", false},
        {"llama.cpp", "gguf", false},
        {"pith", "compressed-tensors", false},
    };
    for (size_t i = 0; i < PITH_COUNT(cases); i++)
        assert_int_equal(pith_engine_fuses(pith_engine_find(cases[i].engine),
                                           pith_container_find(cases[i].container)),
                         cases[i].fused);
    struct fixture f;
    build(&f, "compressed-tensors", "int4:g128");
    f.linear[1].grid = grid_of("int8:g128");
    refuse(&f, "vllm", "k_proj|another grid");
    accept(&f, "transformers");
    accept(&f, "pith");
}

static void groups_divide_every_rank(void **state)
{
    (void)state;
    struct fixture f;
    build(&f, "compressed-tensors", "int4:g128");
    accept(&f, "vllm:tp=8");
    f.shape.ffn = 11008; /* Llama-2-7B: 86 groups of 128 */
    accept(&f, "vllm:tp=2");
    refuse(&f, "vllm:tp=4",
           "vllm|layers.0.mlp.down_proj|128|2752|4 ranks|int4:g32, int4:g64, int4:channel|fewer");
    build(&f, "compressed-tensors", "int4:g64");
    f.shape.ffn = 11008;
    accept(&f, "vllm:tp=4");
    refuse(&f, "vllm:tp=8", "down_proj|1376|int4:g32, int4:channel");
    f.shape.ffn = 11000;
    refuse(&f, "transformers", "down_proj|do not divide its 11000 columns");
}

static void heads_divide_among_ranks(void **state)
{
    (void)state;
    struct fixture f;
    build(&f, "gptq", "int4:g32");
    accept(&f, "vllm:tp=16"); /* 8 heads of k and v, each on two ranks */
    refuse(&f, "vllm:tp=3", "q_proj|3 ranks cannot share 32 heads");
    f.shape.kv_heads = 12;
    f.shape.heads = 36;
    f.shape.hidden = 4608;
    refuse(&f, "vllm:tp=18", "k_proj|18 ranks cannot share 12 heads");
}

/* Four layers of Gemma 4 E2B. */
static const char gemma4[] =
    "{\"model_type\": \"gemma4_text\", \"hidden_size\": 1536, \"intermediate_size\": 6144, "
    "\"num_hidden_layers\": 4, \"vocab_size\": 262144, \"num_attention_heads\": 8, "
    "\"num_key_value_heads\": 1, \"head_dim\": 256, \"global_head_dim\": 512, "
    "\"hidden_size_per_layer_input\": 256, \"num_kv_shared_layers\": 2, "
    "\"use_double_wide_mlp\": true, \"dtype\": \"bfloat16\", "
    "\"layer_types\": [\"sliding_attention\", \"full_attention\", \"sliding_attention\", "
    "\"full_attention\"], "
    "\"rope_parameters\": {\"full_attention\": {\"rope_type\": \"default\"}, "
    "\"sliding_attention\": {\"rope_type\": \"default\"}}}";

/* Gemma 4 E2B on eight ranks, of which each has all of what layers are told: 32 rows of it are no
 * whole block. */
static void what_layers_are_told_is_not_divided(void **state)
{
    (void)state;
    struct pith_error err = {0};
    struct pith_target t;
    struct pith_plans plans;
    struct pith_shape s;
    const struct pith_arch *arch;
    json_t *config = json_loads(gemma4, 0, NULL);
    assert_ok(pith_shape_read(config, "config.json", &arch, &s, &err), err);
    json_decref(config);
    const struct pith_container_opts opts = {.model_dtype = PITH_BF16,
                                             .acts = grid_of("fp8_e4m3:g128")};
    assert_ok(pith_plans_make(arch, &s, &plans, &err), err);
    const size_t count = plans.first[s.layers];
    struct pith_linear_grid *linear = calloc(count, sizeof *linear);
    char(*name)[96] = calloc(count, sizeof *name);
    assert_non_null(linear);
    assert_non_null(name);
    for (uint32_t layer = 0, i = 0; layer < s.layers; layer++)
        for (uint32_t k = 0; k < pith_plan(&plans, layer)->linears; k++, i++) {
            pith_plan_linear_name(&plans, layer, k, name[i], sizeof name[i]);
            linear[i] = (struct pith_linear_grid){name[i], grid_of("fp8_e4m3:block128"), 0};
        }
    const struct pith_offer offer = {&plans, &s, pith_container_find("fp8"), &opts, linear, count};
    assert_ok(pith_target_parse("vllm:tp=8", &t, &err), err);
    assert_ok(pith_preflight(&t, &offer, &err), err);
    free(name);
    free(linear);
    pith_plans_free(&plans);
}

static void linears_held_as_one_agree(void **state)
{
    (void)state;
    struct fixture f;
    build(&f, "compressed-tensors", "int4:g128");
    f.linear[LLAMA_LINEARS + LLAMA_K].grid = grid_of("int8:g128");
    refuse(&f, "vllm", "layers.1.self_attn.k_proj|another grid|q_proj");
    accept(&f, "transformers");
    f.linear[LLAMA_LINEARS + LLAMA_K].grid = grid_of(NULL);
    refuse(&f, "sglang", "k_proj|unquantized|quantize or ignore all");
    build(&f, "compressed-tensors", "int4:g128");
    f.linear[LLAMA_UP].grid = grid_of(NULL);
    refuse(&f, "vllm", "layers.0.mlp.up_proj|gate_proj");
    f.linear[LLAMA_GATE].grid = grid_of(NULL);
    accept(&f, "vllm");
    f.linear[LLAMA_DOWN].grid = grid_of("int8:g128");
    accept(&f, "vllm");
    refuse(&f, "llama.cpp", "another grid");
}

static void permuted_groups(void **state)
{
    (void)state;
    struct fixture f;
    build(&f, "gptq", "int4:g128");
    f.opts.act_order_groups = true;
    accept(&f, "vllm");
    accept(&f, "llama.cpp");
    build(&f, "compressed-tensors", "int4:g128");
    f.opts.act_order_groups = true;
    refuse(&f, "vllm", "act-order");
    refuse(&f, "transformers", "act-order");
}

static void other_rules(void **state)
{
    (void)state;
    struct fixture f;
    build(&f, "gptq", "int4:g128:asym");
    refuse(&f, "vllm", "int4 with zero points from gptq|compressed-tensors would do");
    build(&f, "compressed-tensors", "int8:channel");
    f.opts.acts = grid_of("int8:token");
    accept(&f, "vllm:tp=2");
    accept(&f, "llama.cpp");
    refuse(&f, "trtllm", "int8:channel|it loads fp8_e4m3:channel");
    build(&f, "compressed-tensors", "int8:g128");
    f.opts.acts = grid_of("int8:token");
    refuse(&f, "vllm", "int8:channel");
    /* A tied head cannot be quantized by itself. */
    build(&f, "compressed-tensors", "int4:g128");
    f.linear[LAYERS * LLAMA_LINEARS].grid = grid_of("int8:channel");
    accept(&f, "vllm");
    f.shape.ends.tied = true;
    refuse(&f, "vllm", "lm_head|tied");
    /* SGLang's only kernel works in tiles. */
    build(&f, "compressed-tensors", "int4:g32");
    f.shape.ffn = 11008 + 32;
    accept(&f, "vllm");
    refuse(&f, "sglang", "multiple of");
}

static void all_violations_are_listed(void **state)
{
    (void)state;
    struct fixture f;
    struct pith_error err = {0};
    struct pith_target t;
    json_t *problems = json_array();
    build(&f, "compressed-tensors", "int4:g128");
    f.shape.ffn = 11008;
    f.linear[LLAMA_Q].grid = grid_of("int3:g128:asym");
    assert_ok(pith_target_parse("vllm:tp=4", &t, &err), err);
    struct pith_plans plans = plans_of(&f.shape);
    f.offer.plans = &plans;
    assert_ok(pith_preflight_all(&t, &f.offer, problems, &err), err);
    /* q's bits; k differs from q; down in both layers. */
    assert_int_equal(json_array_size(problems), 4);
    for (size_t i = 0; i < json_array_size(problems); i++)
        assert_non_null(strstr(json_string_value(json_array_get(problems, i)), "vllm: model."));
    json_array_clear(problems);
    f.offer.count = 3;
    assert_int_equal(pith_preflight_all(&t, &f.offer, problems, &err), PITH_ARG);
    pith_plans_free(&plans);
    json_decref(problems);
}

/* Weights and inputs as pairs. */
static void floats_and_their_inputs(void **state)
{
    (void)state;
    static const struct {
        const char *container, *weights, *inputs;
        const char *vllm, *sglang, *trtllm, *transformers, *llamacpp; /* NULL: loaded */
    } cases[] = {
        {"compressed-tensors", "fp8_e4m3:channel", "fp8_e4m3:token", NULL, NULL, NULL, NULL, NULL},
        {"compressed-tensors", "fp8_e4m3:tensor", "fp8_e4m3:tensor:static", NULL, NULL,
         "does not load fp8_e4m3:tensor", NULL, NULL},
        {"compressed-tensors", "fp8_e4m3:block128", "fp8_e4m3:g128", NULL, "does not load", NULL,
         NULL, NULL},
        {"compressed-tensors", "fp8_e4m3:block64", "fp8_e4m3:g64", "fp8_e4m3:block128",
         "does not load", "does not load", NULL, "does not load"},
        {"compressed-tensors", "fp8_e4m3:channel", NULL, NULL, "loads it with", "loads it with",
         NULL, NULL},
        {"compressed-tensors", "nvfp4", "nvfp4:static", NULL, NULL, NULL, NULL, NULL},
        {"compressed-tensors", "nvfp4", NULL, NULL, "loads it with nvfp4:static",
         "with inputs on none", NULL, NULL},
        {"compressed-tensors", "nvfp4", "fp8_e4m3:token", "loads it with none nvfp4:static",
         "loads it", "loads it", NULL, NULL},
        {"compressed-tensors", "mxfp4", NULL, NULL, "does not load mxfp4", NULL, NULL, NULL},
        {"compressed-tensors", "mxfp6_e2m3", NULL, "does not load mxfp6_e2m3", "does not load",
         "does not load", NULL, "does not load"},
        {"compressed-tensors", "mxfp8", "mxfp8", NULL, "does not load", "does not load", NULL,
         "does not load"},
        {"compressed-tensors", "int4:g128", "fp8_e4m3:token", NULL, "does not load",
         "does not load", NULL, "does not load"},
        {"compressed-tensors", "int8:channel", "int8:tensor:asym:static", NULL, NULL,
         "does not load int8", NULL, NULL},
        {"compressed-tensors", "int8:channel", "int8:g128", "does not load inputs on int8:g128",
         "does not load inputs", "does not load int8", NULL, NULL},
        {"compressed-tensors", "int4:channel", "int4:token", "inputs on int4:token", "inputs on",
         "does not load int4", NULL, "int4"},
        {"modelopt", "nvfp4", "nvfp4:static", NULL, NULL, NULL, "does not load modelopt", NULL},
        {"modelopt", "fp8_e4m3:tensor", "fp8_e4m3:tensor:static", NULL, NULL, NULL,
         "does not load modelopt", NULL},
        {"modelopt", "int4:g128", NULL, "does not load int4:g128 from modelopt", "does not load",
         NULL, "does not load modelopt", "does not load"},
        {"fp8", "fp8_e4m3:block128", "fp8_e4m3:g128", NULL, NULL, NULL, NULL, NULL},
        {"fp8", "fp8_e4m3:tensor", "fp8_e4m3:token", NULL, NULL, "does not load", "does not load",
         NULL},
    };
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        struct fixture f;
        const char *const want[] = {cases[i].vllm, cases[i].sglang, cases[i].trtllm,
                                    cases[i].transformers, cases[i].llamacpp};
        static const char *const engines[] = {"vllm", "sglang", "trtllm", "transformers",
                                              "llama.cpp"};
        build(&f, cases[i].container, cases[i].weights);
        f.opts.acts = grid_of(cases[i].inputs);
        for (size_t e = 0; e < PITH_COUNT(engines); e++)
            if (want[e]) refuse(&f, engines[e], want[e]);
            else accept(&f, engines[e]);
    }
}

static void blocks_and_groups_lie_within_ranks(void **state)
{
    (void)state;
    struct fixture f;
    build(&f, "fp8", "fp8_e4m3:block128");
    f.opts.acts = grid_of("fp8_e4m3:g128");
    accept(&f, "vllm:tp=8");
    f.shape.ffn = 14336 + 64; /* gate does not end with a block, and up lies below it */
    refuse(&f, "vllm", "gate_proj|14400 rows");
    refuse(&f, "vllm:tp=2", "blocks of 128|2 ranks");
    build(&f, "modelopt", "nvfp4");
    f.opts.acts = grid_of("nvfp4:static");
    f.shape.ffn = 11008;
    accept(&f, "trtllm:tp=8");
    f.shape.ffn = 11008 + 8;
    refuse(&f, "trtllm", "groups of 16");
    /* Several layouts in one model, each by its own rule. */
    build(&f, "compressed-tensors", "nvfp4");
    for (size_t l = 0; l < LAYERS; l++)
        f.linear[l * LLAMA_LINEARS + LLAMA_DOWN].grid = grid_of("int4:g128");
    accept(&f, "vllm");
    refuse(&f, "llama.cpp", "another grid");
    for (size_t l = 0; l < LAYERS; l++)
        f.linear[l * LLAMA_LINEARS + LLAMA_DOWN].grid = grid_of("int4:g16");
    refuse(&f, "vllm", "int4:g16");
}

/* --- mixtures ------------------------------------------------------------------------------- */

enum { EXPERTS = 4 };

/* A model of one layer of experts, all its linears but the router on one grid. */
struct mixture {
    struct pith_shape shape;
    struct pith_plans plans;
    struct pith_container_opts opts;
    struct pith_linear_grid *linear;
    char (*name)[64];
    struct pith_offer offer;
};

static void mixture_make(struct mixture *m, const char *container, const char *grid)
{
    struct pith_error err = {0};
    size_t n;
    const struct pith_arch *const *archs = pith_archs(&n), *arch = NULL;
    for (size_t i = 0; i < n; i++)
        if (strcmp(archs[i]->model_type, "qwen2_moe") == 0) arch = archs[i];
    memset(m, 0, sizeof *m);
    m->shape = (struct pith_shape){
        .hidden = 2048,
        .ffn = 4096,
        .layers = 1,
        .vocab = 4096,
        .heads = 16,
        .kv_heads = 4,
        .head_dim = 128,
        .dtype = PITH_BF16,
        .moe = {
            .experts = EXPERTS, .taken = 2, .ffn = 768, .shared_ffn = 1024, .shared_gate = true}};
    pith_layer_put(&m->shape.moe.layers, 0);
    m->opts.model_dtype = PITH_BF16;
    assert_ok(pith_plans_make(arch, &m->shape, &m->plans, &err), err);
    const size_t count = m->plans.first[1];
    m->linear = calloc(count, sizeof *m->linear);
    m->name = calloc(count, sizeof *m->name);
    for (uint32_t i = 0; i < count; i++) {
        pith_plan_linear_name(&m->plans, 0, i, m->name[i], sizeof m->name[i]);
        m->linear[i].module = m->name[i];
        if (!m->plans.kind[0].linear[i].stays) m->linear[i].grid = grid_of(grid);
    }
    m->offer = (struct pith_offer){&m->plans, &m->shape, pith_container_find(container),
                                   &m->opts,  m->linear, count};
}

static void mixture_free(struct mixture *m)
{
    free(m->linear);
    free(m->name);
    pith_plans_free(&m->plans);
}

static struct pith_linear_grid *mixture_linear(const struct mixture *m, const char *name)
{
    for (size_t i = 0; i < m->offer.count; i++)
        if (strcmp(m->name[i] + strlen("model.layers.0."), name) == 0) return &m->linear[i];
    fail_msg("no %s", name);
    return NULL;
}

/* says NULL: it is loaded. */
static void mixture_check(const struct mixture *m, const char *target, const char *says)
{
    struct pith_target t;
    struct pith_error err = {0};
    assert_ok(pith_target_parse(target, &t, &err), err);
    const enum pith_status s = pith_preflight(&t, &m->offer, &err);
    if (s != (says ? PITH_UNSUPPORTED : PITH_OK) || (says && !strstr(err.text, says)))
        fail_msg("%s: \"%s\" instead of \"%s\"", target, err.text, says ? says : "");
}

static void experts_of_a_layer_are_one(void **state)
{
    (void)state;
    static const char *const engines[] = {"vllm", "sglang"};
    for (size_t e = 0; e < PITH_COUNT(engines); e++) {
        struct mixture m;
        mixture_make(&m, "compressed-tensors", "int4:g128");
        mixture_check(&m, engines[e], NULL);
        struct pith_linear_grid *down = mixture_linear(&m, "mlp.experts.2.down_proj");
        down->grid = grid_of("int8:g128");
        mixture_check(&m, engines[e], "experts.2.down_proj: is stored in another way than");
        down->grid = (struct pith_grid){0};
        mixture_check(&m, engines[e], "the experts of a layer as one");
        for (size_t i = 0; i < m.offer.count; i++)
            if (strstr(m.name[i], "mlp.experts.")) m.linear[i].grid = grid_of(NULL);
        mixture_check(&m, engines[e], NULL);
        mixture_free(&m);
    }
}

/* A router has as many rows as experts, the gate of the shared one a single row: no rank cuts them.
 * Experts are cut, and their groups must fit. */
static void ranks_share_experts_and_not_routers(void **state)
{
    (void)state;
    struct mixture m;
    mixture_make(&m, "compressed-tensors", "int4:g128");
    mixture_check(&m, "vllm:tp=2", NULL);
    mixture_check(&m, "vllm:tp=4", "experts.0.down_proj"); /* 192 columns */
    mixture_free(&m);
    mixture_make(&m, "compressed-tensors", "int4:g32");
    mixture_check(&m, "sglang:tp=2", NULL);
    mixture_free(&m);
}

static void experts_have_no_zero_points(void **state)
{
    (void)state;
    struct mixture m;
    mixture_make(&m, "compressed-tensors", "int4:g128:asym");
    mixture_check(&m, "vllm", "experts.0.gate_proj: does not load experts with zero points");
    mixture_free(&m);
    mixture_make(&m, "awq", "int4:g128:asym");
    mixture_check(&m, "vllm", NULL);
    mixture_free(&m);
}

/* What an engine is started with, or NULL where it has no such cache. */
static void starts(const char *engine, const char *kv, uint32_t head_dim, const char *want)
{
    struct pith_error err = {0};
    struct pith_kv_format f;
    char text[PITH_ENGINE_CACHE] = "";
    assert_ok(pith_kv_parse(kv, PITH_BF16, NULL, &f, &err), err);
    const bool has = pith_engine_cache(pith_engine_find(engine), &f, head_dim, text);
    if (has != (want != NULL)) fail_msg("%s, %s: \"%s\"", engine, kv, text);
    if (want) assert_string_equal(text, want);
}

static void caches_that_are_chosen_at_start(void **state)
{
    (void)state;
    starts("vllm", "int8:token", 128, "--kv-cache-dtype int8_per_token_head");
    starts("vllm", "fp8", 128, "--kv-cache-dtype fp8_e4m3");
    starts("vllm", "k=fp8,v=int8:token", 128, NULL); /* one option for both */
    starts("vllm", "int8:token,rotate", 128, NULL);
    starts("vllm", "int8:token,recent=64", 128, NULL);
    starts("sglang", "int8:token", 128, NULL);
    starts("trtllm", "nvfp4", 128, "--kv_cache_dtype nvfp4");
    starts("transformers", "bf16", 128, NULL);
    starts("llama.cpp", "q8_0", 80, "-ctk q8_0 -ctv q8_0");
    starts("llama.cpp", "q8_0", 128, "LLAMA_ATTN_ROT_DISABLE=1 -ctk q8_0 -ctv q8_0");
    starts("llama.cpp", "q8_0,rotate", 128, "-ctk q8_0 -ctv q8_0");
    starts("llama.cpp", "q8_0,rotate", 80, NULL);
    starts("llama.cpp", "q8_0,rotate=k", 128, NULL);
    starts("llama.cpp", "k=q8_0,v=bf16,rotate=k", 128, "-ctk q8_0 -ctv bf16");
    starts("llama.cpp", "bf16", 128, "-ctk bf16 -ctv bf16");
    starts("llama.cpp", "f16", 128, "-ctk f16 -ctv f16");
    starts("llama.cpp", "k=f16,v=q8_0,rotate=v", 128, "-ctk f16 -ctv q8_0");
    starts("vllm", "f16", 128, "--kv-cache-dtype float16");
    starts("sglang", "f16", 128, NULL);
    starts("llama.cpp", "bf16,rotate", 128, NULL);
    starts("llama.cpp", "k=q8_0,v=q4_0,rotate", 64, "-ctk q8_0 -ctv q4_0");
}

static void caches_that_are_stored(void **state)
{
    (void)state;
    static const struct {
        const char *engine, *container, *kv, *want; /* NULL: taken */
    } cases[] = {
        {"vllm", "compressed-tensors", "fp8_e4m3:tensor", NULL},
        {"vllm", "compressed-tensors", "fp8_e4m3:head", NULL},
        {"sglang", "compressed-tensors", "fp8_e4m3:tensor", NULL},
        {"sglang", "compressed-tensors", "fp8_e4m3:head",
         "does not take a KV cache on fp8_e4m3:head"},
        {"transformers", "compressed-tensors", "fp8_e4m3:tensor", NULL},
        {"trtllm", "modelopt", "nvfp4", NULL},
        {"sglang", "modelopt", "nvfp4", "does not take a KV cache on nvfp4"},
        {"llama.cpp", "compressed-tensors", "fp8_e4m3:tensor", "takes no KV-cache format"},
    };
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        const bool modelopt = strcmp(cases[i].container, "modelopt") == 0;
        struct fixture f;
        build(&f, cases[i].container, modelopt ? "nvfp4" : "int8:g128");
        if (modelopt) f.opts.acts = grid_of("nvfp4");
        f.opts.acts.is_static = modelopt;
        f.opts.kv = grid_of(cases[i].kv);
        pith_kv_grid_settle(&f.opts.kv);
        if (cases[i].want) refuse(&f, cases[i].engine, cases[i].want);
        else accept(&f, cases[i].engine);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(targets_are_parsed),
        cmocka_unit_test(what_engines_load),
        cmocka_unit_test(who_holds_linears_as_one),
        cmocka_unit_test(groups_divide_every_rank),
        cmocka_unit_test(heads_divide_among_ranks),
        cmocka_unit_test(what_layers_are_told_is_not_divided),
        cmocka_unit_test(linears_held_as_one_agree),
        cmocka_unit_test(permuted_groups),
        cmocka_unit_test(other_rules),
        cmocka_unit_test(all_violations_are_listed),
        cmocka_unit_test(floats_and_their_inputs),
        cmocka_unit_test(blocks_and_groups_lie_within_ranks),
        cmocka_unit_test(experts_of_a_layer_are_one),
        cmocka_unit_test(ranks_share_experts_and_not_routers),
        cmocka_unit_test(experts_have_no_zero_points),
        cmocka_unit_test(caches_that_are_chosen_at_start),
        cmocka_unit_test(caches_that_are_stored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
