/* io/: laying out and writing safetensors files. */
#include "base/mem.h"
#include "base/rng.h"
#include "golden.h"
#include "io/checkpoint.h"

static void add(struct pith_layout *l, const char *name, const char *dtype, const json_t *shape)
{
    uint64_t dims[PITH_MAX_DIMS];
    struct pith_error err = {0};
    enum pith_dtype t;
    assert_true(pith_dtype_find(dtype, &t));
    for (size_t i = 0; i < json_array_size(shape); i++)
        dims[i] = (uint64_t)json_integer_value(json_array_get(shape, i));
    assert_ok(pith_layout_add(l, name, t, (unsigned)json_array_size(shape), dims, &err), err);
}

/* Our bytes for the reference writer's tensors, whatever the order of adding, are its bytes. */
static void bytes_equal_the_reference_writer(void **state)
{
    (void)state;
    json_t *files = golden_load("safetensors_written.json");
    size_t i, k;
    json_t *f;
    struct pith_rng rng;
    pith_rng_seed(&rng, 1);
    json_array_foreach(files, i, f)
    {
        const json_t *tensors = json_object_get(f, "tensors");
        const size_t count = json_array_size(tensors);
        size_t size;
        uint8_t *want = golden_bytes(json_object_get(f, "hex"), &size);
        struct pith_layout l = {0};
        struct pith_error err = {0};
        const size_t first = count ? pith_rng_below(&rng, count) : 0;
        for (k = 0; k < count; k++) {
            const json_t *t = json_array_get(tensors, (first + k) % count);
            add(&l, json_string_value(json_object_get(t, "name")),
                json_string_value(json_object_get(t, "dtype")), json_object_get(t, "shape"));
        }
        assert_ok(pith_layout_finish(&l, 0, &err), err);
        assert_int_equal(l.shards, 1);
        assert_string_equal(l.shard_names[0], "model.safetensors");
        assert_int_equal(l.shard_bytes[0], size);
        uint8_t *ours = calloc(1, size);
        memcpy(ours, l.headers[0], l.header_bytes[0]);
        for (k = 0; k < count; k++) {
            const json_t *t = json_array_get(tensors, k);
            size_t bytes;
            uint8_t *data = golden_bytes(json_object_get(t, "hex"), &bytes);
            const struct pith_tensor_plan *p =
                pith_layout_find(&l, json_string_value(json_object_get(t, "name")));
            assert_non_null(p);
            assert_int_equal(p->bytes, bytes);
            assert_true(p->offset + bytes <= size);
            memcpy(ours + p->offset, data, bytes);
            free(data);
        }
        assert_memory_equal(ours, want, size);
        pith_layout_free(&l);
        free(ours);
        free(want);
    }
    json_decref(files);
}

static void shards_fill_in_the_order_added(void **state)
{
    (void)state;
    struct pith_layout l = {0};
    struct pith_error err = {0};
    static const struct {
        const char *name;
        uint64_t size;
        uint32_t shard;
    } tensors[] = {{"d", 4, 0},    {"c", 6, 0},     {"zero", 0, 0}, {"b", 1, 1},
                   {"big", 11, 2}, {"zero2", 0, 3}, {"a", 10, 3}};
    for (size_t i = 0; i < PITH_COUNT(tensors); i++)
        assert_ok(pith_layout_add(&l, tensors[i].name, PITH_U8, 1, &tensors[i].size, &err), err);
    assert_ok(pith_layout_finish(&l, 10, &err), err);
    assert_int_equal(l.shards, 4);
    assert_string_equal(l.shard_names[0], "model-00001-of-00004.safetensors");
    assert_string_equal(l.shard_names[3], "model-00004-of-00004.safetensors");
    for (size_t i = 0; i < PITH_COUNT(tensors); i++) {
        const struct pith_tensor_plan *p = pith_layout_find(&l, tensors[i].name);
        assert_int_equal(p->shard, tensors[i].shard);
    }
    assert_int_equal(l.total_bytes, 32);
    for (size_t i = 0; i < l.shards; i++) assert_int_equal(l.header_bytes[i] % 8, 0);
    char *index = pith_layout_index(&l);
    assert_string_equal(index, "{\n  \"metadata\": {\n    \"total_size\": 32\n  },\n"
                               "  \"weight_map\": {\n"
                               "    \"a\": \"model-00004-of-00004.safetensors\",\n"
                               "    \"b\": \"model-00002-of-00004.safetensors\",\n"
                               "    \"big\": \"model-00003-of-00004.safetensors\",\n"
                               "    \"c\": \"model-00001-of-00004.safetensors\",\n"
                               "    \"d\": \"model-00001-of-00004.safetensors\",\n"
                               "    \"zero\": \"model-00001-of-00004.safetensors\",\n"
                               "    \"zero2\": \"model-00004-of-00004.safetensors\"\n  }\n}\n");
    pith_free(index);
    assert_int_equal(pith_layout_finish(&l, 10, &err), PITH_ARG);
    err = (struct pith_error){0};
    assert_int_equal(pith_layout_add(&l, "x", PITH_U8, 0, NULL, &err), PITH_ARG);
    pith_layout_free(&l);
}

