/* io/: reading safetensors, judged by the reference implementation's own verdicts. */
#include "base/mem.h"
#include "golden.h"
#include "io/safetensors.h"
#include "sanitized.h"

#include <sys/stat.h>
#include <unistd.h>

static enum pith_status parse(const uint8_t *data, size_t size, struct pith_error *err)
{
    struct pith_safetensors st;
    *err = (struct pith_error){0};
    /* A copy of exactly this size, so that a sanitizer sees any byte read too far. */
    uint8_t *copy = malloc(size ? size : 1);
    memcpy(copy, data, size);
    const enum pith_status s = pith_safetensors_parse(copy, size, "f", &st, err);
    if (s == PITH_OK) pith_safetensors_close(&st);
    free(copy);
    return s;
}

static void hand_made_files_get_their_verdict(void **state)
{
    (void)state;
    json_t *cases = golden_load("safetensors_cases.json");
    size_t i, hostile = 0;
    json_t *c;
    json_array_foreach(cases, i, c)
    {
        const char *name = json_string_value(json_object_get(c, "name"));
        const char *want = json_string_value(json_object_get(c, "error"));
        size_t size;
        uint8_t *data = golden_bytes(json_object_get(c, "hex"), &size);
        struct pith_error err;
        const enum pith_status s = parse(data, size, &err);
        if (!want && s != PITH_OK) fail_msg("%s: refused: %s", name, err.text);
        if (want && s != PITH_FORMAT && s != PITH_UNSUPPORTED)
            fail_msg("%s: status %d", name, (int)s);
        if (want && !strstr(err.text, want))
            fail_msg("%s: says \"%s\", not \"%s\"", name, err.text, want);
        if (want && strncmp(err.text, "f: ", 3) != 0)
            fail_msg("%s: no file in \"%s\"", name, err.text);
        /* Whatever the reference refuses, pith refuses. */
        if (!json_is_true(json_object_get(c, "reference")) && s == PITH_OK)
            fail_msg("%s: the reference refuses it", name);
        hostile += want != NULL;
        free(data);
    }
    assert_true(hostile > 100);
    json_decref(cases);
}

static void every_mutation_is_judged_like_the_reference(void **state)
{
    (void)state;
    json_t *golden = golden_load("safetensors_mutations.json");
    const json_t *rows = json_object_get(golden, "accepted");
    size_t size, stricter = 0;
    uint8_t *data = golden_bytes(json_object_get(golden, "base"), &size);
    assert_int_equal(json_array_size(rows), size);
    for (size_t at = 0; at < size; at++) {
        size_t n;
        uint8_t *row = golden_bytes(json_array_get(rows, at), &n);
        const uint8_t old = data[at];
        for (unsigned v = 0; v < 256; v++) {
            struct pith_error err;
            const bool theirs = row[v / 8] >> (v % 8) & 1;
            data[at] = (uint8_t)v;
            const bool ours = parse(data, size, &err) == PITH_OK;
            if (ours && !theirs) fail_msg("byte %zu = %u: the reference refuses it", at, v);
            stricter += theirs && !ours;
        }
        data[at] = old;
        free(row);
    }
    /* Names that are DEL, or both names equal: see the hand-made cases. */
    if (stricter > 4) fail_msg("%zu mutations refused that the reference takes", stricter);
    free(data);
    json_decref(golden);
}

static void every_truncation_is_refused(void **state)
{
    (void)state;
    json_t *golden = golden_load("safetensors_mutations.json");
    size_t size;
    uint8_t *data = golden_bytes(json_object_get(golden, "base"), &size);
    struct pith_error err;
    assert_ok(parse(data, size, &err), err);
    for (size_t n = 0; n < size; n++) assert_int_equal(parse(data, n, &err), PITH_FORMAT);
    free(data);
    json_decref(golden);
}

static void files_of_the_reference_are_read(void **state)
{
    (void)state;
    json_t *files = golden_load("safetensors_written.json");
    size_t i, k;
    json_t *f, *w;
    json_array_foreach(files, i, f)
    {
        size_t size;
        uint8_t *data = golden_bytes(json_object_get(f, "hex"), &size);
        struct pith_safetensors st;
        struct pith_error err = {0};
        assert_ok(pith_safetensors_parse(data, size, "f", &st, &err), err);
        const json_t *tensors = json_object_get(f, "tensors");
        assert_int_equal(st.count, json_array_size(tensors));
        assert_string_equal(json_string_value(json_object_get(st.metadata, "format")), "pt");
        for (k = 1; k < st.count; k++)
            assert_true(strcmp(st.tensors[k - 1].name, st.tensors[k].name) < 0);
        json_array_foreach(tensors, k, w)
        {
            const char *name = json_string_value(json_object_get(w, "name"));
            const struct pith_tensor *t = pith_safetensors_find(&st, name);
            if (!t) fail_msg("%s is missing", name);
            size_t bytes;
            uint8_t *want = golden_bytes(json_object_get(w, "hex"), &bytes);
            const json_t *shape = json_object_get(w, "shape");
            assert_string_equal(pith_dtype_name(t->dtype),
                                json_string_value(json_object_get(w, "dtype")));
            assert_int_equal(t->dims, json_array_size(shape));
            for (unsigned d = 0; d < t->dims; d++)
                assert_true(t->shape[d] == (uint64_t)json_integer_value(json_array_get(shape, d)));
            assert_int_equal(t->bytes, bytes);
            assert_memory_equal(t->data, want, bytes);
            free(want);
        }
        assert_null(pith_safetensors_find(&st, "no such tensor"));
        pith_safetensors_close(&st);
        free(data);
    }
    json_decref(files);
}

