#define _GNU_SOURCE
#include "base/file.h"

#include "base/grow.h"
#include "base/guard.h"
#include "base/mem.h"
#include "base/str.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

static int64_t changed_ns(const struct stat *st)
{
    return (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
}

/* A file of pith's own has one name, and that is no link: what stands in its place otherwise leads
 * elsewhere. */
static enum pith_status check_own(const char *path, const struct stat *st, struct pith_error *err)
{
    if (!S_ISREG(st->st_mode)) return pith_fail(err, PITH_IO, "%s: not a regular file", path);
    return st->st_nlink <= 1
               ? PITH_OK
               : pith_fail(err, PITH_IO, "%s: has another name too (a hard link); remove it", path);
}

static enum pith_status fail_open(const char *what, const char *path, struct pith_error *err)
{
    if (errno == ELOOP)
        return pith_fail(err, PITH_IO, "%s: is a link, and pith made none; remove it", path);
    return pith_fail_errno(err, what, path);
}

/* Opens for reading; with `own`, as check_own() wants it. */
static enum pith_status open_regular(const char *path, bool own, int *fd, struct stat *st,
                                     struct pith_error *err)
{
    /* O_NONBLOCK: a FIFO in the place of a file must not hang the open. */
    const int f = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | (own ? O_NOFOLLOW : 0));
    enum pith_status s = PITH_OK;
    if (f < 0)
        return own ? fail_open("cannot open", path, err)
                   : pith_fail_errno(err, "cannot open", path);
    if (fstat(f, st) != 0) s = pith_fail_errno(err, "cannot stat", path);
    else if (own) s = check_own(path, st, err);
    else if (!S_ISREG(st->st_mode)) s = pith_fail(err, PITH_IO, "%s: not a regular file", path);
    if (s != PITH_OK) close(f);
    else *fd = f;
    return s;
}

static enum pith_status guard(void *data, size_t size, bool writable, const char *path,
                              unsigned *number, struct pith_error *err)
{
    *number = pith_guard_add(data, size, writable);
    if (*number) return PITH_OK;
    munmap(data, size);
    return pith_fail(err, PITH_LIMIT, "%s: %d files are open already", path, PITH_GUARD_MOST);
}

/* Maps a file that is open. */
static enum pith_status map_file(int fd, const struct stat *st, const char *path,
                                 struct pith_map *map, struct pith_error *err)
{
    const size_t size = (size_t)st->st_size;
    *map = (struct pith_map){0};
    if (!size) return PITH_OK;
    void *p = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
    unsigned number = 0;
    if (p == MAP_FAILED) return pith_fail_errno(err, "cannot map", path);
    PITH_TRY(guard(p, size, false, path, &number, err));
    *map = (struct pith_map){p, size, number, st->st_dev, st->st_ino, changed_ns(st)};
    return PITH_OK;
}

enum pith_status pith_map_open(const char *path, struct pith_map *map, struct pith_error *err)
{
    int fd;
    struct stat st;
    PITH_TRY(open_regular(path, false, &fd, &st, err));
    const enum pith_status s = map_file(fd, &st, path, map, err);
    close(fd);
    return s;
}

void pith_map_close(struct pith_map *map)
{
    pith_guard_drop(map->guard);
    if (map->data) munmap((void *)(uintptr_t)map->data, map->size);
    *map = (struct pith_map){0};
}

enum pith_status pith_map_check(const struct pith_map *map, const char *path, bool written,
                                struct pith_error *err)
{
    struct stat st;
    const bool same = map->guard && stat(path, &st) == 0 && st.st_dev == map->device &&
                      st.st_ino == map->node;
    if (pith_guard_lost(map->guard) || (same && (size_t)st.st_size < map->size))
        return pith_fail(err, PITH_IO,
                         "%s: changed while it was being read: it became shorter, or the disk"
                         " failed",
                         path);
    if (same && !written && changed_ns(&st) != map->changed)
        return pith_fail(err, PITH_IO, "%s: changed while it was being read", path);
    return PITH_OK;
}

void pith_map_release(const struct pith_map *map, size_t offset, size_t size)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t from = (offset + page - 1) / page * page;
    const size_t to = (offset + size) / page * page;
    if (map->data && to > from && to <= map->size)
        madvise((void *)(uintptr_t)(map->data + from), to - from, MADV_DONTNEED);
}