static void what_no_file_can_hold_is_refused(void **state)
{
    (void)state;
    struct pith_layout l = {0};
    static const uint64_t huge[] = {UINT64_C(1) << 62, 8}, odd[] = {3}, ones[9] = {1};
    char name[PITH_MAX_NAME + 2];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    assert_int_equal(pith_layout_add(&l, "a", PITH_F32, 2, huge, NULL), PITH_ARG);
    assert_int_equal(pith_layout_add(&l, "a", PITH_U8, 2, huge, NULL), PITH_ARG);
    assert_int_equal(pith_layout_add(&l, "a", PITH_F4, 1, odd, NULL), PITH_ARG);
    assert_int_equal(pith_layout_add(&l, "a", PITH_U8, 9, ones, NULL), PITH_ARG);
    assert_int_equal(pith_layout_add(&l, "__metadata__", PITH_U8, 1, ones, NULL), PITH_ARG);
    assert_int_equal(pith_layout_add(&l, "a\n", PITH_U8, 1, ones, NULL), PITH_ARG);
    assert_int_equal(pith_layout_add(&l, "a\xff", PITH_U8, 1, ones, NULL), PITH_ARG);
    assert_int_equal(pith_layout_add(&l, name, PITH_U8, 1, ones, NULL), PITH_ARG);
    assert_int_equal(l.count, 0);
    /* Sizes that only together are too much. */
    static const uint64_t half = UINT64_C(1) << 62;
    assert_int_equal(pith_layout_add(&l, "a", PITH_U8, 1, &half, NULL), PITH_ARG);
    static const uint64_t large = UINT64_C(1) << 60;
    char id[16];
    for (int i = 0; i < 7; i++) {
        snprintf(id, sizeof id, "t%d", i);
        assert_int_equal(pith_layout_add(&l, id, PITH_U8, 1, &large, NULL), PITH_OK);
    }
    assert_int_equal(pith_layout_add(&l, "t7", PITH_U8, 1, &large, NULL), PITH_ARG);
    pith_layout_free(&l);
    struct pith_error err = {0};
    assert_ok(pith_layout_add(&l, "same", PITH_U8, 1, ones, &err), err);
    assert_ok(pith_layout_add(&l, "same", PITH_F32, 1, ones, &err), err);
    assert_int_equal(pith_layout_finish(&l, 0, &err), PITH_ARG);
    assert_non_null(strstr(err.text, "\"same\" is added twice"));
    pith_layout_free(&l);
}

