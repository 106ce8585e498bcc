/* The files that llama.cpp splits a model into: NAME-00001-of-00003.gguf and so on, side by side.
 * Each says which it is of how many; the first has the model's keys, and all have tensors.
 *
 * Source: llama.cpp src/llama-model-loader.cpp (keys, what is refused), include/llama.h (names). */
#include "io/gguf/model.h"

#include "base/mem.h"
#include "base/names.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* What a file says of itself; it is whole when there is but one. */
struct split {
    uint64_t number, count; /* the number from 1 */
    uint64_t tensors;       /* of all parts; 0: unknown */
};

static enum pith_status read_split(const struct pith_gguf *g, struct split *s,
                                   struct pith_error *err)
{
    *s = (struct split){.count = 1};
    PITH_TRY(pith_gguf_get_uint(g, "split.count", UINT16_MAX, &s->count, err));
    PITH_TRY(pith_gguf_get_uint(g, "split.no", UINT16_MAX, &s->number, err));
    PITH_TRY(pith_gguf_get_uint(g, "split.tensors.count", INT32_MAX, &s->tensors, err));
    if (s->count == 0) s->count = 1;
    s->number++;
    if (s->number > s->count)
        return pith_fail(err, PITH_FORMAT, "%s: says that it is part %" PRIu64 " of %" PRIu64,
                         g->path, s->number, s->count);
    return PITH_OK;
}

/* The path of another part of the model that the file at `path` is a part of, by its name. */
static char *path_of(const char *path, unsigned number)
{
    unsigned own, count;
    const char *at = pith_name_part(pith_name_of_path(path), &own, &count);
    char *other = pith_strdup(path), digits[8];
    (void)snprintf(digits, sizeof digits, "%05u", number % 100000);
    if (other && at) memcpy(other + (at - path), digits, 5);
    return other;
}

static enum pith_status missing(const char *path, unsigned number, unsigned count,
                                const char *absent, struct pith_error *err)
{
    return pith_fail(err, PITH_IO, "%s: is part %u of %u of a model, and %s is missing", path,
                     number, count, pith_name_of_path(absent));
}

enum pith_status pith_gguf_first_part(char **path, struct pith_error *err)
{
    unsigned number, count;
    if (!pith_name_part(pith_name_of_path(*path), &number, &count) || number == 1) return PITH_OK;
    char *first = path_of(*path, 1);
    if (!first) return pith_fail_nomem(err, *path);
    if (!pith_path_exists(first)) {
        const enum pith_status s = missing(*path, number, count, first, err);
        pith_free(first);
        return s;
    }
    pith_free(*path);
    *path = first;
    return PITH_OK;
}

/* What a part says must be what its name does, and that there are as many as the first says. */
static enum pith_status check_part(const struct pith_gguf *g, const struct split *s,
                                   struct pith_error *err)
{
    unsigned number, count;
    if (!pith_name_part(pith_name_of_path(g->path), &number, &count))
        return pith_fail(err, PITH_UNSUPPORTED,
                         "%s: is part %" PRIu64 " of %" PRIu64
                         " of a model; the others are found by names such as NAME-%05" PRIu64
                         "-of-%05" PRIu64 ".gguf only",
                         g->path, s->number, s->count, s->number, s->count);
    if (s->number != number || s->count != count)
        return pith_fail(err, PITH_FORMAT,
                         "%s: says that it is part %" PRIu64 " of %" PRIu64
                         ", and its name says part %u of %u",
                         g->path, s->number, s->count, number, count);
    return PITH_OK;
}

/* Part `number`, whose tensors become the model's; the file is the checkpoint's then. */
static enum pith_status add_part(struct pith_checkpoint *c, unsigned number, unsigned count,
                                 struct pith_error *err)
{
    struct pith_safetensors *file = &c->files[number - 1];
    struct pith_gguf part;
    struct split s;
    file->path = path_of(c->gguf->path, number);
    if (!file->path) return pith_fail_nomem(err, c->gguf->path);
    if (!pith_path_exists(file->path)) return missing(c->gguf->path, 1, count, file->path, err);
    PITH_TRY(pith_gguf_open(file->path, &part, err));
    enum pith_status status = read_split(&part, &s, err);
    if (status == PITH_OK) status = check_part(&part, &s, err);
    if (status == PITH_OK) status = pith_gguf_append(c->gguf, &part, number - 1, err);
    if (status == PITH_OK) { /* what was appended lies in it */
        file->map = part.map;
        part.map = (struct pith_map){0};
    }
    pith_gguf_close(&part);
    return status;
}

static enum pith_status check_whole(const struct pith_gguf *g, const struct split *s,
                                    struct pith_error *err)
{
    if (s->tensors && s->tensors != g->tensor_count)
        return pith_fail(err, PITH_FORMAT,
                         "%s: its %" PRIu64 " parts hold %zu tensors, and it says %" PRIu64,
                         g->path, s->count, g->tensor_count, s->tensors);
    const enum pith_status status = pith_gguf_check_unique(g, err);
    return status == PITH_OK ? status : pith_fail_in(err, status, g->path);
}

enum pith_status pith_gguf_join(struct pith_checkpoint *c, struct pith_error *err)
{
    struct split s;
    PITH_TRY(read_split(c->gguf, &s, err));
    if (s.count <= 1) return PITH_OK;
    PITH_TRY(check_part(c->gguf, &s, err));
    struct pith_safetensors *files = pith_realloc(c->files, (size_t)s.count, sizeof *files);
    if (!files) return pith_fail_nomem(err, "the list of parts");
    memset(files + 1, 0, (size_t)(s.count - 1) * sizeof *files);
    c->files = files;
    while (c->file_count < s.count) {
        c->file_count++;
        PITH_TRY(add_part(c, (unsigned)c->file_count, (unsigned)s.count, err));
    }
    return check_whole(c->gguf, &s, err);
}
