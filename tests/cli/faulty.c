/* A library to load before a program (LD_PRELOAD): the n-th call that changes a file goes wrong, as
 * the environment says.
 *
 *   FAULT=kill:N   the program is killed just before its N-th such call
 *   FAULT=half:N   it writes half of what it wanted and is killed (another call: killed after it)
 *   FAULT=full:N   from the N-th on, calls that need space fail with ENOSPC
 *
 * With NO_FALLOCATE set, space cannot be reserved, as on some network file systems. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static atomic_long calls;

enum fault { NONE, KILL, HALF, FULL };

static enum fault next_fault(void)
{
    static const char *const names[] = {"", "kill:", "half:", "full:"};
    const char *text = getenv("FAULT");
    const long n = atomic_fetch_add(&calls, 1) + 1;
    for (int f = KILL; text && f <= FULL; f++) {
        if (strncmp(text, names[f], 5) != 0) continue;
        const long at = atol(text + 5);
        if (f == FULL ? n < at : n != at) return NONE;
        if (f == KILL) raise(SIGKILL);
        return (enum fault)f;
    }
    return NONE;
}

static void *real(const char *name)
{
    void *p = dlsym(RTLD_NEXT, name);
    if (!p) abort();
    return p;
}

/* A call that needs space. */
#define NEEDS_SPACE(name, types, args)                                                             \
    int name types                                                                                 \
    {                                                                                              \
        int(*call) types = (int(*) types)real(#name);                                              \
        const enum fault f = next_fault();                                                         \
        if (f == FULL) {                                                                           \
            errno = ENOSPC;                                                                        \
            return -1;                                                                             \
        }                                                                                          \
        const int rc = call args;                                                                  \
        if (f == HALF) raise(SIGKILL);                                                             \
        return rc;                                                                                 \
    }

/* A call that needs none. */
#define NEEDS_NOTHING(name, types, args)                                                           \
    int name types                                                                                 \
    {                                                                                              \
        int(*call) types = (int(*) types)real(#name);                                              \
        const enum fault f = next_fault();                                                         \
        const int rc = call args;                                                                  \
        if (f == HALF) raise(SIGKILL);                                                             \
        return rc;                                                                                 \
    }

NEEDS_SPACE(mkdir, (const char *path, mode_t mode), (path, mode))
NEEDS_NOTHING(ftruncate, (int fd, off_t size), (fd, size))
NEEDS_NOTHING(fsync, (int fd), (fd))
NEEDS_NOTHING(rename, (const char *from, const char *to), (from, to))
NEEDS_NOTHING(unlink, (const char *path), (path))
NEEDS_NOTHING(rmdir, (const char *path), (path))

int fallocate(int fd, int mode, off_t at, off_t size)
{
    int (*call)(int, int, off_t, off_t) = (int (*)(int, int, off_t, off_t))real("fallocate");
    const enum fault f = next_fault();
    if (f == FULL || getenv("NO_FALLOCATE")) {
        errno = getenv("NO_FALLOCATE") ? EOPNOTSUPP : ENOSPC;
        return -1;
    }
    const int rc = call(fd, mode, at, size);
    if (f == HALF) raise(SIGKILL);
    return rc;
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t at)
{
    ssize_t (*call)(int, const void *, size_t, off_t) =
        (ssize_t(*)(int, const void *, size_t, off_t))real("pwrite");
    const enum fault f = next_fault();
    if (f == FULL) {
        errno = ENOSPC;
        return -1;
    }
    const ssize_t n = call(fd, data, f == HALF ? size / 2 : size, at);
    if (f == HALF) raise(SIGKILL);
    return n;
}

int open(const char *path, int flags, ...)
{
    int (*call)(const char *, int, ...) = (int (*)(const char *, int, ...))real("open");
    mode_t mode = 0;
    enum fault f = NONE;
    if (flags & O_CREAT) {
        va_list ap;
        va_start(ap, flags);
        mode = va_arg(ap, mode_t);
        va_end(ap);
        f = next_fault();
    }
    if (f == FULL && access(path, F_OK) != 0) {
        errno = ENOSPC;
        return -1;
    }
    const int fd = call(path, flags, mode);
    if (f == HALF) raise(SIGKILL);
    return fd;
}
