/* Checkpoints whose tensors are not those that the config asks for; loading; taps. */
#include "llama.h"
#include "unit/model/fixture.h"

/* A safetensors file in memory, to be changed and written again. */
struct weights {
    json_t *header;
    char *data;
    size_t size;
};

static void weights_read(struct weights *w, const char *name)
{
    struct pith_error err = {0};
    char path[256], *file;
    size_t size;
    uint64_t header;
    snprintf(path, sizeof path, GOLDEN "weights/%s.safetensors", name);
    assert_ok(pith_file_read(path, 1 << 22, &file, &size, &err), err);
    memcpy(&header, file, 8);
    assert_ok(pith_json_parse(file + 8, header, path, &w->header, &err), err);
    w->size = size - 8 - header;
    w->data = malloc(w->size);
    memcpy(w->data, file + 8 + header, w->size);
    pith_free(file);
}

static void weights_write(struct weights *w, const char *dir)
{
    struct pith_error err = {0};
    char path[600], *text = json_dumps(w->header, JSON_COMPACT);
    const uint64_t length = strlen(text);
    char *file = malloc(8 + length + w->size);
    memcpy(file, &length, 8);
    memcpy(file + 8, text, length);
    memcpy(file + 8 + length, w->data, w->size);
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    assert_ok(pith_file_write(path, file, 8 + length + w->size, &err), err);
    free(file);
    free(text);
    free(w->data);
    json_decref(w->header);
}

/* Adds a tensor of these bytes at the end. */
static void weights_add(struct weights *w, const char *name, const char *dtype, json_t *shape,
                        const void *bytes, size_t size)
{
    json_object_set_new(w->header, name,
                        json_pack("{s:s, s:o, s:[I, I]}", "dtype", dtype, "shape", shape,
                                  "data_offsets", (json_int_t)w->size,
                                  (json_int_t)(w->size + size)));
    w->data = realloc(w->data, w->size + size);
    memcpy(w->data + w->size, bytes, size);
    w->size += size;
}

static const char *weights_find(const struct weights *w, const char *name, size_t *size)
{
    const json_t *at = json_object_get(json_object_get(w->header, name), "data_offsets");
    const size_t from = (size_t)json_integer_value(json_array_get(at, 0));
    *size = (size_t)json_integer_value(json_array_get(at, 1)) - from;
    return w->data + from;
}

static void weights_rename(struct weights *w, const char *from, const char *to)
{
    assert_non_null(json_object_get(w->header, from));
    json_object_set(w->header, to, json_object_get(w->header, from));
    json_object_del(w->header, from);
}

static void refuse(const char *dir, enum pith_status status, const char *says)
{
    struct pith_error err = {0};
    struct pith_model *m = NULL;
    const enum pith_status s = pith_model_open(dir, &m, &err);
    if (s == PITH_OK) pith_model_close(m);
    if (s != status || !strstr(err.text, says) || strchr(err.text, '\n'))
        fail_msg("expected \"%s\": status %d, \"%s\"", says, (int)s, err.text);
    if (!strstr(err.text, dir)) fail_msg("%s does not name %s", err.text, dir);
}

/* Configs beside the weights of another model: something is missing, or of another shape. */
static void tensors_and_config_must_agree(void **state)
{
    (void)state;
    static const struct {
        const char *golden, *key, *value, *says;
    } cases[] = {
        {"llama_gqa_tied", "num_hidden_layers", "3", "model.layers.2.self_attn.q_proj.weight"},
        {"llama_gqa_tied", "vocab_size", "81", "model.embed_tokens.weight"},
        {"llama_gqa_tied", "vocab_size", "79", "model.embed_tokens.weight"},
        {"llama_gqa_tied", "hidden_size", "48", "model.embed_tokens.weight"},
        {"llama_gqa_tied", "intermediate_size", "45", "mlp.gate_proj.weight"},
        {"llama_gqa_tied", "num_key_value_heads", "4", "self_attn.k_proj.weight"},
        {"llama_gqa_tied", "head_dim", "16", "self_attn.q_proj.weight"},
        {"llama_gqa_tied", "tie_word_embeddings", "false", "lm_head.weight"},
        {"llama_gqa_tied", "attention_bias", "true", "self_attn.q_proj.bias"},
        {"llama_gqa_tied", "mlp_bias", "true", "mlp.gate_proj.bias"},
        {"llama_gqa_tied", "architectures", "[\"Qwen3ForCausalLM\"]", "self_attn.q_norm.weight"},
        {"llama_gqa_tied", "architectures", "[\"Qwen2ForCausalLM\"]", "self_attn.q_proj.bias"},
    };
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        struct golden g;
        golden_load(&g, cases[i].golden);
        json_object_set_new(g.config, cases[i].key,
                            json_loads(cases[i].value, JSON_DECODE_ANY, NULL));
        char *dir = folder_make(g.config, g.weights);
        refuse(dir, PITH_FORMAT, cases[i].says);
        folder_remove(dir);
        golden_free(&g);
    }
}