void pith_map_prefetch(const struct pith_map *map, size_t offset, size_t size)
{
    if (map->data && offset < map->size && size > 0 && size <= map->size - offset)
        pith_pages_prefetch(map->data + offset, size);
}

void pith_pages_prefetch(const void *data, size_t size)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), before = (uintptr_t)data % page;
    madvise((void *)((uintptr_t)data - before), before + size, MADV_WILLNEED);
}

enum pith_status pith_scratch_file_open(const char *path, size_t size,
                                        struct pith_scratch_file *out, struct pith_error *err)
{
    struct pith_out file;
    PITH_TRY(pith_out_open(path, size, &file, err));
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file.fd, 0);
    unsigned number = 0;
    const enum pith_status s = p == MAP_FAILED ? pith_fail_errno(err, "cannot map", path)
                                               : guard(p, size, true, path, &number, err);
    if (s == PITH_OK) *out = (struct pith_scratch_file){p, size, number};
    pith_out_close(&file);
    return s;
}

enum pith_status pith_scratch_file_own(const char *folder, const char *name, unsigned number,
                                       size_t size, struct pith_scratch_file *out,
                                       struct pith_error *err)
{
    char numbered[64];
    (void)snprintf(numbered, sizeof numbered, "%s.%u", name, number);
    char *path = pith_path_join(folder, numbered);
    if (!path) return pith_fail_nomem(err, name);
    enum pith_status s = pith_scratch_file_open(path, size, out, err);
    if (s == PITH_OK) s = pith_unlink(path, err);
    pith_free(path);
    return s;
}

enum pith_status pith_scratch_file_check(const struct pith_scratch_file *f, const char *what,
                                         struct pith_error *err)
{
    if (!pith_guard_lost(f->guard)) return PITH_OK;
    return pith_fail(err, PITH_IO, "%s: became shorter while it was in use", what);
}

void pith_scratch_file_close(struct pith_scratch_file *f)
{
    pith_guard_drop(f->guard);
    if (f->data) munmap(f->data, f->size);
    *f = (struct pith_scratch_file){0};
}

static enum pith_status read_full(int fd, char *data, size_t size, const char *path,
                                  struct pith_error *err)
{
    for (size_t at = 0; at < size;) {
        const ssize_t n = read(fd, data + at, size - at);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return pith_fail_errno(err, "cannot read", path);
        if (n == 0) return pith_fail(err, PITH_IO, "%s: file became shorter while reading", path);
        at += (size_t)n;
    }
    return PITH_OK;
}

static enum pith_status read_file(const char *path, bool own, size_t limit, char **out,
                                  size_t *size, struct pith_error *err)
{
    int fd;
    struct stat st;
    enum pith_status s;
    PITH_TRY(open_regular(path, own, &fd, &st, err));
    const size_t n = (size_t)st.st_size;
    char *data = NULL;
    if (n > limit) {
        s = pith_fail(err, PITH_FORMAT, "%s: %zu bytes, more than the %zu allowed", path, n, limit);
        goto done;
    }
    data = pith_alloc(n + 1, 1);
    if (!data) {
        s = pith_fail_nomem(err, path);
        goto done;
    }
    s = read_full(fd, data, n, path, err);
    if (s != PITH_OK) goto done;
    data[n] = '\0';
    *out = data;
    *size = n;
    data = NULL;
done:
    pith_free(data);
    close(fd);
    return s;
}

enum pith_status pith_file_read(const char *path, size_t limit, char **out, size_t *size,
                                struct pith_error *err)
{
    return read_file(path, false, limit, out, size, err);
}

enum pith_status pith_file_read_own(const char *path, size_t limit, char **out, size_t *size,
                                    struct pith_error *err)
{
    return read_file(path, true, limit, out, size, err);
}

static enum pith_status write_full(int fd, const void *data, size_t size, uint64_t offset,
                                   const char *path, struct pith_error *err)
{
    const char *p = data;
    for (size_t at = 0; at < size;) {
        const ssize_t n = pwrite(fd, p + at, size - at, (off_t)(offset + at));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return pith_fail_errno(err, "cannot write", path);
        at += (size_t)n;
    }
    return PITH_OK;
}

static enum pith_status sync_parent(const char *path, struct pith_error *err)
{
    const char *slash = strrchr(path, '/');
    char *dir = slash ? pith_strndup(path, slash == path ? 1 : (size_t)(slash - path))
                      : pith_strdup(".");
    if (!dir) return pith_fail_nomem(err, path);
    const enum pith_status s = pith_dir_sync(dir, err);
    pith_free(dir);
    return s;
}

