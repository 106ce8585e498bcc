/* Reading GGUF. The header is walked once; nothing in it is believed before it is compared with
 * the rest of the file. */
#include "io/gguf/gguf.h"

#include "base/mem.h"
#include "io/lfs.h"
#include "num/gguf/kquant.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_ALIGNMENT = 32, MAX_TENSOR_NAME = 63, MAX_ALIGNMENT = 1 << 20 };
enum { LEAST_KEY = 8 + 4 + 1, LEAST_TENSOR = 8 + 4 + 8 + 4 + 8 }; /* bytes in the file */

/* --- types ------------------------------------------------------------------------------------ */

/* Those besides the rows of num/gguf/kquants.def: plain values (ggml.h, enum ggml_type). Ids 4, 5,
 * 31 to 33 and 36 to 38 were given up; 9 and 15 are for activations and never in files. */
static const struct pith_ggml_type others[] = {
    {0, "F32", 1, 4},
    {1, "F16", 1, 2},
    {24, "I8", 1, 1},
    {25, "I16", 1, 2},
    {26, "I32", 1, 4},
    {27, "I64", 1, 8},
    {28, "F64", 1, 8},
    {30, "BF16", 1, 2},
};

static void set_type(const struct pith_kquant *k, struct pith_ggml_type *out)
{
    *out = (struct pith_ggml_type){k->id, k->name, k->elements, k->bytes};
}

bool pith_ggml_type_by_id(uint32_t id, struct pith_ggml_type *out)
{
    const struct pith_kquant *k = pith_kquant_by_id(id);
    if (k) set_type(k, out);
    for (size_t i = 0; !k && i < PITH_COUNT(others); i++)
        if (others[i].id == id) {
            *out = others[i];
            return true;
        }
    return k != NULL;
}

bool pith_ggml_type_find(const char *name, struct pith_ggml_type *out)
{
    const struct pith_kquant *k = pith_kquant_find(name);
    if (k) set_type(k, out);
    for (size_t i = 0; !k && i < PITH_COUNT(others); i++)
        if (strcmp(others[i].name, name) == 0) {
            *out = others[i];
            return true;
        }
    return k != NULL;
}

bool pith_ggml_type_dtype(const struct pith_ggml_type *type, enum pith_dtype *out)
{
    return type->block == 1 && pith_dtype_find(type->name, out);
}

static const uint8_t kind_size[PITH_GGUF_KIND_COUNT] = {
    [PITH_GGUF_U8] = 1,  [PITH_GGUF_I8] = 1,  [PITH_GGUF_U16] = 2, [PITH_GGUF_I16] = 2,
    [PITH_GGUF_U32] = 4, [PITH_GGUF_I32] = 4, [PITH_GGUF_F32] = 4, [PITH_GGUF_BOOL] = 1,
    [PITH_GGUF_U64] = 8, [PITH_GGUF_I64] = 8, [PITH_GGUF_F64] = 8,
};

/* --- the walk --------------------------------------------------------------------------------- */

struct reader {
    struct pith_gguf *g;
    const uint8_t *data;
    size_t size, at;
    struct pith_error *err;
};

static size_t left(const struct reader *r)
{
    return r->size - r->at;
}

static enum pith_status cut_short(const struct reader *r, const char *what)
{
    return pith_fail(r->err, PITH_FORMAT, "the file ends within %s, at byte %zu", what, r->at);
}

static enum pith_status read_bytes(struct reader *r, void *out, size_t n, const char *what)
{
    if (left(r) < n) return cut_short(r, what);
    memcpy(out, r->data + r->at, n);
    r->at += n;
    return PITH_OK;
}

static enum pith_status read_string(struct reader *r, const char *what, const uint8_t **text,
                                    size_t *length)
{
    uint64_t n = 0;
    PITH_TRY(read_bytes(r, &n, sizeof n, what));
    if (n > left(r)) return cut_short(r, what);
    *text = r->data + r->at;
    *length = (size_t)n;
    r->at += (size_t)n;
    return PITH_OK;
}

