/* io/: checkpoint folders, whole and broken. */
#include "folder.h"
#include "io/checkpoint.h"
#include "io/hf_files.h"
#include "io/hf_index.h"

#include <sys/stat.h>
#include <unistd.h>

#define INDEX "model.safetensors.index.json"

/* Opens and closes; the message is in err. */
static enum pith_status try_open(const char *dir, struct pith_error *err)
{
    struct pith_checkpoint *c = NULL;
    *err = (struct pith_error){0};
    const enum pith_status s = pith_checkpoint_open(dir, &c, err);
    if (s == PITH_OK) pith_checkpoint_close(c);
    else assert_null(c);
    return s;
}

static void expect(const char *dir, enum pith_status want, const char *text)
{
    struct pith_error err;
    const enum pith_status s = try_open(dir, &err);
    if (s != want || !strstr(err.text, text))
        fail_msg("status %d, \"%s\"; expected %d, \"%s\"", (int)s, err.text, (int)want, text);
}

static char *single(void)
{
    char *dir = test_temp_dir();
    folder_text(dir, "config.json", "{\"model_type\":\"llama\"}");
    folder_tensors(dir, "model.safetensors", "b a c");
    return dir;
}

static char *sharded(void)
{
    char *dir = test_temp_dir();
    folder_text(dir, "config.json", "{\"quantization_config\":{\"quant_method\":\"gptq\"}}");
    folder_tensors(dir, "s1.safetensors", "a c");
    folder_tensors(dir, "s2.safetensors", "b d");
    folder_text(dir, INDEX,
                "\n{\"metadata\":{\"total_size\":96},\"weight_map\":{\"a\":\"s1.safetensors\","
                "\"b\":\"s2.safetensors\",\"c\":\"s1.safetensors\",\"d\":\"s2.safetensors\"}}");
    return dir;
}

static void a_single_file_is_opened(void **state)
{
    (void)state;
    char *dir = single();
    struct pith_checkpoint *c;
    const struct pith_tensor *t;
    struct pith_error err = {0};
    assert_ok(pith_checkpoint_open(dir, &c, &err), err);
    assert_int_equal(c->count, 3);
    assert_int_equal(c->file_count, 1);
    assert_int_equal(c->bytes, 72);
    assert_null(c->quantization);
    assert_string_equal(json_string_value(json_object_get(c->config, "model_type")), "llama");
    assert_null(pith_checkpoint_find(c, "aa"));
    static const uint64_t shape[] = {2, 3}, other[] = {3, 2};
    assert_ok(pith_checkpoint_get(c, "b", 2, shape, &t, &err), err);
    assert_int_equal(t->data[0], 1);
    assert_int_equal(pith_tensor_elements(t), 6);
    assert_int_equal(pith_checkpoint_get(c, "b", 2, other, &t, &err), PITH_FORMAT);
    assert_non_null(strstr(err.text, "model.safetensors: tensor \"b\" has shape [2, 3], but the "
                                     "config requires [3, 2]"));
    err = (struct pith_error){0};
    assert_int_equal(pith_checkpoint_get(c, "b", 0, NULL, &t, &err), PITH_FORMAT);
    err = (struct pith_error){0};
    assert_int_equal(pith_checkpoint_get(c, "x", 2, shape, &t, &err), PITH_FORMAT);
    assert_non_null(strstr(err.text, "\"x\" is missing"));
    pith_checkpoint_close(c);
    pith_checkpoint_close(NULL);
    folder_remove(dir);
}

static void shards_are_opened(void **state)
{
    (void)state;
    char *dir = sharded();
    struct pith_checkpoint *c;
    struct pith_error err = {0};
    assert_ok(pith_checkpoint_open(dir, &c, &err), err);
    assert_int_equal(c->count, 4);
    assert_int_equal(c->file_count, 2);
    assert_int_equal(pith_checkpoint_find(c, "a")->file, 0);
    assert_int_equal(pith_checkpoint_find(c, "d")->file, 1);
    assert_int_equal(pith_checkpoint_find(c, "d")->data[0], 1);
    assert_string_equal(json_string_value(json_object_get(c->quantization, "quant_method")),
                        "gptq");
    pith_checkpoint_close(c);
    folder_remove(dir);
}

