/* config.json: what absent keys mean, both dialects, and some sixty ways in which it can lie. */
#include "llama.h"
#include "unit/model/arch_case.h"

#define SIZES                                                                                      \
    "\"hidden_size\": 64, \"intermediate_size\": 96, \"num_hidden_layers\": 3, "                   \
    "\"vocab_size\": 100"

#define HEADS ", \"num_attention_heads\": 8"

static enum pith_status read_text(const char *text, const struct pith_arch **arch,
                                  struct pith_shape *shape, struct pith_error *err)
{
    json_t *config = NULL;
    *err = (struct pith_error){0};
    assert_ok(pith_json_parse(text, strlen(text), "c.json", &config, err), *err);
    const enum pith_status s = pith_shape_read(config, "c.json", arch, shape, err);
    json_decref(config);
    return s;
}

static void absent_keys_are_the_class_defaults(void **state)
{
    (void)state;
    static const struct {
        const char *type, *name;
        uint32_t kv_heads /* and heads */, head_dim, max_position, window;
        bool qkv_bias, qk_norm;
    } cases[] = {
        {"llama", "LlamaForCausalLM", 8, 8, 2048, 0, false, false},
        {"mistral", "MistralForCausalLM", 8, 8, 131072, 4096, false, false},
        {"qwen2", "Qwen2ForCausalLM", 32, 2, 32768, 0, true, false},
        {"qwen3", "Qwen3ForCausalLM", 32, 128, 32768, 0, false, true},
    };
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        struct pith_error err;
        const struct pith_arch *arch;
        struct pith_shape s;
        char text[400];
        snprintf(text, sizeof text,
                 "{\"model_type\": \"%s\", " SIZES ", \"num_attention_heads\": %u}", cases[i].type,
                 cases[i].kv_heads);
        assert_ok(read_text(text, &arch, &s, &err), err);
        assert_string_equal(arch->name, cases[i].name);
        assert_int_equal(s.kv_heads, cases[i].kv_heads);
        assert_int_equal(s.head_dim, cases[i].head_dim);
        assert_int_equal(s.max_position, cases[i].max_position);
        assert_int_equal(s.windows.size, cases[i].window);
        for (uint32_t k = 0; k < s.layers; k++)
            assert_int_equal(pith_layer_in(&s.windows.layers, k), cases[i].window != 0);
        assert_int_equal(s.biases.qkv, cases[i].qkv_bias);
        struct pith_plans plans;
        assert_ok(pith_plans_make(arch, &s, &plans, &err), err);
        assert_int_equal(plans.most_vectors, cases[i].qk_norm ? 4 : 2);
        pith_plans_free(&plans);
        assert_false(s.biases.o || s.biases.mlp || s.ends.tied);
        assert_true(s.eps == 1e-6 && s.place.rope.theta == 10000 &&
                    s.place.rope.type == PITH_ROPE_DEFAULT);
        assert_int_equal(s.dtype, PITH_F32);
    }
}

static void dialects_say_the_same(void **state)
{
    (void)state;
    static const char *const dialects[] = {
        "{\"architectures\": [\"LlamaForCausalLM\"], " SIZES HEADS
        ", \"torch_dtype\": \"bfloat16\", "
        "\"rope_theta\": 5e5, \"rope_scaling\": {\"type\": \"llama3\", \"factor\": 8, "
        "\"low_freq_factor\": 1, \"high_freq_factor\": 4, "
        "\"original_max_position_embeddings\": 8192}}",
        "{\"architectures\": [\"LlamaForCausalLM\"], " SIZES HEADS
        ", \"dtype\": \"torch.bfloat16\", "
        "\"rope_scaling\": null, \"rope_parameters\": {\"rope_type\": \"llama3\", \"factor\": 8.0, "
        "\"rope_theta\": 500000, \"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0, "
        "\"original_max_position_embeddings\": 8192}}",
        "{\"architectures\": [\"LlamaForCausalLM\"], " SIZES HEADS
        ", \"torch_dtype\": \"bfloat16\", "
        "\"rope_theta\": 1, \"original_max_position_embeddings\": 8192, "
        "\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8, \"rope_theta\": 500000, "
        "\"low_freq_factor\": 1, \"high_freq_factor\": 4}}",
    };
    struct pith_shape s[3];
    for (size_t i = 0; i < PITH_COUNT(dialects); i++) {
        struct pith_error err;
        const struct pith_arch *arch;
        assert_ok(read_text(dialects[i], &arch, &s[i], &err), err);
        assert_int_equal(s[i].dtype, PITH_BF16);
        assert_int_equal(s[i].place.rope.type, PITH_ROPE_LLAMA3);
        assert_true(s[i].place.rope.theta == 5e5 && s[i].place.rope.factor == 8);
        assert_true(s[i].place.rope.low_freq == 1 && s[i].place.rope.high_freq == 4);
        assert_int_equal(s[i].place.rope.original_max, 8192);
    }
}