/* Appends `text` at s + *at. */
static void put(char *s, size_t *at, const char *text)
{
    const size_t n = strlen(text);
    memcpy(s + *at, text, n);
    *at += n;
}

/* A file of `count` empty tensors, or of one entry filled up to `fill` bytes; free() it. */
static uint8_t *build(size_t count, size_t fill, size_t *size)
{
    char *s = malloc(count * 80 + fill + 200);
    size_t at = 8;
    put(s, &at, "{");
    for (size_t i = 0; i < count; i++) {
        char entry[96];
        snprintf(entry, sizeof entry,
                 "%s\"t%zu\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}", i ? "," : "",
                 i);
        put(s, &at, entry);
    }
    if (fill) {
        put(s, &at, "\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0],\"x\":[");
        for (size_t i = 0; i < fill; i += 3) put(s, &at, "{},");
        put(s, &at, "0]}");
    }
    put(s, &at, "}");
    for (int i = 0; i < 8; i++) s[i] = (char)((at - 8) >> (8 * i) & 0xff);
    *size = at;
    return (uint8_t *)s;
}

static void memory_stays_a_small_multiple_of_the_header(void **state)
{
    (void)state;
    size_t size;
    struct pith_error err;
    struct pith_safetensors st;
    const uint64_t before = pith_memory_peak();
    /* 12 MB of {}: a tree of them all would take a gigabyte. */
    uint8_t *data = build(0, 12u << 20, &size);
    assert_int_equal(parse(data, size, &err), PITH_FORMAT);
    assert_non_null(strstr(err.text, "more than the 65536 allowed"));
    free(data);
    err = (struct pith_error){0};
    data = build(100000, 0, &size);
    assert_ok(pith_safetensors_parse(data, size, "f", &st, &err), err);
    assert_int_equal(st.count, 100000);
    assert_non_null(pith_safetensors_find(&st, "t77777"));
    pith_safetensors_close(&st);
    free(data);
    const uint64_t peak = pith_memory_peak() - before;
    if (!SANITIZED && peak > (uint64_t)100 << 20) fail_msg("%llu bytes", (unsigned long long)peak);
}

static void files_that_are_no_files_are_refused(void **state)
{
    (void)state;
    char *dir = test_temp_dir();
    char *path = pith_path_join(dir, "f.safetensors");
    struct pith_safetensors st;
    struct pith_error err = {0};
    assert_int_equal(pith_safetensors_open(path, &st, &err), PITH_IO);
    assert_non_null(strstr(err.text, "No such file"));
    err = (struct pith_error){0};
    assert_int_equal(pith_safetensors_open(dir, &st, &err), PITH_IO);
    assert_int_equal(mkfifo(path, 0600), 0);
    err = (struct pith_error){0};
    assert_int_equal(pith_safetensors_open(path, &st, &err), PITH_IO);
    assert_non_null(strstr(err.text, "not a regular file"));
    assert_ok(pith_unlink(path, &err), err);
    err = (struct pith_error){0};
    assert_ok(pith_file_write(path, "", 0, &err), err);
    assert_int_equal(pith_safetensors_open(path, &st, &err), PITH_FORMAT);
    assert_non_null(strstr(err.text, "f.safetensors: 0 bytes"));
    /* 100 MB of header that is a hole in the file. */
    err = (struct pith_error){0};
    assert_ok(pith_file_write(path, "\0\xe1\xf5\5\0\0\0\0{", 9, &err), err);
    assert_int_equal(truncate(path, 100000008), 0);
    assert_int_equal(pith_safetensors_open(path, &st, &err), PITH_FORMAT);
    assert_ok(pith_dir_remove(dir, &(struct pith_error){0}), err);
    free(path);
    free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hand_made_files_get_their_verdict),
        cmocka_unit_test(every_mutation_is_judged_like_the_reference),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(files_of_the_reference_are_read),
        cmocka_unit_test(memory_stays_a_small_multiple_of_the_header),
        cmocka_unit_test(files_that_are_no_files_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
