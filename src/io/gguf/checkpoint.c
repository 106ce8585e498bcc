/* A GGUF file opened as a checkpoint. */
#include "io/gguf/model.h"

#include "base/mem.h"
#include "base/names.h"
#include "base/str.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME = 192 };

static bool is_gguf(const char *path)
{
    struct pith_map map;
    if (pith_map_open(path, &map, NULL) != PITH_OK) return false;
    const bool is = map.size >= 4 && memcmp(map.data, "GGUF", 4) == 0;
    pith_map_close(&map);
    return is;
}

/* Whether the folder has an earlier part of the model that the file is a part of. */
static bool is_later_part(const char *name, char **names, size_t count)
{
    unsigned number, parts, other;
    const char *at = pith_name_part(name, &number, &parts), *there;
    for (size_t i = 0; at && i < count; i++)
        if ((there = pith_name_part(names[i], &other, &parts)) && other < number &&
            there - names[i] == at - name && strncmp(names[i], name, (size_t)(at - name)) == 0 &&
            strcmp(there + 5, at + 5) == 0)
            return true;
    return false;
}

/* The only GGUF file of a folder, or the first part of the only model in parts. */
static enum pith_status find_lone(const char *dir, char **file, struct pith_error *err)
{
    char **names;
    size_t count, found = 0;
    const char *name = NULL;
    PITH_TRY(pith_dir_list(dir, &names, &count, err));
    for (size_t i = 0; i < count; i++) {
        if (names[i][0] == '.' || !pith_glob_match("*.gguf", names[i])) continue;
        if (is_later_part(names[i], names, count)) continue;
        name = names[i];
        found++;
    }
    enum pith_status s = PITH_OK;
    if (found == 1) {
        *file = pith_path_join(dir, name);
        if (!*file) s = pith_fail_nomem(err, dir);
    } else if (found > 1) {
        s = pith_fail(err, PITH_UNSUPPORTED, "%s: %zu GGUF models; name one", dir, found);
    }
    pith_names_free(names, count);
    return s;
}

static enum pith_status file_at(const char *path, char **file, struct pith_error *err)
{
    if (!pith_path_is_dir(path)) {
        if (!is_gguf(path)) return PITH_OK;
        *file = pith_strdup(path);
        return *file ? PITH_OK : pith_fail_nomem(err, path);
    }
    char *config = pith_path_join(path, "config.json");
    if (!config) return pith_fail_nomem(err, path);
    const bool folder = pith_path_exists(config);
    pith_free(config);
    return folder ? PITH_OK : find_lone(path, file, err);
}

enum pith_status pith_gguf_at(const char *path, char **file, struct pith_error *err)
{
    *file = NULL;
    PITH_TRY(file_at(path, file, err));
    const enum pith_status s = *file ? pith_gguf_first_part(file, err) : PITH_OK;
    if (s != PITH_OK) {
        pith_free(*file);
        *file = NULL;
    }
    return s;
}

struct view {
    struct pith_checkpoint *c;
    struct pith_gguf_arch arch;
    struct pith_gguf_sizes sizes;
    uint64_t experts; /* 0: no mixture */
    uint64_t layers;  /* that run; behind them are those that predict further tokens */
    size_t names;     /* bytes of names used */
    bool quantized;
};

/* A vector, or a matrix of one row, as llama.cpp's converter has some of them. */
static bool is_flat(const struct pith_gguf_tensor *t)
{
    return t->dims == 1 || (t->dims == 2 && t->shape[0] == 1);
}

/* What a tensor is called here; false for one that has no place in a checkpoint. */
static bool translate(const struct view *v, const struct pith_gguf_tensor *t, uint32_t expert,
                      char name[NAME], struct pith_gguf_place *place)
{
    const char *dot = strrchr(t->name, '.');
    enum pith_dtype dtype;
    if (!dot || !pith_gguf_module(&v->arch, t->name, expert, name, NAME - 16, place)) return false;
    const bool plain = pith_ggml_type_dtype(&t->type, &dtype);
    const bool scale = strcmp(dot, ".scale") == 0; /* with NVFP4 */
    const unsigned matrix = place->stacked ? 3 : 2;
    if (place->whole) return plain && (!place->flat || is_flat(t));
    if (scale) place->order = PITH_GGUF_STRAIGHT;
    if (strcmp(dot, ".weight") != 0 && strcmp(dot, ".bias") != 0 && !scale) return false;
    if (!plain && (t->dims != matrix || strcmp(dot, ".weight") != 0)) return false;
    if (place->flat && (!plain || !is_flat(t))) return false;
    if (strcmp(dot, ".bias") == 0) pith_gguf_place_bias(place);
    if (place->filter && (!plain || t->dims != 2)) return false;
    if (place->dense && !plain) return false;
    (void)snprintf(name + strlen(name), 16, ".%s", plain ? dot + 1 : t->type.name);
    return true;
}