static void yarn_factor_defaults_to_the_ratio(void **state)
{
    (void)state;
    struct pith_error err;
    const struct pith_arch *arch;
    struct pith_shape s;
    double inv[4], factor;
    assert_ok(read_text("{\"model_type\": \"qwen3\", " SIZES HEADS
                        ", \"num_key_value_heads\": null, "
                        "\"head_dim\": 8, \"max_position_embeddings\": 400, \"rope_scaling\": "
                        "{\"rope_type\": \"yarn\", \"original_max_position_embeddings\": 100}}",
                        &arch, &s, &err),
              err);
    assert_true(s.place.rope.factor == 4 && s.kv_heads == 8);
    pith_rope_frequencies(&s.place.rope, 8, inv, &factor);
    assert_true(fabs(factor - (0.1 * log(4) + 1)) < 1e-12);
    assert_true(inv[0] == 1 && fabs(inv[3] / (1e-3 / 4) - 1) < 1e-6);
}

/* Wavelengths are 6.3, 19.9, 62.8 and 198.7, and a bound is 64 by its factor. */
static void llama3_bounds_may_meet_or_cross(void **state)
{
    (void)state;
    static const struct {
        double low, high;
        unsigned kept; /* pairs that are not divided; the ones between are blended */
        unsigned last; /* from here on they are divided */
    } cases[] = {{1, 4, 1, 3}, {2, 2, 2, 2}, {4, 2, 1, 1}, {4, 1e-3, 1, 1}, {1e-3, 1e-3, 4, 4}};
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        const struct pith_rope rope = {.type = PITH_ROPE_LLAMA3,
                                       .theta = 100,
                                       .factor = 8,
                                       .low_freq = cases[i].low,
                                       .high_freq = cases[i].high,
                                       .original_max = 64};
        double inv[4], factor;
        pith_rope_frequencies(&rope, 8, inv, &factor);
        for (unsigned k = 0; k < 4; k++) {
            const double plain = pow(100, -(double)k / 4), part = inv[k] / plain;
            const double want = k < cases[i].kept ? 1 : 0.125;
            if (k < cases[i].kept || k >= cases[i].last) assert_true(fabs(part - want) < 1e-6);
            else assert_true(part > 0.125 && part < 1);
        }
    }
}

static void many_layers(void **state)
{
    (void)state;
    struct pith_error err = {0};
    const struct pith_arch *arch;
    struct pith_shape s;
    char text[512];
    static const unsigned layers[] = {7143, 16384, 16385};
    for (size_t i = 0; i < PITH_COUNT(layers); i++) {
        snprintf(text, sizeof text,
                 "{\"model_type\": \"llama\", \"hidden_size\": 32, \"intermediate_size\": 32, "
                 "\"num_hidden_layers\": %u, \"num_attention_heads\": 2, \"vocab_size\": 64, "
                 "\"rms_norm_eps\": 1e-5, \"max_position_embeddings\": 64}",
                 layers[i]);
        const enum pith_status got = read_text(text, &arch, &s, &err);
        if (layers[i] > 16384) assert_int_equal(got, PITH_FORMAT);
        else assert_ok(got, err);
    }
    assert_non_null(strstr(err.text, "\"num_hidden_layers\" is 16385"));
}

/* A change to a good config: `add` goes before the closing brace and hides an earlier key. */
struct lie {
    const char *key, *value; /* value NULL: the key is removed */
    enum pith_status status;
    const char *says;
};

