/* Adapters against PEFT's own merges (tests/golden/adapter/make.py), and adapters that lie. */
#include "folder.h"
#include "io/adapter.h"
#include "requests.h"

#include <math.h>

#define GOLDEN "tests/golden/adapter/"

static void merged(const char *base, const char *adapter, struct pith_pool *pool,
                   struct pith_checkpoint **c, json_t **account)
{
    struct pith_error err = {0};
    char *room = test_temp_dir();
    assert_ok(pith_checkpoint_open(base, c, &err), err);
    assert_ok(pith_checkpoint_adapt(*c, adapter, room, pool, account, &err), err);
    char **names;
    size_t count;
    assert_ok(pith_dir_list(room, &names, &count, &err), err);
    assert_int_equal(count, 0); /* the file has no name */
    pith_names_free(names, count);
    folder_remove(room);
}

static void check_tensor(const struct pith_checkpoint *is, const struct pith_checkpoint *was,
                         const struct pith_tensor *want, const char *name)
{
    const struct pith_tensor *t = pith_checkpoint_find(is, name);
    const struct pith_tensor *old = pith_checkpoint_find(was, name);
    const size_t count = (size_t)pith_tensor_elements(t);
    assert_int_equal(t->dtype, old->dtype);
    assert_int_equal(t->bytes, old->bytes);
    if (!want) {
        assert_memory_equal(t->data, old->data, t->bytes);
        return;
    }
    float a[1024], b[1024];
    assert_true(count <= PITH_COUNT(a) && pith_tensor_elements(want) == count);
    assert_true(pith_tensor_decode(t, a) && pith_tensor_decode(want, b));
    for (size_t i = 0; i < count; i++)
        if (fabsf(a[i] - b[i]) > 2e-6F * (1 + fabsf(b[i])))
            fail_msg("%s [%zu]: %.9g instead of %.9g", name, i, (double)a[i], (double)b[i]);
}

static void check_case(const char *base, const char *name, json_int_t rank)
{
    struct pith_checkpoint *is, *was, *again;
    struct pith_safetensors want;
    struct pith_error err = {0};
    struct pith_pool *pool;
    json_t *account, *other;
    char path[200], adapter[200], one[PITH_SHA256_HEX], two[PITH_SHA256_HEX];
    snprintf(path, sizeof path, GOLDEN "%s.safetensors", name);
    snprintf(adapter, sizeof adapter, GOLDEN "%s", name);
    assert_ok(pith_safetensors_open(path, &want, &err), err);
    assert_ok(pith_checkpoint_open(base, &was, &err), err);
    assert_ok(pith_pool_new(3, &pool, &err), err);
    merged(base, adapter, NULL, &is, &account);
    merged(base, adapter, pool, &again, &other);
    assert_int_equal(is->count, was->count);
    assert_int_equal(json_integer_value(json_object_get(account, "tensors")), want.count);
    assert_int_equal(json_integer_value(json_object_get(account, "rank")), rank);
    assert_true(json_equal(account, other));
    for (size_t i = 0; i < is->count; i++) {
        const char *tensor = is->tensors[i].name;
        check_tensor(is, was, pith_safetensors_find(&want, tensor), tensor);
        assert_memory_equal(is->tensors[i].data, again->tensors[i].data, is->tensors[i].bytes);
    }
    assert_true(pith_checkpoint_identity(is, one) && pith_checkpoint_identity(again, two));
    assert_string_equal(one, two);
    assert_true(pith_checkpoint_identity(was, two));
    assert_string_not_equal(one, two);
    json_decref(account);
    json_decref(other);
    pith_checkpoint_close(is);
    pith_checkpoint_close(again);
    pith_checkpoint_close(was);
    pith_safetensors_close(&want);
    pith_pool_free(pool);
}

static void merges_are_pefts(void **state)
{
    (void)state;
    check_case(GOLDEN "base", "plain", 4);
    check_case(GOLDEN "base", "patterns", 4);
    check_case(GOLDEN "base", "dora", 2);
    check_case(GOLDEN "base", "saved", 2);
    check_case(GOLDEN "gpt", "columns", 2);
}

