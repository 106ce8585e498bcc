/* A library to load before a program (LD_PRELOAD): the n-th call that changes a file goes wrong, as
 * the environment says.
 *
 *   FAULT=kill:N   the program is killed just before its N-th such call
 *   FAULT=half:N   it writes half of what it wanted and is killed (another call: killed after it)
 *   FAULT=stop:N   it is stopped just before it (SIGSTOP), until somebody continues it
 *   FAULT=full:N   from the N-th on, calls that need space fail with ENOSPC
 *   zero:N, cut:N  just before its N-th such call, the third quarter of FAULT_FILE is overwritten
 *                  with zeros, or it loses its second half, behind the program's back
 *   cut:0          FAULT_FILE loses its second half once the program has mapped it and opened a
 *                  file whose name ends in FAULT_AT (without that: at once)
 *
 * With FAULT_AT set, kill, half and stop count only what is written to files whose names end so.
 * With NO_FALLOCATE set, space cannot be reserved, as on some network file systems. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static atomic_long calls;

enum fault { NONE, KILL, HALF, STOP, FULL, ZERO, CUT };

/* Changes FAULT_FILE by bare system calls, which nothing here counts. */
static void spoil(enum fault f)
{
    static const char zeros[4096];
    const char *path = getenv("FAULT_FILE");
    struct stat st;
    const int fd = path ? (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR, 0) : -1;
    if (fd < 0 || fstat(fd, &st) != 0) return;
    if (f == CUT) (void)syscall(SYS_ftruncate, fd, st.st_size / 2);
    for (off_t at = st.st_size / 2; f == ZERO && at < st.st_size / 4 * 3; at += sizeof zeros)
        (void)syscall(SYS_pwrite64, fd, zeros, sizeof zeros, at);
    close(fd);
}

static bool ends_in(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* Whether a call counts; `fd` is what it writes to, or -1. */
static bool is_meant(int fd)
{
    const char *text = getenv("FAULT"), *at = getenv("FAULT_AT");
    char link[64], path[4096];
    if (!at || !text || strcmp(text, "cut:0") == 0) return true;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t n = fd < 0 ? -1 : readlink(link, path, sizeof path - 1);
    path[n < 0 ? 0 : n] = '\0';
    return ends_in(path, at);
}

static enum fault next_fault(int fd)
{
    static const char *const names[] = {"", "kill:", "half:", "stop:", "full:", "zero:", "cut:"};
    const char *text = getenv("FAULT");
    if (!is_meant(fd)) return NONE;
    const long n = atomic_fetch_add(&calls, 1) + 1;
    for (int f = KILL; text && f <= CUT; f++) {
        const size_t length = strlen(names[f]);
        if (strncmp(text, names[f], length) != 0) continue;
        const long at = atol(text + length);
        if (f == FULL ? n < at : n != at) return NONE;
        if (f == KILL) raise(SIGKILL);
        if (f == STOP) raise(SIGSTOP);
        if (f >= ZERO) spoil((enum fault)f);
        if (f >= ZERO) return NONE;
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
        const enum fault f = next_fault(-1);                                                       \
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
        const enum fault f = next_fault(-1);                                                       \
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
    const enum fault f = next_fault(-1);
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
    const enum fault f = next_fault(fd);
    if (f == FULL) {
        errno = ENOSPC;
        return -1;
    }
    const ssize_t n = call(fd, data, f == HALF ? size / 2 : size, at);
    if (f == HALF) raise(SIGKILL);
    return n;
}

static atomic_int mapped; /* FAULT_FILE is */

void *mmap(void *address, size_t size, int rights, int flags, int fd, off_t at)
{
    const char *text = getenv("FAULT"), *path = getenv("FAULT_FILE");
    struct stat st, want;
    void *p = (void *)syscall(SYS_mmap, address, size, rights, flags, fd, at);
    if (fd < 0 || !text || strcmp(text, "cut:0") != 0 || !path) return p;
    if (fstat(fd, &st) != 0 || stat(path, &want) != 0 || st.st_ino != want.st_ino) return p;
    if (!getenv("FAULT_AT")) spoil(CUT);
    atomic_store(&mapped, 1);
    return p;
}

int open(const char *path, int flags, ...)
{
    const char *when = getenv("FAULT_AT");
    if (when && atomic_load(&mapped) && ends_in(path, when)) {
        spoil(CUT);
        atomic_store(&mapped, 0);
    }
    int (*call)(const char *, int, ...) = (int (*)(const char *, int, ...))real("open");
    mode_t mode = 0;
    enum fault f = NONE;
    if (flags & O_CREAT) {
        va_list ap;
        va_start(ap, flags);
        mode = va_arg(ap, mode_t);
        va_end(ap);
        f = next_fault(-1);
    }
    if (f == FULL && access(path, F_OK) != 0) {
        errno = ENOSPC;
        return -1;
    }
    const int fd = call(path, flags, mode);
    if (f == HALF) raise(SIGKILL);
    return fd;
}