static const struct lie lies[] = {
    /* Sizes: missing, of the wrong type, zero, negative, absurd. */
    {"hidden_size", NULL, PITH_FORMAT, "\"hidden_size\" is missing"},
    {"intermediate_size", NULL, PITH_FORMAT, "\"intermediate_size\" is missing"},
    {"num_hidden_layers", NULL, PITH_FORMAT, "\"num_hidden_layers\" is missing"},
    {"num_attention_heads", NULL, PITH_FORMAT, "\"num_attention_heads\" is missing"},
    {"vocab_size", NULL, PITH_FORMAT, "\"vocab_size\" is missing"},
    {"vocab_size", "null", PITH_FORMAT, "\"vocab_size\" is missing"},
    {"hidden_size", "\"64\"", PITH_FORMAT, "\"hidden_size\" is not an integer"},
    {"hidden_size", "64.0", PITH_FORMAT, "\"hidden_size\" is not an integer"},
    {"hidden_size", "0", PITH_FORMAT, "\"hidden_size\" is 0, outside"},
    {"hidden_size", "-64", PITH_FORMAT, "\"hidden_size\" is -64, outside"},
    {"hidden_size", "4294967360", PITH_FORMAT, "\"hidden_size\" is 4294967360, outside"},
    {"intermediate_size", "9223372036854775807", PITH_FORMAT, "\"intermediate_size\" is"},
    {"num_hidden_layers", "1000000000", PITH_FORMAT, "\"num_hidden_layers\" is 1000000000"},
    {"num_hidden_layers", "[3]", PITH_FORMAT, "\"num_hidden_layers\" is not an integer"},
    {"vocab_size", "2147483648", PITH_FORMAT, "\"vocab_size\" is 2147483648, outside"},
    {"num_attention_heads", "0", PITH_FORMAT, "\"num_attention_heads\" is 0"},
    {"num_attention_heads", "7", PITH_FORMAT, "not a multiple"},
    {"num_attention_heads", "100000", PITH_FORMAT, "\"num_attention_heads\" is 100000"},
    {"num_key_value_heads", "3", PITH_FORMAT, "\"num_attention_heads\" 4 is not a multiple"},
    {"num_key_value_heads", "8", PITH_FORMAT, "\"num_attention_heads\" 4 is not a multiple"},
    {"num_key_value_heads", "-1", PITH_FORMAT, "\"num_key_value_heads\" is -1"},
    {"head_dim", "7", PITH_FORMAT, "the head dimension 7 is odd"},
    {"head_dim", "0", PITH_FORMAT, "\"head_dim\" is 0"},
    {"head_dim", "1048576", PITH_FORMAT, "\"head_dim\" is 1048576"},
    {"head_dim", "{}", PITH_FORMAT, "\"head_dim\" is not an integer"},
    {"max_position_embeddings", "0", PITH_FORMAT, "\"max_position_embeddings\" is 0"},
    {"max_position_embeddings", "1e9", PITH_FORMAT, "\"max_position_embeddings\" is not an"},
    /* Numbers that would poison every activation. */
    {"rms_norm_eps", "-1e-5", PITH_FORMAT, "\"rms_norm_eps\" is -1e-05"},
    {"rms_norm_eps", "5", PITH_FORMAT, "\"rms_norm_eps\" is 5"},
    {"rms_norm_eps", "\"NaN\"", PITH_FORMAT, "\"rms_norm_eps\" is not a number"},
    {"rope_theta", "0", PITH_FORMAT, "\"rope_theta\" is 0"},
    {"rope_theta", "1e300", PITH_FORMAT, "\"rope_theta\" is 1e+300"},
    {"rope_theta", "true", PITH_FORMAT, "\"rope_theta\" is not a number"},
    /* What this version does not compute. */
    {"architectures", "[\"LLaMAForCausalLM\"]", PITH_OK, ""}, /* by "model_type" */
    {"architectures", "[]", PITH_OK, ""},
    {"architectures", "null", PITH_OK, ""},
    {"architectures", "{}", PITH_FORMAT, "\"architectures\" is not a list"},
    {"architectures", "[3]", PITH_FORMAT, "\"architectures\"[0] is not a string"},
    {"hidden_act", "\"mish\"", PITH_UNSUPPORTED, "activation \"mish\""},
    {"hidden_act", "1", PITH_FORMAT, "\"hidden_act\" is not a string"},
    {"partial_rotary_factor", "0.5", PITH_UNSUPPORTED, "\"partial_rotary_factor\" 0.5"},
    {"dtype", "\"float8_e4m3fn\"", PITH_UNSUPPORTED, "\"dtype\" \"float8_e4m3fn\""},
    {"dtype", "16", PITH_FORMAT, "\"dtype\" is not a string"},
    {"tie_word_embeddings", "\"yes\"", PITH_FORMAT, "\"tie_word_embeddings\" is not true or"},
    {"attention_bias", "1", PITH_FORMAT, "\"attention_bias\" is not true or false"},
    /* Rotary parameters. */
    {"rope_scaling", "[]", PITH_FORMAT, "\"rope_scaling\" is not an object"},
    {"rope_scaling", "{\"type\": \"dynamic\", \"factor\": 2}", PITH_OK, ""},
    {"rope_scaling", "{\"type\": \"dynamic\", \"alpha\": 1000}", PITH_UNSUPPORTED, "\"alpha\""},
    {"rope_scaling", "{\"rope_type\": \"dynamics\"}", PITH_UNSUPPORTED, "\"dynamics\""},
    {"rope_scaling", "{\"type\": 3}", PITH_FORMAT, "\"type\" is not a string"},
    {"rope_scaling", "{\"type\": \"linear\"}", PITH_FORMAT, "\"factor\" is missing"},
    {"rope_scaling", "{\"type\": \"linear\", \"factor\": 0}", PITH_FORMAT, "\"factor\" is 0"},
    {"rope_scaling", "{\"type\": \"linear\", \"factor\": 1e99}", PITH_FORMAT, "\"factor\" is 1e"},
    {"rope_scaling", "{\"type\": \"linear\", \"factor\": 1e-62}", PITH_FORMAT,
     "\"factor\" is 1e-62"},
    {"rope_scaling", "{\"type\": \"linear\", \"factor\": \"2\"}", PITH_FORMAT, "\"factor\" is not"},
    {"rope_scaling", "{\"type\": \"llama3\", \"factor\": 8}", PITH_FORMAT,
     "\"low_freq_factor\" is"},
    {"rope_scaling", "{\"type\": \"yarn\", \"factor\": -4}", PITH_FORMAT, "\"factor\" is -4"},
    {"rope_scaling", "{\"type\": \"yarn\", \"factor\": 4, \"attention_factor\": 0}", PITH_FORMAT,
     "attention factor 0"},
    {"rope_scaling", "{\"type\": \"yarn\", \"factor\": 4, \"beta_fast\": 1, \"beta_slow\": 32}",
     PITH_FORMAT, "\"beta_fast\" 1 and \"beta_slow\" 32"},
    {"rope_scaling", "{\"type\": \"yarn\", \"original_max_position_embeddings\": 0}", PITH_FORMAT,
     "\"original_max_position_embeddings\" is 0"},
    {"rope_scaling", "{\"type\": \"yarn\", \"factor\": 4, \"mscale\": -1e9, \"mscale_all_dim\": 1}",
     PITH_FORMAT, "attention factor"},
    {"rope_scaling", "{\"rope_type\": \"default\", \"partial_rotary_factor\": 0.25}",
     PITH_UNSUPPORTED, "\"partial_rotary_factor\" 0.25"},
    {"rope_scaling", "{\"full_attention\": {\"rope_type\": \"default\"}}", PITH_UNSUPPORTED,
     "rope parameters for \"full_attention\" layers alone"},
};

