/* Laying out the safetensors files of a checkpoint before there is any data. */
#include "base/grow.h"
#include "base/mem.h"
#include "base/str.h"
#include "io/safetensors.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define HEADER_LIMIT 100000000u

int pith_tensor_plan_by_name(const void *a, const void *b)
{
    return strcmp(((const struct pith_tensor_plan *)a)->name,
                  ((const struct pith_tensor_plan *)b)->name);
}

/* Widest types first, so that every tensor lands on a multiple of its element's size. */
static int compare_place(const void *a, const void *b)
{
    const struct pith_tensor_plan *x = a, *y = b;
    if (x->shard != y->shard) return x->shard < y->shard ? -1 : 1;
    if (x->dtype != y->dtype) return x->dtype > y->dtype ? -1 : 1;
    return strcmp(x->name, y->name);
}

static enum pith_status reserve(struct pith_layout *l, struct pith_error *err)
{
    struct pith_tensor_plan *more = pith_grow(l->tensors, l->count, &l->cap, 64, sizeof *more);
    if (!more) return pith_fail_nomem(err, "the layout");
    l->tensors = more;
    return PITH_OK;
}

enum pith_status pith_layout_add(struct pith_layout *l, const char *name, enum pith_dtype dtype,
                                 unsigned dims, const uint64_t *shape, struct pith_error *err)
{
    const char *fault = pith_tensor_name_fault(name);
    if (fault) return pith_fail(err, PITH_ARG, "tensor \"%.100s\": %s", name, fault);
    if (l->shards) return pith_fail(err, PITH_ARG, "tensor \"%s\": the layout is finished", name);
    if (dims > PITH_MAX_DIMS)
        return pith_fail(err, PITH_ARG, "tensor \"%s\": %u dimensions, more than %d", name, dims,
                         PITH_MAX_DIMS);
    struct pith_tensor_plan t = {.dtype = dtype, .dims = dims};
    if (dims) memcpy(t.shape, shape, dims * sizeof *shape);
    if (!pith_tensor_size(dtype, dims, shape, &t.bytes) || t.bytes > INT64_MAX - l->total_bytes)
        return pith_fail(err, PITH_ARG,
                         "tensor \"%s\": its size overflows or is no whole number of bytes", name);
    PITH_TRY(reserve(l, err));
    t.name = pith_strdup(name);
    if (!t.name) return pith_fail_nomem(err, "the name of a tensor");
    l->total_bytes += t.bytes;
    l->tensors[l->count++] = t;
    return PITH_OK;
}

/* Fills shards in the order added; returns their number. */
static size_t distribute(struct pith_layout *l, uint64_t max_shard)
{
    uint32_t shard = 0;
    uint64_t used = 0;
    for (size_t i = 0; i < l->count; i++) {
        struct pith_tensor_plan *t = &l->tensors[i];
        const bool fits = max_shard == 0 || (used <= max_shard && t->bytes <= max_shard - used);
        if (!fits && used > 0) {
            shard++;
            used = 0;
        }
        t->shard = shard;
        used += t->bytes;
    }
    return (size_t)shard + 1;
}

/* Names hold no control characters, so only these two need escaping. */
static void put_quoted(struct pith_str *s, const char *text)
{
    pith_str_putc(s, '"');
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') pith_str_putc(s, '\\');
        pith_str_putc(s, *text);
    }
    pith_str_putc(s, '"');
}

