#include "io/checkpoint.h"

#include "base/mem.h"
#include "base/str.h"
#include "io/dense.h"
#include "io/foreign.h"
#include "io/gguf/model.h"
#include "io/hf_index.h"
#include "io/lfs.h"
#include "io/quant_names.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define CONFIG_LIMIT ((size_t)8 << 20)  /* real ones: a few KB, a MB with a list of all linears */
#define INDEX_LIMIT ((size_t)100 << 20) /* about 100 bytes a tensor */
#define INDEX_NAME "model.safetensors.index.json"
#define SINGLE_NAME "model.safetensors"

static const char *file_of(const struct pith_checkpoint *c, const struct pith_tensor *t)
{
    return c->files[t->file].path;
}

static enum pith_status load_config(struct pith_checkpoint *c, struct pith_error *err)
{
    char *path = pith_path_join(c->dir, "config.json");
    if (!path) return pith_fail_nomem(err, c->dir);
    enum pith_status s = pith_path_exists(path) ? PITH_OK : pith_foreign_check(c->dir, err);
    if (s == PITH_OK) s = pith_json_load(path, CONFIG_LIMIT, &c->config, err);
    if (s == PITH_OK && !json_is_object(c->config))
        s = pith_fail(err, PITH_FORMAT, "%s: not a JSON object", path);
    if (s == PITH_OK) s = pith_quantization_find(c->dir, c->config, &c->quantization, err);
    pith_free(path);
    return s;
}

enum pith_status pith_config_save(const char *path, const json_t *config, struct pith_error *err)
{
    static const size_t forms[] = {JSON_INDENT(2), JSON_COMPACT};
    struct pith_str s = {0};
    for (size_t i = 0; i < PITH_COUNT(forms) && (i == 0 || s.len > CONFIG_LIMIT); i++) {
        pith_str_clear(&s);
        pith_json_dump(config, forms[i] | JSON_REAL_PRECISION(9), &s);
        pith_str_putc(&s, '\n');
    }
    enum pith_status status;
    if (s.failed) status = pith_fail_nomem(err, path);
    else if (s.len > CONFIG_LIMIT)
        status = pith_fail(err, PITH_FORMAT,
                           "%s: with what is added to it, it has %zu bytes, and no more than %zu"
                           " are read",
                           path, s.len, CONFIG_LIMIT);
    else status = pith_file_write(path, s.data, s.len, err);
    pith_str_free(&s);
    return status;
}

static enum pith_status has_file(const char *dir, const char *name, bool *there,
                                 struct pith_error *err)
{
    char *path = pith_path_join(dir, name);
    if (!path) return pith_fail_nomem(err, dir);
    *there = pith_path_exists(path);
    pith_free(path);
    return PITH_OK;
}

static enum pith_status load_index(const char *dir, struct pith_index *index,
                                   struct pith_error *err)
{
    char *path = pith_path_join(dir, INDEX_NAME), *text = NULL;
    if (!path) return pith_fail_nomem(err, dir);
    size_t size;
    enum pith_status s = pith_file_read(path, INDEX_LIMIT, &text, &size, err);
    if (s == PITH_OK) {
        s = pith_index_parse(text, size, index, err);
        if (s != PITH_OK) s = pith_fail_in(err, s, path);
    }
    pith_free(text);
    pith_free(path);
    return s;
}

static enum pith_status open_file(struct pith_checkpoint *c, const char *name,
                                  struct pith_error *err)
{
    char *path = pith_path_join(c->dir, name);
    if (!path) return pith_fail_nomem(err, c->dir);
    const enum pith_status s = pith_safetensors_open(path, &c->files[c->file_count], err);
    pith_free(path);
    if (s == PITH_OK) c->file_count++;
    return s;
}

static enum pith_status open_files(struct pith_checkpoint *c, const char *const *names,
                                   size_t count, struct pith_error *err)
{
    c->files = pith_zalloc(count, sizeof *c->files);
    if (!c->files) return pith_fail_nomem(err, "the list of files");
    for (size_t i = 0; i < count; i++) PITH_TRY(open_file(c, names[i], err));
    return PITH_OK;
}

