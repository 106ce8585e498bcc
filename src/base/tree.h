/* base/tree.h: folders below folders, links, and locks of files that other programs share. */
#ifndef PITH_BASE_TREE_H
#define PITH_BASE_TREE_H

#include "base/status.h"

#include <stdbool.h>

/* Makes a folder and those above it; ones that exist are fine. */
enum pith_status pith_tree_make(const char *path, struct pith_error *err);
/* The same for the folder that `path` lies in. */
enum pith_status pith_tree_make_above(const char *path, struct pith_error *err);

/* A symbolic link `path` to `target`, in place of what has that name: made apart and renamed. */
enum pith_status pith_link_make(const char *target, const char *path, struct pith_error *err);

/* Locks a file, created when missing, against every process that does the same (flock), until
 * pith_file_unlock(*lock). *lock is -1 and the status PITH_OK when another holds it. A file system
 * without locks lets everyone in. */
enum pith_status pith_file_lock(const char *path, int *lock, struct pith_error *err);
void pith_file_unlock(int lock); /* -1 is allowed */

#endif