/* One change to the file of llama_gqa_tied. */
static void mutate_missing(struct weights *w)
{
    weights_rename(w, "model.norm.weight", "model.norm.weighx");
}
static void mutate_matrix_norm(struct weights *w)
{
    json_object_set_new(json_object_get(w->header, "model.norm.weight"), "shape",
                        json_pack("[i, i]", 1, 32));
}
static void mutate_transposed(struct weights *w)
{
    json_object_set_new(json_object_get(w->header, "model.layers.1.mlp.up_proj.weight"), "shape",
                        json_pack("[i, i]", 32, 44));
}
static void mutate_dtype(struct weights *w)
{
    json_object_set_new(json_object_get(w->header, "model.embed_tokens.weight"), "dtype",
                        json_string("I32"));
}
static void mutate_norm_dtype(struct weights *w)
{
    json_object_set_new(json_object_get(w->header, "model.norm.weight"), "dtype",
                        json_string("I32"));
}
static void mutate_short_data(struct weights *w)
{
    w->size -= 4;
}
static void mutate_long_data(struct weights *w)
{
    w->data = realloc(w->data, w->size + 8);
    memset(w->data + w->size, 0, 8);
    w->size += 8;
}
static void mutate_empty(struct weights *w)
{
    json_object_clear(w->header);
    w->size = 0;
}

static void changed_files_are_refused(void **state)
{
    (void)state;
    static const struct {
        void (*mutate)(struct weights *w);
        enum pith_status status;
        const char *says;
    } cases[] = {
        {mutate_missing, PITH_FORMAT, "\"model.norm.weight\" is missing"},
        {mutate_matrix_norm, PITH_FORMAT, "model.norm.weight"},
        {mutate_transposed, PITH_FORMAT, "model.layers.1.mlp.up_proj.weight"},
        {mutate_dtype, PITH_UNSUPPORTED, "\"model.embed_tokens.weight\" is I32"},
        {mutate_norm_dtype, PITH_UNSUPPORTED, "\"model.norm.weight\" is I32"},
        {mutate_short_data, PITH_FORMAT, "model.safetensors"},
        {mutate_long_data, PITH_FORMAT, "model.safetensors"},
        {mutate_empty, PITH_FORMAT, "no tensors"},
    };
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        struct golden g;
        struct weights w;
        golden_load(&g, "llama_gqa_tied");
        char *dir = folder_make(g.config, NULL);
        weights_read(&w, g.weights);
        cases[i].mutate(&w);
        weights_write(&w, dir);
        refuse(dir, cases[i].status, cases[i].says);
        folder_remove(dir);
        golden_free(&g);
    }
}

