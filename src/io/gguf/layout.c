/* Laying out a GGUF file before there is any data. */
#include "base/mem.h"
#include "io/gguf/gguf.h"

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

/* The bytes of a shape; false when there are none, or too many. */
static bool shape_bytes(const struct pith_ggml_type *type, unsigned dims, const uint64_t *shape,
                        uint64_t *bytes)
{
    uint64_t elements = 1;
    for (unsigned i = 0; i < dims; i++)
        if (shape[i] == 0 || shape[i] > INT64_MAX / 64 / elements) return false;
        else elements *= shape[i];
    if (dims == 0 || dims > 4 || shape[dims - 1] % type->block) return false;
    return !__builtin_mul_overflow(elements / type->block, type->bytes, bytes);
}

/* The rest of what a layout has in one tensor, which lies behind the first part. */
static void put_rest(struct pith_str *s, const struct pith_gguf_name *n, uint64_t offset)
{
    uint64_t first = 0;
    const uint32_t dims = n->rest.dims, type = n->type.id;
    (void)shape_bytes(&n->type, n->dims, n->shape, &first);
    offset += first;
    pith_gguf_put_string(s, n->rest.name, strlen(n->rest.name));
    put(s, &dims, sizeof dims);
    for (unsigned i = dims; i-- > 0;) put(s, &n->rest.shape[i], sizeof n->rest.shape[i]);
    put(s, &type, sizeof type);
    put(s, &offset, sizeof offset);
}

static void put_info(struct pith_str *s, const struct pith_gguf_name *n, uint64_t offset)
{
    const uint64_t parts = n->parts;
    const bool number = parts && n->dims == 1 && n->shape[0] == 1;
    const uint32_t own = number ? 0 : n->dims, dims = own + (parts > 0), type = n->type.id;
    pith_gguf_put_string(s, n->name, strlen(n->name));
    put(s, &dims, sizeof dims);
    for (unsigned i = own; i-- > 0;) put(s, &n->shape[i], sizeof n->shape[i]);
    if (parts) put(s, &parts, sizeof parts);
    put(s, &type, sizeof type);
    put(s, &offset, sizeof offset);
}

