/* tests/ramp.h: matrices that are known by formula, here and in tests/interop/ramps.py: every code
 * at every position, every zero point, scales that float16 and bfloat16 hold exactly. Also writing
 * a packed set to a real file and reading it back. */
#ifndef PITH_TEST_RAMP_H
#define PITH_TEST_RAMP_H

#include "base/file.h"
#include "base/mem.h"
#include "io/container/container.h"
#include "test.h"

#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

struct ramp {
    unsigned bits;
    uint32_t rows, cols, group; /* group 0: by row, or by tensor when `tensor` */
    bool asym, from_one, tensor, permuted;
    enum pith_dtype dtype;
};

static inline struct pith_grid ramp_grid(const struct ramp *p)
{
    char text[32];
    snprintf(text, sizeof text, "int%u", p->bits);
    return (struct pith_grid){
        .format = pith_format_find(text),
        .granularity = p->tensor  ? PITH_PER_TENSOR
                       : p->group ? PITH_PER_GROUP
                                  : PITH_PER_CHANNEL,
        .group = p->tensor ? 0 : p->group,
        .asym = p->asym,
    };
}

static inline float ramp_scale(uint32_t n, uint32_t g)
{
    return ldexpf(1.0f + (float)((11 * n + 13 * g) % 128) / 128.0f, -(int)(4 + (n + g) % 5));
}

static inline uint8_t ramp_zero(const struct ramp *p, uint32_t n, uint32_t g)
{
    if (p->from_one) return (uint8_t)(1 + (3 * n + 7 * g) % ((1u << p->bits) - 1));
    return (uint8_t)((3 * n + 7 * g + 1) % (1u << p->bits));
}

static inline void ramp_make(const struct ramp *p, struct pith_qmat *q)
{
    const struct pith_grid grid = ramp_grid(p);
    struct pith_error err = {0};
    assert_ok(pith_qmat_init(q, p->rows, p->cols, &grid, p->dtype, &err), err);
    uint8_t *codes = malloc(p->cols);
    for (uint32_t n = 0; n < p->rows; n++) {
        for (uint32_t k = 0; k < p->cols; k++)
            codes[k] = (uint8_t)((5 * n + k + 3 * (k / 16)) % (1u << p->bits));
        pith_qmat_set_codes(q, n, codes);
        for (uint32_t g = 0; g < q->groups && (!p->tensor || n == 0); g++) {
            const size_t i = pith_qmat_scale_index(q, n, g);
            q->scales[i] = ramp_scale(n, g);
            if (p->asym) q->zeros[i] = ramp_zero(p, n, g);
        }
    }
    free(codes);
    if (!p->permuted) return;
    /* Freed by pith_qmat_free(), so it comes from the library's allocator. */
    q->g_idx = pith_alloc(p->cols, sizeof *q->g_idx);
    assert_non_null(q->g_idx);
    for (uint32_t k = 0; k < p->cols; k++) q->g_idx[k] = (k * 37 + 5) % p->cols / q->group;
}

/* --- any grid ------------------------------------------------------------------------------ */

static inline struct pith_grid ramp_parse(const char *text)
{
    struct pith_grid g = {0};
    struct pith_error err = {0};
    if (text) assert_ok(pith_grid_parse(text, &g, &err), err);
    return g;
}

/* A number format's codes of NaN are left out. */
static inline uint8_t ramp_code(const struct pith_format *f, uint32_t n, uint32_t k)
{
    const uint8_t code = (uint8_t)((5 * n + k + 3 * (k / 16)) % (1u << f->bits));
    const bool is_nan = f->kind != PITH_KIND_INT && isnan(f->decode(code));
    return (uint8_t)(code - is_nan);
}

/* Scales of one byte are values of theirs; of E4M3, times RAMP_GLOBAL. */
#define RAMP_GLOBAL 0x1.8p-9f
static inline float ramp_byte_scale(enum pith_dtype dtype, uint32_t n, uint32_t g)
{
    if (dtype == PITH_F8_E8M0) return ldexpf(1.0f, -(int)(4 + (n + g) % 5));
    return ldexpf(1.0f + (float)((11 * n + 13 * g) % 8) / 8.0f, (int)((n + g) % 5) - 2) *
           RAMP_GLOBAL;
}

/* A matrix on that grid, its scales of a dtype that holds the ramp's; inputs may be without format.
 */
