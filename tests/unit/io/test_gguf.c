/* io/: GGUF files, whole and broken. */
#include "base/mem.h"
#include "folder.h"
#include "io/gguf/model.h"

/* A file of two keys' kinds each and three tensors, made by the writer. */
static uint8_t *make(size_t *size)
{
    struct pith_gguf_keys k = {0};
    struct pith_layout l = {0};
    struct pith_error err = {0};
    const float constant[] = {1.0f, 2.0f, 3.0f};
    const int32_t types[] = {1, 2, 6};
    pith_gguf_put_text(&k, "general.architecture", "llama");
    pith_gguf_put_uint(&k, "a.count", 7);
    pith_gguf_put_real(&k, "a.eps", 1e-5f);
    pith_gguf_put_bool(&k, "a.flag", true);
    pith_gguf_begin_array(&k, "a.types", PITH_GGUF_I32, 3);
    pith_str_append(&k.bytes, (const char *)types, sizeof types);
    pith_gguf_begin_array(&k, "a.names", PITH_GGUF_STRING, 2);
    pith_gguf_put_string(&k.bytes, "one", 3);
    pith_gguf_put_string(&k.bytes, "", 0);
    assert_ok(pith_layout_add(&l, "x", PITH_F32, 1, (const uint64_t[]){5}, &err), err);
    assert_ok(pith_layout_add(&l, "y", PITH_U8, 2, (const uint64_t[]){4, 34}, &err), err);
    assert_ok(pith_layout_add(&l, "z", PITH_BF16, 2, (const uint64_t[]){2, 3}, &err), err);
    struct pith_gguf_name names[3] = {
        {.name = "blk.0.attn_norm.weight", .dims = 1, .shape = {5}},
        {.name = "blk.0.ffn_up.weight", .dims = 2, .shape = {4, 32}},
        {.name = "output.weight", .dims = 2, .shape = {2, 3}},
    };
    assert_true(pith_ggml_type_find("F32", &names[0].type));
    assert_true(pith_ggml_type_find("Q8_0", &names[1].type));
    assert_true(pith_ggml_type_find("BF16", &names[2].type));
    const struct pith_gguf_constant c = {"rope_freqs.weight", constant, 3};
    assert_ok(pith_gguf_layout_finish(&l, "m.gguf", &k, &c, names, &err), err);
    *size = l.shard_bytes[0];
    uint8_t *file = calloc(1, *size);
    memcpy(file, l.headers[0], l.header_bytes[0]);
    for (size_t i = 0; i < l.count; i++) {
        assert_int_equal(l.tensors[i].offset % 32, 0);
        memset(file + l.tensors[i].offset, 'a' + (int)i, l.tensors[i].bytes);
    }
    pith_layout_free(&l);
    pith_gguf_keys_free(&k);
    return file;
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    size_t size;
    uint8_t *file = make(&size);
    struct pith_gguf g;
    struct pith_error err = {0};
    uint64_t n = 0;
    double eps = 0;
    bool flag = false;
    char *text = NULL;
    assert_ok(pith_gguf_parse(file, size, "m.gguf", &g, &err), err);
    assert_int_equal(g.key_count, 6);
    assert_int_equal(g.tensor_count, 4);
    assert_ok(pith_gguf_get_uint(&g, "a.count", 100, &n, &err), err);
    assert_ok(pith_gguf_get_real(&g, "a.eps", &eps, &err), err);
    assert_ok(pith_gguf_get_bool(&g, "a.flag", &flag, &err), err);
    assert_ok(pith_gguf_get_text(&g, "general.architecture", &text, &err), err);
    assert_int_equal(n, 7);
    assert_true(eps == 1e-5f && flag);
    assert_string_equal(text, "llama");
    pith_free(text);
    assert_int_equal(pith_gguf_get_uint(&g, "a.count", 6, &n, NULL), PITH_FORMAT);
    assert_int_equal(pith_gguf_get_uint(&g, "a.eps", 6, &n, NULL), PITH_FORMAT);
    assert_int_equal(pith_gguf_get_bool(&g, "a.count", &flag, NULL), PITH_FORMAT);
    const struct pith_gguf_key *names = pith_gguf_find(&g, "a.names");
    const char *s;
    size_t at = 0, length;
    assert_true(pith_gguf_next_string(names, &at, &s, &length) && length == 3 && s[2] == 'e');
    assert_true(pith_gguf_next_string(names, &at, &s, &length) && length == 0);
    assert_false(pith_gguf_next_string(names, &at, &s, &length));
    const struct pith_gguf_tensor *t = pith_gguf_tensor_find(&g, "blk.0.ffn_up.weight");
    assert_non_null(t);
    assert_string_equal(t->type.name, "Q8_0");
    assert_true(t->shape[0] == 4 && t->shape[1] == 32 && t->bytes == 136);
    assert_int_equal(t->data[135], 'b');
    t = pith_gguf_tensor_find(&g, "rope_freqs.weight");
    const float *f = (const float *)(const void *)t->data;
    assert_true(f[0] == 1.0f && f[2] == 3.0f);
    pith_gguf_close(&g);
    free(file);
}