static void put_entry(struct pith_str *s, const struct pith_tensor_plan *t, uint64_t begin)
{
    put_quoted(s, t->name);
    pith_str_printf(s, ":{\"dtype\":\"%s\",\"shape\":[", pith_dtype_name(t->dtype));
    for (unsigned i = 0; i < t->dims; i++)
        pith_str_printf(s, "%s%" PRIu64, i ? "," : "", t->shape[i]);
    pith_str_printf(s, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", begin, begin + t->bytes);
}

static void store_u64(char *p, uint64_t v)
{
    for (int i = 0; i < 8; i++) p[i] = (char)(v >> (8 * i) & 0xff);
}

/* Builds one shard's header from its tensors t[0..count), in file order, and places them. */
static enum pith_status build_shard(struct pith_layout *l, size_t shard, struct pith_tensor_plan *t,
                                    size_t count, struct pith_error *err)
{
    struct pith_str s = {0};
    uint64_t at = 0;
    pith_str_append(&s, "\0\0\0\0\0\0\0\0", 8);
    pith_str_puts(&s, "{\"__metadata__\":{\"format\":\"pt\"}");
    for (size_t i = 0; i < count; i++) {
        pith_str_putc(&s, ',');
        put_entry(&s, &t[i], at);
        t[i].offset = at;
        at += t[i].bytes;
    }
    pith_str_putc(&s, '}');
    while (s.len % 8 != 0 && !s.failed) pith_str_putc(&s, ' ');
    const size_t size = s.len;
    l->headers[shard] = pith_str_take(&s);
    if (!l->headers[shard]) return pith_fail_nomem(err, "a file's header");
    if (size - 8 > HEADER_LIMIT)
        return pith_fail(err, PITH_ARG,
                         "%s: a header of %zu bytes is more than readers take (use shards)",
                         l->shard_names[shard], size);
    store_u64(l->headers[shard], size - 8);
    for (size_t i = 0; i < count; i++) t[i].offset += size;
    l->header_bytes[shard] = size;
    l->shard_bytes[shard] = size + at;
    return PITH_OK;
}

static enum pith_status name_shards(struct pith_layout *l, struct pith_error *err)
{
    for (size_t i = 0; i < l->shards; i++) {
        struct pith_str s = {0};
        if (l->shards == 1) pith_str_puts(&s, "model.safetensors");
        else pith_str_printf(&s, "model-%05zu-of-%05zu.safetensors", i + 1, l->shards);
        l->shard_names[i] = pith_str_take(&s);
        if (!l->shard_names[i]) return pith_fail_nomem(err, "a file's name");
    }
    return PITH_OK;
}

static enum pith_status allocate_shards(struct pith_layout *l, size_t shards,
                                        struct pith_error *err)
{
    l->shards = shards;
    l->shard_names = pith_zalloc(shards, sizeof *l->shard_names);
    l->headers = pith_zalloc(shards, sizeof *l->headers);
    l->header_bytes = pith_zalloc(shards, sizeof *l->header_bytes);
    l->shard_bytes = pith_zalloc(shards, sizeof *l->shard_bytes);
    if (!l->shard_names || !l->headers || !l->header_bytes || !l->shard_bytes)
        return pith_fail_nomem(err, "the layout");
    return name_shards(l, err);
}

static void sort(struct pith_layout *l, int (*compare)(const void *, const void *))
{
    if (l->count) qsort(l->tensors, l->count, sizeof *l->tensors, compare);
}

enum pith_status pith_layout_finish(struct pith_layout *l, uint64_t max_shard,
                                    struct pith_error *err)
{
    if (l->shards) return pith_fail(err, PITH_ARG, "the layout is finished already");
    PITH_TRY(allocate_shards(l, distribute(l, max_shard), err));
    sort(l, pith_tensor_plan_by_name);
    for (size_t i = 1; i < l->count; i++)
        if (strcmp(l->tensors[i - 1].name, l->tensors[i].name) == 0)
            return pith_fail(err, PITH_ARG, "tensor \"%.100s\" is added twice", l->tensors[i].name);
    sort(l, compare_place);
    size_t first = 0;
    for (size_t shard = 0; shard < l->shards; shard++) {
        size_t end = first;
        while (end < l->count && l->tensors[end].shard == shard) end++;
        PITH_TRY(build_shard(l, shard, l->tensors ? l->tensors + first : NULL, end - first, err));
        first = end;
    }
    sort(l, pith_tensor_plan_by_name);
    return PITH_OK;
}

const struct pith_tensor_plan *pith_layout_find(const struct pith_layout *l, const char *name)
{
    size_t lo = 0, hi = l->count;
    while (lo < hi) {
        const size_t mid = lo + (hi - lo) / 2;
        const int c = strcmp(l->tensors[mid].name, name);
        if (c == 0) return &l->tensors[mid];
        if (c < 0) lo = mid + 1;
        else hi = mid;
    }
    return NULL;
}

char *pith_layout_index(const struct pith_layout *l)
{
    struct pith_str s = {0};
    pith_str_printf(
        &s, "{\n  \"metadata\": {\n    \"total_size\": %" PRIu64 "\n  },\n  \"weight_map\": {",
        l->total_bytes);
    for (size_t i = 0; i < l->count; i++) {
        pith_str_puts(&s, i ? ",\n    " : "\n    ");
        put_quoted(&s, l->tensors[i].name);
        pith_str_puts(&s, ": ");
        put_quoted(&s, l->shard_names[l->tensors[i].shard]);
    }
    pith_str_puts(&s, l->count ? "\n  }\n}\n" : "}\n}\n");
    return pith_str_take(&s);
}

void pith_layout_free(struct pith_layout *l)
{
    for (size_t i = 0; i < l->count; i++) pith_free(l->tensors[i].name);
    for (size_t i = 0; i < l->shards; i++) {
        if (l->shard_names) pith_free(l->shard_names[i]);
        if (l->headers) pith_free(l->headers[i]);
    }
    pith_free(l->tensors);
    pith_free(l->shard_names);
    pith_free(l->headers);
    pith_free(l->header_bytes);
    pith_free(l->shard_bytes);
    *l = (struct pith_layout){0};
}
