#include "io/digest.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/names.h"
#include "base/str.h"
#include "io/hf_files.h"

#include <inttypes.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

/* JSON files above this (large vocabularies, indexes) are hashed as a whole only. */
#define KEYS_LIMIT ((size_t)4 << 20)

/* --- tensors ---------------------------------------------------------------------------------- */

struct pith_sha256 *pith_tensor_digest_begin(enum pith_dtype dtype, unsigned dims,
                                             const uint64_t *shape)
{
    struct pith_str line = {0};
    pith_str_printf(&line, "%s [", pith_dtype_name(dtype));
    for (unsigned i = 0; i < dims; i++)
        pith_str_printf(&line, "%s%" PRIu64, i ? ", " : "", shape[i]);
    pith_str_puts(&line, "]\n");
    struct pith_sha256 *h = line.failed ? NULL : pith_sha256_new();
    pith_sha256_update(h, line.data, line.len);
    pith_str_free(&line);
    return h;
}

void pith_tensor_say(const struct pith_tensor *t, pith_bytes_fn *say, void *ctx)
{
    enum { PART = 1024 };
    uint8_t part[PART * sizeof(double)];
    if (t->row_step == 0) {
        say(ctx, t->data, (size_t)t->bytes);
        return;
    }
    const uint64_t count = pith_tensor_elements(t);
    const size_t size = pith_dtype_bits(t->dtype) / 8;
    for (uint64_t at = 0; at < count; at += PART) {
        const uint64_t n = count - at < PART ? count - at : PART;
        pith_tensor_copy(t, at, n, part);
        say(ctx, part, (size_t)n * size);
    }
}

static void add_bytes(void *hash, const void *data, size_t size)
{
    pith_sha256_update(hash, data, size);
}

void pith_tensor_hash(const struct pith_tensor *t, struct pith_sha256 *h)
{
    pith_tensor_say(t, add_bytes, h);
}

bool pith_tensor_digest(const struct pith_tensor *t, char hex[PITH_SHA256_HEX])
{
    const struct pith_tensor stored = t->row_step ? pith_tensor_stored(t) : *t;
    struct pith_sha256 *h = pith_tensor_digest_begin(stored.dtype, stored.dims, stored.shape);
    pith_tensor_hash(&stored, h);
    pith_sha256_finish(h, hex);
    return hex[0] != '\0';
}

/* --- what is no tensor ------------------------------------------------------------------------ */

static int compare_place(const void *a, const void *b)
{
    const struct pith_tensor *const *x = a, *const *y = b;
    return ((*x)->data > (*y)->data) - ((*x)->data < (*y)->data);
}

/* The tensors of one file as it has them, by place; *count of them. */
static const struct pith_tensor **tensors_of(const struct pith_checkpoint *c, size_t file,
                                             size_t *count)
{
    const struct pith_tensor **list = pith_alloc(c->count + c->whole_count, sizeof *list);
    *count = 0;
    for (size_t i = 0; list && i < c->count; i++)
        if (c->tensors[i].file == file && !c->tensors[i].slice) list[(*count)++] = &c->tensors[i];
    for (size_t i = 0; list && i < c->whole_count; i++)
        if (c->wholes[i].file == file) list[(*count)++] = &c->wholes[i];
    if (list && *count) qsort(list, *count, sizeof *list, compare_place);
    return list;
}

/* The hash of what lies between them. */
static bool hash_rest(const struct pith_checkpoint *c, size_t file, char hex[PITH_SHA256_HEX])
{
    const struct pith_map *map = &c->files[file].map;
    size_t count;
    const struct pith_tensor **list = tensors_of(c, file, &count);
    struct pith_sha256 *h = list ? pith_sha256_new() : NULL;
    const uint8_t *at = map->data, *end = map->data + map->size;
    for (size_t i = 0; i < count; i++) {
        if (list[i]->data > at) pith_sha256_update(h, at, (size_t)(list[i]->data - at));
        at = list[i]->data + list[i]->bytes;
    }
    if (end > at) pith_sha256_update(h, at, (size_t)(end - at));
    pith_sha256_finish(h, hex);
    pith_free(list);
    return hex[0] != '\0';
}

/* --- keys ------------------------------------------------------------------------------------- */

static bool put_hash(json_t *keys, const char *name, struct pith_sha256 *h)
{
    char hex[PITH_SHA256_HEX];
    pith_sha256_finish(h, hex);
    /* A damaged name may be no UTF-8; it is compared all the same. */
    return hex[0] && json_object_set_new_nocheck(keys, name, json_string(hex)) == 0;
}

static json_t *gguf_keys(const struct pith_gguf *g)
{
    json_t *keys = json_object();
    bool good = keys != NULL;
    for (size_t i = 0; good && i < g->key_count; i++) {
        const struct pith_gguf_key *k = &g->keys[i];
        const uint64_t form[] = {k->kind, k->element, k->count};
        struct pith_sha256 *h = pith_sha256_new();
        pith_sha256_update(h, form, sizeof form);
        pith_sha256_update(h, k->data, k->size);
        good = put_hash(keys, k->name, h);
    }
    if (good) return keys;
    json_decref(keys);
    return NULL;
}