/* --- what is refused -------------------------------------------------------------------------- */

static void copy_adapter(const char *name, const char *to)
{
    static const char *const files[] = {"adapter_config.json", "adapter_model.safetensors"};
    struct pith_error err = {0};
    for (size_t i = 0; i < PITH_COUNT(files); i++) {
        char from[300], path[700];
        snprintf(from, sizeof from, GOLDEN "%s/%s", name, files[i]);
        snprintf(path, sizeof path, "%s/%s", to, files[i]);
        assert_ok(pith_file_copy(from, path, &err), err);
    }
}

static void expect(const char *base, const char *dir, enum pith_status want, const char *words)
{
    struct pith_checkpoint *c;
    struct pith_error err = {0}, none = {0};
    json_t *account = NULL;
    assert_ok(pith_checkpoint_open(base, &c, &none), none);
    const size_t files = c->file_count;
    assert_int_equal(pith_checkpoint_adapt(c, dir, dir, NULL, &account, &err), want);
    if (!strstr(err.text, words)) fail_msg("\"%s\" is not in: %s", words, err.text);
    assert_null(account);
    assert_int_equal(c->file_count, files);
    assert_string_equal(c->adapter, "");
    pith_checkpoint_close(c);
}

/* One key of the config is another. */
static void expect_config(const char *name, const char *key, json_t *value, enum pith_status want,
                          const char *words)
{
    struct pith_error err = {0};
    char *dir = test_temp_dir(), path[700];
    json_t *config;
    copy_adapter(name, dir);
    snprintf(path, sizeof path, "%s/adapter_config.json", dir);
    assert_ok(pith_json_load(path, 1 << 20, &config, &err), err);
    json_object_set_new(config, key, value);
    assert_ok(pith_json_save(path, config, &err), err);
    json_decref(config);
    expect(GOLDEN "base", dir, want, words);
    folder_remove(dir);
}

static void configs_that_are_refused(void **state)
{
    (void)state;
    expect_config("plain", "peft_type", json_string("LOHA"), PITH_UNSUPPORTED, "LOHA");
    expect_config("plain", "r", json_integer(5), PITH_FORMAT, "has rank 4");
    expect_config("plain", "r", json_string("4"), PITH_FORMAT, "\"r\"");
    expect_config("plain", "r", json_null(), PITH_FORMAT, "\"r\" is missing");
    expect_config("plain", "init_lora_weights", json_string("pissa_niter_4"), PITH_UNSUPPORTED,
                  "pissa_niter_4");
    expect_config("plain", "layer_replication", json_pack("[[i, i]]", 0, 1), PITH_UNSUPPORTED,
                  "layer_replication");
    expect_config("plain", "use_some_new_thing", json_true(), PITH_UNSUPPORTED,
                  "use_some_new_thing");
    expect_config("plain", "use_dora", json_true(), PITH_FORMAT, "lacks its lora_magnitude_vector");
    expect_config("dora", "use_dora", json_false(), PITH_FORMAT, "\"use_dora\" is not");
    expect_config("dora", "fan_in_fan_out", json_true(), PITH_FORMAT, "shape");
    expect_config("plain", "rank_pattern", json_pack("{s:i}", "(", 4), PITH_FORMAT, "pattern");
    expect_config("plain", "alpha_pattern", json_pack("{s:i}", "q_proj", -1), PITH_FORMAT,
                  "above 0");
    expect_config("plain", "alpha_pattern", json_pack("[i]", 4), PITH_FORMAT, "not an object");
    expect_config("plain", "target_modules", json_pack("[s, s]", "q_proj", "gate_proj"),
                  PITH_FORMAT, "holds nothing for \"gate_proj\"");
}

static void replace(char *data, size_t size, const char *from, const char *to)
{
    const size_t n = strlen(from);
    size_t found = 0;
    assert_int_equal(strlen(to), n);
    for (size_t i = 0; i + n <= size; i++)
        if (memcmp(data + i, from, n) == 0) memcpy(data + i, to, n), found++;
    assert_true(found > 0);
}