/* A name, copied. */
static enum pith_status read_name(struct reader *r, const char *what, char **out)
{
    const uint8_t *text;
    size_t n;
    PITH_TRY(read_string(r, what, &text, &n));
    if (n == 0) return pith_fail(r->err, PITH_FORMAT, "%s is empty", what);
    if (memchr(text, 0, n)) return pith_fail(r->err, PITH_FORMAT, "%s has a NUL inside", what);
    *out = pith_strndup((const char *)text, n);
    return *out ? PITH_OK : pith_fail_nomem(r->err, what);
}

static enum pith_status read_kind(struct reader *r, const char *key, enum pith_gguf_kind *out)
{
    uint32_t kind = 0;
    PITH_TRY(read_bytes(r, &kind, sizeof kind, "the type of a key"));
    if (kind >= PITH_GGUF_KIND_COUNT)
        return pith_fail(r->err, PITH_FORMAT, "key \"%.100s\": unknown type %" PRIu32, key, kind);
    *out = (enum pith_gguf_kind)kind;
    return PITH_OK;
}

static enum pith_status skip_elements(struct reader *r, struct pith_gguf_key *key)
{
    const uint8_t *text;
    size_t n;
    key->data = r->data + r->at;
    const size_t start = r->at;
    if (key->element == PITH_GGUF_STRING) {
        for (uint64_t i = 0; i < key->count; i++) PITH_TRY(read_string(r, "a string", &text, &n));
    } else {
        const size_t one = kind_size[key->element];
        if (key->count > left(r) / one) return cut_short(r, "a value");
        r->at += (size_t)key->count * one;
    }
    key->size = r->at - start;
    return PITH_OK;
}

static enum pith_status read_key(struct reader *r, struct pith_gguf_key *key)
{
    PITH_TRY(read_name(r, "the name of a key", &key->name));
    PITH_TRY(read_kind(r, key->name, &key->kind));
    key->element = key->kind;
    key->count = 1;
    if (key->kind == PITH_GGUF_ARRAY) {
        PITH_TRY(read_kind(r, key->name, &key->element));
        if (key->element == PITH_GGUF_ARRAY)
            return pith_fail(r->err, PITH_FORMAT, "key \"%.100s\": an array of arrays", key->name);
        PITH_TRY(read_bytes(r, &key->count, sizeof key->count, "the size of an array"));
    }
    return skip_elements(r, key);
}

static enum pith_status read_shape(struct reader *r, struct pith_gguf_tensor *t, uint32_t dims)
{
    if (dims == 0 || dims > 4)
        return pith_fail(r->err, PITH_FORMAT, "tensor \"%s\": %" PRIu32 " dimensions", t->name,
                         dims);
    uint64_t elements = 1;
    t->dims = dims;
    for (uint32_t i = 0; i < dims; i++) {
        uint64_t n = 0;
        PITH_TRY(read_bytes(r, &n, sizeof n, "the shape of a tensor"));
        if (n == 0 || n > INT64_MAX / elements)
            return pith_fail(r->err, PITH_FORMAT, "tensor \"%s\": a shape of no or too many values",
                             t->name);
        elements *= n;
        t->shape[dims - 1 - i] = n;
    }
    return PITH_OK;
}

static enum pith_status size_tensor(struct reader *r, struct pith_gguf_tensor *t, uint32_t id)
{
    if (!pith_ggml_type_by_id(id, &t->type))
        return pith_fail(r->err, PITH_UNSUPPORTED, "tensor \"%s\": unknown type %" PRIu32, t->name,
                         id);
    const uint64_t row = t->shape[t->dims - 1];
    if (row % t->type.block)
        return pith_fail(r->err, PITH_FORMAT,
                         "tensor \"%s\": rows of %" PRIu64 " are not whole blocks of %s", t->name,
                         row, t->type.name);
    uint64_t blocks = row / t->type.block;
    for (unsigned i = 0; i + 1 < t->dims; i++) blocks *= t->shape[i];
    if (blocks > (uint64_t)INT64_MAX / t->type.bytes)
        return pith_fail(r->err, PITH_FORMAT, "tensor \"%s\": its size overflows", t->name);
    t->bytes = blocks * t->type.bytes;
    return PITH_OK;
}