/* The tables of all files, in order of these; the files have none then. */
static enum pith_status take_tables(struct pith_checkpoint *c, size_t total, struct pith_error *err)
{
    const bool several = c->file_count > 1;
    c->tensors = several ? pith_alloc(total, sizeof *c->tensors) : c->files[0].tensors;
    if (!c->tensors) return pith_fail_nomem(err, "the list of tensors");
    for (size_t f = 0; f < c->file_count; f++) {
        struct pith_safetensors *file = &c->files[f];
        for (size_t i = 0; i < file->count; i++) {
            struct pith_tensor *t = &c->tensors[c->count++];
            if (several) *t = file->tensors[i];
            t->file = (uint32_t)f;
        }
        if (several) pith_free(file->tensors);
        file->tensors = NULL;
        file->count = 0;
    }
    return PITH_OK;
}

static int compare_entry(const void *a, const void *b)
{
    return strcmp(((const struct pith_index_entry *)a)->tensor,
                  ((const struct pith_index_entry *)b)->tensor);
}

/* Of tensors that several files have, sorted, the one in the file that the index names; the last
 * where it names none of them, as loaders that go through the files have it. */
static void take_named(struct pith_checkpoint *c, const struct pith_index *index)
{
    size_t n = 0;
    for (size_t i = 0, next; i < c->count; i = next) {
        const struct pith_index_entry key = {.tensor = c->tensors[i].name};
        const struct pith_index_entry *e =
            bsearch(&key, index->entries, index->count, sizeof key, compare_entry);
        size_t taken = i;
        for (next = i + 1;
             next < c->count && strcmp(c->tensors[i].name, c->tensors[next].name) == 0;
             next++)
            if (!e || c->tensors[taken].file != e->file) taken = next;
        c->superseded += next - i - 1;
        c->tensors[n++] = c->tensors[taken];
    }
    c->count = n;
}

/* One table over all files. */
static enum pith_status merge(struct pith_checkpoint *c, const struct pith_index *index,
                              struct pith_error *err)
{
    size_t total = 0;
    for (size_t f = 0; f < c->file_count; f++) total += c->files[f].count;
    if (total == 0)
        return pith_fail(err, PITH_FORMAT, "%s: the checkpoint holds no tensors", c->dir);
    PITH_TRY(take_tables(c, total, err));
    if (c->file_count > 1) { /* those of one file are sorted, and each name there once */
        qsort(c->tensors, c->count, sizeof *c->tensors, pith_tensor_by_name);
        take_named(c, index);
    }
    for (size_t i = 0; i < c->count; i++) c->bytes += c->tensors[i].bytes;
    return PITH_OK;
}

/* Tensors of the index that no file has are missed when they are needed; a file that has others, or
 * has them in the place of another file, is read as other loaders do. */
static void count_absent(struct pith_checkpoint *c, const struct pith_index *index)
{
    for (size_t i = 0; i < index->count; i++)
        c->absent += !pith_checkpoint_find(c, index->entries[i].tensor);
}

static enum pith_status open_sharded(struct pith_checkpoint *c, bool has_single,
                                     struct pith_error *err)
{
    struct pith_index index;
    PITH_TRY(load_index(c->dir, &index, err));
    enum pith_status s = PITH_OK;
    bool named = false;
    for (size_t i = 0; i < index.file_count; i++)
        named = named || strcmp(index.files[i], SINGLE_NAME) == 0;
    /* A single file comes before an index, as transformers has it; one that the index names is one
     * of several. */
    static const char *const single = SINGLE_NAME;
    c->aside = has_single && !named;
    if (c->aside) s = open_files(c, &single, 1, err);
    else s = open_files(c, index.files, index.file_count, err);
    if (s == PITH_OK) s = merge(c, &index, err);
    if (s == PITH_OK && !c->aside) count_absent(c, &index);
    pith_index_free(&index);
    return s;
}