/* The part that lies right behind a tensor and is one with it. */
static enum pith_status add_rest(const struct view *v, const struct pith_gguf_tensor *from,
                                 const struct pith_gguf_place *place, struct pith_tensor *t,
                                 struct pith_error *err)
{
    char name[PITH_GGUF_NAME];
    struct pith_gguf_name shape = {.type = from->type, .dims = 2};
    const char *dot = strchr(from->name, '.'), *end = dot ? strchr(dot + 1, '.') : NULL;
    const int layer = end ? (int)(end - from->name) : 0;
    (void)snprintf(name, sizeof name, "%.*s.%s.weight", layer, from->name, place->rest);
    const struct pith_gguf_tensor *rest = pith_gguf_tensor_find(v->c->gguf, name);
    const bool one = rest && rest->type.id == from->type.id &&
                     rest->data == from->data + from->bytes;
    if (!one)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "%s: \"%s\" and \"%s\" are not of one type, one behind the other",
                         v->c->dir, from->name, name);
    const bool latent = place->order == PITH_GGUF_BY_LATENT;
    shape.shape[0] = latent ? (uint64_t)v->sizes.heads * (v->sizes.nope + v->sizes.value)
                            : from->shape[0] + rest->shape[0];
    shape.shape[1] = latent ? v->sizes.rank : from->shape[from->dims - 1];
    t->dims = 2;
    t->shape[0] = shape.shape[0];
    t->shape[1] = shape.shape[1];
    t->bytes = from->bytes + rest->bytes;
    if (!pith_gguf_part(place->order, &v->sizes, &shape) || shape.dims != from->dims ||
        shape.rest.dims != rest->dims ||
        memcmp(shape.shape, from->shape, shape.dims * sizeof *shape.shape) != 0 ||
        memcmp(shape.rest.shape, rest->shape, rest->dims * sizeof *rest->shape) != 0)
        return pith_fail(err, PITH_FORMAT, "%s: tensor \"%s\" or \"%s\" has not the model's shape",
                         v->c->dir, from->name, name);
    return PITH_OK;
}

/* What of a tensor's shape the file leaves out. */
static void restore_shape(const struct pith_gguf_place *place, struct pith_tensor *t)
{
    if (place->flat && t->dims == 1) {
        t->dims = 2;
        t->shape[1] = t->shape[0];
        t->shape[0] = 1;
    }
    if ((place->column || place->grouped) && t->dims == 2) {
        t->dims = 1;
        t->shape[0] *= t->shape[1];
    }
    if (place->filter) {
        t->dims = 3;
        t->shape[2] = t->shape[1];
        t->shape[1] = 1;
    }
}

/* A tensor of the file, or one expert's part of it. */
static enum pith_status set_tensor(struct view *v, const struct pith_gguf_tensor *from,
                                   const struct pith_gguf_place *place, const char *name,
                                   struct pith_error *err)
{
    struct pith_checkpoint *c = v->c;
    struct pith_tensor *t = &c->tensors[c->count];
    const size_t n = strlen(name) + 1;
    const unsigned skip = place->stacked;
    const uint64_t parts = skip ? v->experts : 1, bytes = from->bytes / parts;
    char *stored = memcpy(c->files[0].names + v->names, name, n);
    v->names += n;
    *t = (struct pith_tensor){.name = stored,
                              .dims = from->dims - skip,
                              .bytes = bytes,
                              .file = from->part,
                              .data = from->data + (skip ? place->expert * bytes : 0)};
    for (unsigned i = 0; i < t->dims; i++) t->shape[i] = from->shape[i + skip];
    if (skip && t->dims == 0) { /* a number an expert */
        t->dims = 1;
        t->shape[0] = 1;
    }
    if (place->rest) PITH_TRY(add_rest(v, from, place, t, err));
    restore_shape(place, t);
    if (!pith_ggml_type_dtype(&from->type, &t->dtype)) {
        v->quantized = true;
        t->dtype = PITH_U8;
        t->shape[1] = t->bytes / t->shape[0];
    } else if (t->dtype == PITH_F32) {
        t->as = place->as;
    }
    t->exchanged = place->exchanged && t->dims == 2 && t->dtype != PITH_U8;
    t->order = pith_gguf_order(place->order, &v->sizes, t->shape[0]);
    const uint64_t cols = from->dims ? from->shape[from->dims - 1] : 1;
    if (!pith_gguf_fits(&t->order, t->shape[0], cols, 1)) /* of blocks the container sees to it */
        return pith_fail(err, PITH_FORMAT, "%s: tensor \"%s\" is not whole heads", c->dir,
                         from->name);
    c->count++;
    c->bytes += t->bytes;
    return PITH_OK;
}