static void broken_folders_are_refused(void **state)
{
    (void)state;
    char *dir = single(), *path = pith_path_join(dir, "config.json");
    expect("/nonexistent/folder", PITH_IO, "/nonexistent/folder: no such file or folder");
    expect(path, PITH_IO, "not a folder");
    const char *pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n";
    folder_text(dir, "model.gguf", pointer);
    char *gguf = pith_path_join(dir, "model.gguf");
    expect(gguf, PITH_FORMAT, "model.gguf: a Git LFS pointer");
    unlink(gguf);
    pith_free(gguf);
    folder_text(dir, "config.json", "[]");
    expect(dir, PITH_FORMAT, "config.json: not a JSON object");
    folder_text(dir, "config.json", "{\"a\":1,}");
    expect(dir, PITH_FORMAT, "config.json: not valid JSON");
    folder_text(dir, "config.json", "");
    expect(dir, PITH_FORMAT, "config.json: not valid JSON");
    folder_text(dir, "config.json", "{\"quantization_config\":[]}");
    expect(dir, PITH_FORMAT, "\"quantization_config\" is not an object");
    folder_text(dir, "config.json", "{\"quantization_config\":null}");
    expect(dir, PITH_OK, "");
    unlink(path);
    expect(dir, PITH_IO, "config.json: cannot open");
    assert_int_equal(mkfifo(path, 0600), 0);
    expect(dir, PITH_IO, "config.json: not a regular file");
    unlink(path);
    assert_int_equal(mkdir(path, 0700), 0);
    expect(dir, PITH_IO, "config.json: not a regular file");
    rmdir(path);
    assert_int_equal(symlink("config.json", path), 0);
    expect(dir, PITH_IO, "config.json: cannot open");
    unlink(path);
    folder_text(dir, "config.json", "{}");
    assert_int_equal(truncate(path, (8 << 20) + 1), 0);
    expect(dir, PITH_FORMAT, "more than the 8388608 allowed");
    folder_text(dir, "config.json", "{}");
    folder_tensors(dir, "model.safetensors", "");
    expect(dir, PITH_FORMAT, "holds no tensors");
    folder_text(dir, "model.safetensors", pointer);
    expect(dir, PITH_FORMAT, "model.safetensors: a Git LFS pointer");
    pith_free(path);
    folder_remove(dir);
}

static void weights_under_other_names(void **state)
{
    (void)state;
    char *dir = test_temp_dir();
    folder_text(dir, "config.json", "{}");
    expect(dir, PITH_FORMAT, "no safetensors files");
    folder_text(dir, "pytorch_model.bin", "x");
    expect(dir, PITH_FORMAT, "\"pytorch_model.bin\" is of another kind");
    folder_tensors(dir, "gptq_model-4bit-128g.safetensors", "a");
    expect(dir, PITH_OK, "");
    folder_tensors(dir, "other.safetensors", "b");
    expect(dir, PITH_FORMAT, "2 safetensors files, but no " INDEX);
    folder_tensors(dir, "model.safetensors", "b");
    expect(dir, PITH_OK, "");
    folder_text(dir, INDEX, "{\"weight_map\":{\"a\":\"other.safetensors\"}}");
    expect(dir, PITH_OK, ""); /* the single file comes first */
    folder_text(dir, INDEX, "{\"weight_map\":{\"b\":\"model.safetensors\"}}");
    expect(dir, PITH_OK, "");
    folder_remove(dir);
}

