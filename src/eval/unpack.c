/* The bytes of a task file, unpacked when it is published packed. */
#include "eval/questions.h"

#include "base/mem.h"

#include <bzlib.h>
#include <string.h>

static const size_t MOST = (size_t)1 << 30;

static enum pith_status too_large(const char *path, struct pith_error *err)
{
    return pith_fail(err, PITH_FORMAT, "%s: more than 1 GiB of text, which is no task", path);
}

static void *bz_alloc(void *opaque, int items, int size)
{
    (void)opaque;
    return items < 0 || size < 0 ? NULL : pith_alloc((size_t)items, (size_t)size);
}

static void bz_free(void *opaque, void *address)
{
    (void)opaque;
    pith_free(address);
}

static bool reserve(struct pith_task_text *t, size_t *cap)
{
    if (t->size < *cap) return true;
    const size_t more = *cap ? *cap * 2 : (size_t)1 << 20;
    char *p = more > MOST ? NULL : pith_realloc(t->unpacked, more, 1);
    if (!p) return false;
    t->unpacked = p;
    *cap = more;
    return true;
}

static void step_over(bz_stream *z, struct pith_task_text *t, size_t cap, int *code)
{
    z->next_out = t->unpacked + t->size;
    z->avail_out = (unsigned)(cap - t->size);
    const unsigned before = z->avail_out;
    *code = BZ2_bzDecompress(z);
    t->size += before - z->avail_out;
}

/* A file may be several streams, one after the other. */
static enum pith_status unpack(const char *path, const struct pith_map *map,
                               struct pith_task_text *t, struct pith_error *err)
{
    size_t at = 0, cap = 0;
    int code = BZ_STREAM_END;
    while (at < map->size && code == BZ_STREAM_END) {
        bz_stream z = {.bzalloc = bz_alloc, .bzfree = bz_free};
        if (BZ2_bzDecompressInit(&z, 0, 0) != BZ_OK) return pith_fail_nomem(err, path);
        const unsigned part = (unsigned)(map->size - at); /* at most MOST */
        z.next_in = (char *)(uintptr_t)(map->data + at);
        z.avail_in = part;
        for (code = BZ_OK; code == BZ_OK && (z.avail_in || z.avail_out == 0);) {
            if (!reserve(t, &cap)) code = BZ_MEM_ERROR;
            else step_over(&z, t, cap, &code);
        }
        at += part - z.avail_in;
        BZ2_bzDecompressEnd(&z);
    }
    if (code == BZ_STREAM_END && t->unpacked) return PITH_OK; /* not so in an empty file */
    if (code != BZ_MEM_ERROR)
        return pith_fail(err, PITH_FORMAT, "%s: damaged, or not bzip2 to its end", path);
    return cap * 2 > MOST ? too_large(path, err) : pith_fail_nomem(err, path);
}

static enum pith_status open_packed(const char *path, struct pith_task_text *out,
                                    struct pith_error *err)
{
    struct pith_map map;
    PITH_TRY(pith_map_open(path, &map, err));
    enum pith_status s = map.size > MOST ? too_large(path, err) : unpack(path, &map, out, err);
    pith_map_close(&map);
    if (s == PITH_OK) s = pith_text_check(path, out->unpacked, out->size, err);
    if (s != PITH_OK) {
        pith_free(out->unpacked);
        return s;
    }
    const size_t mark = pith_text_mark(out->unpacked, out->size);
    out->text = out->unpacked + mark;
    out->size -= mark;
    return PITH_OK;
}

enum pith_status pith_task_text_open(const char *path, struct pith_task_text *out,
                                     struct pith_error *err)
{
    const size_t n = strlen(path);
    *out = (struct pith_task_text){0};
    if (n > 4 && strcmp(path + n - 4, ".bz2") == 0) return open_packed(path, out, err);
    PITH_TRY(pith_text_open(path, NULL, &out->plain, err));
    out->text = out->plain.data;
    out->size = out->plain.size;
    if (out->size <= MOST) return PITH_OK;
    pith_text_close(&out->plain);
    return too_large(path, err);
}

enum pith_status pith_task_text_finish(struct pith_task_text *t, const char *path,
                                       enum pith_status s, struct pith_error *err)
{
    if (!t->unpacked) return pith_text_finish(&t->plain, path, s, err);
    pith_free(t->unpacked);
    return s;
}
