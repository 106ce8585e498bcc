/* tests/folder.h: building small folders of a model's files. */
#ifndef PITH_TEST_FOLDER_H
#define PITH_TEST_FOLDER_H

#include "base/file.h"
#include "base/mem.h"
#include "io/safetensors.h"
#include "test.h"

static inline void folder_put(const char *dir, const char *name, const void *data, size_t size)
{
    struct pith_error err = {0};
    char *path = pith_path_join(dir, name);
    assert_ok(pith_file_write(path, data, size, &err), err);
    pith_free(path);
}

static inline void folder_text(const char *dir, const char *name, const char *text)
{
    folder_put(dir, name, text, strlen(text));
}

/* A file with one F32 tensor of shape [2,3] for each of the space-separated names; the bytes of the
 * i-th are all i. */
static inline void folder_tensors(const char *dir, const char *file, const char *names)
{
    static const uint64_t shape[] = {2, 3};
    struct pith_layout l = {0};
    struct pith_error err = {0};
    char *list = strdup(names), *rest = list;
    for (char *name = strtok_r(list, " ", &rest); name; name = strtok_r(NULL, " ", &rest))
        assert_ok(pith_layout_add(&l, name, PITH_F32, 2, shape, &err), err);
    assert_ok(pith_layout_finish(&l, 0, &err), err);
    uint8_t *data = malloc(l.shard_bytes[0]);
    memcpy(data, l.headers[0], l.header_bytes[0]);
    for (size_t i = 0; i < l.count; i++)
        memset(data + l.tensors[i].offset, (int)i, l.tensors[i].bytes);
    folder_put(dir, file, data, l.shard_bytes[0]);
    free(data);
    free(list);
    pith_layout_free(&l);
}

/* Removes the folder and its name. */
static inline void folder_remove(char *dir)
{
    struct pith_error err = {0};
    assert_ok(pith_dir_remove(dir, &err), err);
    free(dir);
}

#endif
