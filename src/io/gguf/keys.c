/* Keys of GGUF files: reading their values, writing new ones. */
#include "io/gguf/gguf.h"

#include "base/mem.h"

#include <inttypes.h>
#include <string.h>

const struct pith_gguf_key *pith_gguf_find(const struct pith_gguf *g, const char *name)
{
    for (size_t i = 0; i < g->key_count; i++)
        if (strcmp(g->keys[i].name, name) == 0) return &g->keys[i];
    return NULL;
}

const struct pith_gguf_tensor *pith_gguf_tensor_find(const struct pith_gguf *g, const char *name)
{
    for (size_t i = 0; i < g->tensor_count; i++)
        if (strcmp(g->tensors[i].name, name) == 0) return &g->tensors[i];
    return NULL;
}

static enum pith_status wrong_kind(const struct pith_gguf *g, const char *name, const char *want,
                                   struct pith_error *err)
{
    return pith_fail(err, PITH_FORMAT, "%s: key \"%s\" is not %s", g->path, name, want);
}

/* An integer of any width; false when it is none, or negative. */
static bool read_uint(const struct pith_gguf_key *key, uint64_t *out)
{
    uint64_t v = 0;
    switch (key->kind) {
    case PITH_GGUF_U8:
    case PITH_GGUF_I8:
    case PITH_GGUF_U16:
    case PITH_GGUF_I16:
    case PITH_GGUF_U32:
    case PITH_GGUF_I32:
    case PITH_GGUF_U64:
    case PITH_GGUF_I64: memcpy(&v, key->data, key->size); break;
    default: return false;
    }
    const bool has_sign = key->kind == PITH_GGUF_I8 || key->kind == PITH_GGUF_I16 ||
                          key->kind == PITH_GGUF_I32 || key->kind == PITH_GGUF_I64;
    if (has_sign && v >> (8 * key->size - 1)) return false;
    *out = v;
    return true;
}

enum pith_status pith_gguf_get_uint(const struct pith_gguf *g, const char *name, uint64_t limit,
                                    uint64_t *out, struct pith_error *err)
{
    const struct pith_gguf_key *key = pith_gguf_find(g, name);
    uint64_t v;
    if (!key) return PITH_OK;
    if (!read_uint(key, &v)) return wrong_kind(g, name, "a whole number", err);
    if (v > limit)
        return pith_fail(err, PITH_FORMAT, "%s: key \"%s\" is %" PRIu64 ", more than %" PRIu64,
                         g->path, name, v, limit);
    *out = v;
    return PITH_OK;
}

enum pith_status pith_gguf_get_uint_at(const struct pith_gguf *g, const char *name, uint64_t index,
                                       uint64_t limit, uint64_t *out, struct pith_error *err)
{
    const struct pith_gguf_key *key = pith_gguf_find(g, name);
    if (!key || key->kind != PITH_GGUF_ARRAY) return pith_gguf_get_uint(g, name, limit, out, err);
    if (index >= key->count)
        return pith_fail(err, PITH_FORMAT, "%s: key \"%s\" has %" PRIu64 " numbers, too few",
                         g->path, name, key->count);
    const size_t size = key->size / (size_t)key->count;
    struct pith_gguf_key one = {.kind = key->element, .size = size};
    one.data = key->data + (size_t)index * size;
    uint64_t v;
    if (!read_uint(&one, &v) || v > limit) return wrong_kind(g, name, "a list of sizes", err);
    *out = v;
    return PITH_OK;
}

enum pith_status pith_gguf_get_real(const struct pith_gguf *g, const char *name, double *out,
                                    struct pith_error *err)
{
    const struct pith_gguf_key *key = pith_gguf_find(g, name);
    float f;
    if (!key) return PITH_OK;
    if (key->kind == PITH_GGUF_F64) {
        memcpy(out, key->data, sizeof *out);
    } else if (key->kind == PITH_GGUF_F32) {
        memcpy(&f, key->data, sizeof f);
        *out = f;
    } else {
        return wrong_kind(g, name, "a number", err);
    }
    return PITH_OK;
}