/* Where a config says how a model is quantized, and what the method is called there and here. */
static void quantization_has_many_names(void **state)
{
    (void)state;
    static const struct {
        const char *config, *file, *text, *method;
        const char *form; /* "checkpoint_format", NULL: none */
    } cases[] = {
        {"{\"quantization_config\":{\"quant_method\":\"gptq\"}}", NULL, NULL, "gptq", NULL},
        {"{\"compression_config\":{\"config_groups\":{}}}", NULL, NULL, "compressed-tensors", NULL},
        {"{\"text_config\":{\"quantization_config\":{\"quant_method\":\"awq\"}}}", NULL, NULL,
         "awq", NULL},
        {"{}", "quantize_config.json", "{\"bits\":4}", "gptq", NULL},
        {"{}", "quant_config.json", "{\"w_bit\":4}", "awq", NULL},
        {"{}", "hf_quant_config.json", "{\"quantization\":{}}", "modelopt", NULL},
        {"{\"quantization_config\":{\"producer\":{},\"quant_algo\":\"FP8\"}}", NULL, NULL,
         "modelopt", NULL},
        {"{\"quantization_config\":{\"quant_method\":\"auto-round\",\"packing_format\":"
         "\"auto_round:auto_gptq\"}}",
         NULL, NULL, "gptq", NULL},
        {"{\"quantization_config\":{\"quant_method\":\"auto-round\",\"packing_format\":"
         "\"auto_round:auto_awq\"}}",
         NULL, NULL, "awq", NULL},
        {"{\"quantization_config\":{\"quant_method\":\"auto-round\",\"packing_format\":"
         "\"auto_round:gptqmodel\"}}",
         NULL, NULL, "gptq", "gptq_v2"},
        {"{\"quantization_config\":{\"quant_method\":\"auto-round\",\"packing_format\":"
         "\"auto_round\"}}",
         NULL, NULL, "gptq", "gptq_v2"},
        {"{\"quantization_config\":{\"quant_method\":\"auto-round\",\"packing_format\":"
         "\"auto_round:other\"}}",
         NULL, NULL, "auto-round", NULL},
        {"{\"quantization_config\":{\"quant_method\":\"auto-round\"}}", NULL, NULL, "gptq", NULL},
        {"{\"quantization_config\":{\"quant_method\":\"auto-round\",\"backend\":\"auto\"}}", NULL,
         NULL, "gptq", NULL},
        {"{\"quantization_config\":{\"quant_method\":\"intel/auto-round\"}}", NULL, NULL, "gptq",
         NULL},
        {"{\"quantization_config\":{\"quant_method\":\"autoround\"}}", NULL, NULL, "gptq", NULL},
        {"{\"quantization_config\":{\"quant_method\":\"gptq\",\"w_bit\":4}}", NULL, NULL, "gptq",
         NULL},
        {"{\"quantization_config\":{\"quant_method\":\"fbgemm_fp8\"}}", NULL, NULL, "fp8", NULL},
        {"{\"quantization_config\":{\"quant_method\":\"other\"}}", NULL, NULL, "other", NULL},
        {"{\"quantization_config\":null}", NULL, NULL, NULL, NULL},
    };
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        char *dir = test_temp_dir();
        struct pith_error err = {0};
        struct pith_checkpoint *c = NULL;
        folder_text(dir, "config.json", cases[i].config);
        folder_tensors(dir, "model.safetensors", "a");
        if (cases[i].file) folder_text(dir, cases[i].file, cases[i].text);
        assert_ok(pith_checkpoint_open(dir, &c, &err), err);
        const char *method = json_string_value(json_object_get(c->quantization, "quant_method"));
        if (cases[i].method) assert_string_equal(method, cases[i].method);
        else assert_null(method);
        const json_t *form = json_object_get(c->quantization, "checkpoint_format");
        if (cases[i].form) assert_string_equal(json_string_value(form), cases[i].form);
        else assert_null(form);
        pith_checkpoint_close(c);
        folder_remove(dir);
    }
}

static void index_and_files_must_agree(void **state)
{
    (void)state;
    char *dir = sharded();
    expect(dir, PITH_OK, "");
    folder_text(dir, INDEX, "{\"weight_map\":{\"a\":\"s1.safetensors\",\"b\":\"s3.safetensors\"}}");
    expect(dir, PITH_IO, "s3.safetensors: cannot open");
    folder_text(dir, INDEX, "{\"weight_map\":{\"x\":\"s1.safetensors\"}}");
    expect(dir, PITH_OK, ""); /* missed when it is needed */
    folder_text(dir, INDEX, "{\"weight_map\":{\"a\":\"s2.safetensors\",\"c\":\"s1.safetensors\"}}");
    expect(dir, PITH_OK, "");
    folder_text(dir, INDEX, "{\"weight_map\":{\"a\":\"s1.safetensors\"}}");
    expect(dir, PITH_OK, "");
    folder_tensors(dir, "s2.safetensors", "b c");
    folder_text(dir, INDEX, "{\"weight_map\":{\"a\":\"s1.safetensors\",\"b\":\"s2.safetensors\"}}");
    expect(dir, PITH_OK, "");
    folder_text(dir, "s2.safetensors", "short");
    expect(dir, PITH_FORMAT, "s2.safetensors: 5 bytes");
    char *path = pith_path_join(dir, "s2.safetensors");
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    expect(dir, PITH_IO, "s2.safetensors: not a regular file");
    pith_free(path);
    folder_text(dir, INDEX, "{\"weight_map\":{}}");
    expect(dir, PITH_FORMAT, INDEX ": \"weight_map\" is missing or names no tensor");
    folder_remove(dir);
}

