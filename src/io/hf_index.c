#include "io/hf_index.h"

#include "base/file.h"
#include "base/grow.h"
#include "base/mem.h"
#include "io/json_members.h"
#include "io/safetensors.h"

#include <stdlib.h>
#include <string.h>

#define ENTRY_LIMIT ((size_t)64 << 10)
#define MAX_FILE_NAME 255
#define SUFFIX ".safetensors"

struct reader {
    struct pith_index *index;
    size_t cap, names_used;
};

/* Names lie one behind the other as they came: of two that are the same the last one is last. */
static int compare_tensor(const void *a, const void *b)
{
    const char *x = ((const struct pith_index_entry *)a)->tensor,
               *y = ((const struct pith_index_entry *)b)->tensor;
    const int order = strcmp(x, y);
    return order ? order : (x > y) - (x < y);
}

static int compare_file(const void *a, const void *b)
{
    return strcmp(((const struct pith_index_entry *)a)->file_name,
                  ((const struct pith_index_entry *)b)->file_name);
}

static bool is_file_name(const char *name)
{
    const size_t n = strlen(name), suffix = sizeof SUFFIX - 1;
    return pith_path_is_plain(name) && name[0] != '.' && n > suffix && n <= MAX_FILE_NAME &&
           strcmp(name + n - suffix, SUFFIX) == 0 && !pith_tensor_name_fault(name);
}

/* Copies to index->names, which has room: a name is never longer than its text. */
static const char *keep(struct reader *r, const char *name)
{
    const size_t n = strlen(name) + 1;
    char *at = r->index->names + r->names_used;
    memcpy(at, name, n);
    r->names_used += n;
    return at;
}

static enum pith_status add_entry(struct reader *r, const char *tensor, const char *file,
                                  struct pith_error *err)
{
    struct pith_index *x = r->index;
    const char *fault = pith_tensor_name_fault(tensor);
    if (fault) return pith_fail(err, PITH_FORMAT, "tensor \"%.100s\": %s", tensor, fault);
    if (!file)
        return pith_fail(err, PITH_FORMAT, "tensor \"%.100s\": its file is not a string", tensor);
    if (!is_file_name(file))
        return pith_fail(
            err, PITH_FORMAT,
            "tensor \"%.100s\": \"%.100s\" is not the name of a safetensors file in the "
            "same folder",
            tensor, file);
    struct pith_index_entry *more = pith_grow(x->entries, x->count, &r->cap, 64, sizeof *more);
    if (!more) return pith_fail_nomem(err, "the index");
    x->entries = more;
    x->entries[x->count++] = (struct pith_index_entry){keep(r, tensor), keep(r, file), 0};
    return PITH_OK;
}

static enum pith_status read_map(struct reader *r, const char *text, size_t size,
                                 struct pith_error *err)
{
    r->index->count = r->names_used = 0; /* the last map holds */
    if (text[0] != '{') return pith_fail(err, PITH_FORMAT, "\"weight_map\" is not an object");
    struct pith_members walk;
    struct pith_member m;
    bool more = true;
    enum pith_status s = pith_members_begin(&walk, text, size, err);
    while (s == PITH_OK && (s = pith_members_next(&walk, &m, &more, err)) == PITH_OK && more) {
        json_t *piece;
        s = pith_members_parse(&walk, &m, ENTRY_LIMIT, &piece, err);
        if (s != PITH_OK) break;
        void *it = json_object_iter(piece);
        const char *name = json_object_iter_key(it);
        if (strlen(name) != json_object_iter_key_len(it))
            s = pith_fail(err, PITH_FORMAT, "tensor \"%.100s\": a NUL character in its name", name);
        else s = add_entry(r, name, pith_json_plain(json_object_iter_value(it)), err);
        json_decref(piece);
    }
    pith_members_end(&walk);
    return s;
}

/* Members other than the map only have to be JSON. */
static enum pith_status read_members(struct reader *r, const char *text, size_t size,
                                     struct pith_error *err)
{
    struct pith_members walk;
    struct pith_member m;
    bool more = true;
    enum pith_status s = pith_members_begin(&walk, text, size, err);
    while (s == PITH_OK && (s = pith_members_next(&walk, &m, &more, err)) == PITH_OK && more) {
        if (pith_member_is(&m, "weight_map")) {
            s = read_map(r, m.value, m.value_size, err);
        } else {
            json_t *piece;
            s = pith_members_parse(&walk, &m, ENTRY_LIMIT, &piece, err);
            if (s == PITH_OK) json_decref(piece);
        }
    }
    pith_members_end(&walk);
    return s;
}

/* Sorts by tensor; of a tensor that is named again the last file holds. */
static void take_last(struct pith_index *x)
{
    size_t n = 0;
    qsort(x->entries, x->count, sizeof *x->entries, compare_tensor);
    for (size_t i = 0; i < x->count; i++) {
        const bool last = i + 1 == x->count ||
                          strcmp(x->entries[i].tensor, x->entries[i + 1].tensor) != 0;
        if (last) x->entries[n++] = x->entries[i];
    }
    x->count = n;
}

/* Numbers the files and sorts by tensor. */
static enum pith_status arrange(struct pith_index *x, struct pith_error *err)
{
    if (x->count == 0)
        return pith_fail(err, PITH_FORMAT, "\"weight_map\" is missing or names no tensor");
    x->files = pith_alloc(x->count, sizeof *x->files);
    if (!x->files) return pith_fail_nomem(err, "the index");
    take_last(x);
    qsort(x->entries, x->count, sizeof *x->entries, compare_file);
    for (size_t i = 0; i < x->count; i++) {
        struct pith_index_entry *e = &x->entries[i];
        if (i == 0 || strcmp(x->files[x->file_count - 1], e->file_name) != 0)
            x->files[x->file_count++] = e->file_name;
        e->file = (uint32_t)(x->file_count - 1);
    }
    qsort(x->entries, x->count, sizeof *x->entries, compare_tensor);
    return PITH_OK;
}

enum pith_status pith_index_parse(const char *text, size_t size, struct pith_index *out,
                                  struct pith_error *err)
{
    struct pith_index x = {0};
    struct reader r = {.index = &x};
    if (size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
        text += 3;
        size -= 3;
    }
    /* Some writers put a blank line first; JSON allows it. */
    while (size && memchr(" \t\n\r", *text, 4)) {
        text++;
        size--;
    }
    x.names = pith_alloc(size, 1);
    enum pith_status s =
        x.names ? read_members(&r, text, size, err) : pith_fail_nomem(err, "the index");
    if (s == PITH_OK) s = arrange(&x, err);
    if (s != PITH_OK) {
        pith_index_free(&x);
        return s;
    }
    *out = x;
    return PITH_OK;
}

void pith_index_free(struct pith_index *index)
{
    pith_free(index->entries);
    pith_free(index->files);
    pith_free(index->names);
    *index = (struct pith_index){0};
}
