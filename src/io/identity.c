/* Which checkpoint a folder holds, by content. */
#include "base/hash.h"
#include "base/mem.h"
#include "base/str.h"
#include "io/checkpoint.h"
#include "io/dense.h"

#include <string.h>

enum { PAGE = 4096, PAGES = 256, JITTER = 16 };

static void add_number(struct pith_sha256 *h, uint64_t n)
{
    uint8_t bytes[8];
    for (int i = 0; i < 8; i++) bytes[i] = (uint8_t)(n >> 8 * i);
    pith_sha256_update(h, bytes, sizeof bytes);
}

/* The bytes of a folder's file that say what it holds. */
static size_t mapped_header(const struct pith_map *map)
{
    uint64_t length = 0;
    for (int i = 0; i < 8; i++) length |= (uint64_t)map->data[i] << 8 * i;
    return 8 + (size_t)length; /* checked when it was opened */
}

/* Everything before the first tensor. */
static size_t header_of(const struct pith_checkpoint *c, size_t file)
{
    const struct pith_map *map = &c->files[file].map;
    if (c->adapter[0]) return mapped_header(map); /* its first tensors may be elsewhere */
    size_t first = map->size;
    for (size_t i = 0; i < c->count; i++) {
        const struct pith_tensor *t = &c->tensors[i];
        if (t->file == file && t->bytes && (size_t)(t->data - map->data) < first)
            first = (size_t)(t->data - map->data);
    }
    return first;
}

/* Pages at equal distances, each moved by an amount that its number decides, so that nothing that
 * repeats in the file escapes. A short file is taken whole. */
static void add_samples(const struct pith_map *map, struct pith_sha256 *h)
{
    const size_t step = map->size / PAGES;
    if (step < (size_t)JITTER * PAGE) {
        pith_sha256_update(h, map->data, map->size);
        pith_map_release(map, 0, map->size);
        return;
    }
    for (uint64_t i = 0; i < PAGES; i++) {
        const size_t at = i * step + (size_t)(pith_hash64(&i, sizeof i) % (step - PAGE));
        pith_sha256_update(h, map->data + at, PAGE);
        pith_map_release(map, at / PAGE * PAGE, (size_t)2 * PAGE);
    }
    pith_sha256_update(h, map->data + map->size - PAGE, PAGE);
}

bool pith_checkpoint_identity(const struct pith_checkpoint *c, char hex[PITH_SHA256_HEX])
{
    if (c->dense) return pith_checkpoint_identity(pith_dense_stored(c), hex);
    struct pith_sha256 *h = pith_sha256_new();
    const size_t files = c->file_count - (c->adapter[0] != '\0');
    for (size_t i = 0; i < files; i++) {
        const struct pith_map *map = &c->files[i].map;
        const size_t header = header_of(c, i);
        add_number(h, map->size);
        add_number(h, header);
        pith_sha256_update(h, map->data, header);
        add_samples(map, h);
    }
    pith_sha256_update(h, c->adapter, strlen(c->adapter));
    pith_sha256_finish(h, hex);
    return hex[0] != '\0';
}

enum pith_status pith_checkpoint_settle(const struct pith_checkpoint *c, bool written,
                                        enum pith_status s, struct pith_error *err)
{
    struct pith_error why = {0};
    for (size_t i = 0; c && i < c->file_count; i++) {
        const enum pith_status lost =
            pith_map_check(&c->files[i].map, c->files[i].path, written, &why);
        if (lost == PITH_OK) continue;
        if (err) *err = why;
        return lost;
    }
    return s;
}

char *pith_checkpoint_sibling(const struct pith_checkpoint *c, const char *name)
{
    struct pith_str s = {0};
    if (c->gguf) pith_str_printf(&s, "%s.%s", c->dir, name);
    else pith_str_printf(&s, "%s/pith.%s", c->dir, name);
    return pith_str_take(&s);
}

bool pith_checkpoint_has_sibling(const struct pith_checkpoint *c, const char *name)
{
    char *path = pith_checkpoint_sibling(c, name);
    const bool has = path && pith_path_exists(path);
    pith_free(path);
    return has;
}
