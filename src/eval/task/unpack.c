/* The bytes of a task file, unpacked when it is published packed. */
#include "eval/task/questions.h"

#include "base/mem.h"

#include <bzlib.h>
#include <string.h>
#include <zlib.h>

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

static void give_back(void *opaque, void *address)
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

/* What has come of a stream: it goes on, it has ended well, it is damaged, there is no room. */
enum came { ON, ENDED, DAMAGED, NO_ROOM };

union stream {
    bz_stream bz;
    z_stream gz;
};

static bool begin_bz(union stream *s, const unsigned char *data, unsigned n)
{
    s->bz = (bz_stream){.bzalloc = bz_alloc,
                        .bzfree = give_back,
                        .next_in = (char *)(uintptr_t)data,
                        .avail_in = n};
    return BZ2_bzDecompressInit(&s->bz, 0, 0) == BZ_OK;
}

static enum came step_bz(union stream *s, char *out, unsigned *room, unsigned *left)
{
    s->bz.next_out = out;
    s->bz.avail_out = *room;
    const int code = BZ2_bzDecompress(&s->bz);
    *room = s->bz.avail_out;
    *left = s->bz.avail_in;
    return code == BZ_OK           ? ON
           : code == BZ_STREAM_END ? ENDED
           : code == BZ_MEM_ERROR  ? NO_ROOM
                                   : DAMAGED;
}

static void end_bz(union stream *s)
{
    BZ2_bzDecompressEnd(&s->bz);
}

static void *gz_alloc(void *opaque, unsigned items, unsigned size)
{
    (void)opaque;
    return pith_alloc(items, size);
}

static bool begin_gz(union stream *s, const unsigned char *data, unsigned n)
{
    enum { GZIP = 16 }; /* zlib.h: its header, and no other */
    s->gz = (z_stream){.zalloc = gz_alloc,
                       .zfree = give_back,
                       .next_in = (unsigned char *)(uintptr_t)data,
                       .avail_in = n};
    return inflateInit2(&s->gz, MAX_WBITS + GZIP) == Z_OK;
}

static enum came step_gz(union stream *s, char *out, unsigned *room, unsigned *left)
{
    s->gz.next_out = (unsigned char *)out;
    s->gz.avail_out = *room;
    const int code = inflate(&s->gz, Z_NO_FLUSH);
    *room = s->gz.avail_out;
    *left = s->gz.avail_in;
    return code == Z_OK           ? ON
           : code == Z_STREAM_END ? ENDED
           : code == Z_MEM_ERROR  ? NO_ROOM
                                  : DAMAGED;
}

static void end_gz(union stream *s)
{
    inflateEnd(&s->gz);
}

/* How names of packed files end, and what unpacks them. A step fills what it can of *room bytes:
 * *room of these then remain, and *left of the packed ones. */
static const struct packing {
    const char *suffix, *name;
    bool (*begin)(union stream *s, const unsigned char *data, unsigned n);
    enum came (*step)(union stream *s, char *out, unsigned *room, unsigned *left);
    void (*end)(union stream *s);
} packings[] = {{".bz2", "bzip2", begin_bz, step_bz, end_bz},
                {".gz", "gzip", begin_gz, step_gz, end_gz}};

/* One stream of n bytes; *left: what is behind it. */
static enum came unpack_stream(const struct packing *p, const unsigned char *data, unsigned n,
                               struct pith_task_text *t, size_t *cap, unsigned *left)
{
    union stream s;
    enum came came = ON;
    if (!p->begin(&s, data, n)) return NO_ROOM;
    while (came == ON) {
        if (!reserve(t, cap)) came = NO_ROOM;
        else {
            const unsigned all = (unsigned)(*cap - t->size);
            unsigned room = all;
            came = p->step(&s, t->unpacked + t->size, &room, left);
            t->size += all - room;
            if (came == ON && *left == 0 && room) came = DAMAGED; /* it wants more */
        }
    }
    p->end(&s);
    return came;
}

static const struct packing *packing_of(const char *path)
{
    const size_t n = strlen(path);
    for (size_t i = 0; i < PITH_COUNT(packings); i++) {
        const size_t size = strlen(packings[i].suffix);
        if (n > size && strcmp(path + n - size, packings[i].suffix) == 0) return &packings[i];
    }
    return NULL;
}

bool pith_task_text_packed(const char *path)
{
    return packing_of(path) != NULL;
}

/* A file may be several streams, one after the other. */
static enum pith_status unpack(const char *path, const struct pith_map *map,
                               struct pith_task_text *t, struct pith_error *err)
{
    const struct packing *p = packing_of(path);
    size_t at = 0, cap = 0;
    enum came came = map->size ? ENDED : DAMAGED;
    while (at < map->size && came == ENDED) {
        unsigned left = 0;
        const unsigned part = (unsigned)(map->size - at); /* at most MOST */
        came = unpack_stream(p, map->data + at, part, t, &cap, &left);
        at += part - left;
    }
    if (came == ENDED) return PITH_OK;
    if (came != NO_ROOM)
        return pith_fail(err, PITH_FORMAT, "%s: damaged, or not %s to its end", path, p->name);
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
    *out = (struct pith_task_text){0};
    if (packing_of(path)) return open_packed(path, out, err);
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