enum pith_status pith_file_write(const char *path, const void *data, size_t size,
                                 struct pith_error *err)
{
    struct pith_str temp = {0};
    pith_str_printf(&temp, "%s.tmp", path);
    if (temp.failed) {
        pith_str_free(&temp);
        return pith_fail_nomem(err, path);
    }
    /* What stands there may be a link to somewhere else: a new file is made. */
    enum pith_status s = pith_unlink(temp.data, err);
    if (s != PITH_OK) goto done;
    const int fd = open(temp.data, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0) {
        s = pith_fail_errno(err, "cannot create", temp.data);
        goto done;
    }
    s = write_full(fd, data, size, 0, temp.data, err);
    if (s == PITH_OK && fsync(fd) != 0) s = pith_fail_errno(err, "cannot sync", temp.data);
    if (close(fd) != 0 && s == PITH_OK) s = pith_fail_errno(err, "cannot close", temp.data);
    if (s == PITH_OK) s = pith_rename(temp.data, path, err);
    if (s == PITH_OK) s = sync_parent(path, err);
    if (s != PITH_OK) unlink(temp.data);
done:
    pith_str_free(&temp);
    return s;
}

enum pith_status pith_file_append(const char *path, const void *data, size_t size,
                                  struct pith_error *err)
{
    struct stat st;
    enum pith_status s = PITH_OK;
    const int fd = open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
    if (fd < 0) return fail_open("cannot open", path, err);
    if (fstat(fd, &st) != 0) s = pith_fail_errno(err, "cannot stat", path);
    else s = check_own(path, &st, err);
    if (s == PITH_OK) s = write_full(fd, data, size, (uint64_t)st.st_size, path, err);
    if (s == PITH_OK && fsync(fd) != 0) s = pith_fail_errno(err, "cannot sync", path);
    close(fd);
    return s;
}

enum pith_status pith_file_stat(const char *path, uint64_t *size, int64_t *modified_ns,
                                struct pith_error *err)
{
    struct stat st;
    if (stat(path, &st) != 0) return pith_fail_errno(err, "cannot stat", path);
    *size = (uint64_t)st.st_size;
    *modified_ns = changed_ns(&st);
    return PITH_OK;
}

enum pith_status pith_file_stamp(const char *path, struct pith_stamp *out, struct pith_error *err)
{
    struct stat st;
    if (lstat(path, &st) != 0) return pith_fail_errno(err, "cannot stat", path);
    *out = (struct pith_stamp){st.st_dev, st.st_ino, (uint64_t)st.st_size, changed_ns(&st),
                               (int64_t)st.st_ctim.tv_sec * 1000000000 + st.st_ctim.tv_nsec};
    return PITH_OK;
}

enum pith_status pith_file_copy(const char *from, const char *to, struct pith_error *err)
{
    struct pith_map map;
    PITH_TRY(pith_map_open(from, &map, err));
    enum pith_status s = pith_file_write(to, map.data ? (const void *)map.data : "", map.size, err);
    if (s == PITH_OK) s = pith_map_check(&map, from, false, err);
    pith_map_close(&map);
    return s;
}

/* For file systems that cannot reserve: zeros from `from` to `size`. A full disk would otherwise
 * show as a signal when a mapped page is first touched. */
static bool reserve_by_writing(int fd, uint64_t from, uint64_t size)
{
    static const char zeros[1 << 16];
    uint64_t at = from;
    while (at < size) {
        const uint64_t left = size - at;
        const ssize_t n =
            pwrite(fd, zeros, left < sizeof zeros ? (size_t)left : sizeof zeros, (off_t)at);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) break;
        at += (uint64_t)n;
    }
    if (at >= size) return true;
    const int why = errno;
    if (ftruncate(fd, (off_t)from) != 0) return false;
    errno = why;
    return false;
}

static bool reserve(int fd, uint64_t size)
{
    struct stat st;
    if (fstat(fd, &st) != 0) return false;
    const uint64_t old = (uint64_t)st.st_size;
    if (old > size && ftruncate(fd, (off_t)size) != 0) return false;
    if (size == 0 || fallocate(fd, 0, 0, (off_t)size) == 0) return true;
    if (errno != EOPNOTSUPP && errno != ENOSYS) return false;
    return reserve_by_writing(fd, old < size ? old : size, size);
}