/* The bytes that shapes and type make are the planned ones; the layout has checked those. */
static bool fits(const struct pith_gguf_name *n, const struct pith_tensor_plan *t)
{
    uint64_t bytes, rest = 0;
    if (n->dims + (n->parts > 0) > 4 || n->part > n->parts) return false;
    if (!shape_bytes(&n->type, n->dims, n->shape, &bytes)) return false;
    if (n->rest.dims && (n->parts || bytes % ALIGNMENT ||
                         !shape_bytes(&n->type, n->rest.dims, n->rest.shape, &rest)))
        return false;
    return t->bytes == bytes + rest;
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

/* By name, then part, then as added. */
static int compare_part(const void *a, const void *b)
{
    const struct pith_gguf_name *x = *(const struct pith_gguf_name *const *)a,
                                *y = *(const struct pith_gguf_name *const *)b;
    const int c = strcmp(x->name, y->name);
    if (c) return c;
    if (x->part != y->part) return x->part < y->part ? -1 : 1;
    return (x > y) - (x < y);
}

static bool alike(const struct pith_gguf_name *a, const struct pith_gguf_name *b)
{
    return a->parts == b->parts && a->type.id == b->type.id && a->dims == b->dims &&
           memcmp(&a->order, &b->order, sizeof a->order) == 0 && a->as == b->as &&
           memcmp(a->shape, b->shape, a->dims * sizeof *a->shape) == 0;
}

/* The n names of one tensor, parts in order; 0 are wanted of one that has none. */
static enum pith_status check_group(const struct pith_gguf_name *const *list, size_t n,
                                    struct pith_error *err)
{
    const struct pith_gguf_name *first = list[0];
    for (size_t i = 1; i < n; i++)
        if (!first->parts || list[i]->part == list[i - 1]->part)
            return pith_fail(err, PITH_ARG, "tensor \"%s\" is added twice", first->name);
        else if (!alike(first, list[i]))
            return pith_fail(err, PITH_UNSUPPORTED,
                             "%s: expert %u is stored in another way than expert %u (%s and %s),"
                             " and a GGUF file holds all of a layer in one tensor: give them one"
                             " grid",
                             first->name, (unsigned)list[i]->part, (unsigned)first->part,
                             list[i]->type.name, first->type.name);
    if (first->parts && (n != first->parts || list[n - 1]->part != n - 1))
        return pith_fail(err, PITH_ARG, "tensor \"%s\" has %zu parts, not %u", first->name, n,
                         (unsigned)first->parts);
    return PITH_OK;
}

/* Checks the names; leads[i]: as what the tensor of names[i] was first added. */
static enum pith_status find_leads(const struct pith_gguf_name *names, size_t count, size_t *leads,
                                   struct pith_error *err)
{
    const struct pith_gguf_name **list = pith_alloc(count, sizeof(void *));
    enum pith_status s = PITH_OK;
    if (!list) return pith_fail_nomem(err, "the layout");
    for (size_t i = 0; i < count; i++) list[i] = &names[i];
    if (count) qsort(list, count, sizeof(void *), compare_part);
    for (size_t i = 0, n; i < count && s == PITH_OK; i += n) {
        const struct pith_gguf_name *lead = list[i];
        for (n = 1; i + n < count && strcmp(list[i + n]->name, lead->name) == 0; n++) continue;
        s = check_group(list + i, n, err);
        for (size_t k = i; k < i + n; k++)
            if (list[k] < lead) lead = list[k];
        for (size_t k = i; k < i + n; k++) leads[list[k] - names] = (size_t)(lead - names);
    }
    pith_free(list);
    return s;
}

struct naming {
    const struct pith_gguf_name *name; /* [count], as added */
    size_t *leads;                     /* of find_leads(), owned */
};

/* Everything before the data, and the constant. */
static enum pith_status put_header(struct pith_layout *l, const struct pith_gguf_keys *keys,
                                   const struct pith_gguf_constant *constant,
                                   const struct naming *names, struct pith_str *s,
                                   struct pith_error *err)
{
    const uint32_t version = VERSION;
    uint64_t tensors = constant->count > 0, count = keys->count;
    const uint64_t before = padded(constant->count * sizeof *constant->value);
    uint64_t end = before;
    for (size_t i = 0; i < l->count; i++)
        if (names->leads[i] == i) tensors += names->name[i].rest.dims ? 2 : 1;
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
        const struct pith_gguf_name *n = &names->name[i];
        const size_t lead = names->leads[i];
        if (!fits(n, t))
            return pith_fail(err, PITH_ARG,
                             "tensor \"%s\": its shape does not make its %" PRIu64 " bytes of %s",
                             t->name, t->bytes, n->type.name);
        t->order = n->order;
        t->as = n->as;
        if (lead == i) {
            put_info(s, n, end);
            if (n->rest.dims) put_rest(s, n, end);
            t->offset = end - before + n->part * t->bytes;
            end = padded(end + t->bytes * (n->parts ? n->parts : 1));
        } else {
            t->offset = l->tensors[lead].offset + n->part * t->bytes -
                        names->name[lead].part * t->bytes;
        }
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
    const struct naming naming = {names, pith_alloc(l->count + 1, sizeof *naming.leads)};
    if (!naming.leads) return pith_fail_nomem(err, "the layout");
    enum pith_status status = find_leads(names, l->count, naming.leads, err);
    if (status == PITH_OK)
        status = put_header(l, keys, constant ? constant : &none, &naming, &s, err);
    pith_free(naming.leads);
    if (status != PITH_OK) {
        pith_str_free(&s);
        return status;
    }
    const size_t size = s.len;
    l->headers[0] = pith_str_take(&s);
    for (size_t i = 0; i < l->count; i++) l->tensors[i].offset += size;
    l->header_bytes[0] = size;
    l->shard_bytes[0] += size;
    if (l->count) qsort(l->tensors, l->count, sizeof *l->tensors, pith_tensor_plan_by_name);
    return PITH_OK;
}
