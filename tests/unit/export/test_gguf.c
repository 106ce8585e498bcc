/* export/: a model written as a GGUF file is the same model: the same logits to the bit. */
#include "export/gguf.h"

#include "io/container/container.h"
#include "io/gguf/model.h"
#include "tok/files/gguf.h"
#include "tok/tokenizer.h"
#include "unit/model/arch_case.h"

/* A byte-level tokenizer of `count` tokens: single letters, and pairs that merges make. */
static void add_tokenizer(const char *dir, int count)
{
    struct pith_error err = {0};
    char path[600];
    json_t *vocab = json_object(), *merges = json_array();
    for (int i = 0; i < count - 2; i++) {
        char text[3] = {(char)('a' + i % 9), 0, 0}, merge[4];
        if (i >= 9) text[1] = (char)('a' + i / 9 - 1);
        json_object_set_new(vocab, text, json_integer(i));
        snprintf(merge, sizeof merge, "%c %c", text[0], text[1]);
        if (i >= 9) json_array_append_new(merges, json_string(merge));
    }
    json_t *j = json_pack(
        "{s:{s:s, s:o, s:o, s:b}, s:{s:s, s:b, s:b}, s:{s:s}, s:[{s:s, s:i, s:b, s:b},"
        " {s:s, s:i, s:b, s:b}]}",
        "model", "type", "BPE", "vocab", vocab, "merges", merges, "ignore_merges", 0,
        "pre_tokenizer", "type", "ByteLevel", "add_prefix_space", 0, "use_regex", 1, "decoder",
        "type", "ByteLevel", "added_tokens", "content", "<s>", "id", count - 2, "special", 1,
        "normalized", 0, "content", "<note>", "id", count - 1, "special", 0, "normalized", 0);
    assert_non_null(j);
    snprintf(path, sizeof path, "%s/tokenizer.json", dir);
    assert_ok(pith_json_save(path, j, &err), err);
    json_decref(j);
}

/* Writes the model of a folder, dense, as out/model.gguf. */
static enum pith_status write_gguf(const struct pith_model *m, const char *dir, const char *out,
                                   struct pith_error *err)
{
    const struct pith_checkpoint *c = m->checkpoint;
    struct pith_layout l = {0};
    char path[600];
    for (size_t i = 0; i < c->count; i++) {
        const struct pith_tensor *t = &c->tensors[i];
        PITH_TRY(
            pith_layout_add(&l, t->name, pith_gguf_stored_dtype(m, t), t->dims, t->shape, err));
    }
    const enum pith_status s = pith_gguf_finish(m, dir, "model.gguf", 0, &l, err);
    if (s != PITH_OK) {
        pith_layout_free(&l);
        return s;
    }
    uint8_t *file = calloc(1, l.shard_bytes[0]);
    memcpy(file, l.headers[0], l.header_bytes[0]);
    for (size_t i = 0; i < l.count; i++) {
        const struct pith_tensor_plan *p = &l.tensors[i];
        const struct pith_tensor *t = pith_checkpoint_find(c, p->name);
        const size_t n = pith_tensor_elements(t), rows = t->shape[0], size = p->bytes / rows;
        uint8_t *data = malloc(p->bytes);
        if (p->dtype == t->dtype) memcpy(data, t->data, p->bytes);
        else assert_true(pith_dtype_decode(t->dtype, t->data, n, (float *)(void *)data));
        const struct pith_stow_shape shape = {rows, 1, size};
        pith_stow_apply(&p->order, &shape, data, file + p->offset);
        free(data);
    }
    snprintf(path, sizeof path, "%s/model.gguf", out);
    assert_ok(pith_file_write(path, file, l.shard_bytes[0], err), *err);
    free(file);
    pith_layout_free(&l);
    return PITH_OK;
}