/* Without the usual names, a lone file is taken (older GPTQ files are called after their grid). */
static enum pith_status open_lone(struct pith_checkpoint *c, struct pith_error *err)
{
    char **names;
    size_t count, found = 0;
    static const char theirs[] = "tok_embeddings.weight";
    const char *file = NULL, *other = NULL;
    PITH_TRY(pith_dir_list(c->dir, &names, &count, err));
    for (size_t i = 0; i < count; i++) {
        if (pith_glob_match("*.safetensors", names[i]) && names[i][0] != '.') {
            file = names[i];
            found++;
        } else if (pith_glob_match("*.bin", names[i]) || pith_glob_match("*.pt*", names[i]) ||
                   pith_glob_match("*.gguf", names[i])) {
            other = names[i];
        }
    }
    enum pith_status s;
    if (found == 1) s = open_files(c, &file, 1, err);
    else if (found > 1)
        s = pith_fail(err, PITH_FORMAT, "%s: %zu safetensors files, but no %s", c->dir, found,
                      INDEX_NAME);
    else if (other)
        s = pith_fail(err, PITH_FORMAT, "%s: no safetensors files (\"%.100s\" is of another kind)",
                      c->dir, other);
    else s = pith_fail(err, PITH_FORMAT, "%s: no safetensors files", c->dir);
    pith_names_free(names, count);
    if (s == PITH_OK) s = merge(c, NULL, err);
    if (s == PITH_OK && pith_checkpoint_find(c, theirs))
        s = pith_foreign_tensor(c->dir, theirs, err);
    return s;
}

static enum pith_status open_tensors(struct pith_checkpoint *c, struct pith_error *err)
{
    static const char *const single = SINGLE_NAME;
    bool has_index = false, has_single = false;
    PITH_TRY(has_file(c->dir, INDEX_NAME, &has_index, err));
    PITH_TRY(has_file(c->dir, SINGLE_NAME, &has_single, err));
    if (has_index) return open_sharded(c, has_single, err);
    if (!has_single) return open_lone(c, err);
    PITH_TRY(open_files(c, &single, 1, err));
    return merge(c, NULL, err);
}

static enum pith_status open_folder(const char *dir, struct pith_checkpoint **out,
                                    struct pith_error *err)
{
    struct pith_checkpoint *c = pith_zalloc(1, sizeof *c);
    if (!c) return pith_fail_nomem(err, dir);
    enum pith_status s = PITH_OK;
    c->dir = pith_strdup(dir);
    if (!c->dir) s = pith_fail_nomem(err, dir);
    if (s == PITH_OK) s = load_config(c, err);
    if (s == PITH_OK) s = open_tensors(c, err);
    if (s != PITH_OK) {
        pith_checkpoint_close(c);
        return s;
    }
    *out = c;
    return PITH_OK;
}

/* What is neither a folder nor begins as a GGUF file. */
static enum pith_status fail_no_folder(const char *path, struct pith_error *err)
{
    struct pith_map map;
    PITH_TRY(pith_path_look(path, err));
    PITH_TRY(pith_map_open(path, &map, err));
    const bool empty = map.size == 0;
    const enum pith_status pointer = pith_lfs_check(map.data, map.size, path, err);
    pith_map_close(&map);
    PITH_TRY(pointer);
    if (pith_glob_match("*.gguf", path))
        return pith_fail(err, PITH_FORMAT, "%s: not a GGUF file: %s", path,
                         empty ? "it is empty" : "it does not begin with \"GGUF\"");
    return pith_fail(err, PITH_IO,
                     "%s: not a folder; name the folder that holds config.json, or a GGUF file",
                     path);
}

enum pith_status pith_checkpoint_open(const char *path, struct pith_checkpoint **out,
                                      struct pith_error *err)
{
    char *file = NULL;
    PITH_TRY(pith_gguf_at(path, &file, err));
    if (file) {
        const enum pith_status s = pith_gguf_checkpoint(file, out, err);
        pith_free(file);
        return s;
    }
    return pith_path_is_dir(path) ? open_folder(path, out, err) : fail_no_folder(path, err);
}