/* *end is where the tensor before ended, from the start of the data. */
static enum pith_status read_tensor(struct reader *r, struct pith_gguf_tensor *t, uint64_t *end)
{
    uint32_t dims = 0, id = 0;
    uint64_t offset = 0;
    PITH_TRY(read_name(r, "the name of a tensor", &t->name));
    const char *fault = strlen(t->name) > MAX_TENSOR_NAME ? "its name has more than 63 bytes"
                                                          : pith_tensor_name_fault(t->name);
    if (fault) return pith_fail(r->err, PITH_FORMAT, "tensor \"%.100s\": %s", t->name, fault);
    PITH_TRY(read_bytes(r, &dims, sizeof dims, "a tensor's entry"));
    PITH_TRY(read_shape(r, t, dims));
    PITH_TRY(read_bytes(r, &id, sizeof id, "a tensor's entry"));
    PITH_TRY(read_bytes(r, &offset, sizeof offset, "a tensor's entry"));
    PITH_TRY(size_tensor(r, t, id));
    if (offset != *end)
        return pith_fail(r->err, PITH_FORMAT,
                         "tensor \"%s\": is at %" PRIu64 " where %" PRIu64 " was expected", t->name,
                         offset, *end);
    const uint64_t pad = r->g->alignment - 1;
    if (t->bytes > INT64_MAX - pad - offset)
        return pith_fail(r->err, PITH_FORMAT, "tensor \"%s\": ends beyond any file", t->name);
    *end = (offset + t->bytes + pad) & ~pad;
    return PITH_OK;
}

/* --- the whole -------------------------------------------------------------------------------- */

static int compare_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Fails when two of `count` names are equal; they lie `step` bytes apart. */
static enum pith_status check_unique(const void *first, size_t count, size_t step,
                                     const char *what, struct pith_error *err)
{
    const char **list = pith_alloc(count, sizeof *list);
    if (!list) return pith_fail_nomem(err, "a list of names");
    for (size_t i = 0; i < count; i++)
        memcpy(&list[i], (const char *)first + i * step, sizeof *list);
    if (count) qsort(list, count, sizeof *list, compare_text);
    enum pith_status s = PITH_OK;
    for (size_t i = 1; i < count && s == PITH_OK; i++)
        if (strcmp(list[i - 1], list[i]) == 0)
            s = pith_fail(err, PITH_FORMAT, "%s \"%.100s\" is there twice", what, list[i]);
    pith_free(list);
    return s;
}

enum pith_status pith_gguf_check_unique(const struct pith_gguf *g, struct pith_error *err)
{
    return check_unique(&g->tensors->name, g->tensor_count, sizeof *g->tensors, "tensor", err);
}

static enum pith_status read_counts(struct reader *r, uint64_t *tensors, uint64_t *keys)
{
    char magic[4];
    if (left(r) < sizeof magic || memcmp(r->data, "GGUF", 4) != 0)
        return pith_fail(r->err, PITH_FORMAT, "not a GGUF file");
    PITH_TRY(read_bytes(r, magic, sizeof magic, "the header"));
    PITH_TRY(read_bytes(r, &r->g->version, sizeof r->g->version, "the header"));
    if (r->g->version != 0 && r->g->version % 65536 == 0) /* 2 or 3, read from the wrong end */
        return pith_fail(r->err, PITH_UNSUPPORTED,
                         "a big-endian file; gguf-convert-endian FILE little, of the gguf package, "
                         "makes it one that can be read");
    if (r->g->version < 2 || r->g->version > 3)
        return pith_fail(r->err, PITH_UNSUPPORTED, "GGUF version %" PRIu32 "; 2 and 3 can be read",
                         r->g->version);
    PITH_TRY(read_bytes(r, tensors, sizeof *tensors, "the header"));
    PITH_TRY(read_bytes(r, keys, sizeof *keys, "the header"));
    if (*tensors > left(r) / LEAST_TENSOR || *keys > left(r) / LEAST_KEY)
        return pith_fail(r->err, PITH_FORMAT,
                         "%" PRIu64 " keys and %" PRIu64 " tensors are more than the file holds",
                         *keys, *tensors);
    return PITH_OK;
}