static json_t *value_of(const char *text)
{
    json_t *v = json_loads(text, JSON_DECODE_ANY, NULL);
    assert_non_null(v);
    return v;
}

static void check_lie(const json_t *good, const struct lie *lie)
{
    struct pith_error err = {0};
    json_t *config = json_copy((json_t *)good);
    const struct pith_arch *arch;
    struct pith_shape shape;
    if (lie->value) json_object_set_new(config, lie->key, value_of(lie->value));
    else json_object_del(config, lie->key);
    const enum pith_status s = pith_shape_read(config, "c.json", &arch, &shape, &err);
    const bool says = s == PITH_OK ||
                      (strncmp(err.text, "c.json: ", 8) == 0 && strstr(err.text, lie->says));
    if (s != lie->status || !says)
        fail_msg("%s = %s: status %d, \"%s\"", lie->key, lie->value ? lie->value : "(removed)",
                 (int)s, err.text);
    json_decref(config);
}

static void lies_are_named(void **state)
{
    (void)state;
    struct golden g;
    golden_load(&g, "llama_gqa_tied");
    json_object_del(g.config, "rope_parameters");
    json_object_del(g.config, "head_dim");
    for (size_t i = 0; i < PITH_COUNT(lies); i++) check_lie(g.config, &lies[i]);
    golden_free(&g);
}

static void small_models_are_checked(void **state)
{
    (void)state;
    static const struct lie gemma[] = {
        {"num_kv_shared_layers", "4", PITH_OK, ""},
        {"num_kv_shared_layers", "5", PITH_FORMAT, "leaves no layer whose keys"},
        {"num_kv_shared_layers", "6", PITH_FORMAT, "leaves no layer whose keys"},
        {"num_kv_shared_layers", "7", PITH_FORMAT, "\"num_kv_shared_layers\" is 7"},
        {"hidden_size_per_layer_input", NULL, PITH_OK, ""},
        {"hidden_size_per_layer_input", "-1", PITH_FORMAT, "is -1"},
        {"hidden_size_per_layer_input", "1048576", PITH_UNSUPPORTED, "read 1048576"},
        {"vocab_size_per_layer_input", "79", PITH_UNSUPPORTED, "of 79 tokens of 80"},
        {"vocab_size_per_layer_input", NULL, PITH_OK, ""},
        {"intermediate_size", "1048576", PITH_FORMAT, "1048576 twice"},
        {"use_bidirectional_attention", "\"vision\"", PITH_OK, ""},
        {"use_bidirectional_attention", "\"all\"", PITH_UNSUPPORTED, "is not supported"},
        {"use_bidirectional_attention", "false", PITH_OK, ""},
    };
    json_t *file = arch_load("gemma4_small");
    for (size_t i = 0; i < PITH_COUNT(gemma); i++)
        check_lie(json_object_get(file, "config"), &gemma[i]);
    json_decref(file);
}

static void windows_are_checked(void **state)
{
    (void)state;
    static const struct lie qwen[] = {
        {"layer_types", "[\"full_attention\"]", PITH_FORMAT, "not a list of 3 names"},
        /* Of a model cut short, or with layers for drafts behind them. */
        {"layer_types",
         "[\"full_attention\", \"sliding_attention\", \"full_attention\", \"other\", 4]", PITH_OK,
         ""},
        {"layer_types", "[\"full_attention\", 1, 2]", PITH_FORMAT, "\"layer_types\"[1]"},
        {"layer_types", "[\"full_attention\", \"linear_attention\", \"full_attention\"]",
         PITH_UNSUPPORTED, "\"linear_attention\""},
        {"layer_types", "[\"sliding_attention\", \"full_attention\", \"sliding_attention\"]",
         PITH_OK, ""},
        {"use_sliding_window", "false", PITH_FORMAT, "no sliding window is in use"},
        {"sliding_window", "null", PITH_FORMAT, "no sliding window is in use"},
        {"sliding_window", "0", PITH_FORMAT, "\"sliding_window\" is 0"},
        {"sliding_window", "-5", PITH_FORMAT, "\"sliding_window\" is -5"},
        {"max_window_layers", "-1", PITH_FORMAT, "\"max_window_layers\" is -1"},
    };
    struct golden g;
    golden_load(&g, "qwen2_window_new");
    for (size_t i = 0; i < PITH_COUNT(qwen); i++) check_lie(g.config, &qwen[i]);
    golden_free(&g);
    golden_load(&g, "mistral_window");
    static const struct lie mistral[] = {
        {"sliding_window", "0", PITH_FORMAT, "\"sliding_window\" is 0"},
        {"layer_types", "[\"sliding_attention\", \"sliding_attention\"]", PITH_OK, ""},
        {"layer_types", "[\"full_attention\", \"full_attention\"]", PITH_UNSUPPORTED,
         "differ from what \"sliding_window\" says"},
    };
    for (size_t i = 0; i < PITH_COUNT(mistral); i++) check_lie(g.config, &mistral[i]);
    golden_free(&g);
}