/* What nobody reads, and how many of it there are, is named. */
static void unknown_tensors_are_left_alone(void **state)
{
    (void)state;
    static const struct {
        const char *golden, *key, *value; /* key NULL: the config as it is */
        const char *extra;                /* a tensor more, or NULL */
        const char *first;                /* of those that are not read */
        size_t count;
    } cases[] = {
        {"llama_gqa_tied", NULL, NULL, "model.layers.0.self_attn.extra", NULL, 1},
        {"llama_gqa_tied", NULL, NULL, "model.layers.0.mlp.up_proj.weight_scale", NULL, 1},
        {"llama_gqa_tied", NULL, NULL, "model.layers.0.self_attn.k_scale", NULL, 1},
        {"llama_gqa_tied", NULL, NULL, "v_head.summary.weight", NULL, 1},
        {"llama_gqa_tied", NULL, NULL, NULL, NULL, 0},
        {"llama_gqa_tied", "num_hidden_layers", "1", NULL, "model.layers.1.input_layernorm.weight",
         9},
        {"llama_bias", "mlp_bias", "false", NULL, "model.layers.0.mlp.down_proj.bias", 6},
        {"llama_bias", "attention_bias", "false", NULL, "model.layers.0.self_attn.k_proj.bias", 8},
        {"llama_bias", "architectures", "[\"MistralForCausalLM\"]", NULL,
         "model.layers.0.mlp.down_proj.bias", 14},
        {"qwen3", "architectures", "[\"LlamaForCausalLM\"]", NULL,
         "model.layers.0.self_attn.k_norm.weight", 4},
    };
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        struct golden g;
        struct weights w;
        struct pith_model *m = NULL;
        struct pith_error err = {0};
        const char *first = cases[i].first ? cases[i].first : cases[i].extra;
        golden_load(&g, cases[i].golden);
        if (cases[i].key)
            json_object_set_new(g.config, cases[i].key,
                                json_loads(cases[i].value, JSON_DECODE_ANY, NULL));
        char *dir = folder_make(g.config, NULL);
        weights_read(&w, g.weights);
        if (cases[i].extra) weights_add(&w, cases[i].extra, "F32", json_pack("[i]", 1), "abcd", 4);
        weights_write(&w, dir);
        assert_ok(pith_model_open(dir, &m, &err), err);
        assert_int_equal(m->strays, cases[i].count);
        if (first) assert_string_equal(m->stray[0], first);
        for (size_t k = 0; k < m->checkpoint->count; k++) {
            const char *name = m->checkpoint->tensors[k].name;
            bool among = false;
            for (size_t n = 0; n < m->strays; n++) among |= strcmp(m->stray[n], name) == 0;
            assert_int_equal(pith_model_is_stray(m, name), among);
        }
        pith_model_close(m);
        folder_remove(dir);
        golden_free(&g);
    }
}

/* Every name with another start: of a trainer, of another version, of none. */
static void names_of_others_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to;
    } cases[] = {
        {"", "module."},
        {"", "base_model.model."},
        {"", "_orig_mod."},
        {"", "module._orig_mod."},
        {"model.", "model._orig_mod."},
        {"model.", "model.language_model."},
        {"model.", "language_model.model."},
        {"model.", ""},
        {"model.layers.0.", "model.layers.0._checkpoint_wrapped_module."},
    };
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        struct golden g;
        struct weights w;
        struct pith_model *m = NULL;
        struct pith_error err = {0};
        const char *key;
        json_t *value, *header = json_object();
        golden_load(&g, "llama_gqa_tied");
        char *dir = folder_make(g.config, NULL);
        weights_read(&w, g.weights);
        json_object_foreach (w.header, key, value) {
            char name[256];
            const size_t n = strlen(cases[i].from);
            const bool fits = strncmp(key, cases[i].from, n) == 0 && key[0] != '_';
            snprintf(name, sizeof name, "%s%s", fits ? cases[i].to : "", fits ? key + n : key);
            json_object_set(header, name, value);
        }
        json_decref(w.header);
        w.header = header;
        weights_write(&w, dir);
        assert_ok(pith_model_open(dir, &m, &err), err);
        assert_non_null(pith_checkpoint_find(m->checkpoint, "model.layers.0.mlp.up_proj.weight"));
        pith_model_close(m);
        folder_remove(dir);
        golden_free(&g);
    }
}