enum pith_status pith_out_open(const char *path, uint64_t size, struct pith_out *out,
                               struct pith_error *err)
{
    *out = (struct pith_out){.fd = -1};
    char *copy = pith_strdup(path);
    if (!copy) return pith_fail_nomem(err, path);
    struct stat st;
    enum pith_status s = PITH_OK;
    const bool there = pith_path_exists(path);
    const int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
    if (fd < 0) s = fail_open("cannot create", path, err);
    else if (fstat(fd, &st) != 0) s = pith_fail_errno(err, "cannot stat", path);
    else s = check_own(path, &st, err);
    if (s == PITH_OK && size > 0 && !reserve(fd, size))
        s = pith_fail_errno(err, "cannot reserve the space", path);
    if (s != PITH_OK) {
        if (fd >= 0) close(fd);
        if (fd >= 0 && !there) unlink(path); /* no empty file stays */
        pith_free(copy);
        return s;
    }
    *out = (struct pith_out){.fd = fd, .path = copy};
    return PITH_OK;
}

enum pith_status pith_out_nameless(const char *dir, uint64_t size, struct pith_out *out,
                                   struct pith_error *err)
{
    *out = (struct pith_out){.fd = -1};
    char *path = pith_path_join(dir, ".pith-XXXXXX");
    if (!path) return pith_fail_nomem(err, dir);
    const int fd = mkostemp(path, O_CLOEXEC);
    enum pith_status s = fd < 0 ? pith_fail_errno(err, "cannot create a file in", dir) : PITH_OK;
    if (fd >= 0 && unlink(path) != 0) s = pith_fail_errno(err, "cannot remove", path);
    if (s == PITH_OK && !reserve(fd, size))
        s = pith_fail_errno(err, "cannot reserve the space in", dir);
    if (s != PITH_OK) {
        if (fd >= 0) close(fd);
        pith_free(path);
        return s;
    }
    *out = (struct pith_out){.fd = fd, .path = path};
    return PITH_OK;
}

enum pith_status pith_map_out(const struct pith_out *out, struct pith_map *map,
                              struct pith_error *err)
{
    struct stat st;
    if (fstat(out->fd, &st) != 0) return pith_fail_errno(err, "cannot stat", out->path);
    return map_file(out->fd, &st, out->path, map, err);
}

enum pith_status pith_out_write(const struct pith_out *out, uint64_t offset, const void *data,
                                size_t size, struct pith_error *err)
{
    return write_full(out->fd, data, size, offset, out->path, err);
}

/* The file of `st` once more, to be read past the page cache; -1 where the file system cannot. */
static int open_direct(const char *path, const struct stat *st)
{
    struct stat now;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW | O_DIRECT);
    if (fd < 0) return -1;
    if (fd > 0 && fstat(fd, &now) == 0 && now.st_dev == st->st_dev && now.st_ino == st->st_ino)
        return fd;
    close(fd);
    return -1;
}

enum pith_status pith_out_reopen(const char *path, uint64_t size, struct pith_out *out,
                                 struct pith_error *err)
{
    int fd;
    struct stat st;
    *out = (struct pith_out){.fd = -1};
    PITH_TRY(open_regular(path, true, &fd, &st, err));
    char *copy = pith_strdup(path);
    enum pith_status s = copy ? PITH_OK : pith_fail_nomem(err, path);
    if (s == PITH_OK && (uint64_t)st.st_size != size)
        s = pith_fail(err, PITH_MISMATCH, "%s: has %lld bytes where %llu were written", path,
                      (long long)st.st_size, (unsigned long long)size);
    if (s != PITH_OK) {
        close(fd);
        pith_free(copy);
        return s;
    }
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    *out = (struct pith_out){.fd = fd, .path = copy, .direct = open_direct(path, &st)};
    return PITH_OK;
}

enum pith_status pith_out_read(const struct pith_out *out, uint64_t offset, void *data, size_t size,
                               struct pith_error *err)
{
    char *p = data;
    for (size_t at = 0; at < size;) {
        const ssize_t n = pread(out->fd, p + at, size - at, (off_t)(offset + at));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return pith_fail_errno(err, "cannot read", out->path);
        if (n == 0)
            return pith_fail(err, PITH_IO, "%s: ends at byte %llu, before what was written",
                             out->path, (unsigned long long)(offset + at));
        at += (size_t)n;
    }
    return PITH_OK;
}

