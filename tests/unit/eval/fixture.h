/* Models of the eval tests: a pool, a backend, a model and the worse copy that make_golden.py
 * describes. */
#ifndef PITH_TEST_EVAL_FIXTURE_H
#define PITH_TEST_EVAL_FIXTURE_H

#include "base/cpu.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "eval/eval.h"
#include "test.h"

#include <math.h>

#define GOLDEN "tests/golden/eval/"

struct rig {
    struct pith_pool *pool;
    struct pith_backend *backend;
    struct pith_model *model, *worse;
    struct pith_tokenizer *tokenizer;
    char *worse_dir;
};

/* Keeps 3 bits of mantissa of every projection weight. */
static inline void cut_weights(const char *path)
{
    struct pith_error err = {0};
    struct pith_safetensors st;
    char *bytes;
    size_t size;
    assert_ok(pith_file_read(path, 1u << 28, &bytes, &size, &err), err);
    assert_ok(pith_safetensors_open(path, &st, &err), err);
    for (size_t i = 0; i < st.count; i++) {
        const struct pith_tensor *t = &st.tensors[i];
        if (!strstr(t->name, "proj")) continue;
        unsigned char *at = (unsigned char *)bytes + (t->data - st.map.data);
        const size_t wide = (size_t)(t->bytes / pith_tensor_elements(t));
        for (size_t k = 0; k < t->bytes; k += wide) {
            /* bf16 loses its low 4 bits, float32 its low 20; little-endian. */
            at[k + wide - 2] &= 0xf0;
            for (size_t b = 0; b + 2 < wide; b++) at[k + b] = 0;
        }
    }
    pith_safetensors_close(&st);
    assert_ok(pith_file_write(path, bytes, size, &err), err);
    pith_free(bytes);
}

static inline char *make_worse(const char *dir)
{
    struct pith_error err = {0};
    char *out = test_temp_dir();
    static const char *const names[] = {"config.json", "model.safetensors"};
    for (size_t i = 0; i < 2; i++) {
        char *from = pith_path_join(dir, names[i]), *to = pith_path_join(out, names[i]);
        assert_ok(pith_file_copy(from, to, &err), err);
        if (i == 1) cut_weights(to);
        pith_free(from);
        pith_free(to);
    }
    return out;
}

static inline void rig_open(struct rig *r, const char *dir, unsigned threads)
{
    struct pith_error err = {0};
    assert_ok(pith_pool_new(threads, &r->pool, &err), err);
    assert_ok(pith_backend_new(r->pool, PITH_CPU_ALL, &r->backend, &err), err);
    assert_ok(pith_model_open(dir, &r->model, &err), err);
    assert_ok(pith_tokenizer_open(dir, &r->tokenizer, &err), err);
    r->worse_dir = make_worse(dir);
    assert_ok(pith_model_open(r->worse_dir, &r->worse, &err), err);
}

static inline void rig_close(struct rig *r)
{
    struct pith_error err = {0};
    pith_tokenizer_close(r->tokenizer);
    pith_model_close(r->model);
    pith_model_close(r->worse);
    assert_ok(pith_dir_remove(r->worse_dir, &err), err);
    free(r->worse_dir);
    pith_backend_free(r->backend);
    pith_pool_free(r->pool);
}

static inline json_t *golden_load(void)
{
    struct pith_error err = {0};
    json_t *j;
    assert_ok(pith_json_load(GOLDEN "golden.json", 1 << 20, &j, &err), err);
    return j;
}

static inline double number(const json_t *obj, const char *key)
{
    const json_t *v = json_object_get(obj, key);
    if (!json_is_number(v)) fail_msg("no number %s", key);
    return json_number_value(v);
}

static inline const char *string(const json_t *obj, const char *key)
{
    return json_string_value(json_object_get(obj, key));
}

static inline void assert_close(const char *what, double got, double want, double tolerance)
{
    if (!(fabs(got - want) <= tolerance)) fail_msg("%s: %.9g is not %.9g", what, got, want);
}

#endif