static inline void ramp_on(const struct pith_grid *grid, const struct pith_grid *inputs,
                           uint32_t rows, uint32_t cols, enum pith_dtype dtype, struct pith_qmat *q)
{
    struct pith_error err = {0};
    assert_ok(pith_qmat_init(q, rows, cols, grid, dtype, &err), err);
    uint8_t *codes = malloc(cols);
    for (uint32_t n = 0; n < rows; n++) {
        for (uint32_t k = 0; k < cols; k++) codes[k] = ramp_code(q->format, n, k);
        pith_qmat_set_codes(q, n, codes);
    }
    free(codes);
    const bool byte = pith_dtype_bits(q->scale_dtype) == 8;
    for (uint32_t n = 0; n < pith_qmat_scale_rows(q); n++)
        for (uint32_t g = 0; g < q->groups; g++) {
            const size_t i = (size_t)n * q->groups + g;
            q->scales[i] = byte ? ramp_byte_scale(q->scale_dtype, n, g) : ramp_scale(n, g);
            if (q->zeros) q->zeros[i] = (uint8_t)((3 * n + 7 * g + 1) % (1u << q->format->bits));
        }
    if (q->scale_dtype == PITH_F8_E4M3) q->global = RAMP_GLOBAL;
    if (!inputs->format) return;
    q->input.grid = *inputs;
    if (inputs->is_static) q->input.scale = 0x1.4p-5f;
    if (inputs->is_static && inputs->asym) q->input.zero = 3;
}

/* Adds a module's packed tensors to what is to be written. */
struct ramp_file {
    struct pith_layout layout;
    struct {
        char *name;
        void *data;
        size_t bytes;
    } item[256];
    size_t count;
};

static inline void ramp_add(struct ramp_file *f, const char *module,
                            const struct pith_packed_set *set)
{
    struct pith_error err = {0};
    for (unsigned i = 0; i < set->count; i++) {
        const struct pith_packed *t = &set->item[i];
        char name[256];
        snprintf(name, sizeof name, "%s%s", module, t->suffix);
        assert_ok(pith_layout_add(&f->layout, name, t->dtype, t->dims, t->shape, &err), err);
        assert_true(f->count < PITH_COUNT(f->item));
        f->item[f->count].name = strdup(name);
        f->item[f->count].data = malloc(t->bytes ? t->bytes : 1);
        memcpy(f->item[f->count].data, t->data, t->bytes);
        f->item[f->count++].bytes = t->bytes;
    }
}

/* A tensor that is not a container's. */
static inline void ramp_add_plain(struct ramp_file *f, const char *name, enum pith_dtype dtype,
                                  unsigned dims, const uint64_t *shape, const void *data)
{
    struct pith_packed_set set = {.count = 1};
    set.item[0] = (struct pith_packed){.suffix = "", .dtype = dtype, .dims = dims};
    memcpy(set.item[0].shape, shape, dims * sizeof *shape);
    uint64_t bytes;
    assert_true(pith_tensor_size(dtype, dims, shape, &bytes));
    set.item[0].bytes = (size_t)bytes;
    set.item[0].data = (void *)(uintptr_t)data;
    ramp_add(f, name, &set);
}

/* Writes config.json (unless config is NULL) and the tensors' file, and frees what f holds. Not
 * synced: tests make many. */
static inline void ramp_save(struct ramp_file *f, const char *dir, const json_t *config,
                             const char *name)
{
    struct pith_error err = {0};
    char path[600];
    snprintf(path, sizeof path, "%s/config.json", dir);
    if (config) assert_int_equal(json_dump_file(config, path, JSON_INDENT(2)), 0);
    assert_ok(pith_layout_finish(&f->layout, 0, &err), err);
    uint8_t *image = calloc(1, (size_t)f->layout.shard_bytes[0]);
    assert_non_null(image);
    memcpy(image, f->layout.headers[0], f->layout.header_bytes[0]);
    for (size_t i = 0; i < f->count; i++) {
        const struct pith_tensor_plan *t = pith_layout_find(&f->layout, f->item[i].name);
        assert_non_null(t);
        assert_int_equal(t->bytes, f->item[i].bytes);
        memcpy(image + t->offset, f->item[i].data, f->item[i].bytes);
        free(f->item[i].name);
        free(f->item[i].data);
    }
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(image, 1, (size_t)f->layout.shard_bytes[0], file),
                     f->layout.shard_bytes[0]);
    assert_int_equal(fclose(file), 0);
    free(image);
    pith_layout_free(&f->layout);
    *f = (struct ramp_file){0};
}

#endif