static bool add_value(struct pith_sha256 *hash, const json_t *value)
{
    struct pith_str text = {0};
    pith_json_dump(value, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY | JSON_REAL_PRECISION(17),
                   &text);
    const bool good = !text.failed;
    if (good) pith_sha256_update(hash, text.data, text.len);
    pith_str_free(&text);
    return good;
}

/* NULL when memory is out; an empty object for what is no JSON object. */
static json_t *json_keys(const char *text, size_t size)
{
    json_t *keys = json_object(), *file = NULL, *value;
    const char *name;
    bool good = keys != NULL;
    if (size <= KEYS_LIMIT) (void)pith_json_parse(text, size, "", &file, NULL);
    json_object_foreach (file, name, value) {
        struct pith_sha256 *h = pith_sha256_new();
        good = good && h && add_value(h, value);
        const bool put = put_hash(keys, name, h);
        good = good && put;
    }
    json_decref(file);
    if (good) return keys;
    json_decref(keys);
    return NULL;
}

/* --- the list --------------------------------------------------------------------------------- */

static enum pith_status add_entry(json_t *list, const char *name, size_t bytes, const char *hex,
                                  json_t *keys, struct pith_error *err)
{
    json_t *entry = json_pack("{s:o, s:I, s:s}", "name", pith_json_name(name), "bytes",
                              (json_int_t)bytes, "sha256", hex);
    const bool bad = entry && json_object_size(keys) > 0 &&
                     json_object_set(entry, "keys", keys) != 0;
    json_decref(keys);
    if (bad) {
        json_decref(entry);
        entry = NULL;
    }
    return json_array_append_new(list, entry) == 0 ? PITH_OK : pith_fail_nomem(err, name);
}

static enum pith_status add_side_file(const char *path, const char *name, json_t *list,
                                      struct pith_error *err)
{
    struct pith_map map;
    char hex[PITH_SHA256_HEX];
    json_t *keys = NULL;
    PITH_TRY(pith_map_open(path, &map, err));
    enum pith_status s = PITH_OK;
    if (!pith_sha256_hex(map.data, map.size, hex)) s = pith_fail_nomem(err, name);
    if (s == PITH_OK && pith_glob_match("*.json", name)) {
        keys = json_keys((const char *)map.data, map.size);
        if (!keys) s = pith_fail_nomem(err, name);
    }
    if (s == PITH_OK) s = add_entry(list, name, map.size, hex, keys, err);
    else json_decref(keys);
    pith_map_close(&map);
    return s;
}

static enum pith_status add_tensor_file(const struct pith_checkpoint *c, size_t file,
                                        const char *name, json_t *list, struct pith_error *err)
{
    char hex[PITH_SHA256_HEX];
    if (!hash_rest(c, file, hex)) return pith_fail_nomem(err, name);
    const bool has_keys = c->gguf && file == 0;
    json_t *keys = has_keys ? gguf_keys(c->gguf) : NULL;
    if (has_keys && !keys) return pith_fail_nomem(err, name);
    return add_entry(list, name, c->files[file].map.size, hex, keys, err);
}

/* Which of the checkpoint's tensor files has that name; file_count when none has. */
static size_t tensor_file(const struct pith_checkpoint *c, const char *name)
{
    size_t i = 0;
    for (; i < c->file_count; i++) {
        if (strcmp(pith_name_of_path(c->files[i].path), name) == 0) break;
    }
    return i;
}

static enum pith_status add_file(const struct pith_checkpoint *c, const char *name, json_t *list,
                                 struct pith_error *err)
{
    const size_t file = tensor_file(c, name);
    if (name[0] == '.' || pith_glob_match("pith.*", name)) return PITH_OK;
    if (file < c->file_count) return add_tensor_file(c, file, name, list, err);
    char *path = pith_path_join(c->dir, name);
    if (!path) return pith_fail_nomem(err, name);
    const enum pith_status s = pith_path_is_dir(path) ? PITH_OK
                                                      : add_side_file(path, name, list, err);
    pith_free(path);
    return s;
}

static enum pith_status add_folder(const struct pith_checkpoint *c, json_t *list,
                                   struct pith_error *err)
{
    char **names;
    size_t count;
    PITH_TRY(pith_checkpoint_names(c->dir, &names, &count, err));
    enum pith_status s = PITH_OK;
    for (size_t i = 0; i < count && s == PITH_OK; i++) s = add_file(c, names[i], list, err);
    pith_names_free(names, count);
    return s;
}

/* One file, or the parts of a model. */
static enum pith_status add_gguf(const struct pith_checkpoint *c, json_t *list,
                                 struct pith_error *err)
{
    char name[64] = "model.gguf";
    for (size_t i = 0; i < c->file_count; i++) {
        if (c->file_count > 1)
            (void)snprintf(name, sizeof name, "model-%05zu-of-%05zu.gguf", i + 1, c->file_count);
        PITH_TRY(add_tensor_file(c, i, name, list, err));
    }
    return PITH_OK;
}

enum pith_status pith_checkpoint_digest(const struct pith_checkpoint *c, json_t **out,
                                        struct pith_error *err)
{
    json_t *list = json_array();
    if (!list) return pith_fail_nomem(err, "the list of files");
    const enum pith_status s = c->gguf ? add_gguf(c, list, err) : add_folder(c, list, err);
    if (s == PITH_OK) *out = list;
    else json_decref(list);
    return s;
}