static bool is_further(const struct view *v, const char *name)
{
    return strncmp(name, "blk.", 4) == 0 && strtoull(name + 4, NULL, 10) >= v->layers;
}

/* Into how many tensors that of the file falls. */
static enum pith_status count_parts(const struct view *v, const struct pith_gguf_tensor *from,
                                    uint64_t *parts, struct pith_error *err)
{
    char name[NAME];
    struct pith_gguf_place place;
    *parts = !is_further(v, from->name);
    if (*parts == 0) return PITH_OK;
    if (!translate(v, from, 0, name, &place)) return PITH_OK;
    if (place.is_rest) *parts = 0;
    if (!place.stacked) return PITH_OK;
    if (v->experts == 0 || from->dims == 0 || from->shape[0] != v->experts)
        return pith_fail(err, PITH_FORMAT,
                         "%s: tensor \"%s\" does not hold one of each of %u experts", v->c->dir,
                         from->name, (unsigned)v->experts);
    *parts = v->experts;
    return PITH_OK;
}

static enum pith_status add_tensor(struct view *v, const struct pith_gguf_tensor *from,
                                   struct pith_error *err)
{
    char name[NAME];
    struct pith_gguf_place place;
    uint64_t parts;
    if (strcmp(from->name, "rope_freqs.weight") == 0) return PITH_OK; /* in the config */
    PITH_TRY(count_parts(v, from, &parts, err));
    for (uint32_t e = 0; e < parts; e++) {
        if (!translate(v, from, e, name, &place))
            return pith_fail(err, PITH_UNSUPPORTED, "%s: tensor \"%s\" (%s) is not known here",
                             v->c->dir, from->name, from->type.name);
        PITH_TRY(set_tensor(v, from, &place, name, err));
    }
    return PITH_OK;
}

/* How many tensors there will be, within reason: a file may claim anything. */
static enum pith_status count_tensors(struct view *v, size_t *count, struct pith_error *err)
{
    enum { MOST = 1 << 18, MOST_EXPERTS = 4096 };
    const struct pith_gguf *g = v->c->gguf;
    char key[96];
    uint64_t parts;
    (void)snprintf(key, sizeof key, "%s.expert_count", v->arch.name);
    PITH_TRY(pith_gguf_get_uint(g, key, MOST_EXPERTS, &v->experts, err));
    PITH_TRY(pith_gguf_layers(g, &v->arch, &v->layers, err));
    *count = 0;
    for (size_t i = 0; i < g->tensor_count; i++) {
        PITH_TRY(count_parts(v, &g->tensors[i], &parts, err));
        *count += (size_t)parts;
        if (*count > MOST)
            return pith_fail(err, PITH_UNSUPPORTED, "%s: holds more than %d matrices", v->c->dir,
                             MOST);
    }
    return PITH_OK;
}

/* One of the model's sizes, *out does not change where the file has none. */
static enum pith_status read_size(const struct view *v, const char *name, bool must, uint32_t *out,
                                  struct pith_error *err)
{
    char key[96];
    uint64_t n = *out;
    (void)snprintf(key, sizeof key, "%s.%s", v->arch.name, name);
    PITH_TRY(pith_gguf_get_uint(v->c->gguf, key, 1 << 24, &n, err));
    if (n == 0 && must)
        return pith_fail(err, PITH_FORMAT, "%s: key \"%s\" is missing or 0", v->c->dir, key);
    *out = (uint32_t)n;
    return PITH_OK;
}