enum pith_status pith_out_read_direct(const struct pith_out *out, uint64_t offset, void *room,
                                      size_t size, const void **data, struct pith_error *err)
{
    const size_t before = (size_t)(offset % PITH_DIRECT_ALIGN), need = before + size;
    const size_t whole = (need + PITH_DIRECT_ALIGN - 1) / PITH_DIRECT_ALIGN * PITH_DIRECT_ALIGN;
    char *p = room;
    size_t at = 0;
    *data = p + before;
    while (out->direct > 0 && at < need) {
        const ssize_t n = pread(out->direct, p + at, whole - at, (off_t)(offset - before + at));
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) break;
        at += (size_t)n;
        if (at % PITH_DIRECT_ALIGN != 0) break; /* the file's end */
    }
    if (at >= need) return PITH_OK;
    /* What prevents reading so (another alignment, the end) is reported by the plain way. */
    return pith_out_read(out, offset, p + before, size, err);
}

void pith_out_begin_sync(const struct pith_out *out, uint64_t offset, uint64_t size)
{
    (void)sync_file_range(out->fd, (off_t)offset, (off_t)size, SYNC_FILE_RANGE_WRITE);
}

enum pith_status pith_out_sync(const struct pith_out *out, struct pith_error *err)
{
    return fsync(out->fd) == 0 ? PITH_OK : pith_fail_errno(err, "cannot sync", out->path);
}

void pith_out_close(struct pith_out *out)
{
    if (out->path && out->fd >= 0) close(out->fd);
    if (out->path && out->direct > 0) close(out->direct);
    pith_free(out->path);
    *out = (struct pith_out){.fd = -1};
}

uint64_t pith_disk_free(const char *path)
{
    struct statvfs st;
    return statvfs(path, &st) == 0 ? (uint64_t)st.f_bavail * st.f_frsize : UINT64_MAX;
}

enum pith_status pith_dir_make(const char *path, struct pith_error *err)
{
    if (mkdir(path, 0777) == 0) return PITH_OK;
    if (errno == EEXIST && pith_path_is_dir(path)) return PITH_OK;
    return pith_fail_errno(err, "cannot make the folder", path);
}

enum pith_status pith_dir_sync(const char *path, struct pith_error *err)
{
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return pith_fail_errno(err, "cannot open the folder", path);
    enum pith_status s = PITH_OK;
    /* Some file systems refuse to sync a directory with EINVAL: nothing to be gained there. */
    if (fsync(fd) != 0 && errno != EINVAL) s = pith_fail_errno(err, "cannot sync the folder", path);
    close(fd);
    return s;
}

enum pith_status pith_dir_lock(const char *path, int *lock, struct pith_error *err)
{
    struct stat st;
    *lock = -1;
    if (lstat(path, &st) == 0 && S_ISLNK(st.st_mode))
        return pith_fail(err, PITH_IO, "%s: is a link, and pith made none; remove it", path);
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) return pith_fail_errno(err, "cannot open the folder", path);
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        close(fd);
        return pith_fail(err, PITH_IO, "%s: another process is at work there", path);
    }
    *lock = fd;
    return PITH_OK;
}

void pith_dir_unlock(int lock)
{
    if (lock >= 0) close(lock);
}

void pith_dir_drop(const char *path)
{
    (void)rmdir(path);
}

enum pith_status pith_dir_remove(const char *path, struct pith_error *err)
{
    char **names;
    size_t count;
    PITH_TRY(pith_dir_list(path, &names, &count, err));
    enum pith_status s = PITH_OK;
    for (size_t i = 0; i < count && s == PITH_OK; i++) {
        char *file = pith_path_join(path, names[i]);
        struct stat st;
        if (!file) s = pith_fail_nomem(err, path);
        else if (lstat(file, &st) == 0 && S_ISDIR(st.st_mode)) s = pith_dir_remove(file, err);
        else s = pith_unlink(file, err);
        pith_free(file);
    }
    pith_names_free(names, count);
    if (s == PITH_OK && rmdir(path) != 0) s = pith_fail_errno(err, "cannot remove", path);
    return s;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

enum pith_status pith_dir_list(const char *path, char ***names, size_t *count,
                               struct pith_error *err)
{
    DIR *dir = opendir(path);
    if (!dir) return pith_fail_errno(err, "cannot open the folder", path);
    char **list = NULL;
    size_t n = 0, cap = 0;
    enum pith_status s = PITH_OK;
    const struct dirent *e;
    while (s == PITH_OK && (e = readdir(dir)) != NULL) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        char **more = pith_grow(list, n, &cap, 16, sizeof *list);
        if (more) list = more;
        else s = pith_fail_nomem(err, path);
        if (s == PITH_OK && !(list[n] = pith_strdup(e->d_name))) s = pith_fail_nomem(err, path);
        if (s == PITH_OK) n++;
    }
    closedir(dir);
    if (s != PITH_OK) {
        pith_names_free(list, n);
        return s;
    }
    if (n) qsort(list, n, sizeof *list, compare_names);
    *names = list;
    *count = n;
    return PITH_OK;
}