/* The same bytes in place of others in the weights' file. */
static void expect_weights(const char *name, const char *from, const char *to,
                           enum pith_status want, const char *words)
{
    struct pith_error err = {0};
    char *dir = test_temp_dir(), path[700], *data;
    size_t size;
    copy_adapter(name, dir);
    snprintf(path, sizeof path, "%s/adapter_model.safetensors", dir);
    assert_ok(pith_file_read(path, 1 << 20, &data, &size, &err), err);
    if (from) replace(data, size, from, to);
    else memcpy(data + size - 4, to, 4);
    assert_ok(pith_file_write(path, data, size, &err), err);
    pith_free(data);
    expect(GOLDEN "base", dir, want, words);
    folder_remove(dir);
}

static void weights_that_are_refused(void **state)
{
    (void)state;
    expect_weights("plain", "lora_B", "lora_C", PITH_FORMAT, "of no kind that is known");
    expect_weights("plain", "layers.1", "layers.7", PITH_FORMAT, "changes no matrix of the model");
    expect_weights("plain", "base_model.model.model.layers.0", "lase_model.model.model.layers.0",
                   PITH_FORMAT, "does not begin with");
    expect_weights("plain", "\"F32\"", "\"I32\"", PITH_FORMAT, "is not of floats");
    expect_weights("plain", "[4,16]", "[8,8 ]", PITH_FORMAT, "has rank 8");
    expect_weights("plain", "[16,4]", "[8,8 ]", PITH_FORMAT, "has not the rank");
    expect_weights("plain", "q_proj.lora_A", "o_proj.lora_A", PITH_FORMAT, "lacks its other half");
    expect_weights("saved", "lm_head", "lm_hexd", PITH_FORMAT, "takes the place of nothing");
    expect_weights("saved", "[32,16]", "[16,32]", PITH_FORMAT, "another shape");
    expect_weights("plain", NULL, "\x00\x00\xc0\x7f", PITH_NUMERIC, "not finite");
}

static void folders_that_are_refused(void **state)
{
    (void)state;
    char *dir = test_temp_dir(), *base = test_temp_dir(), path[700];
    struct pith_error err = {0};
    expect(GOLDEN "base", dir, PITH_IO, "no adapter_config.json");
    copy_adapter("plain", dir);
    snprintf(path, sizeof path, "%s/model.safetensors", base);
    assert_ok(pith_file_copy(GOLDEN "base/model.safetensors", path, &err), err);
    folder_text(base, "config.json", "{\"quantization_config\":{\"quant_method\":\"gptq\"}}");
    expect(base, dir, PITH_UNSUPPORTED, "quantized already");
    snprintf(path, sizeof path, "%s/adapter_model.safetensors", dir);
    folder_text(dir, "adapter_model.safetensors", "short");
    expect(GOLDEN "base", dir, PITH_FORMAT, "adapter_model.safetensors");
    assert_ok(pith_unlink(path, &err), err);
    expect(GOLDEN "base", dir, PITH_IO, "adapter_model.safetensors");
    folder_text(dir, "adapter_model.bin", "pickle");
    expect(GOLDEN "base", dir, PITH_UNSUPPORTED, "pickle");
    folder_remove(dir);
    folder_remove(base);
}

static enum pith_status merge_once(void *room, struct pith_error *err)
{
    struct pith_checkpoint *c;
    json_t *account = NULL;
    PITH_TRY(pith_checkpoint_open(GOLDEN "base", &c, err));
    const enum pith_status s =
        pith_checkpoint_adapt(c, GOLDEN "patterns", room, NULL, &account, err);
    json_decref(account);
    pith_checkpoint_close(c);
    return s;
}

static void every_request_may_fail(void **state)
{
    (void)state;
    need_requests();
    char *room = test_temp_dir();
    assert_true(fail_each_request(merge_once, room, false) > 10);
    folder_remove(room);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merges_are_pefts),         cmocka_unit_test(configs_that_are_refused),
        cmocka_unit_test(weights_that_are_refused), cmocka_unit_test(folders_that_are_refused),
        cmocka_unit_test(every_request_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
