/* Reading safetensors. The header is walked one tensor at a time; see io/json_members.h for why. */
#include "io/safetensors.h"

#include "base/grow.h"
#include "base/mem.h"
#include "io/json_members.h"
#include "io/lfs.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define HEADER_LIMIT 100000000u        /* the reference's */
#define ENTRY_LIMIT ((size_t)64 << 10) /* one tensor's text: about 100 bytes in real files */
#define METADATA_LIMIT ((size_t)16 << 20)

/* Work in progress on one header. */
struct reader {
    struct pith_safetensors *st;
    const uint8_t *data; /* what follows the header */
    uint64_t size;
    size_t cap;        /* tensors that st->tensors has room for */
    size_t names_used; /* bytes of st->names */
    bool has_metadata;
};

static int compare_place(const void *a, const void *b)
{
    const struct pith_tensor *x = a, *y = b;
    if (x->data != y->data) return x->data < y->data ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

int pith_tensor_by_name(const void *a, const void *b)
{
    return strcmp(((const struct pith_tensor *)a)->name, ((const struct pith_tensor *)b)->name);
}

static enum pith_status bad(struct pith_error *err, const struct pith_tensor *t, const char *what)
{
    return pith_fail(err, PITH_FORMAT, "tensor \"%.100s\": %s", t->name, what);
}

/* A count that JSON holds as an integer. "-0" is one to jansson but not to the reference. */
static bool read_count(const json_t *v, uint64_t *out)
{
    if (!json_is_integer(v) || json_integer_value(v) < 0) return false;
    *out = (uint64_t)json_integer_value(v);
    return true;
}

static bool has_negative_zero(const char *text, size_t size)
{
    for (size_t i = 0; i + 1 < size; i++)
        if (text[i] == '-' && text[i + 1] == '0') return true;
    return false;
}

static enum pith_status read_shape(struct pith_tensor *t, const json_t *shape,
                                   struct pith_error *err)
{
    if (!json_is_array(shape)) return bad(err, t, "\"shape\" is missing or not a list");
    const size_t dims = json_array_size(shape);
    if (dims > PITH_MAX_DIMS)
        return pith_fail(err, PITH_UNSUPPORTED, "tensor \"%.100s\": %zu dimensions, more than %d",
                         t->name, dims, PITH_MAX_DIMS);
    for (size_t i = 0; i < dims; i++)
        if (!read_count(json_array_get(shape, i), &t->shape[i]))
            return bad(err, t, "\"shape\" holds something other than a whole number");
    t->dims = (unsigned)dims;
    return PITH_OK;
}

static enum pith_status read_place(const struct reader *r, struct pith_tensor *t,
                                   const json_t *offsets, struct pith_error *err)
{
    uint64_t begin, end;
    if (json_array_size(offsets) != 2 || !read_count(json_array_get(offsets, 0), &begin) ||
        !read_count(json_array_get(offsets, 1), &end))
        return bad(err, t, "\"data_offsets\" is not a pair of whole numbers");
    if (begin > end || end > r->size)
        return pith_fail(err, PITH_FORMAT,
                         "tensor \"%.100s\": bytes %" PRIu64 " to %" PRIu64
                         " are not inside the %" PRIu64 " bytes of data",
                         t->name, begin, end, r->size);
    if (!pith_tensor_size(t->dtype, t->dims, t->shape, &t->bytes))
        return bad(err, t, "its size overflows or is no whole number of bytes");
    if (t->bytes != end - begin)
        return pith_fail(err, PITH_FORMAT,
                         "tensor \"%.100s\": shape and dtype need %" PRIu64
                         " bytes, but its offsets hold %" PRIu64,
                         t->name, t->bytes, end - begin);
    t->data = r->data + begin;
    return PITH_OK;
}

static enum pith_status read_info(const struct reader *r, struct pith_tensor *t, const json_t *info,
                                  struct pith_error *err)
{
    if (!json_is_object(info)) return bad(err, t, "its entry is not an object");
    const char *dtype = pith_json_plain(json_object_get(info, "dtype"));
    if (!dtype) return bad(err, t, "\"dtype\" is missing or not a string");
    if (!pith_dtype_find(dtype, &t->dtype) || strcmp(pith_dtype_name(t->dtype), dtype) != 0)
        return pith_fail(err, PITH_FORMAT, "tensor \"%.100s\": unknown dtype \"%.40s\"", t->name,
                         dtype);
    PITH_TRY(read_shape(t, json_object_get(info, "shape"), err));
    return read_place(r, t, json_object_get(info, "data_offsets"), err);
}

/* Copies a name to st->names, which has room: no name is longer than its text in the header. */
static const char *keep_name(struct reader *r, const char *name)
{
    const size_t n = strlen(name) + 1;
    char *at = r->st->names + r->names_used;
    memcpy(at, name, n);
    r->names_used += n;
    return at;
}

static enum pith_status add_tensor(struct reader *r, const struct pith_member *m, json_t *piece,
                                   struct pith_error *err)
{
    struct pith_safetensors *st = r->st;
    const char *name = json_object_iter_key(json_object_iter(piece));
    const char *fault = pith_tensor_name_fault(name);
    if (fault) return pith_fail(err, PITH_FORMAT, "tensor \"%.100s\": %s", name, fault);
    struct pith_tensor *more = pith_grow(st->tensors, st->count, &r->cap, 16, sizeof *more);
    if (!more) return pith_fail_nomem(err, "the list of tensors");
    st->tensors = more;
    struct pith_tensor *t = &st->tensors[st->count];
    *t = (struct pith_tensor){.name = keep_name(r, name)};
    PITH_TRY(read_info(r, t, json_object_get(piece, name), err));
    if (has_negative_zero(m->value, m->value_size)) return bad(err, t, "a number is negative");
    st->count++;
    return PITH_OK;
}

/* Metadata maps strings to strings; that it is flat is seen before a tree of it is built. */
static enum pith_status add_metadata(struct reader *r, struct pith_members *walk,
                                     const struct pith_member *m, struct pith_error *err)
{
    if (r->has_metadata) return pith_fail(err, PITH_FORMAT, "\"__metadata__\" is there twice");
    r->has_metadata = true;
    if (m->value[0] == '{') {
        struct pith_members inner;
        struct pith_member item;
        bool more = true;
        enum pith_status s = pith_members_begin(&inner, m->value, m->value_size, err);
        inner.flags = PITH_JSON_STRICT;
        while (s == PITH_OK && (s = pith_members_next(&inner, &item, &more, err)) == PITH_OK &&
               more)
            if (item.value[0] != '"')
                s = pith_fail(err, PITH_FORMAT,
                              "\"__metadata__\" holds something other than strings");
        pith_members_end(&inner);
        if (s != PITH_OK) return s;
    }
    json_t *piece;
    PITH_TRY(pith_members_parse(walk, m, METADATA_LIMIT, &piece, err));
    json_t *value = json_object_get(piece, "__metadata__");
    enum pith_status s = PITH_OK;
    if (json_is_object(value)) r->st->metadata = json_incref(value);
    else if (!json_is_null(value))
        s = pith_fail(err, PITH_FORMAT, "\"__metadata__\" is not an object");
    json_decref(piece);
    return s;
}

static enum pith_status add_member(struct reader *r, struct pith_members *walk,
                                   const struct pith_member *m, struct pith_error *err)
{
    if (pith_member_is(m, "__metadata__")) return add_metadata(r, walk, m, err);
    json_t *piece;
    PITH_TRY(pith_members_parse(walk, m, ENTRY_LIMIT, &piece, err));
    const enum pith_status s = add_tensor(r, m, piece, err);
    json_decref(piece);
    return s;
}

static enum pith_status read_header(struct reader *r, const char *text, size_t size,
                                    struct pith_error *err)
{
    struct pith_members walk;
    struct pith_member m;
    bool more = true;
    enum pith_status s = pith_members_begin(&walk, text, size, err);
    walk.flags = PITH_JSON_STRICT;
    if (s != PITH_OK) goto done;
    r->st->names = pith_alloc(size, 1);
    if (!r->st->names) {
        s = pith_fail_nomem(err, "the names of tensors");
        goto done;
    }
    while ((s = pith_members_next(&walk, &m, &more, err)) == PITH_OK && more)
        if ((s = add_member(r, &walk, &m, err)) != PITH_OK) break;
done:
    pith_members_end(&walk);
    return s;
}

/* Tensors must fill the data without holes, overlaps or rest. Leaves them sorted by name. */
static enum pith_status check_places(const struct reader *r, struct pith_error *err)
{
    struct pith_tensor *t = r->st->tensors;
    const size_t count = r->st->count;
    uint64_t at = 0;
    if (count) qsort(t, count, sizeof *t, compare_place);
    for (size_t i = 0; i < count; i++) {
        const uint64_t begin = (uint64_t)(t[i].data - r->data);
        if (begin > at)
            return pith_fail(err, PITH_FORMAT,
                             "%" PRIu64 " bytes before tensor \"%.100s\" belong to no tensor",
                             begin - at, t[i].name);
        if (begin < at)
            return pith_fail(err, PITH_FORMAT, "tensors \"%.100s\" and \"%.100s\" overlap",
                             t[i - 1].name, t[i].name);
        at += t[i].bytes;
    }
    if (at != r->size)
        return pith_fail(err, PITH_FORMAT, "%" PRIu64 " bytes after the last tensor", r->size - at);
    if (count) qsort(t, count, sizeof *t, pith_tensor_by_name);
    for (size_t i = 1; i < count; i++)
        if (strcmp(t[i - 1].name, t[i].name) == 0)
            return bad(err, &t[i], "the name is there twice");
    return PITH_OK;
}

static uint64_t load_u64(const uint8_t *p)
{
    uint64_t v = 0;
    for (int i = 7; i >= 0; i--) v = v << 8 | p[i];
    return v;
}

static enum pith_status parse(const uint8_t *data, size_t size, struct pith_safetensors *st,
                              struct pith_error *err)
{
    if (size < 8)
        return pith_fail(err, PITH_FORMAT, "%zu bytes: too short for a safetensors file", size);
    const uint64_t header = load_u64(data);
    if (header > HEADER_LIMIT)
        return pith_fail(err, PITH_FORMAT,
                         "not a safetensors file: it claims a header of %" PRIu64 " bytes", header);
    if (header > size - 8)
        return pith_fail(err, PITH_FORMAT,
                         "truncated: the header takes %" PRIu64 " bytes, the whole file has %zu",
                         header, size);
    struct reader r = {.st = st, .data = data + 8 + header, .size = size - 8 - header};
    PITH_TRY(read_header(&r, (const char *)data + 8, (size_t)header, err));
    return check_places(&r, err);
}

enum pith_status pith_safetensors_parse(const uint8_t *data, size_t size, const char *path,
                                        struct pith_safetensors *out, struct pith_error *err)
{
    struct pith_safetensors st = {.path = pith_strdup(path)};
    if (!st.path) return pith_fail_nomem(err, path);
    const enum pith_status s = parse(data, size, &st, err);
    if (s != PITH_OK) {
        pith_safetensors_close(&st);
        return pith_fail_in(err, s, path);
    }
    *out = st;
    return PITH_OK;
}

enum pith_status pith_safetensors_open(const char *path, struct pith_safetensors *out,
                                       struct pith_error *err)
{
    struct pith_map map;
    PITH_TRY(pith_map_open(path, &map, err));
    enum pith_status s = pith_lfs_check(map.data, map.size, path, err);
    if (s == PITH_OK) s = pith_safetensors_parse(map.data, map.size, path, out, err);
    if (s == PITH_OK) out->map = map;
    else pith_map_close(&map);
    return s;
}

void pith_safetensors_close(struct pith_safetensors *st)
{
    json_decref(st->metadata);
    pith_free(st->tensors);
    pith_free(st->names);
    pith_free(st->path);
    pith_map_close(&st->map);
    *st = (struct pith_safetensors){0};
}

const struct pith_tensor *pith_safetensors_find(const struct pith_safetensors *st, const char *name)
{
    const struct pith_tensor key = {.name = name};
    if (!st->count) return NULL;
    return bsearch(&key, st->tensors, st->count, sizeof key, pith_tensor_by_name);
}