enum pith_status pith_names_add(char ***names, size_t *count, char **more, size_t n,
                                struct pith_error *err)
{
    char **all = n ? pith_realloc(*names, *count + n, sizeof *all) : *names;
    if (n && !all) {
        pith_names_free(more, n);
        return pith_fail_nomem(err, "names");
    }
    if (n) {
        memcpy(all + *count, more, n * sizeof *all);
        qsort(all, *count + n, sizeof *all, compare_names);
    }
    pith_free(more);
    *names = all;
    *count += n;
    return PITH_OK;
}

void pith_names_free(char **names, size_t count)
{
    for (size_t i = 0; i < count; i++) pith_free(names[i]);
    pith_free(names);
}

enum pith_status pith_rename_exchange(const char *a, const char *b, struct pith_error *err)
{
    return renameat2(AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE) == 0
               ? PITH_OK
               : pith_fail_errno(err, "cannot exchange it with what was made", b);
}

enum pith_status pith_rename(const char *from, const char *to, struct pith_error *err)
{
    return rename(from, to) == 0 ? PITH_OK : pith_fail_errno(err, "cannot rename to it", to);
}

enum pith_status pith_unlink(const char *path, struct pith_error *err)
{
    if (unlink(path) == 0 || errno == ENOENT) return PITH_OK;
    return pith_fail_errno(err, "cannot remove", path);
}

bool pith_path_exists(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

enum pith_status pith_path_look(const char *path, struct pith_error *err)
{
    struct stat st;
    if (lstat(path, &st) == 0) return PITH_OK;
    if (errno == ENOENT || errno == ENOTDIR)
        return pith_fail(err, PITH_IO, "%s: no such file or folder", path);
    return pith_fail_errno(err, "cannot open", path);
}

bool pith_path_is_dir(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

char *pith_path_join(const char *dir, const char *name)
{
    struct pith_str s = {0};
    const size_t n = strlen(dir);
    pith_str_printf(&s, "%s%s%s", dir, n && dir[n - 1] == '/' ? "" : "/", name);
    return pith_str_take(&s);
}

char *pith_path_parent(const char *path)
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') n--;
    while (n > 0 && path[n - 1] != '/') n--;
    while (n > 1 && path[n - 1] == '/') n--;
    char *parent = pith_alloc(n + 2, 1);
    if (!parent) return NULL;
    memcpy(parent, n ? path : ".", n ? n : 1);
    parent[n ? n : 1] = '\0';
    return parent;
}

bool pith_path_is_plain(const char *name)
{
    return name[0] != '\0' && !strchr(name, '/') && strcmp(name, ".") != 0 &&
           strcmp(name, "..") != 0;
}

double pith_clock(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double pith_processor_clock(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

uint64_t pith_memory_peak(void)
{
    struct rusage u;
    return getrusage(RUSAGE_SELF, &u) == 0 ? (uint64_t)u.ru_maxrss * 1024 : 0;
}

void pith_memory_now(uint64_t *anonymous, uint64_t *mapped)
{
    char line[128];
    unsigned long long own = 0, file = 0, shared = 0;
    FILE *f = fopen("/proc/self/status", "re");
    while (f && fgets(line, sizeof line, f)) {
        (void)sscanf(line, "RssAnon: %llu", &own);
        (void)sscanf(line, "RssFile: %llu", &file);
        if (sscanf(line, "RssShmem: %llu", &shared) == 1) break;
    }
    if (f) fclose(f);
    *anonymous = own * 1024;
    *mapped = (file + shared) * 1024;
}

uint64_t pith_memory_anonymous(void)
{
    uint64_t own, mapped;
    pith_memory_now(&own, &mapped);
    return own;
}