/* A model's folder, which is removed. */
static void check_folder(char *dir, const char *name)
{
    struct rig hf, gguf;
    struct pith_error err = {0};
    int32_t ids[PROMPT_MAX];
    char *out = test_temp_dir();
    add_tokenizer(dir, 80);
    rig_open_own(&hf, dir, 1);
    assert_ok(write_gguf(hf.model, dir, out, &err), err);
    rig_open_own(&gguf, out, 1);
    assert_non_null(gguf.model->checkpoint->gguf);
    const size_t n = golden_prompt(0, ids);
    float *want = rig_logits(&hf, ids, n, 7), *is = rig_logits(&gguf, ids, n, 7);
    for (size_t i = 0; i < n * PROMPT_VOCAB; i++)
        if (memcmp(&want[i], &is[i], sizeof *is) != 0)
            fail_msg("%s: logit %zu is %.9g, not %.9g", name, i, (double)is[i], (double)want[i]);
    free(want);
    free(is);
    rig_close(&hf);
    rig_close(&gguf);
}

/* llama.cpp has these of YaRN alone. */
static void set_betas(json_t *config)
{
    static const char *const keys[] = {"rope_parameters", "rope_scaling"};
    for (int i = 0; i < 2; i++) {
        json_t *rope = json_object_get(config, keys[i]);
        if (!json_object_get(rope, "beta_fast")) continue;
        json_object_set_new(rope, "beta_fast", json_real(32));
        json_object_set_new(rope, "beta_slow", json_real(1));
    }
}

static void check_model(const char *name)
{
    struct golden g;
    golden_load(&g, name);
    set_betas(g.config);
    check_folder(folder_make(g.config, g.weights), name);
    golden_free(&g);
}

/* Experts are one tensor in the file and one each here; what tells is that the logits' bits are the
 * same. */
static void mixtures_stay_the_same(void **state)
{
    (void)state;
    static const char *const names[] = {"qwen3_moe", "mixtral", "qwen2_moe", "olmoe"};
    for (size_t i = 0; i < PITH_COUNT(names); i++) check_folder(arch_folder(names[i]), names[i]);
}

/* llama.cpp divides by the sum of the weights of a Qwen3-MoE's experts whatever the config says. */
static void what_would_be_another_model_is_refused(void **state)
{
    (void)state;
    struct rig hf;
    struct pith_error err = {0};
    json_t *file = arch_load("qwen3_moe");
    json_object_set_new(json_object_get(file, "config"), "norm_topk_prob", json_false());
    char *dir = arch_folder_make(file), *out = test_temp_dir();
    json_decref(file);
    add_tokenizer(dir, 80);
    rig_open_own(&hf, dir, 1);
    assert_int_equal(write_gguf(hf.model, dir, out, &err), PITH_UNSUPPORTED);
    assert_non_null(strstr(err.text, "norm_topk_prob"));
    rig_close(&hf);
    folder_remove(out);
}

static void models_stay_the_same(void **state)
{
    (void)state;
    static const char *const names[] = {
        "llama_gqa_tied",  "llama_mha",     "llama_bias",      "llama_bf16",
        "mistral_full",    "qwen2",         "qwen2_tied_f16",  "qwen3",
        "rope_llama3_new", "rope_yarn_new", "rope_linear_new",
    };
    for (size_t i = 0; i < PITH_COUNT(names); i++) check_model(names[i]);
}

/* A golden model, and a folder for what is made of it, which is the caller's. */
static char *open_golden(struct rig *hf, const char *name)
{
    rig_open_golden(hf, name, 1);
    return test_temp_dir();
}

/* Beyond the window llama.cpp computes another model: no longer context is promised. */
static void a_window_ends_the_context(void **state)
{
    (void)state;
    struct rig hf;
    struct pith_model *m;
    struct pith_error err = {0};
    char *out = open_golden(&hf, "mistral_window");
    add_tokenizer(hf.dir, 80);
    assert_ok(write_gguf(hf.model, hf.dir, out, &err), err);
    assert_ok(pith_model_open(out, &m, &err), err);
    assert_int_equal(m->shape.windows.size, 0);
    assert_int_equal(m->shape.max_position, hf.model->shape.windows.size);
    pith_model_close(m);
    rig_close(&hf);
    folder_remove(out);
}