static const struct {
    const char *text, *error;
} indexes[] = {
    {"", "'{' of an object"},
    {"[]", "'{' of an object"},
    {"{}", "\"weight_map\" is missing"},
    {"{\"metadata\":{}}", "\"weight_map\" is missing"},
    {"{\"weight_map\":[]}", "\"weight_map\" is not an object"},
    {"{\"weight_map\":null}", "\"weight_map\" is not an object"},
    {"{\"weight_map\":\"model.safetensors\"}", "\"weight_map\" is not an object"},
    {"{\"weight_map\":{}}", "names no tensor"},
    {"{\"weight_map\":{\"a\":1}}", "its file is not a string"},
    {"{\"weight_map\":{\"a\":null}}", "its file is not a string"},
    {"{\"weight_map\":{\"a\":{}}}", "its file is not a string"},
    {"{\"weight_map\":{\"a\":[\"a.safetensors\"]}}", "its file is not a string"},
    {"{\"weight_map\":{\"a\":\"x.safetensors\\u0000\"}}", "its file is not a string"},
    {"{\"weight_map\":{\"a\":\"\"}}", "is not the name of a safetensors file"},
    {"{\"weight_map\":{\"a\":\"../x.safetensors\"}}", "is not the name of a safetensors file"},
    {"{\"weight_map\":{\"a\":\"/etc/x.safetensors\"}}", "is not the name of a safetensors file"},
    {"{\"weight_map\":{\"a\":\"d/x.safetensors\"}}", "is not the name of a safetensors file"},
    {"{\"weight_map\":{\"a\":\"..\"}}", "is not the name of a safetensors file"},
    {"{\"weight_map\":{\"a\":\".safetensors\"}}", "is not the name of a safetensors file"},
    {"{\"weight_map\":{\"a\":\".x.safetensors\"}}", "is not the name of a safetensors file"},
    {"{\"weight_map\":{\"a\":\"config.json\"}}", "is not the name of a safetensors file"},
    {"{\"weight_map\":{\"a\":\"x.bin\"}}", "is not the name of a safetensors file"},
    {"{\"weight_map\":{\"a\":\"x\\n.safetensors\"}}", "is not the name of a safetensors file"},
    {"{\"weight_map\":{\"a\\u001b\":\"x.safetensors\"}}", "control characters"},
    {"{\"weight_map\":{\"a\\u0000\":\"x.safetensors\"}}", "a NUL character in its name"},
    {"{\"weight_map\":{\"__metadata__\":\"x.safetensors\"}}", "reserved"},
    {"{\"weight_map\":{\"a\":\"x.safetensors\"},\"weight_map\":{}}", "names no tensor"},
    {"{\"weight_map\":{\"a\":\"x.safetensors\",}}", "quoted name"},
    {"{\"weight_map\":{\"a\":\"x.safetensors\"}", "JSON ends where"},
    {"{\"weight_map\":{\"a\":\"x.safetensors\"}}}", "though the object has ended"},
    {"{\"weight_map\":{\"a\":\"x.safetensors\"}} x", "though the object has ended"},
    {"{\"weight_map\":{\"a\":\"\xff.safetensors\"}}", "not valid JSON"},
    {"{\"metadata\":{\"a\":},\"weight_map\":{\"a\":\"x.safetensors\"}}", "not valid JSON"},
};

static void hostile_indexes_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < PITH_COUNT(indexes); i++) {
        struct pith_index x;
        struct pith_error err = {0};
        const size_t size = strlen(indexes[i].text);
        if (pith_index_parse(indexes[i].text, size, &x, &err) != PITH_FORMAT)
            fail_msg("accepted: %s", indexes[i].text);
        if (!strstr(err.text, indexes[i].error))
            fail_msg("%s: says \"%s\", not \"%s\"", indexes[i].text, err.text, indexes[i].error);
    }
    static const char good[] =
        "{\"weight_map\":{\"b\":\"x.safetensors\",\"\":\"y.safetensors\"}}\n";
    for (size_t n = 0; n < sizeof good - 2; n++) {
        struct pith_index x;
        assert_int_equal(pith_index_parse(good, n, &x, NULL), PITH_FORMAT);
    }
    struct pith_index x;
    struct pith_error err = {0};
    assert_ok(pith_index_parse(good, sizeof good - 1, &x, &err), err);
    assert_int_equal(x.count, 2);
    assert_int_equal(x.file_count, 2);
    assert_string_equal(x.entries[0].tensor, "");
    assert_string_equal(x.files[x.entries[0].file], "y.safetensors");
    assert_string_equal(x.files[0], "x.safetensors");
    pith_index_free(&x);
}