enum pith_status pith_gguf_get_bool(const struct pith_gguf *g, const char *name, bool *out,
                                    struct pith_error *err)
{
    const struct pith_gguf_key *key = pith_gguf_find(g, name);
    if (!key) return PITH_OK;
    if (key->kind != PITH_GGUF_BOOL) return wrong_kind(g, name, "true or false", err);
    *out = key->data[0] != 0;
    return PITH_OK;
}

bool pith_gguf_next_string(const struct pith_gguf_key *key, size_t *offset, const char **text,
                           size_t *length)
{
    uint64_t n;
    if (*offset >= key->size) return false;
    memcpy(&n, key->data + *offset, sizeof n); /* the reader has walked here already */
    *text = (const char *)key->data + *offset + sizeof n;
    *length = (size_t)n;
    *offset += sizeof n + (size_t)n;
    return true;
}

enum pith_status pith_gguf_get_text(const struct pith_gguf *g, const char *name, char **out,
                                    struct pith_error *err)
{
    const struct pith_gguf_key *key = pith_gguf_find(g, name);
    const char *text;
    size_t offset = 0, n;
    if (!key) return PITH_OK;
    if (key->kind != PITH_GGUF_STRING || !pith_gguf_next_string(key, &offset, &text, &n) ||
        memchr(text, 0, n))
        return wrong_kind(g, name, "a text", err);
    *out = pith_strndup(text, n);
    return *out ? PITH_OK : pith_fail_nomem(err, name);
}

/* --- writing ---------------------------------------------------------------------------------- */

void pith_gguf_put_string(struct pith_str *s, const char *text, size_t length)
{
    const uint64_t n = length;
    pith_str_append(s, (const char *)&n, sizeof n);
    pith_str_append(s, text, length);
}

static void put_u32(struct pith_str *s, uint32_t v)
{
    pith_str_append(s, (const char *)&v, sizeof v);
}

static void begin(struct pith_gguf_keys *k, const char *name, enum pith_gguf_kind kind)
{
    pith_gguf_put_string(&k->bytes, name, strlen(name));
    put_u32(&k->bytes, kind);
    k->count++;
}

void pith_gguf_put_uint(struct pith_gguf_keys *k, const char *name, uint32_t value)
{
    begin(k, name, PITH_GGUF_U32);
    put_u32(&k->bytes, value);
}

void pith_gguf_put_real(struct pith_gguf_keys *k, const char *name, float value)
{
    begin(k, name, PITH_GGUF_F32);
    pith_str_append(&k->bytes, (const char *)&value, sizeof value);
}

void pith_gguf_put_bool(struct pith_gguf_keys *k, const char *name, bool value)
{
    begin(k, name, PITH_GGUF_BOOL);
    pith_str_putc(&k->bytes, value ? 1 : 0);
}

void pith_gguf_put_text(struct pith_gguf_keys *k, const char *name, const char *text)
{
    begin(k, name, PITH_GGUF_STRING);
    pith_gguf_put_string(&k->bytes, text, strlen(text));
}

void pith_gguf_begin_array(struct pith_gguf_keys *k, const char *name, enum pith_gguf_kind element,
                           uint64_t count)
{
    begin(k, name, PITH_GGUF_ARRAY);
    put_u32(&k->bytes, element);
    pith_str_append(&k->bytes, (const char *)&count, sizeof count);
}

void pith_gguf_copy_key(struct pith_gguf_keys *k, const struct pith_gguf_key *key)
{
    if (key->kind == PITH_GGUF_ARRAY) pith_gguf_begin_array(k, key->name, key->element, key->count);
    else begin(k, key->name, key->kind);
    pith_str_append(&k->bytes, (const char *)key->data, key->size);
}

void pith_gguf_keys_free(struct pith_gguf_keys *k)
{
    pith_str_free(&k->bytes);
    *k = (struct pith_gguf_keys){0};
}