static void broken_folders_are_refused(void **state)
{
    (void)state;
    struct pith_error err = {0};
    char *dir = test_temp_dir(), path[600];
    refuse(dir, PITH_IO, "config.json");
    snprintf(path, sizeof path, "%s/config.json", dir);
    static const struct {
        const char *text, *says;
    } configs[] = {
        {"", "config.json"},
        {"[]", "not a JSON object"},
        {"{\"hidden_size\": 64", "not valid JSON"},
        {"{\"a\": 1, \"a\": ]}", "not valid JSON"},
        {"\xff\xfe{\0}", "UTF-16"},
        {"{}", "safetensors"},
    };
    for (size_t i = 0; i < PITH_COUNT(configs); i++) {
        assert_ok(pith_file_write(path, configs[i].text, strlen(configs[i].text), &err), err);
        refuse(dir, PITH_FORMAT, configs[i].says);
    }
    folder_remove(dir);
    struct golden g;
    golden_load(&g, "llama_gqa_tied");
    json_object_del(g.config, "hidden_size");
    dir = folder_make(g.config, g.weights);
    refuse(dir, PITH_FORMAT, "config.json: \"hidden_size\" is missing");
    folder_remove(dir);
    golden_free(&g);
}

static void rotary_buffers_are_ignored(void **state)
{
    (void)state;
    struct pith_error err = {0};
    struct pith_model *m;
    struct golden g;
    struct weights w;
    golden_load(&g, "llama_gqa_tied");
    json_object_del(g.config, "dtype");
    char *dir = folder_make(g.config, NULL);
    weights_read(&w, g.weights);
    weights_add(&w, "model.layers.0.self_attn.rotary_emb.inv_freq", "F32", json_pack("[i]", 4),
                "0123456789abcdef", 16);
    weights_write(&w, dir);
    assert_ok(pith_model_open(dir, &m, &err), err);
    assert_true(m->shape.ends.tied && m->head.dense == m->embed.dense &&
                m->shape.dtype == PITH_F32);
    assert_null(m->container);
    pith_model_close(m);
    folder_remove(dir);
    golden_free(&g);
    /* Without "dtype" the weights tell. */
    golden_load(&g, "llama_bf16");
    json_object_del(g.config, "dtype");
    dir = folder_make(g.config, g.weights);
    assert_ok(pith_model_open(dir, &m, &err), err);
    assert_int_equal(m->shape.dtype, PITH_BF16);
    pith_model_close(m);
    folder_remove(dir);
    golden_free(&g);
}

/* A head beside "tie_word_embeddings": equal is tied, different counts, as in transformers 5. */
static void stored_heads_of_tied_models(void **state)
{
    (void)state;
    struct pith_error err = {0};
    struct pith_model *m;
    for (int equal = 0; equal < 2; equal++) {
        struct golden g;
        struct weights w;
        size_t size;
        golden_load(&g, "llama_gqa_tied");
        char *dir = folder_make(g.config, NULL);
        weights_read(&w, g.weights);
        char *head = malloc(80 * 32 * 4);
        memcpy(head, weights_find(&w, "model.embed_tokens.weight", &size), 80 * 32 * 4);
        assert_int_equal(size, 80 * 32 * 4);
        if (!equal) head[4] ^= 1;
        weights_add(&w, "lm_head.weight", "F32", json_pack("[i, i]", 80, 32), head, size);
        weights_write(&w, dir);
        assert_ok(pith_model_open(dir, &m, &err), err);
        assert_int_equal(m->shape.ends.tied, equal);
        assert_int_equal(m->head.dense == m->embed.dense, equal);
        pith_model_close(m);
        free(head);
        folder_remove(dir);
        golden_free(&g);
    }
}

static void blocks_load_mapped_or_owned(void **state)
{
    (void)state;
    struct pith_error err = {0};
    struct rig r;
    rig_open_golden(&r, "qwen2_tied_f16", 1);
    struct pith_block b;
    assert_ok(pith_block_load(r.model, 1, PITH_LOAD_FLOAT, &b, &err), err);
    for (int i = 0; i < LLAMA_LINEARS; i++) {
        const struct pith_linear_weights *mapped = &r.model->blocks[1].linear[i];
        const struct pith_linear_weights *owned = &b.linear[i];
        const size_t count = (size_t)owned->w.rows * owned->w.cols;
        float *x = malloc(count * sizeof *x);
        assert_int_equal(mapped->w.dtype, PITH_F16);
        assert_null(mapped->dense);
        assert_int_equal(owned->w.dtype, PITH_F32);
        assert_ptr_equal(owned->w.dense, owned->dense);
        pith_weight_decode(&mapped->w, 0, mapped->w.rows, x);
        assert_memory_equal(x, owned->dense, count * sizeof *x);
        assert_int_equal(owned->bias != NULL, i <= LLAMA_V);
        free(x);
    }
    assert_int_equal(b.plan->vectors, LLAMA_POST + 1); /* none for heads */
    pith_block_free(&b);
    pith_block_free(&b);
    assert_int_equal(pith_block_load(r.model, 2, PITH_LOAD_FLOAT, &b, &err), PITH_ARG);
    rig_close(&r);
}