void pith_checkpoint_close(struct pith_checkpoint *c)
{
    if (!c) return;
    if (c->dense) pith_dense_close(c);
    if (c->gguf) pith_gguf_close(c->gguf);
    pith_free(c->gguf);
    for (size_t i = 0; i < c->file_count; i++) pith_safetensors_close(&c->files[i]);
    pith_free(c->files);
    pith_free(c->tensors);
    pith_free(c->slice_names);
    pith_free(c->new_names);
    pith_free(c->wholes);
    json_decref(c->config);
    pith_free(c->dir);
    pith_free(c);
}

const struct pith_tensor *pith_checkpoint_find(const struct pith_checkpoint *c, const char *name)
{
    const struct pith_tensor key = {.name = name};
    if (!c->count) return NULL; /* there may be no array */
    return bsearch(&key, c->tensors, c->count, sizeof key, pith_tensor_by_name);
}

/* Index of the first tensor whose first `length` bytes are behind (or, unless `behind`, not before)
 * those of prefix. */
static size_t bound(const struct pith_checkpoint *c, const char *prefix, size_t length, bool behind)
{
    size_t lo = 0, hi = c->count;
    while (lo < hi) {
        const size_t mid = lo + (hi - lo) / 2;
        if (strncmp(c->tensors[mid].name, prefix, length) < (behind ? 1 : 0)) lo = mid + 1;
        else hi = mid;
    }
    return lo;
}

size_t pith_checkpoint_range(const struct pith_checkpoint *c, const char *prefix, size_t *count)
{
    const size_t length = strlen(prefix), first = bound(c, prefix, length, false);
    *count = bound(c, prefix, length, true) - first;
    return first;
}

static void put_shape(struct pith_str *s, unsigned dims, const uint64_t *shape)
{
    pith_str_putc(s, '[');
    for (unsigned i = 0; i < dims; i++) pith_str_printf(s, "%s%" PRIu64, i ? ", " : "", shape[i]);
    pith_str_putc(s, ']');
}

enum pith_status pith_checkpoint_get(const struct pith_checkpoint *c, const char *name,
                                     unsigned dims, const uint64_t *shape,
                                     const struct pith_tensor **out, struct pith_error *err)
{
    const struct pith_tensor *t = pith_checkpoint_find(c, name);
    if (!t) return pith_fail(err, PITH_FORMAT, "%s: tensor \"%.100s\" is missing", c->dir, name);
    if (t->dims == dims && (dims == 0 || memcmp(t->shape, shape, dims * sizeof *shape) == 0)) {
        *out = t;
        return PITH_OK;
    }
    struct pith_str is = {0}, want = {0};
    put_shape(&is, t->dims, t->shape);
    put_shape(&want, dims, shape);
    const enum pith_status s = pith_fail(
        err, PITH_FORMAT, "%s: tensor \"%.100s\" has shape %s, but the config requires %s",
        file_of(c, t), name, pith_str_text(&is), pith_str_text(&want));
    pith_str_free(&is);
    pith_str_free(&want);
    return s;
}

void pith_checkpoint_prefetch(const struct pith_checkpoint *c, const struct pith_tensor *t)
{
    if (t->lazy) {
        (void)pith_tensor_need(t, NULL); /* its user gets the failure */
        return;
    }
    const struct pith_map *map = &c->files[t->file].map;
    pith_map_prefetch(map, (size_t)(t->data - map->data), (size_t)pith_tensor_extent(t));
}

void pith_checkpoint_drop(const struct pith_checkpoint *c, size_t first, size_t count)
{
    for (size_t i = first; c->dense && i < first + count; i++) {
        const struct pith_tensor *t = &c->tensors[i];
        if (t->lazy) t->lazy->drop(t->lazy);
    }
}

void pith_checkpoint_release(const struct pith_checkpoint *c, const struct pith_tensor *t)
{
    if (t->lazy) return;
    const struct pith_map *map = &c->files[t->file].map;
    pith_map_release(map, (size_t)(t->data - map->data), (size_t)pith_tensor_extent(t));
}