static enum pith_status read_keys(struct reader *r, uint64_t count)
{
    struct pith_gguf *g = r->g;
    uint64_t alignment = DEFAULT_ALIGNMENT;
    g->keys = pith_zalloc((size_t)count, sizeof *g->keys);
    if (!g->keys) return pith_fail_nomem(r->err, "the list of keys");
    while (g->key_count < count) PITH_TRY(read_key(r, &g->keys[g->key_count++]));
    PITH_TRY(check_unique(&g->keys->name, g->key_count, sizeof *g->keys, "key", r->err));
    PITH_TRY(pith_gguf_get_uint(g, "general.alignment", MAX_ALIGNMENT, &alignment, r->err));
    if (alignment == 0 || (alignment & (alignment - 1)))
        return pith_fail(r->err, PITH_FORMAT,
                         "general.alignment is %" PRIu64 ", not a power of two", alignment);
    g->alignment = (uint32_t)alignment;
    return PITH_OK;
}

static enum pith_status read_tensors(struct reader *r, uint64_t count)
{
    struct pith_gguf *g = r->g;
    uint64_t end = 0, at = 0;
    g->tensors = pith_zalloc((size_t)count, sizeof *g->tensors);
    if (!g->tensors) return pith_fail_nomem(r->err, "the list of tensors");
    while (g->tensor_count < count) PITH_TRY(read_tensor(r, &g->tensors[g->tensor_count++], &end));
    PITH_TRY(pith_gguf_check_unique(g, r->err));
    const size_t pad = g->alignment - 1;
    const uint64_t start = ((uint64_t)r->at + pad) & ~(uint64_t)pad;
    for (size_t i = 0; i < g->tensor_count; i++) {
        struct pith_gguf_tensor *t = &g->tensors[i];
        if (start > r->size || at > r->size - start || t->bytes > r->size - start - at)
            return pith_fail(r->err, PITH_FORMAT, "tensor \"%s\": the file ends before it does",
                             t->name);
        t->data = r->data + start + at;
        at = (at + t->bytes + pad) & ~(uint64_t)pad;
    }
    return PITH_OK;
}

static enum pith_status read_all(struct reader *r)
{
    uint64_t tensors = 0, keys = 0;
    PITH_TRY(read_counts(r, &tensors, &keys));
    PITH_TRY(read_keys(r, keys));
    return read_tensors(r, tensors);
}

enum pith_status pith_gguf_parse(const uint8_t *data, size_t size, const char *path,
                                 struct pith_gguf *out, struct pith_error *err)
{
    *out = (struct pith_gguf){.path = pith_strdup(path)};
    struct reader r = {.g = out, .data = data, .size = size, .err = err};
    enum pith_status s = out->path ? read_all(&r) : pith_fail_nomem(err, path);
    if (s == PITH_OK) return s;
    s = pith_fail_in(err, s, path);
    pith_gguf_close(out);
    return s;
}

enum pith_status pith_gguf_open(const char *path, struct pith_gguf *out, struct pith_error *err)
{
    struct pith_map map;
    PITH_TRY(pith_map_open(path, &map, err));
    enum pith_status s = pith_lfs_check(map.data, map.size, path, err);
    if (s == PITH_OK) s = pith_gguf_parse(map.data, map.size, path, out, err);
    if (s == PITH_OK) out->map = map;
    else pith_map_close(&map);
    return s;
}

enum pith_status pith_gguf_append(struct pith_gguf *g, struct pith_gguf *from, uint32_t part,
                                  struct pith_error *err)
{
    const size_t count = g->tensor_count + from->tensor_count;
    struct pith_gguf_tensor *all = pith_realloc(g->tensors, count, sizeof *all);
    if (!all) return pith_fail_nomem(err, "the list of tensors");
    g->tensors = all;
    for (size_t i = 0; i < from->tensor_count; i++) {
        all[g->tensor_count] = from->tensors[i];
        all[g->tensor_count++].part = part;
    }
    from->tensor_count = 0;
    return PITH_OK;
}

void pith_gguf_close(struct pith_gguf *g)
{
    pith_map_close(&g->map);
    for (size_t i = 0; i < g->key_count; i++) pith_free(g->keys[i].name);
    for (size_t i = 0; i < g->tensor_count; i++) pith_free(g->tensors[i].name);
    pith_free(g->keys);
    pith_free(g->tensors);
    pith_free(g->path);
    *g = (struct pith_gguf){0};
}