static void tokenizers_stay_the_same(void **state)
{
    (void)state;
    static const char text[] = "abba <s> bead <note>\n  hagg <S>aa deaf cafe ahead";
    struct rig hf;
    struct pith_tokenizer *a, *b;
    struct pith_ids x = {0}, y = {0};
    struct pith_error err = {0};
    char *out = open_golden(&hf, "llama_mha");
    add_tokenizer(hf.dir, 80);
    assert_ok(write_gguf(hf.model, hf.dir, out, &err), err);
    assert_ok(pith_tokenizer_open(hf.dir, &a, &err), err);
    assert_ok(pith_tokenizer_open(out, &b, &err), err);
    assert_int_equal(pith_tokenizer_vocab(a), pith_tokenizer_vocab(b));
    assert_int_equal(pith_tokenizer_eos(a), pith_tokenizer_eos(b));
    assert_ok(pith_tokenizer_encode(a, text, strlen(text), true, &x, &err), err);
    assert_ok(pith_tokenizer_encode(b, text, strlen(text), true, &y, &err), err);
    assert_int_equal(x.count, y.count);
    assert_true(x.count > 10);
    assert_memory_equal(x.id, y.id, x.count * sizeof *x.id);
    pith_ids_free(&x);
    pith_ids_free(&y);
    pith_tokenizer_close(a);
    pith_tokenizer_close(b);
    rig_close(&hf);
    folder_remove(out);
}

/* A tokenizer in a folder of its own, by way of the keys. */
static void through_keys(const char *dir)
{
    static const char odd[] =
        "caf\xc3\xa9  \xf0\x9f\x98\x80 \xe4\xbd\xa0\xe5\xa5\xbd 1234 x=y;\n\n\tEnd ";
    struct pith_error err = {0};
    struct pith_gguf_keys keys = {0};
    struct pith_layout l = {0};
    struct pith_gguf g;
    struct pith_tokenizer *a, *b;
    struct pith_ids x = {0}, y = {0};
    char *text;
    size_t size;
    assert_ok(pith_tokenizer_open(dir, &a, &err), err);
    const uint32_t vocab = (uint32_t)pith_tokenizer_vocab(a) + 5; /* and rows that no token has */
    assert_ok(pith_gguf_put_tokenizer(dir, NULL, vocab, &keys, &err), err);
    assert_ok(pith_gguf_layout_finish(&l, "m.gguf", &keys, NULL, NULL, &err), err);
    assert_ok(pith_gguf_parse((const uint8_t *)l.headers[0], l.header_bytes[0], "m", &g, &err),
              err);
    assert_ok(pith_tokenizer_from_gguf(&g, &b, &err), err);
    assert_int_equal(pith_tokenizer_bos(a), pith_tokenizer_bos(b));
    assert_int_equal(pith_tokenizer_adds_bos(a), pith_tokenizer_adds_bos(b));
    assert_ok(pith_file_read("models/probe/eval.txt", 1 << 20, &text, &size, &err), err);
    assert_ok(pith_tokenizer_encode(a, text, size, true, &x, &err), err);
    assert_ok(pith_tokenizer_encode(b, text, size, true, &y, &err), err);
    assert_ok(pith_tokenizer_encode(a, odd, sizeof odd - 1, true, &x, &err), err);
    assert_ok(pith_tokenizer_encode(b, odd, sizeof odd - 1, true, &y, &err), err);
    assert_int_equal(x.count, y.count);
    assert_memory_equal(x.id, y.id, x.count * sizeof *x.id);
    pith_ids_free(&x);
    pith_ids_free(&y);
    pith_free(text);
    pith_tokenizer_close(a);
    pith_tokenizer_close(b);
    pith_gguf_close(&g);
    pith_layout_free(&l);
    pith_gguf_keys_free(&keys);
}

static void real_through_keys(const char *file, const char *as)
{
    struct pith_error err = {0};
    char from[600], to[600], *dir = test_temp_dir();
    snprintf(from, sizeof from, "%s/tokenizers/%s", test_data_dir(), file);
    snprintf(to, sizeof to, "%s/%s", dir, as);
    assert_ok(pith_file_copy(from, to, &err), err);
    through_keys(dir);
    folder_remove(dir);
}