static enum pith_status read_sizes(struct view *v, struct pith_error *err)
{
    struct pith_gguf_sizes *s = &v->sizes;
    const bool latent = v->arch.latent, delta = v->arch.delta;
    uint32_t key = 0, rope = 0, inner = 0;
    const struct {
        const char *name;
        bool read, must;
        uint32_t *to;
    } sizes[] = {{"attention.head_count", true, true, &s->heads},
                 {"attention.head_count_kv", !v->arch.without_keys, true, &s->kv_heads},
                 {"attention.key_length_mla", latent, true, &key},
                 {"attention.value_length_mla", latent, true, &s->value},
                 {"attention.kv_lora_rank", latent, true, &s->rank},
                 {"rope.dimension_count", latent, true, &rope},
                 {"ssm.state_size", delta, true, &s->key_dim},
                 {"ssm.group_count", delta, true, &s->key_heads},
                 {"ssm.time_step_rank", delta, true, &s->value_heads},
                 {"ssm.inner_size", delta, true, &inner},
                 {"ssm.group_count", v->arch.scan, true, &s->groups}};
    s->kv_heads = 0;
    for (size_t i = 0; i < PITH_COUNT(sizes); i++) {
        if (i == 1) s->kv_heads = s->heads;
        if (sizes[i].read) PITH_TRY(read_size(v, sizes[i].name, sizes[i].must, sizes[i].to, err));
    }
    if (v->arch.without_keys)
        PITH_TRY(pith_gguf_kv_heads(v->c->gguf, &v->arch, &s->kv_heads, err));
    if (rope > key || (delta && inner % s->value_heads != 0))
        return pith_fail(err, PITH_FORMAT, "%s: the sizes of heads do not go together", v->c->dir);
    s->nope = key - rope;
    s->value_dim = delta ? inner / s->value_heads : 0;
    return PITH_OK;
}

static enum pith_status take_tensors(struct view *v, struct pith_error *err)
{
    struct pith_checkpoint *c = v->c;
    const struct pith_gguf *g = c->gguf;
    if (g->tensor_count == 0)
        return pith_fail(err, PITH_FORMAT, "%s: the file holds no tensors", c->dir);
    size_t count;
    PITH_TRY(read_sizes(v, err));
    PITH_TRY(count_tensors(v, &count, err));
    c->tensors = pith_zalloc(count, sizeof *c->tensors);
    c->files[0].names = pith_alloc(count, NAME);
    if (!c->tensors || !c->files[0].names) return pith_fail_nomem(err, "the list of tensors");

    for (size_t i = 0; i < g->tensor_count; i++) PITH_TRY(add_tensor(v, &g->tensors[i], err));
    qsort(c->tensors, c->count, sizeof *c->tensors, pith_tensor_by_name);
    return PITH_OK;
}

static enum pith_status open_view(struct view *v, const char *path, struct pith_error *err)
{
    struct pith_checkpoint *c = v->c;
    c->dir = pith_strdup(path);
    c->gguf = pith_zalloc(1, sizeof *c->gguf);
    c->files = pith_zalloc(1, sizeof *c->files);
    if (!c->dir || !c->gguf || !c->files) return pith_fail_nomem(err, path);
    c->file_count = 1;
    c->file_form = "gguf";
    PITH_TRY(pith_gguf_open(path, c->gguf, err));
    c->files[0].map = c->gguf->map; /* closed with the files, as any checkpoint's */
    c->gguf->map = (struct pith_map){0};
    c->files[0].path = pith_strdup(path);
    if (!c->files[0].path) return pith_fail_nomem(err, path);
    PITH_TRY(pith_gguf_join(c, err));
    PITH_TRY(pith_gguf_arch_read(c->gguf, &v->arch, err));
    PITH_TRY(take_tensors(v, err));
    PITH_TRY(pith_gguf_config(c->gguf, &v->arch, v->quantized, &c->config, err));
    c->quantization = json_object_get(c->config, "quantization_config");
    return PITH_OK;
}

enum pith_status pith_gguf_checkpoint(const char *path, struct pith_checkpoint **out,
                                      struct pith_error *err)
{
    struct view v = {.c = pith_zalloc(1, sizeof *v.c)};
    if (!v.c) return pith_fail_nomem(err, path);
    const enum pith_status s = open_view(&v, path, err);
    if (s == PITH_OK) *out = v.c;
    else pith_checkpoint_close(v.c);
    return s;
}
