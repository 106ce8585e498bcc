/* fuzz/folder.h: a folder of small files for parsers that read files by name. It lies in memory
 * where the system has such a place, and is removed when the program ends. */
#ifndef PITH_FUZZ_FOLDER_H
#define PITH_FUZZ_FOLDER_H

#include "base/file.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char folder_name[64];

static void folder_remove(void)
{
    (void)pith_dir_remove(folder_name, NULL);
}

/* The folder of this program. */
static const char *folder(void)
{
    if (folder_name[0]) return folder_name;
    const char *place = pith_path_is_dir("/dev/shm") ? "/dev/shm" : "/tmp";
    (void)snprintf(folder_name, sizeof folder_name, "%s/pith-fuzz-XXXXXX", place);
    if (!mkdtemp(folder_name)) abort();
    atexit(folder_remove);
    return folder_name;
}

/* Writes a file into it, or removes it when data is NULL. No sync: this must be fast. */
static void folder_put(const char *name, const void *data, size_t size)
{
    char path[160];
    (void)snprintf(path, sizeof path, "%s/%s", folder(), name);
    (void)pith_unlink(path, NULL);
    if (!data) return;
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(data, 1, size, f) != size) abort();
    (void)fclose(f);
}

/* Writes each file of a list, or removes it: u16 length, 0xffff when it is missing, then its bytes.
 * Returns how many bytes of data that took. */
static inline size_t folder_put_all(const char *const *names, size_t count, const uint8_t *data,
                                    size_t size)
{
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        size_t n = 0xffff;
        if (size - at >= 2) n = (size_t)data[at] | (size_t)data[at + 1] << 8;
        if (size - at >= 2) at += 2;
        const bool missing = n == 0xffff;
        if (n > size - at) n = size - at;
        folder_put(names[i], missing ? NULL : data + at, n);
        if (!missing) at += n;
    }
    return at;
}

#endif