/* Of a config: keys that its architecture does not have change nothing, as in transformers. */
static void keys_of_others_change_nothing(void **state)
{
    (void)state;
    static const struct {
        const char *name, *key, *value;
    } cases[] = {
        {"gpt2", "num_key_value_heads", "1"},
        {"gpt2", "head_dim", "6"},
        {"gpt2", "rope_scaling", "{\"type\": \"unheard\", \"factor\": -1}"},
        {"gpt2", "partial_rotary_factor", "0.25"},
        {"opt", "num_key_value_heads", "3"},
        {"gpt_neox", "num_key_value_heads", "1"},
        {"gpt_neox", "head_dim", "6"},
        {"mixtral", "moe_intermediate_size", "7"},
        {"mixtral", "n_group", "3"},
        {"mixtral", "norm_topk_prob", "false"},
        {"mixtral", "routed_scaling_factor", "2.5"},
        {"qwen3_moe", "n_routed_experts", "3"},
        {"qwen3_moe", "moe_k", "1"},
        {"granitemoe", "moe_intermediate_size", "7"},
        {"gpt_oss", "moe_intermediate_size", "7"},
        {"deepseek_v3", "moe_num_experts", "3"},
        {"starcoder2", "activation_function", "\"relu\""},
        {"llama", "hidden_activation", "\"gelu\""},
        {"gemma2", "activation_function", "\"swiglu\""},
    };
    static struct pith_shape shape[2]; /* static: equal in their padding too */
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        struct pith_error err = {0};
        const struct pith_arch *arch;
        json_t *file = arch_load(cases[i].name), *config = json_object_get(file, "config");
        assert_ok(pith_shape_read(config, "c.json", &arch, &shape[0], &err), err);
        assert_null(json_object_get(config, cases[i].key));
        json_object_set_new(config, cases[i].key, value_of(cases[i].value));
        assert_ok(pith_shape_read(config, "c.json", &arch, &shape[1], &err), err);
        if (memcmp(&shape[0], &shape[1], sizeof shape[0]) != 0)
            fail_msg("%s: \"%s\" changes something", cases[i].name, cases[i].key);
        json_decref(file);
    }
}

/* --- plans are whole -------------------------------------------------------------------------- */

/* Each linear belongs to one site, within its range, and reads its width. */
static void check_linears(const struct pith_layer_plan *l)
{
    uint32_t at = 0;
    assert_true(l->linears > 0 && l->sites > 0);
    for (uint32_t i = 0; i < l->sites; i++) {
        const struct pith_site_spec *site = &l->site[i];
        assert_true(site->name[0] && site->dim > 0 && site->count > 0);
        assert_int_equal(site->first, at);
        at += site->count;
        assert_true(at <= l->linears);
        for (uint32_t k = site->first; k < at; k++) {
            assert_int_equal(l->linear[k].site, i);
            assert_int_equal(l->linear[k].cols, site->dim);
            assert_int_equal(l->linear[k].expert, site->expert);
        }
    }
    assert_int_equal(at, l->linears);
    for (uint32_t i = 0; i < l->linears; i++) {
        assert_true(l->linear[i].name[0] && l->linear[i].rows > 0);
        for (uint32_t k = 0; k < i; k++)
            assert_string_not_equal(l->linear[i].name, l->linear[k].name);
    }
    for (uint32_t i = 0; i < l->vectors; i++)
        assert_true(l->vector[i].name[0] && l->vector[i].length > 0);
}

/* A division of the input can be folded where a site says so: the norm that makes the input has a
 * gain a channel; the linear gives, repeated, a row a channel and is computed before. */
static void check_folds(const struct pith_layer_plan *l)
{
    for (uint32_t i = 0; i < l->sites; i++) {
        const struct pith_site_spec *site = &l->site[i];
        const struct pith_fold *fold = &site->fold;
        if (fold->kind == PITH_FOLD_VECTOR) {
            assert_true(fold->from < l->vectors);
            assert_int_equal(l->vector[fold->from].length, site->dim);
        } else if (fold->kind == PITH_FOLD_ROWS) {
            assert_true(fold->from < site->first && fold->repeat > 0 && fold->block > 0);
            const uint32_t rows = l->linear[fold->from].rows;
            assert_int_equal(rows * fold->repeat, site->dim);
            assert_true(rows % fold->block == 0);
        } else {
            assert_int_equal(fold->kind, PITH_FOLD_NONE);
        }
    }
}

