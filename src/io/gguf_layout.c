/* Laying out a GGUF file before there is any data. */
#include "base/mem.h"
#include "io/gguf.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 32, VERSION = 3 };

static uint64_t padded(uint64_t n)
{
    return (n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static void put(struct pith_str *s, const void *data, size_t n)
{
    pith_str_append(s, data, n);
}

static void put_info(struct pith_str *s, const struct pith_gguf_name *n, uint64_t offset)
{
    const uint32_t dims = n->dims, type = n->type.id;
    pith_gguf_put_string(s, n->name, strlen(n->name));
    put(s, &dims, sizeof dims);
    for (unsigned i = n->dims; i-- > 0;) put(s, &n->shape[i], sizeof n->shape[i]);
    put(s, &type, sizeof type);
    put(s, &offset, sizeof offset);
}

/* The bytes that shape and type make are the planned ones; the layout has checked those. */
static bool fits(const struct pith_gguf_name *n, const struct pith_tensor_plan *t)
{
    uint64_t elements = 1;
    for (unsigned i = 0; i < n->dims; i++)
        if (n->shape[i] == 0 || n->shape[i] > INT64_MAX / elements) return false;
        else elements *= n->shape[i];
    if (n->dims == 0 || n->shape[n->dims - 1] % n->type.block) return false;
    return t->bytes % n->type.bytes == 0 && t->bytes / n->type.bytes == elements / n->type.block;
}

static enum pith_status allocate(struct pith_layout *l, const char *file, struct pith_error *err)
{
    l->shards = 1;
    l->shard_names = pith_zalloc(1, sizeof *l->shard_names);
    l->headers = pith_zalloc(1, sizeof *l->headers);
    l->header_bytes = pith_zalloc(1, sizeof *l->header_bytes);
    l->shard_bytes = pith_zalloc(1, sizeof *l->shard_bytes);
    if (!l->shard_names || !l->headers || !l->header_bytes || !l->shard_bytes)
        return pith_fail_nomem(err, "the layout");
    l->shard_names[0] = pith_strdup(file);
    return l->shard_names[0] ? PITH_OK : pith_fail_nomem(err, "the layout");
}

static int compare_name(const void *a, const void *b)
{
    return strcmp(((const struct pith_tensor_plan *)a)->name,
                  ((const struct pith_tensor_plan *)b)->name);
}

static int compare_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static enum pith_status check_names(const struct pith_gguf_name *names, size_t count,
                                    struct pith_error *err)
{
    const char **list = pith_alloc(count, sizeof *list);
    enum pith_status s = PITH_OK;
    if (!list) return pith_fail_nomem(err, "the layout");
    for (size_t i = 0; i < count; i++) list[i] = names[i].name;
    if (count) qsort(list, count, sizeof *list, compare_text);
    for (size_t i = 1; i < count && s == PITH_OK; i++)
        if (strcmp(list[i - 1], list[i]) == 0)
            s = pith_fail(err, PITH_ARG, "tensor \"%s\" is added twice", list[i]);
    pith_free(list);
    return s;
}

/* Everything before the data, and the constant. */
static enum pith_status put_header(struct pith_layout *l, const struct pith_gguf_keys *keys,
                                   const struct pith_gguf_constant *constant,
                                   const struct pith_gguf_name *names, struct pith_str *s,
                                   struct pith_error *err)
{
    const uint32_t version = VERSION;
    const uint64_t tensors = l->count + (constant->count > 0), count = keys->count;
    const uint64_t before = padded(constant->count * sizeof *constant->value);
    uint64_t end = before;
    pith_str_puts(s, "GGUF");
    put(s, &version, sizeof version);
    put(s, &tensors, sizeof tensors);
    put(s, &count, sizeof count);
    put(s, pith_str_text(&keys->bytes), keys->bytes.len);
    if (constant->count) {
        struct pith_gguf_name n = {.dims = 1, .shape = {constant->count}};
        (void)pith_ggml_type_find("F32", &n.type);
        (void)snprintf(n.name, sizeof n.name, "%s", constant->name);
        put_info(s, &n, 0);
    }
    for (size_t i = 0; i < l->count; i++) {
        struct pith_tensor_plan *t = &l->tensors[i];
        if (!fits(&names[i], t))
            return pith_fail(err, PITH_ARG,
                             "tensor \"%s\": its shape does not make its %" PRIu64 " bytes of %s",
                             t->name, t->bytes, names[i].type.name);
        put_info(s, &names[i], end);
        t->offset = end - before;
        t->heads = names[i].heads;
        end = padded(end + t->bytes);
    }
    l->shard_bytes[0] = end - before;
    while (s->len % ALIGNMENT && !s->failed) pith_str_putc(s, '\0');
    put(s, constant->value, (size_t)constant->count * sizeof *constant->value);
    while (s->len % ALIGNMENT && !s->failed) pith_str_putc(s, '\0');
    return s->failed || keys->bytes.failed ? pith_fail_nomem(err, "a file's header") : PITH_OK;
}

enum pith_status pith_gguf_layout_finish(struct pith_layout *l, const char *file,
                                         const struct pith_gguf_keys *keys,
                                         const struct pith_gguf_constant *constant,
                                         const struct pith_gguf_name *names, struct pith_error *err)
{
    static const struct pith_gguf_constant none = {0};
    struct pith_str s = {0};
    if (l->shards) return pith_fail(err, PITH_ARG, "the layout is finished already");
    PITH_TRY(allocate(l, file, err));
    PITH_TRY(check_names(names, l->count, err));
    const enum pith_status status =
        put_header(l, keys, constant ? constant : &none, names, &s, err);
    if (status != PITH_OK) {
        pith_str_free(&s);
        return status;
    }
    const size_t size = s.len;
    l->headers[0] = pith_str_take(&s);
    for (size_t i = 0; i < l->count; i++) l->tensors[i].offset += size;
    l->header_bytes[0] = size;
    l->shard_bytes[0] += size;
    if (l->count) qsort(l->tensors, l->count, sizeof *l->tensors, compare_name);
    return PITH_OK;
}
