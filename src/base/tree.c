#define _DEFAULT_SOURCE /* flock */
#include "base/tree.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum pith_status pith_tree_make(const char *path, struct pith_error *err)
{
    char *copy = pith_strdup(path);
    enum pith_status s = copy ? PITH_OK : pith_fail_nomem(err, path);
    for (char *p = copy; s == PITH_OK && p && *p; p++) {
        if (*p != '/' || p == copy) continue;
        *p = '\0';
        if (!pith_path_is_dir(copy)) s = pith_dir_make(copy, err);
        *p = '/';
    }
    if (s == PITH_OK) s = pith_dir_make(path, err);
    pith_free(copy);
    return s;
}

enum pith_status pith_tree_make_above(const char *path, struct pith_error *err)
{
    const char *slash = strrchr(path, '/');
    if (!slash || slash == path) return PITH_OK;
    char *above = pith_strndup(path, (size_t)(slash - path));
    if (!above) return pith_fail_nomem(err, path);
    const enum pith_status s = pith_tree_make(above, err);
    pith_free(above);
    return s;
}

enum pith_status pith_link_make(const char *target, const char *path, struct pith_error *err)
{
    struct pith_str fresh = {0};
    enum pith_status s = PITH_OK;
    pith_str_printf(&fresh, "%s.%ld.link", path, (long)getpid());
    if (fresh.failed) return pith_fail_nomem(err, path);
    unlink(fresh.data);
    if (symlink(target, fresh.data) != 0) s = pith_fail_errno(err, "cannot make the link", path);
    if (s == PITH_OK) s = pith_rename(fresh.data, path, err);
    if (s != PITH_OK) unlink(fresh.data);
    pith_str_free(&fresh);
    return s;
}

enum pith_status pith_file_lock(const char *path, int *lock, struct pith_error *err)
{
    *lock = -1;
    const int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
    if (fd < 0) return pith_fail_errno(err, "cannot open the lock", path);
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        close(fd);
        return PITH_OK;
    }
    *lock = fd;
    return PITH_OK;
}

void pith_file_unlock(int lock)
{
    if (lock >= 0) close(lock);
}