static void side_files_are_listed(void **state)
{
    (void)state;
    static const char *const files[] = {"config.json",
                                        "generation_config.json",
                                        "tokenizer.json",
                                        "tokenizer.model",
                                        "vocab.json",
                                        "tokenizer_config.json",
                                        "merges.txt",
                                        "chat_template.jinja",
                                        "special_tokens_map.json",
                                        "README.md",
                                        "eval.txt",
                                        "LICENSE",
                                        "USE_POLICY.md",
                                        "qwen.tiktoken",
                                        "modeling_x.py",
                                        ".gitattributes",
                                        ".hidden.json",
                                        "model.safetensors.index.json",
                                        "quantize_config.json",
                                        "quant_config.json",
                                        "hf_quant_config.json",
                                        "pith.json",
                                        "model.safetensors",
                                        "tokenizer.safetensors",
                                        "pytorch_model.bin",
                                        "pytorch_model.bin.index.json",
                                        "x.gguf",
                                        "tokenizer.json.tmp",
                                        "training_args.bin",
                                        "consolidated.00.pth",
                                        "weird.dat",
                                        PITH_TEMPLATES_DIR "-of-others.jinja",
                                        PITH_TEMPLATES_DIR "/rag.jinja",
                                        PITH_TEMPLATES_DIR "/rag.txt"};
    static const char *const want[] = {"LICENSE",
                                       "USE_POLICY.md",
                                       PITH_TEMPLATES_DIR "-of-others.jinja",
                                       PITH_TEMPLATES_DIR "/rag.jinja",
                                       "chat_template.jinja",
                                       "generation_config.json",
                                       "linked.json",
                                       "merges.txt",
                                       "modeling_x.py",
                                       "qwen.tiktoken",
                                       "special_tokens_map.json",
                                       "tokenizer.json",
                                       "tokenizer.model",
                                       "tokenizer_config.json",
                                       "vocab.json"};
    char *dir = test_temp_dir(), **names;
    size_t count;
    struct pith_error err = {0};
    char *inner = pith_path_join(dir, PITH_TEMPLATES_DIR);
    assert_int_equal(mkdir(inner, 0700), 0);
    for (size_t i = 0; i < PITH_COUNT(files); i++) folder_text(dir, files[i], "x");
    char *folder = pith_path_join(dir, "tokenizer.d"), *link = pith_path_join(dir, "linked.json"),
         *dangling = pith_path_join(dir, "dangling.json"), *fifo = pith_path_join(dir, "fifo.json");
    assert_int_equal(mkdir(folder, 0700), 0);
    assert_int_equal(symlink("vocab.json", link), 0);
    assert_int_equal(symlink("nowhere", dangling), 0);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_ok(pith_checkpoint_side_files(dir, &names, &count, &err), err);
    for (size_t i = 0; i < count && i < PITH_COUNT(want); i++)
        assert_string_equal(names[i], want[i]);
    assert_int_equal(count, PITH_COUNT(want));
    pith_names_free(names, count);
    rmdir(folder);
    pith_free(inner);
    pith_free(folder);
    pith_free(link);
    pith_free(dangling);
    pith_free(fifo);
    folder_remove(dir);
    assert_int_equal(pith_checkpoint_side_files("/nonexistent", &names, &count, &err), PITH_IO);
}

/* The real models, when they are there. */
static void real_models_are_opened(void **state)
{
    (void)state;
    static const char *const models[] = {"probe", "stories260K", "babyllama-tok105"};
    for (size_t i = 0; i < PITH_COUNT(models); i++) {
        char dir[512];
        struct pith_checkpoint *c;
        struct pith_error err = {0};
        snprintf(dir, sizeof dir, "%s/models/%s", test_data_dir(), models[i]);
        if (!pith_path_is_dir(dir)) continue;
        assert_ok(pith_checkpoint_open(dir, &c, &err), err);
        assert_non_null(pith_checkpoint_find(c, "model.embed_tokens.weight"));
        pith_checkpoint_close(c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_single_file_is_opened),    cmocka_unit_test(shards_are_opened),
        cmocka_unit_test(broken_folders_are_refused), cmocka_unit_test(weights_under_other_names),
        cmocka_unit_test(quantization_has_many_names),
        cmocka_unit_test(index_and_files_must_agree), cmocka_unit_test(hostile_indexes_are_refused),
        cmocka_unit_test(side_files_are_listed),      cmocka_unit_test(real_models_are_opened),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