/* What a tap saw. */
struct seen {
    int calls, stop_at;
    uint32_t site[8];
    size_t n, dim;
    float first[64];
};

static bool watch(void *ctx, uint32_t site, const float *x, size_t n, size_t dim)
{
    struct seen *s = ctx;
    s->site[s->calls++] = site;
    s->n = n;
    s->dim = dim;
    memcpy(s->first, x, dim * sizeof *x);
    return (int)site == s->stop_at;
}

static void taps_see_every_site_and_may_stop(void **state)
{
    (void)state;
    struct pith_error err = {0};
    struct rig r;
    rig_open_golden(&r, "qwen3", 1);
    const struct pith_shape *s = &r.model->shape;
    struct pith_kv kv;
    struct pith_scratch scratch;
    assert_ok(pith_kv_init(&kv, &r.model->plans, 1, 6, PITH_F32, &err), err);
    assert_ok(pith_scratch_init(&scratch, &r.model->plans, 5, &err), err);
    int32_t ids[PROMPT_MAX];
    golden_prompt(0, ids);
    float x[6 * 32], y[6 * 32], out[6 * 32];
    for (int stop = 0; stop <= LLAMA_SITES; stop++) {
        struct seen seen = {.stop_at = stop};
        const struct pith_pass p = {.backend = r.backend,
                                    .model = r.model,
                                    .scratch = &scratch,
                                    .kv = &kv,
                                    .tap = watch,
                                    .tap_ctx = &seen};
        bool stopped;
        assert_ok(pith_model_embed(r.model, ids, 5, x, &err), err);
        assert_ok(pith_block_forward(&p, &r.model->blocks[0], x, 5, &stopped, &err), err);
        assert_int_equal(stopped, stop < LLAMA_SITES);
        assert_int_equal(seen.calls, stop < LLAMA_SITES ? stop + 1 : LLAMA_SITES);
        for (int i = 0; i < seen.calls; i++) assert_int_equal(seen.site[i], i);
        assert_int_equal(seen.n, 5);
        assert_int_equal(seen.dim, r.model->blocks[0].plan->site[seen.site[seen.calls - 1]].dim);
        /* A tap that stops at the first site still sees the normalised input. */
        if (stop == LLAMA_SITE_QKV) {
            pith_model_embed(r.model, ids, 5, y, &err);
            pith_rmsnorm(r.backend, y, 5, s->hidden, r.model->blocks[0].vector[LLAMA_INPUT], s->eps,
                         y);
            assert_memory_equal(seen.first, y, s->hidden * sizeof *y);
        }
    }
    /* The halves make up the whole: x + attention, then + mlp. */
    const struct pith_pass p = {
        .backend = r.backend, .model = r.model, .scratch = &scratch, .kv = &kv};
    const struct pith_block *b = &r.model->blocks[0];
    float norm[5 * 32];
    assert_ok(pith_model_embed(r.model, ids, 5, y, &err), err);
    pith_rmsnorm(r.backend, y, 5, s->hidden, b->vector[LLAMA_INPUT], s->eps, norm);
    assert_ok(pith_module_forward(&p, b, LLAMA_SITE_QKV, norm, 5, out, &err), err);
    for (size_t i = 0; i < 5 * 32; i++) y[i] += out[i];
    pith_rmsnorm(r.backend, y, 5, s->hidden, b->vector[LLAMA_POST], s->eps, norm);
    assert_ok(pith_module_forward(&p, b, LLAMA_SITE_GATE_UP, norm, 5, out, &err), err);
    for (size_t i = 0; i < 5 * 32; i++) y[i] += out[i];
    assert_memory_equal(x, y, 5 * 32 * sizeof *x);
    /* More rows than the work space, more tokens than the cache. */
    assert_int_equal(pith_block_forward(&p, b, x, 6, NULL, &err), PITH_ARG);
    struct pith_pass late = p;
    late.start = 2;
    err = (struct pith_error){0};
    assert_int_equal(pith_block_forward(&late, b, x, 5, NULL, &err), PITH_LIMIT);
    pith_kv_free(&kv);
    pith_scratch_free(&scratch);
    rig_close(&r);
}

