/* io/lfs.h: what Git leaves in a large file's place where Git LFS has not fetched it: a few lines
 * of text. Source: git-lfs docs/spec.md. */
#ifndef PITH_IO_LFS_H
#define PITH_IO_LFS_H

#include "base/status.h"

#include <string.h>

/* PITH_FORMAT when that is what `path` holds. */
static inline enum pith_status pith_lfs_check(const void *data, size_t size, const char *path,
                                              struct pith_error *err)
{
    static const char begin[] = "version https://git-lfs.github.com/spec/";
    if (size < sizeof begin - 1 || memcmp(data, begin, sizeof begin - 1) != 0) return PITH_OK;
    return pith_fail(err, PITH_FORMAT,
                     "%s: a Git LFS pointer, which stands for the file; 'git lfs pull' fetches it",
                     path);
}

#endif