/* The file inside a .tok file of tests/golden/tok: behind a mark, its kind and its size. */
static char *tokenizer_folder(const char *name, const char *as)
{
    struct pith_error err = {0};
    char path[600], *data, *dir = test_temp_dir();
    size_t size;
    snprintf(path, sizeof path, "tests/golden/tok/%s.tok", name);
    assert_ok(pith_file_read(path, 1 << 20, &data, &size, &err), err);
    const uint8_t *n = (const uint8_t *)data + 9;
    snprintf(path, sizeof path, "%s/%s", dir, as);
    assert_ok(pith_file_write(path, data + 13, (size_t)(n[0] | n[1] << 8 | n[2] << 16), &err), err);
    pith_free(data);
    return dir;
}

static void ways_to_cut_stay_the_same(void **state)
{
    (void)state;
    static const char *const names[] = {"gpt2",  "qwen35",    "o200k",
                                        "gemma", "deepseek3", "deepseek"};
    for (size_t i = 0; i < PITH_COUNT(names); i++) {
        char *dir = tokenizer_folder(names[i], "tokenizer.json");
        through_keys(dir);
        folder_remove(dir);
    }
}

static void unigrams_have_no_place(void **state)
{
    (void)state;
    static const char *const cases[][3] = {
        {"uni_t5", "tokenizer.json", "type \"Unigram\""},
        {"spm_uni", "tokenizer.model", "a unigram tokenizer"},
        {"mistral", "tokenizer.json", NULL},
        {"uni_bytes", "tokenizer.json", "type \"Unigram\""},
        {"metaspace", "tokenizer.json", "no name for the way"},
    };
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        struct pith_error err = {0};
        struct pith_gguf_keys keys = {0};
        char *dir = tokenizer_folder(cases[i][0], cases[i][1]);
        const enum pith_status s = pith_gguf_put_tokenizer(dir, NULL, 1000, &keys, &err);
        assert_int_equal(s, cases[i][2] ? PITH_UNSUPPORTED : PITH_OK);
        if (cases[i][2]) assert_non_null(strstr(err.text, cases[i][2]));
        pith_gguf_keys_free(&keys);
        folder_remove(dir);
    }
}

static void real_tokenizers_stay_the_same(void **state)
{
    (void)state;
    char path[600];
    snprintf(path, sizeof path, "%s/tokenizers", test_data_dir());
    if (!pith_path_is_dir(path)) skip();
    real_through_keys("llama2/tokenizer.model", "tokenizer.model");
    real_through_keys("llama2/tokenizer.json", "tokenizer.json");
    real_through_keys("mistral/tokenizer.model.v1", "tokenizer.model");
}

static void what_has_no_name_is_refused(void **state)
{
    (void)state;
    struct rig hf;
    static const char other[] = "{\"model\":{\"type\":\"BPE\",\"vocab\":{},\"merges\":[]},"
                                "\"pre_tokenizer\":{\"type\":\"Whitespace\"}}";
    struct pith_error err = {0};
    char *out = open_golden(&hf, "llama_mha"), path[600];
    assert_int_equal(write_gguf(hf.model, hf.dir, out, &err), PITH_UNSUPPORTED);
    assert_non_null(strstr(err.text, "needs the model's tokenizer.json"));
    err = (struct pith_error){0};
    add_tokenizer(hf.dir, 81);
    assert_int_equal(write_gguf(hf.model, hf.dir, out, &err), PITH_UNSUPPORTED);
    assert_non_null(strstr(err.text, "has no row among the 80"));
    err = (struct pith_error){0};
    snprintf(path, sizeof path, "%s/tokenizer.json", hf.dir);
    assert_ok(pith_file_write(path, other, strlen(other), &err), err);
    assert_int_equal(write_gguf(hf.model, hf.dir, out, &err), PITH_UNSUPPORTED);
    assert_non_null(strstr(err.text, "no name for the way"));
    rig_close(&hf);
    folder_remove(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(models_stay_the_same),
        cmocka_unit_test(mixtures_stay_the_same),
        cmocka_unit_test(what_would_be_another_model_is_refused),
        cmocka_unit_test(a_window_ends_the_context),
        cmocka_unit_test(tokenizers_stay_the_same),
        cmocka_unit_test(real_tokenizers_stay_the_same),
        cmocka_unit_test(ways_to_cut_stay_the_same),
        cmocka_unit_test(unigrams_have_no_place),
        cmocka_unit_test(what_has_no_name_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