static void every_cut_is_refused(void **state)
{
    (void)state;
    size_t size;
    uint8_t *file = make(&size);
    struct pith_gguf g;
    /* The last tensor has 12 bytes, the rest is padding. */
    for (size_t n = 0; n < size - 20; n++) {
        uint8_t *part = malloc(n ? n : 1); /* of this length, for sanitizers */
        memcpy(part, file, n);
        struct pith_error err = {0};
        if (pith_gguf_parse(part, n, "m.gguf", &g, &err) == PITH_OK)
            fail_msg("%zu bytes of %zu are taken for a file", n, size);
        assert_non_null(strstr(err.text, "m.gguf: "));
        free(part);
    }
    free(file);
}

static void every_changed_byte_is_survived(void **state)
{
    (void)state;
    static const uint8_t values[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
    size_t size, refused = 0;
    uint8_t *file = make(&size);
    for (size_t i = 0; i < size; i++)
        for (size_t v = 0; v < PITH_COUNT(values); v++) {
            struct pith_gguf g;
            const uint8_t was = file[i];
            file[i] = values[v];
            if (pith_gguf_parse(file, size, "m.gguf", &g, NULL) == PITH_OK) pith_gguf_close(&g);
            else refused++;
            file[i] = was;
        }
    assert_true(refused > 500);
    free(file);
}

/* A header by hand: what follows the magic number. */
struct hand {
    uint8_t bytes[512];
    size_t n;
};

static void put(struct hand *h, const void *p, size_t n)
{
    memcpy(h->bytes + h->n, p, n);
    h->n += n;
}

static void put32(struct hand *h, uint32_t v)
{
    put(h, &v, sizeof v);
}

static void put64(struct hand *h, uint64_t v)
{
    put(h, &v, sizeof v);
}

static void put_text(struct hand *h, const char *text)
{
    put64(h, strlen(text));
    put(h, text, strlen(text));
}

static void begin(struct hand *h, uint32_t version, uint64_t tensors, uint64_t keys)
{
    *h = (struct hand){0};
    put(h, "GGUF", 4);
    put32(h, version);
    put64(h, tensors);
    put64(h, keys);
}

static void refuse(const struct hand *h, enum pith_status status, const char *says)
{
    struct pith_gguf g;
    struct pith_error err = {0};
    uint8_t *copy = malloc(h->n + 256);
    memset(copy, 0, h->n + 256);
    memcpy(copy, h->bytes, h->n);
    const enum pith_status s = pith_gguf_parse(copy, h->n + 256, "m", &g, &err);
    if (s != status || !strstr(err.text, says))
        fail_msg("status %d, \"%s\" where \"%s\" was expected", (int)s, err.text, says);
    free(copy);
}

static void info(struct hand *h, const char *name, uint32_t dims, const uint64_t *ne, uint32_t type,
                 uint64_t offset)
{
    put_text(h, name);
    put32(h, dims);
    for (uint32_t i = 0; i < dims && i < 5; i++) put64(h, ne[i]);
    put32(h, type);
    put64(h, offset);
}

static void one(struct hand *h, uint32_t dims, const uint64_t *ne, uint32_t type, uint64_t offset)
{
    begin(h, 3, 1, 0);
    info(h, "t", dims, ne, type, offset);
}

static void lies_are_refused(void **state)
{
    (void)state;
    struct hand h;
    begin(&h, 1, 0, 0);
    refuse(&h, PITH_UNSUPPORTED, "version 1");
    begin(&h, 4, 0, 0);
    refuse(&h, PITH_UNSUPPORTED, "version 4");
    begin(&h, 3u << 24, 0, 0);
    refuse(&h, PITH_UNSUPPORTED, "big-endian");
    begin(&h, 3, UINT64_MAX, 0);
    refuse(&h, PITH_FORMAT, "more than the file holds");
    begin(&h, 3, 0, 1ull << 40);
    refuse(&h, PITH_FORMAT, "more than the file holds");
    begin(&h, 3, 0, 1);
    put64(&h, UINT64_MAX);
    refuse(&h, PITH_FORMAT, "ends within the name of a key");
    begin(&h, 3, 0, 1);
    put_text(&h, "a");
    put32(&h, 13);
    refuse(&h, PITH_FORMAT, "unknown type 13");
    begin(&h, 3, 0, 1);
    put_text(&h, "a");
    put32(&h, PITH_GGUF_ARRAY);
    put32(&h, PITH_GGUF_ARRAY);
    put64(&h, 1);
    refuse(&h, PITH_FORMAT, "array of arrays");
    begin(&h, 3, 0, 1);
    put_text(&h, "a");
    put32(&h, PITH_GGUF_ARRAY);
    put32(&h, PITH_GGUF_U64);
    put64(&h, 1ull << 61);
    refuse(&h, PITH_FORMAT, "ends within a value");
    begin(&h, 3, 0, 2);
    for (int i = 0; i < 2; i++) {
        put_text(&h, "same");
        put32(&h, PITH_GGUF_U32);
        put32(&h, 1);
    }
    refuse(&h, PITH_FORMAT, "\"same\" is there twice");
    begin(&h, 3, 0, 1);
    put_text(&h, "general.alignment");
    put32(&h, PITH_GGUF_U32);
    put32(&h, 24);
    refuse(&h, PITH_FORMAT, "not a power of two");
}

static void lying_tensors_are_refused(void **state)
{
    (void)state;
    const uint64_t wide[] = {1ull << 40, 1ull << 40, 1, 1, 1}, none[] = {0}, odd[] = {33, 2},
                   big[] = {1ull << 62}, small[] = {4};
    struct hand h;
    one(&h, 5, wide, 0, 0);
    refuse(&h, PITH_FORMAT, "5 dimensions");
    one(&h, 0, wide, 0, 0);
    refuse(&h, PITH_FORMAT, "0 dimensions");
    one(&h, 2, wide, 0, 0);
    refuse(&h, PITH_FORMAT, "no or too many values");
    one(&h, 1, none, 0, 0);
    refuse(&h, PITH_FORMAT, "no or too many values");
    one(&h, 1, big, 0, 0);
    refuse(&h, PITH_FORMAT, "its size overflows");
    one(&h, 1, (const uint64_t[]){1ull << 30}, 0, 0);
    refuse(&h, PITH_FORMAT, "the file ends before it does");
    one(&h, 2, odd, 8, 0);
    refuse(&h, PITH_FORMAT, "rows of 33 are not whole blocks of Q8_0");
    one(&h, 1, small, 4, 0);
    refuse(&h, PITH_UNSUPPORTED, "unknown type 4");
    one(&h, 1, small, 0, 32);
    refuse(&h, PITH_FORMAT, "is at 32 where 0 was expected");
    begin(&h, 3, 2, 0);
    info(&h, "t", 1, small, 0, 0);
    info(&h, "t", 1, small, 0, 32);
    refuse(&h, PITH_FORMAT, "\"t\" is there twice");
    begin(&h, 3, 1, 0);
    info(&h, "0123456789012345678901234567890123456789012345678901234567890123", 1, small, 0, 0);
    refuse(&h, PITH_FORMAT, "more than 63 bytes");
}

static void names_go_both_ways(void **state)
{
    (void)state;
    static const char llama[] = "LlamaForCausalLM", qwen[] = "Qwen3MoeForCausalLM",
                      shared[] = "Qwen2MoeForCausalLM", latent[] = "DeepseekV3ForCausalLM",
                      delta[] = "Qwen3NextForCausalLM";
    static const struct {
        const char *arch, *hf, *gguf;
        enum pith_gguf_order order;
        const char *rest;
    } pairs[] = {
        {llama, "model.embed_tokens.weight", "token_embd.weight", 0, NULL},
        {llama, "lm_head.weight", "output.weight", 0, NULL},
        {llama, "model.norm.weight", "output_norm.weight", 0, NULL},
        {llama, "model.layers.0.self_attn.q_proj.weight", "blk.0.attn_q.weight", PITH_GGUF_Q_HEADS,
         NULL},
        {qwen, "model.layers.0.self_attn.q_proj.weight", "blk.0.attn_q.weight", 0, NULL},
        {llama, "model.layers.31.self_attn.o_proj.weight", "blk.31.attn_output.weight", 0, NULL},
        {llama, "model.layers.7.post_attention_layernorm.weight", "blk.7.ffn_norm.weight", 0, NULL},
        {delta, "model.layers.7.post_attention_layernorm.weight",
         "blk.7.post_attention_norm.weight", 0, NULL},
        {qwen, "model.layers.7.self_attn.k_norm.weight", "blk.7.attn_k_norm.weight", 0, NULL},
        {llama, "model.layers.7.mlp.down_proj.weight", "blk.7.ffn_down.weight", 0, NULL},
        {qwen, "model.layers.7.mlp.experts.103.down_proj.weight", "blk.7.ffn_down_exps.weight", 0,
         NULL},
        {qwen, "model.layers.7.mlp.gate.weight", "blk.7.ffn_gate_inp.weight", 0, NULL},
        {shared, "model.layers.7.mlp.shared_expert_gate.weight", "blk.7.ffn_gate_inp_shexp.weight",
         0, NULL},
        {latent, "model.layers.7.mlp.shared_experts.up_proj.weight", "blk.7.ffn_up_shexp.weight", 0,
         NULL},
        {latent, "model.layers.7.mlp.gate.e_score_correction_bias", "blk.7.exp_probs_b.bias", 0,
         NULL},
        {latent, "model.layers.7.self_attn.kv_b_proj.weight", "blk.7.attn_k_b.weight",
         PITH_GGUF_BY_LATENT, "attn_v_b"},
        {delta, "model.layers.7.linear_attn.in_proj_qkvz.weight", "blk.7.attn_qkv.weight",
         PITH_GGUF_BY_DELTA, "attn_gate"},
        {delta, "model.layers.7.linear_attn.A_log", "blk.7.ssm_a", 0, NULL},
    };
    static const char *const unknown[] = {"model.layers.x.mlp.up_proj.weight",
                                          "lm_head",
                                          "model.layers.01.mlp.up_proj.weight",
                                          "model.weight",
                                          "model.layers.3.mlp.weight",
                                          "model.layers.3.weight",
                                          "model.layers.3.mlp.experts.up_proj.weight",
                                          "model.layers.3.mlp.experts.01.up_proj.weight",
                                          "model.layers.3.mlp.experts.1.gate.weight",
                                          "model.layers.3.block_sparse_moe.gate.weight"};
    struct pith_gguf_arch arch;
    for (size_t i = 0; i < PITH_COUNT(pairs); i++) {
        char name[PITH_GGUF_NAME], module[192];
        struct pith_gguf_place a, b;
        assert_true(pith_gguf_arch_of(pairs[i].arch, true, NULL, &arch));
        assert_true(pith_gguf_name(&arch, pairs[i].hf, "weight", name, &a));
        assert_string_equal(name, pairs[i].gguf);
        assert_true(pith_gguf_module(&arch, pairs[i].gguf, a.expert, module, sizeof module, &b));
        assert_int_equal(strncmp(module, pairs[i].hf, strlen(module)), 0);
        assert_string_equal(pairs[i].hf + strlen(module), b.whole ? "" : ".weight");
        assert_int_equal(a.order, b.order);
        assert_int_equal(a.expert, b.expert);
        assert_int_equal(a.order, pairs[i].order);
        assert_false(b.is_rest);
        assert_int_equal(!a.rest, !pairs[i].rest);
        if (a.rest) assert_string_equal(a.rest, pairs[i].rest);
        if (!a.rest) continue;
        (void)snprintf(name, sizeof name, "blk.7.%s.weight", a.rest);
        assert_true(pith_gguf_module(&arch, name, a.expert, module, sizeof module, &b));
        assert_true(b.is_rest);
    }
    assert_true(pith_gguf_arch_of(qwen, true, NULL, &arch));
    for (size_t i = 0; i < PITH_COUNT(unknown); i++) {
        char name[PITH_GGUF_NAME];
        struct pith_gguf_place place;
        assert_false(pith_gguf_name(&arch, unknown[i], "weight", name, &place));
    }
}

/* Experts' matrices lie one behind the other, as one tensor; all of them, once, and alike. */
static void parts_are_one_tensor(void **state)
{
    (void)state;
    static const struct {
        unsigned part[3];
        uint64_t rows; /* of the last */
        enum pith_status status;
    } cases[] = {{{2, 0, 1}, 4, PITH_OK},
                 {{0, 1, 1}, 4, PITH_ARG},
                 {{0, 1, 3}, 4, PITH_ARG},
                 {{0, 1, 2}, 8, PITH_UNSUPPORTED}};
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        struct pith_layout l = {0};
        struct pith_gguf_keys k = {0};
        struct pith_gguf_name names[3] = {0};
        struct pith_error err = {0};
        for (unsigned e = 0; e < 3; e++) {
            const uint64_t shape[] = {e == 2 ? cases[i].rows : 4, 5};
            char name[32];
            snprintf(name, sizeof name, "expert %u", e);
            assert_ok(pith_layout_add(&l, name, PITH_F32, 2, shape, &err), err);
            names[e] = (struct pith_gguf_name){.name = "blk.0.ffn_up_exps.weight",
                                               .dims = 2,
                                               .shape = {shape[0], 5},
                                               .part = cases[i].part[e],
                                               .parts = 3};
            assert_true(pith_ggml_type_find("F32", &names[e].type));
        }
        assert_int_equal(pith_gguf_layout_finish(&l, "m.gguf", &k, NULL, names, &err),
                         cases[i].status);
        for (unsigned e = 0; e < 3 && cases[i].status == PITH_OK; e++)
            assert_int_equal(l.tensors[e].offset, l.header_bytes[0] + cases[i].part[e] * 80);
        struct pith_gguf g = {0};
        uint8_t *file = cases[i].status == PITH_OK ? calloc(1, l.shard_bytes[0]) : NULL;
        if (file) {
            memcpy(file, l.headers[0], l.header_bytes[0]);
            assert_ok(pith_gguf_parse(file, l.shard_bytes[0], "m.gguf", &g, &err), err);
            assert_int_equal(g.tensor_count, 1);
            assert_int_equal(g.tensors[0].dims, 3);
            assert_true(g.tensors[0].shape[0] == 3 && g.tensors[0].shape[1] == 4);
            pith_gguf_close(&g);
        }
        free(file);
        pith_layout_free(&l);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),        cmocka_unit_test(every_cut_is_refused),
        cmocka_unit_test(every_changed_byte_is_survived), cmocka_unit_test(lies_are_refused),
        cmocka_unit_test(lying_tensors_are_refused),      cmocka_unit_test(names_go_both_ways),
        cmocka_unit_test(parts_are_one_tensor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