static void check_width(const struct pith_layer_plan *l, unsigned reg, uint32_t least)
{
    assert_true(reg < PITH_LAYER_REGS && least > 0);
    if (l->width[reg] < least)
        fail_msg("register %u is %u wide, not %u", reg, l->width[reg], least);
}

/* What a node takes and gives has room; *done has a bit for what has been written so far. */
static void check_node(const struct pith_layer_plan *l, const struct pith_node *n, unsigned *done)
{
    assert_true(*done >> n->in & 1);
    switch (n->kind) {
    case PITH_NODE_NORM:
        if (n->u.norm.vector != PITH_NO_PART) {
            assert_true(n->u.norm.vector < l->vectors);
            assert_int_equal(pith_vector_count(&l->vector[n->u.norm.vector]),
                             n->u.norm.dim * (n->u.norm.by_head ? n->u.norm.heads : 1));
        }
        check_width(l, n->in, n->u.norm.heads * n->u.norm.dim);
        check_width(l, n->out, n->u.norm.heads * n->u.norm.dim);
        break;
    case PITH_NODE_LINEAR:
        check_width(l, n->in, l->linear[n->u.linear.linear].cols);
        check_width(l, n->u.linear.work, l->linear[n->u.linear.linear].cols);
        check_width(l, n->out, l->linear[n->u.linear.linear].rows);
        assert_true(n->out != n->in && n->out != PITH_REG_STREAM);
        break;
    case PITH_NODE_ROPE: assert_int_equal(n->in, n->out); break;
    case PITH_NODE_ATTEND:
        assert_true((*done >> n->u.attend.k & 1) && (*done >> n->u.attend.v & 1));
        check_width(l, n->u.attend.k, l->state.heads * l->state.key);
        check_width(l, n->u.attend.v, l->state.heads * l->state.value);
        check_width(l, n->in, n->u.attend.heads * l->state.key);
        check_width(l, n->out, n->u.attend.heads * l->state.value);
        break;
    case PITH_NODE_GATE:
        assert_int_equal(n->in, n->out);
        check_width(l, n->in, n->u.gate.dim);
        if (n->u.gate.alone) break;
        assert_true(*done >> n->u.gate.up & 1);
        check_width(l, n->u.gate.up, n->u.gate.dim);
        break;
    case PITH_NODE_ADD:
        check_width(l, n->out, l->width[PITH_REG_STREAM]);
        check_width(l, n->in, l->width[PITH_REG_STREAM]);
        break;
    case PITH_NODE_CLAMP:
        assert_int_equal(n->in, n->out);
        assert_true(n->u.clamp.limit > 0);
        check_width(l, n->in, n->u.clamp.dim);
        break;
    case PITH_NODE_SPLIT:
        for (uint32_t p = 0; p < n->u.split.parts; p++)
            check_width(l, n->u.split.to[p],
                        (n->u.split.heads ? n->u.split.heads : 1) * n->u.split.dim[p]);
        break;
    case PITH_NODE_EXPERTS:
        check_width(l, n->out, l->width[PITH_REG_STREAM]);
        check_width(l, n->u.experts.gate, n->u.experts.dim);
        check_width(l, n->u.experts.up, n->u.experts.dim);
        break;
    case PITH_NODE_MIX: check_width(l, n->in, l->width[PITH_REG_STREAM]); break;
    case PITH_NODE_ABSORB:
        check_width(l, n->in, n->u.latent.heads * (n->u.latent.nope + n->u.latent.rope));
        check_width(l, n->out, n->u.latent.heads * (n->u.latent.rank + n->u.latent.rope));
        check_width(l, n->u.latent.key, n->u.latent.rank + n->u.latent.rope);
        assert_int_equal(l->linear[n->u.latent.linear].rows,
                         n->u.latent.heads * (n->u.latent.nope + n->u.latent.value));
        assert_int_equal(l->linear[n->u.latent.linear].cols, n->u.latent.rank);
        break;
    case PITH_NODE_EXPAND:
        check_width(l, n->in, n->u.latent.heads * n->u.latent.rank);
        check_width(l, n->out, n->u.latent.heads * n->u.latent.value);
        break;
    case PITH_NODE_CONV:
        assert_int_equal(n->in, n->out);
        check_width(l, n->in, n->u.conv.dim);
        assert_int_equal(l->vector[n->u.conv.weight].rows, n->u.conv.dim);
        assert_int_equal(l->vector[n->u.conv.weight].length, n->u.conv.taps);
        break;
    case PITH_NODE_DELTA:
        check_width(l, n->out, n->u.delta.value_heads * n->u.delta.value_dim);
        check_width(l, n->u.delta.a, n->u.delta.value_heads);
        check_width(l, n->u.delta.beta, n->u.delta.value_heads);
        assert_true(l->state.floats > n->u.delta.offset);
        break;
    case PITH_NODE_PER_LAYER:
        assert_int_equal(n->in, PITH_REG_TOKEN);
        check_width(l, n->in, 1);
        check_width(l, n->out, n->u.per_layer.dim);
        check_width(l, n->u.per_layer.work, l->width[PITH_REG_STREAM]);
        break;
    case PITH_NODE_SCALE:
        assert_int_equal(n->in, n->out);
        assert_int_equal(l->vector[n->u.scale.vector].length, 1);
        break;
    case PITH_NODE_PLACE:
        assert_int_equal(n->in, PITH_REG_STREAM);
        assert_int_equal(n->out, PITH_REG_STREAM);
        break;
    case PITH_NODE_TEMPER:
        assert_int_equal(n->in, n->out);
        assert_true(n->u.temper.every > 0);
        check_width(l, n->in, n->u.temper.dim);
        break;
    case PITH_NODE_SCAN:
        check_width(l, n->in,
                    n->u.scan.heads * n->u.scan.dim + 2 * n->u.scan.groups * n->u.scan.state);
        check_width(l, n->out, n->u.scan.heads * n->u.scan.dim);
        check_width(l, n->u.scan.step, n->u.scan.heads);
        assert_true(l->state.floats > n->u.scan.offset);
        break;
    default: fail_msg("a node of kind %d", (int)n->kind);
    }
    assert_int_equal(pith_node_reads(n) & ~*done, 0);
    *done |= pith_node_writes(n);
}