static void absurd_buffers_are_refused(void **state)
{
    (void)state;
    struct pith_error err = {0};
    size_t count;
    const struct pith_shape s = {.hidden = 1 << 20,
                                 .ffn = 1 << 20,
                                 .heads = 64,
                                 .kv_heads = 64,
                                 .head_dim = 1,
                                 .place = {.rotary = 1 << 14},
                                 .layers = 4096,
                                 .vocab = 10};
    struct pith_kv kv;
    struct pith_scratch scratch;
    struct pith_plans plans;
    assert_ok(pith_plans_make(pith_archs(&count)[0], &s, &plans, &err), err);
    assert_int_equal(pith_kv_init(&kv, &plans, 4096, SIZE_MAX / 2, PITH_BF16, &err), PITH_NOMEM);
    err = (struct pith_error){0};
    assert_int_equal(pith_kv_init(&kv, &plans, 4096, (size_t)1 << 33, PITH_F32, &err), PITH_NOMEM);
    err = (struct pith_error){0};
    assert_int_equal(pith_kv_init(&kv, &plans, 1, 0, PITH_F32, &err), PITH_ARG);
    err = (struct pith_error){0};
    assert_int_equal(pith_kv_init(&kv, &plans, 1, 1, PITH_F16, &err), PITH_ARG);
    assert_true(pith_kv_bytes(&plans, 4096, SIZE_MAX / 2, PITH_F32) == UINT64_MAX);
    err = (struct pith_error){0};
    assert_int_equal(pith_scratch_init(&scratch, &plans, SIZE_MAX / 8, &err), PITH_NOMEM);
    err = (struct pith_error){0};
    assert_int_equal(pith_scratch_init(&scratch, &plans, 0, &err), PITH_ARG);
    assert_true(pith_scratch_bytes(&plans, SIZE_MAX) == UINT64_MAX);
    pith_plans_free(&plans);
    const struct pith_shape tiny = {.hidden = 16,
                                    .ffn = 32,
                                    .heads = 2,
                                    .kv_heads = 1,
                                    .head_dim = 8,
                                    .place = {.rotary = 8},
                                    .layers = 2};
    /* norm, q, k, v, gate, up, out, cos, sin: 16 + 16 + 8 + 8 + 32 + 32 + 16 + 4 + 4 floats a row,
     * by lines. */
    assert_ok(pith_plans_make(pith_archs(&count)[0], &tiny, &plans, &err), err);
    assert_int_equal(pith_scratch_bytes(&plans, 4), 4 * 4 * 136);
    /* Two layers of k and v for 32 positions of a row of 16; one chunk of sums for two heads. */
    assert_pages(pith_kv_bytes(&plans, 2, 20, PITH_BF16), 2 * 2 * 32 * 16 * 2 + 2 * 32 * 4);
    pith_plans_free(&plans);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_and_config_must_agree),
        cmocka_unit_test(changed_files_are_refused),
        cmocka_unit_test(unknown_tensors_are_left_alone),
        cmocka_unit_test(names_of_others_are_read),
        cmocka_unit_test(broken_folders_are_refused),
        cmocka_unit_test(rotary_buffers_are_ignored),
        cmocka_unit_test(stored_heads_of_tied_models),
        cmocka_unit_test(blocks_load_mapped_or_owned),
        cmocka_unit_test(taps_see_every_site_and_may_stop),
        cmocka_unit_test(absurd_buffers_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
