/* A checkpoint folder made from a case of tests/golden/arch: its weights are a formula, said in
 * fill.py and repeated here. */
#ifndef PITH_TEST_MODEL_ARCH_CASE_H
#define PITH_TEST_MODEL_ARCH_CASE_H

#include "io/safetensors.h"
#include "unit/model/fixture.h"

#define ARCH_GOLDEN "tests/golden/arch/"

/* Value i of a tensor is (centre + v) * 2^-exponent, v a whole number in -most..most; F32 or U8. */
struct arch_fill {
    int64_t centre, most, exponent;
    enum pith_dtype dtype;
};

static inline uint64_t arch_fnv1a(const char *text)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (; *text; text++) h = (h ^ (uint8_t)*text) * 0x100000001b3u;
    return h;
}

/* The values of the tensor of that name: outputs of SplitMix64, one a value. */
static inline void arch_values(const char *name, uint64_t salt, const struct arch_fill *fill,
                               float *out, uint64_t count)
{
    static const uint64_t golden = 0x9e3779b97f4a7c15u;
    uint64_t state = arch_fnv1a(name) ^ salt * golden;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t z = state += golden;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
        z = (z ^ z >> 27) * 0x94d049bb133111ebu;
        z ^= z >> 31;
        const int64_t v = (int64_t)((z >> 33) % (uint64_t)(2 * fill->most + 1)) - fill->most;
        out[i] = (float)ldexp((double)(fill->centre + v), (int)-fill->exponent);
    }
}

/* One tensor of a case, with the file's own order of its names: "a.{0,1}.b" is two tensors. */
typedef void arch_tensor_fn(const char *name, const json_t *shape, const struct arch_fill *fill,
                            void *user);

static inline void arch_expand(const char *head, const char *tail, const json_t *row,
                               arch_tensor_fn *fn, void *user)
{
    const char *open = strchr(tail, '{');
    char name[256];
    if (!open) {
        const json_t *f = json_array_get(row, 2);
        const struct arch_fill fill = {
            json_integer_value(json_array_get(f, 0)), json_integer_value(json_array_get(f, 1)),
            json_integer_value(json_array_get(f, 2)), json_array_get(row, 3) ? PITH_U8 : PITH_F32};
        snprintf(name, sizeof name, "%s%s", head, tail);
        fn(name, json_array_get(row, 1), &fill, user);
        return;
    }
    const char *close = strchr(open, '}');
    for (const char *at = open; at != close;) {
        const char *number = at + 1;
        at = number + strcspn(number, ",}");
        snprintf(name, sizeof name, "%s%.*s%.*s", head, (int)(open - tail), tail,
                 (int)(at - number), number);
        arch_expand(name, close + 1, row, fn, user);
    }
}

static inline void arch_each_tensor(const json_t *file, arch_tensor_fn *fn, void *user)
{
    size_t i;
    const json_t *row;
    json_array_foreach (json_object_get(file, "tensors"), i, row) {
        arch_expand("", json_string_value(json_array_get(row, 0)), row, fn, user);
    }
}

static inline void arch_plan_tensor(const char *name, const json_t *shape,
                                    const struct arch_fill *fill, void *user)
{
    struct pith_error err = {0};
    uint64_t dims[PITH_MAX_DIMS] = {0};
    for (size_t d = 0; d < json_array_size(shape); d++)
        dims[d] = (uint64_t)json_integer_value(json_array_get(shape, d));
    assert_ok(
        pith_layout_add(user, name, fill->dtype, (unsigned)json_array_size(shape), dims, &err),
        err);
}

struct arch_writer {
    const struct pith_layout *layout;
    struct pith_out out;
    uint64_t salt;
};

static inline void arch_write_tensor(const char *name, const json_t *shape,
                                     const struct arch_fill *fill, void *user)
{
    struct pith_error err = {0};
    struct arch_writer *w = user;
    const struct pith_tensor_plan *t = pith_layout_find(w->layout, name);
    const uint64_t count = fill->dtype == PITH_U8 ? t->bytes : t->bytes / sizeof(float);
    float *values = malloc(count * sizeof *values);
    uint8_t *bytes = (uint8_t *)values;
    (void)shape;
    arch_values(name, w->salt, fill, values, count);
    for (uint64_t i = 0; fill->dtype == PITH_U8 && i < count; i++) bytes[i] = (uint8_t)values[i];
    assert_ok(pith_out_write(&w->out, t->offset, values, t->bytes, &err), err);
    free(values);
}

/* A fresh folder with config.json and model.safetensors of a loaded case; folder_remove() it. */
static inline char *arch_folder_make(const json_t *file)
{
    struct pith_error err = {0};
    char *dir = folder_make(json_object_get(file, "config"), NULL), path[600];
    struct pith_layout layout = {0};
    arch_each_tensor(file, arch_plan_tensor, &layout);
    assert_ok(pith_layout_finish(&layout, 0, &err), err);
    struct arch_writer w = {.layout = &layout,
                            .salt = (uint64_t)json_integer_value(json_object_get(file, "salt"))};
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    assert_ok(pith_out_open(path, layout.shard_bytes[0], &w.out, &err), err);
    assert_ok(pith_out_write(&w.out, 0, layout.headers[0], layout.header_bytes[0], &err), err);
    arch_each_tensor(file, arch_write_tensor, &w);
    pith_out_close(&w.out);
    pith_layout_free(&layout);
    return dir;
}

/* The file of a case; json_decref() it. */
static inline json_t *arch_load(const char *name)
{
    struct pith_error err = {0};
    char path[256];
    json_t *file;
    snprintf(path, sizeof path, ARCH_GOLDEN "%s.json", name);
    assert_ok(pith_json_load(path, 1 << 20, &file, &err), err);
    return file;
}

/* The folder of a case as it is; folder_remove() it. */
static inline char *arch_folder(const char *name)
{
    json_t *file = arch_load(name);
    char *dir = arch_folder_make(file);
    json_decref(file);
    return dir;
}

static inline void rig_open_arch(struct rig *r, const char *name, unsigned threads)
{
    rig_open_own(r, arch_folder(name), threads);
}

#endif