/* Registers are written before they are read; each linear is computed once, in the plan's order,
 * side by side with those of its site; the last node gives the stream. */
static void check_nodes(const struct pith_layer_plan *l)
{
    unsigned done = 1u << PITH_REG_STREAM | (l->carried & ~pith_plan_leaves(l));
    uint32_t at = 0;
    for (uint32_t i = 0; i < l->nodes; i++) {
        const struct pith_node *n = &l->node[i];
        check_node(l, n, &done);
        if (n->kind == PITH_NODE_EXPERTS) {
            assert_int_equal(n->u.experts.first, at);
            while (at < l->linears && l->linear[at].expert != PITH_NO_PART) at++;
        }
        if (n->kind == PITH_NODE_ABSORB) {
            assert_int_equal(n->u.latent.linear, at);
            assert_int_equal(l->site[l->linear[at].site].from, i);
            at++;
        }
        if (n->kind != PITH_NODE_LINEAR) continue;
        assert_int_equal(n->u.linear.linear, at);
        const struct pith_site_spec *site = &l->site[l->linear[at].site];
        assert_int_equal(i, site->from + at - site->first);
        assert_int_equal(n->in, l->node[site->from].in);
        at++;
    }
    assert_int_equal(at, l->linears);
    assert_int_equal(l->node[l->nodes - 1].out, PITH_REG_STREAM);
    if (l->state.kind == PITH_STATE_RECURRENT) {
        assert_null(pith_plan_attend(l));
        return;
    }
    assert_non_null(pith_plan_attend(l));
    const uint32_t behind = pith_plan_after_attend(l);
    const uint32_t attend = (uint32_t)(pith_plan_attend(l) - l->node);
    assert_true(behind > 0 && l->site[behind].from > attend && l->site[behind - 1].from < attend);
}

/* A module ends before the one addition to the stream of what it gives, and adds nothing itself. */
static void check_modules(const struct pith_layer_plan *l)
{
    unsigned modules = 0;
    for (uint32_t i = 0; i < l->sites; i++) {
        const struct pith_site_spec *site = &l->site[i];
        if (site->to == 0) continue;
        assert_true(site->from < site->to && site->to < l->nodes);
        for (uint32_t k = site->from; k < site->to; k++)
            assert_int_not_equal(l->node[k].kind, PITH_NODE_ADD);
        modules++;
        /* What it gives is normalised, or added at once; or waits for what goes beside it. */
        uint32_t next = site->to;
        while (l->node[next].kind == PITH_NODE_NORM && l->node[next].in == site->result) next++;
        while (next < l->nodes &&
               (l->node[next].kind != PITH_NODE_ADD || l->node[next].in != site->result))
            next++;
        assert_true(next < l->nodes);
    }
    unsigned adds = 0, told = 0;
    for (uint32_t i = 0; i < l->nodes; i++) {
        adds += l->node[i].kind == PITH_NODE_ADD;
        told += l->node[i].kind == PITH_NODE_PER_LAYER; /* from the tokens, which no site reads */
    }
    assert_int_equal(modules + told, adds);
}

static void plan_is_complete(const struct pith_arch *arch, const struct pith_shape *s)
{
    struct pith_error err = {0};
    struct pith_plans plans;
    assert_ok(pith_plans_make(arch, s, &plans, &err), err);
    assert_int_equal(plans.layers, s->layers);
    for (uint32_t i = 0; i < plans.kinds; i++) {
        check_linears(&plans.kind[i]);
        check_folds(&plans.kind[i]);
        check_nodes(&plans.kind[i]);
        check_modules(&plans.kind[i]);
        /* Else a transform holds the whole layer as floats: so where a gate reads the stream behind
         * the experts, which no published model has. */
        assert_true(pith_plan_experts_apart(&plans.kind[i]) ==
                    !(s->tokens.width && s->moe.experts));
    }
    pith_plans_free(&plans);
}