/* Random tensors over several shards, written in random order, read back as a checkpoint. */
static void what_is_written_is_read_back(void **state)
{
    (void)state;
    enum { COUNT = 200 };
    struct pith_rng rng;
    struct pith_layout l = {0};
    struct pith_error err = {0};
    char *dir = test_temp_dir(), name[64];
    size_t order[COUNT];
    pith_rng_seed(&rng, 7);
    for (size_t i = 0; i < COUNT; i++) {
        uint64_t shape[PITH_MAX_DIMS];
        const unsigned dims = (unsigned)pith_rng_below(&rng, 4);
        for (unsigned d = 0; d < dims; d++) shape[d] = pith_rng_below(&rng, 9) * 4;
        const enum pith_dtype t = (enum pith_dtype)pith_rng_below(&rng, PITH_DTYPE_COUNT);
        snprintf(name, sizeof name, "t.%zu", i);
        /* One element of fewer than eight bits is no tensor. */
        const bool possible = dims > 0 || pith_dtype_bits(t) >= 8;
        assert_int_equal(pith_layout_add(&l, name, t, dims, shape, NULL) == PITH_OK, possible);
    }
    assert_ok(pith_layout_finish(&l, 50000, &err), err);
    assert_true(l.shards > 3);
    struct pith_out out[64];
    for (size_t i = 0; i < l.shards; i++) {
        char *path = pith_path_join(dir, l.shard_names[i]);
        assert_ok(pith_out_open(path, l.shard_bytes[i], &out[i], &err), err);
        assert_ok(pith_out_write(&out[i], 0, l.headers[i], l.header_bytes[i], &err), err);
        pith_free(path);
    }
    for (size_t i = 0; i < l.count; i++) order[i] = i;
    for (size_t i = l.count; i-- > 1;) {
        const size_t k = pith_rng_below(&rng, i + 1), swap = order[i];
        order[i] = order[k];
        order[k] = swap;
    }
    for (size_t i = 0; i < l.count; i++) {
        const struct pith_tensor_plan *p = &l.tensors[order[i]];
        uint8_t *data = malloc(p->bytes + 1);
        memset(data, (int)(order[i] % 255 + 1), p->bytes);
        assert_ok(pith_out_write(&out[p->shard], p->offset, data, p->bytes, &err), err);
        free(data);
    }
    for (size_t i = 0; i < l.shards; i++) pith_out_close(&out[i]);
    char *index = pith_layout_index(&l);
    char *path = pith_path_join(dir, "model.safetensors.index.json");
    assert_ok(pith_file_write(path, index, strlen(index), &err), err);
    pith_free(path);
    pith_free(index);
    path = pith_path_join(dir, "config.json");
    assert_ok(pith_file_write(path, "{}", 2, &err), err);
    pith_free(path);
    struct pith_checkpoint *c;
    assert_ok(pith_checkpoint_open(dir, &c, &err), err);
    assert_int_equal(c->count, l.count);
    assert_int_equal(c->bytes, l.total_bytes);
    for (size_t i = 0; i < l.count; i++) {
        const struct pith_tensor_plan *p = &l.tensors[i];
        const struct pith_tensor *t;
        assert_ok(pith_checkpoint_get(c, p->name, p->dims, p->shape, &t, &err), err);
        assert_int_equal(t->dtype, p->dtype);
        assert_int_equal(t->file, p->shard);
        assert_int_equal(t->bytes, p->bytes);
        /* Every tensor lies on a multiple of its element's size. */
        if (pith_dtype_bits(t->dtype) >= 8)
            assert_int_equal((uintptr_t)t->data % (pith_dtype_bits(t->dtype) / 8), 0);
        for (uint64_t k = 0; k < t->bytes; k++) assert_int_equal(t->data[k], i % 255 + 1);
        pith_checkpoint_release(c, t);
        if (t->bytes) assert_int_equal(t->data[0], i % 255 + 1);
    }
    pith_checkpoint_close(c);
    pith_layout_free(&l);
    assert_ok(pith_dir_remove(dir, &err), err);
    free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_equal_the_reference_writer),
        cmocka_unit_test(shards_fill_in_the_order_added),
        cmocka_unit_test(what_no_file_can_hold_is_refused),
        cmocka_unit_test(what_is_written_is_read_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