/* Of every case of tests/golden/arch, which between them have each option of each architecture
 * (test_arch.c finds one for every row). */
static void plans_are_complete(void **state)
{
    (void)state;
    struct pith_error err = {0};
    char **names;
    size_t count, done = 0;
    assert_ok(pith_dir_list(ARCH_GOLDEN, &names, &count, &err), err);
    for (size_t i = 0; i < count; i++) {
        char *dot = strrchr(names[i], '.');
        if (!dot || strcmp(dot, ".json") != 0) continue;
        *dot = '\0';
        const struct pith_arch *arch;
        struct pith_shape s;
        json_t *file = arch_load(names[i]);
        struct pith_error refused = {0};
        const enum pith_status status =
            pith_shape_read(json_object_get(file, "config"), names[i], &arch, &s, &refused);
        if (status == PITH_OK) {
            plan_is_complete(arch, &s);
            done++;
        } else {
            assert_int_equal(status, PITH_UNSUPPORTED);
        }
        json_decref(file);
    }
    pith_names_free(names, count);
    assert_true(done >= 145);
}

/* Four layers of which the last two share the keys and values of the two before them. */
static void layers_share_keys_and_values(void **state)
{
    (void)state;
    static const char text[] =
        "{\"model_type\": \"gemma4_text\", \"hidden_size\": 64, \"intermediate_size\": 96, "
        "\"num_hidden_layers\": 4, \"vocab_size\": 100, \"num_attention_heads\": 8, "
        "\"num_key_value_heads\": 2, \"head_dim\": 6, \"global_head_dim\": 6, "
        "\"num_kv_shared_layers\": 2, \"hidden_size_per_layer_input\": 5, "
        "\"layer_types\": [\"sliding_attention\", \"full_attention\", \"sliding_attention\", "
        "\"full_attention\"], \"rope_parameters\": {\"full_attention\": {\"rope_type\": "
        "\"default\", \"rope_theta\": 1e6}, \"sliding_attention\": {\"rope_type\": \"default\", "
        "\"rope_theta\": 1e4}}}";
    struct pith_error err = {0};
    struct pith_plans plans;
    const struct pith_arch *arch;
    struct pith_shape s;
    assert_ok(read_text(text, &arch, &s, &err), err);
    plan_is_complete(arch, &s);
    assert_ok(pith_plans_make(arch, &s, &plans, &err), err);
    for (uint32_t i = 0; i < 4; i++) assert_int_equal(pith_plan_rows_of(&plans, i), i % 2);
    /* The token; keys and values of both kinds. */
    assert_int_equal(pith_plans_carried(&plans), 1 + 4 * s.kv_heads * s.head_dim);
    pith_plans_free(&plans);
}

static void names_and_bytes_of_a_layer(void **state)
{
    (void)state;
    size_t count;
    const struct pith_arch *const *archs = pith_archs(&count);
    const struct pith_shape s = {.hidden = 10,
                                 .ffn = 30,
                                 .heads = 4,
                                 .kv_heads = 2,
                                 .head_dim = 6,
                                 .place = {.rotary = 6},
                                 .layers = 1,
                                 .vocab = 9,
                                 .biases = {.qkv = true}};
    struct pith_error err = {0};
    struct pith_plans plans;
    assert_ok(pith_plans_make(archs[0], &s, &plans, &err), err);
    const struct pith_layer_plan *l = pith_plan(&plans, 0);
    char name[64];
    pith_plan_linear_name(&plans, 0, LLAMA_DOWN, name, sizeof name);
    assert_string_equal(name, "model.layers.0.mlp.down_proj");
    pith_plan_name(&plans, 12, l->vector[LLAMA_POST].name, name, sizeof name);
    assert_string_equal(name, "model.layers.12.post_attention_layernorm.weight");
    pith_plan_name(&plans, 0, l->vector[LLAMA_POST].name, name, 8);
    assert_string_equal(name, "model.l");
    /* q 24x10, k and v 12x10, o 10x24, gate and up 30x10, down 10x30; biases 48; norms 20. */
    assert_int_equal(pith_block_float_bytes(l), 4 * (240 + 240 + 240 + 900 + 48 + 20));
    pith_plans_free(&plans);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(absent_keys_are_the_class_defaults),
        cmocka_unit_test(dialects_say_the_same),
        cmocka_unit_test(yarn_factor_defaults_to_the_ratio),
        cmocka_unit_test(llama3_bounds_may_meet_or_cross),
        cmocka_unit_test(many_layers),
        cmocka_unit_test(lies_are_named),
        cmocka_unit_test(windows_are_checked),
        cmocka_unit_test(keys_of_others_change_nothing),
        cmocka_unit_test(small_models_are_checked),
        cmocka_unit_test(plans_are_complete),
        cmocka_unit_test(layers_share_keys_and_values),
        cmocka_unit_test(names_and_bytes_of_a_layer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
